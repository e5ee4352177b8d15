"""Progress of long calls: `progress=` is a function of the share done, or True for a bar of tqdm.

The first block of a run is compiled before it runs, so a bar measures the speed from its end on.
The clock of a bar runs while nothing is told, so that no wait looks like a hang.
"""

import contextlib
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from jaxdp.core.checks import require_callable, require_kind
from jaxdp.core.display.terminals import is_terminal

_OF_SHARES = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
_OF_WAITS = "{desc}: running, {elapsed}"

# How many calls hide the bars of those within them.
_num_hiding, _counting = 0, threading.Lock()


@contextlib.contextmanager
def listening(
    progress: Any, name: str, note: Callable[[float], str] | None = None
) -> Iterator[Callable[[float], None] | None]:
    """The function that is told of progress while a call lasts, or None.

    None and False stand for no function, True for a bar on standard error that also shows what
    `note` says at a share. Calls within show no bar that nobody has asked for, unless this is None.
    """
    if progress is None:
        yield None
        return
    with hidden():
        if progress is False:
            yield None
        elif progress is not True:
            require_callable("progress", progress, "True for a bar, None or a function")
            yield progress
        else:
            with contextlib.closing(Bar(name)) as bar:
                yield lambda share: bar.advance(share, "" if note is None else note(share))


@contextlib.contextmanager
def listening_where_seen(progress: Any, name: str) -> Iterator[Callable[[float], None]]:
    """The function that is told of progress, if None stands for a bar that a person would see."""
    with listening(is_seen() if progress is None else progress, name) as told:
        yield told or (lambda share: None)


@contextlib.contextmanager
def waiting(progress: bool | None, name: str) -> Iterator[None]:
    """A line with a clock during a call of which no share is known; it is taken back at the end.

    None stands for True if a person would see the line.
    """
    if progress is not None:
        require_kind("progress", progress, bool, "True, False or None")
    is_shown = is_seen() if progress is None else progress
    bar = Bar(name, keep=False, delay=0.5, bar_format=_OF_WAITS) if is_shown else None
    with contextlib.closing(bar) if bar else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """While it lasts, no bar is shown that nobody has asked for, in any thread."""
    global _num_hiding
    with _counting:
        _num_hiding += 1
    try:
        yield
    finally:
        with _counting:
            _num_hiding -= 1


def is_seen() -> bool:
    """Whether a person would see a bar, and its line is not another one's."""
    # A process of a pool would write into the line of the one that waits for it.
    return not _num_hiding and multiprocessing.parent_process() is None and _is_overwritten()


def _is_overwritten() -> bool:
    """Whether lines are written over: in a terminal, and by a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    kernel = getattr(ipython and ipython.get_ipython(), "kernel", None)
    return is_terminal(sys.stderr) or kernel is not None


class Bar:
    """A bar of tqdm on standard error; in a file or a pipe it is written every 30 seconds.

    Args:
        name: name of the work.
        begun: share that was done before.
        keep: whether the full bar stays on the screen at the end.
        delay: seconds during which nothing is shown.
        bar_format: layout of the line, as tqdm takes it.
    """

    def __init__(
        self,
        name: str,
        *,
        begun: float = 0.0,
        keep: bool = True,
        delay: float = 0.0,
        bar_format: str = _OF_SHARES,
    ):
        from tqdm.auto import tqdm

        is_overwritten = _is_overwritten()
        self._bar = tqdm(
            total=1.0,
            initial=begun,
            desc=name,
            leave=keep,
            delay=delay,
            bar_format=bar_format,
            file=_StandardError(),
            dynamic_ncols=True,
            miniters=0,
            mininterval=0.1 if is_overwritten else 30.0,
            smoothing=0,
        )
        self._is_compiled, self._is_closed = False, threading.Event()
        if is_overwritten:
            threading.Thread(target=self._tick, daemon=True).start()

    def advance(self, share: float, note: str = "") -> None:
        """Show that this share is done, and a few words at the end of the line."""
        # No failure to show something ends a run that is paid for.
        with contextlib.suppress(Exception):
            self._bar.set_postfix_str(note, refresh=False)
            if self._is_compiled:
                self._bar.update(min(share, 1.0) - self._bar.n)
            else:
                self._is_compiled = True
                self._bar.n = self._bar.initial = min(share, 1.0)
                self._bar.start_t = self._bar.last_print_t = time.time()
                self._bar.refresh()

    def close(self) -> None:
        """End the line, or take it back."""
        self._is_closed.set()
        with contextlib.suppress(Exception):
            self._bar.close()

    def _tick(self) -> None:
        while not self._is_closed.wait(1.0):
            with contextlib.suppress(Exception):
                self._bar.update(0)


class _StandardError:
    """Standard error, or nothing if there is none, it is closed or nobody reads it any more."""

    def write(self, text: str) -> None:
        with contextlib.suppress(Exception):
            sys.stderr.write(text)

    def flush(self) -> None:
        with contextlib.suppress(Exception):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)
