"""How a command of jaxdp ends at Ctrl-C: at once, without an exception and without half a file.

`KeyboardInterrupt` may be raised anywhere: within a callback, out of which it is lost, or while
other threads compile, where taking the interpreter down ends in a segmentation fault. So a process
that runs one of jaxdp's commands raises none: it removes the files that it had begun, and ends.

Python imports the package before it runs `python -m jaxdp`, and importing JAX takes seconds, in
which Ctrl-C would end in a traceback. So the package imports this module first of all, which then
changes how Ctrl-C is handled; any other process that imports jaxdp handles its signals as it likes.
The console script does the same (`jaxdp_command`).
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time

from jaxdp.core.files.whole_files import remove_unfinished

_MODULES = ("jaxdp", "jaxdp.cli")
# Seconds that the main thread has, which hears nothing while it is in compiled code.
_PATIENCE = 1.0


def end_process(number: int = signal.SIGINT, frame: object = None) -> None:
    """A handler of signals: remove unfinished files, say so, and end with 128 + the signal."""
    remove_unfinished()
    with contextlib.suppress(OSError):
        os.write(2, b"jaxdp: interrupted\n")
    os._exit(128 + number)


def end_by_interrupts() -> None:
    """Let Ctrl-C end this process by `end_process` from now on, unless Ctrl-C is ignored.

    The main thread does it between two instructions. Where it stays in compiled code for longer,
    another thread does. Called in any other thread, which may not handle signals, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        return
    heard, told = socket.socketpair()
    told.setblocking(False)
    signal.signal(signal.SIGINT, end_process)
    signal.set_wakeup_fd(told.detach())
    threading.Thread(target=_end_when_told, args=(heard,), daemon=True).start()


def is_module_run(arguments: list[str], original: list[str]) -> bool:
    """Whether the interpreter is about to run `python -m jaxdp`, and imports its package."""
    if arguments[:1] != ["-m"]:
        return False
    after = [
        following if argument == "-m" else argument[2:]
        for argument, following in zip(original, [*original[1:], ""], strict=True)
        if argument.startswith("-m")
    ]
    return after[:1] in ([name] for name in _MODULES)


def _end_when_told(heard: socket.socket) -> None:
    while heard.recv(1) != bytes([signal.SIGINT]):
        pass
    time.sleep(_PATIENCE)
    end_process()


# A shell script's background job ignores Ctrl-C, and goes on ignoring it.
if (
    is_module_run(getattr(sys, "argv", []), sys.orig_argv)
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, end_process)
