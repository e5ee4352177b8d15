"""What a sweep tells its user while it runs: a bar on the host, and what Ctrl-C does."""

import concurrent.futures
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jaxdp.core.files.interrupts import is_ending, set_aside
from jaxdp.core.progress import Bar


@contextlib.contextmanager
def progress_bar(name: str, total: int, done: int, *, quiet: bool) -> Iterator[Callable]:
    """A bar with the remaining time on standard error; yields what advances it by some cells.

    Absent where standard error is no terminal and where `quiet`.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda cells: None
        return
    bar, count = Bar(name, begun=done / total), done

    def advance(cells: int) -> None:
        nonlocal count
        count += cells
        bar.advance(count / total)

    try:
        yield advance
    finally:
        bar.close()


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C sets the event that is yielded; a second one interrupts at once.

    Only where Ctrl-C would end the process: in the main thread, without a handler of the user's
    own.
    """
    stop = threading.Event()
    if not _would_end():
        yield stop
        return

    bring_back = set_aside()

    def handle(number, frame):
        stop.set()
        bring_back()
        # The signal may have come amid another write to the same stream, or to a closed one.
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            print("\nstopping after this shard; Ctrl-C again stops at once", file=sys.stderr)

    signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        bring_back()


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C does nothing in a process that would end by it; only in its main thread."""
    if not _would_end():
        yield
        return
    bring_back = set_aside()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        bring_back()


def interruptible(function: Callable, *arguments: Any) -> Any:
    """Call a function; Ctrl-C is noticed even while it computes on a device.

    Signals reach Python between its own instructions, and a compiled program may run for hours
    without one; so the program has a thread of its own, which is left behind on an interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    outcome = concurrent.futures.Future()

    def call():
        try:
            outcome.set_result(function(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return outcome.result()


def _would_end() -> bool:
    """Whether Ctrl-C ends the process from here."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and is_ending(signal.getsignal(signal.SIGINT))
