"""Progress of long calls: `progress=` is a function of the share done, or True for a bar.

The first block of a run is compiled before it runs, which may take most of the time. A bar says so
until that block is back, and measures the speed from there on: an estimate from the first block
would be many times too long. Its clock runs while nothing is told, so that no wait looks like a
hang.
"""

import contextlib
import multiprocessing
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from jaxdp.core.checks import require_callable, require_kind
from jaxdp.core.display.terminals import is_terminal

_BAR = 20
# Seconds between two lines in a file or a pipe, where no line can be overwritten.
_SECONDS_BETWEEN_LINES = 30.0
# Seconds between two looks at the clock.
_TICK = 1.0

# How many calls hide the bars of those within them.
_num_hiding, _counting = 0, threading.Lock()


@contextlib.contextmanager
def listening(
    progress: Any, name: str, note: Callable[[float], str] | None = None
) -> Iterator[Callable[[float], None] | None]:
    """The function that is told of progress while a call lasts, or None.

    None and False stand for none, True for a bar with the remaining time on standard error, and
    with what `note` says at a share; a function is handed on as it is. Calls within show no bar
    that nobody has asked for, unless this is None.
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
    """The function that is told of progress where None stands for a bar if a person looks.

    That is as `is_seen` says; all else is as in `listening`.
    """
    with listening(is_seen() if progress is None else progress, name) as told:
        yield told or (lambda share: None)


@contextlib.contextmanager
def waiting(progress: Any, name: str) -> Iterator[None]:
    """A line with a running clock while a call lasts of which no share is known.

    In a terminal it appears after a second; it is taken back at the end. `progress` is True, False
    or None, which stands for True where a person looks.
    """
    if progress is not None:
        require_kind("progress", progress, bool, "True, False or None")
    with hidden() if progress is False else contextlib.nullcontext():
        if not (is_seen() if progress is None else progress):
            yield
            return
        with hidden(), contextlib.closing(Bar(name, keep=False, is_late=True)):
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
    # What a process of a pool writes would fall into the line of the one that waits for it.
    is_alone = not _num_hiding and multiprocessing.parent_process() is None
    return is_alone and (is_terminal(sys.stderr) or _is_notebook())


class Bar:
    """A bar on one line of a terminal or a notebook; in files and pipes a line now and then.

    Args:
        name: what is done.
        begun: the share that was done before; nothing is known of how long that took.
        stream: where it is written; standard error when None.
        keep: whether the full bar stays on the screen at the end.
        is_late: whether nothing is written in the first second, nor that it compiles.
        clock: seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        begun: float = 0.0,
        stream: TextIO | None = None,
        keep: bool = True,
        is_late: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._name, self._begun, self._keep, self._clock = name, begun, keep, clock
        self._stream = sys.stderr if stream is None else stream
        self._is_overwritten = is_terminal(self._stream) or _is_notebook()
        self._start = self._last = clock()
        # When the first block was back, and the share that was done then.
        self._first: tuple[float, float] | None = None
        self._length, self._told = 0, (begun, "")
        self._is_closed, self._lock = threading.Event(), threading.Lock()
        self._word = "running" if is_late else "compiling"
        self._is_broken = False
        if begun < 1 and not is_late:
            self._write(f"{name}: {f'{int(100 * begun)} %, ' if begun else ''}compiling")
        # A clock that cannot run ends no call.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._tick, daemon=True).start()

    def advance(self, share: float, note: str = "") -> None:
        """Show that this share is done, and a few words at the end of the line."""
        with self._lock:
            now, share = self._clock(), min(share, 1.0)
            if self._first is None and share > self._begun:
                self._first = now, share
            self._told = share, note
            self._show(now, is_last=share == 1)

    def close(self) -> None:
        """End the line, or take it back."""
        with self._lock:
            if self._is_closed.is_set():
                return
            self._is_closed.set()
            if self._is_overwritten and self._length:
                self._print("\n" if self._keep else f"\r{' ' * self._length}\r")

    def _tick(self) -> None:
        while not self._is_closed.wait(_TICK):
            with self._lock:
                self._show(self._clock())

    def _show(self, now: float, *, is_last: bool = False) -> None:
        """Write the line anew; in files and pipes now and then, and at the end."""
        is_due = self._is_overwritten or is_last or now - self._last >= _SECONDS_BETWEEN_LINES
        if self._is_closed.is_set() or not is_due:
            return
        self._last, (share, note) = now, self._told
        if self._first is None:
            begun = f"{int(100 * share)} %, " if share else ""
            self._write(f"{self._name}: {begun}{self._word}, {_clocked(now - self._start)}")
            return
        full = int(share * _BAR)
        bar = f" |{'#' * full}{' ' * (_BAR - full)}|" if self._is_overwritten else ","
        left = f", {self._left(now, share)}" if share < 1 else ""
        ends = f"{_clocked(now - self._start)}{left}{note and f', {note}'}"
        self._write(f"{self._name}: {int(100 * share):3d} %{bar} {ends}")

    def _left(self, now: float, share: float) -> str:
        """How long it takes, by the blocks that were not compiled."""
        assert self._first is not None
        since, first = self._first
        if share <= first:
            return "compiled"
        return f"{_clocked((now - since) * (1 - share) / (share - first))} left"

    def _write(self, line: str) -> None:
        if not self._is_overwritten:
            self._print(f"{line}\n")
            return
        line = line[: max(shutil.get_terminal_size().columns - 1, 1)]
        # Spaces overwrite the rest of a longer line before.
        self._print(f"\r{line.ljust(self._length)}")
        self._length = len(line)

    def _print(self, text: str) -> None:
        if self._is_broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError, AttributeError):
            # Nobody reads it any more, it is closed, or there is none: that ends no run.
            self._is_broken = True


def _is_notebook() -> bool:
    """Whether a notebook's kernel runs, whose streams are no terminals but overwrite their line."""
    ipython = sys.modules.get("IPython")
    return getattr(ipython and ipython.get_ipython(), "kernel", None) is not None


def _clocked(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
