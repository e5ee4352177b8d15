"""Progress of long calls: `progress=` is a function of the share done, or True for a bar.

The first block of a run is compiled before it runs, which may take most of the time. A bar says so
until that block is back, and measures the speed from there on: an estimate from the first block
would be many times too long.
"""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from jaxdp.core.checks import require_callable

_BAR = 20
# Seconds between two lines in a file or a pipe, where no line can be overwritten.
_SECONDS_BETWEEN_LINES = 30.0


def listener_of(
    progress: Any, name: str, note: Callable[[float], str] | None = None
) -> Callable[[float], None] | None:
    """The function that is told of progress, or None.

    None and False stand for none, True for a bar with the remaining time on standard error, which
    ends at a share of 1, and with what `note` says at that share; a function is returned as it is.
    """
    if progress is None or progress is False:
        return None
    if progress is not True:
        require_callable("progress", progress, "True for a bar, None or a function")
        return progress
    bar = Bar(name)

    def advance(share: float) -> None:
        bar.advance(share, note(share) if note is not None else "")
        if share >= 1:
            bar.close()

    return advance


def listener_where_seen(progress: Any, name: str) -> Callable[[float], None]:
    """The function that is told of progress where None stands for a bar if a person looks.

    That is in a terminal or a notebook; all else is as in `listener_of`.
    """
    if progress is None:
        progress = sys.stderr.isatty() or _is_notebook()
    return listener_of(progress, name) or (lambda share: None)


class Bar:
    """A bar on one line of a terminal or a notebook; in files and pipes a line now and then.

    Args:
        name: what is done.
        begun: the share that was done before; nothing is known of how long that took.
        stream: where it is written; standard error when None.
        keep: whether the full bar stays on the screen at the end.
        clock: seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        begun: float = 0.0,
        stream: TextIO | None = None,
        keep: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._name, self._begun, self._keep, self._clock = name, begun, keep, clock
        self._stream = sys.stderr if stream is None else stream
        self._is_overwritten = self._stream.isatty() or _is_notebook()
        self._start = self._last = clock()
        # When the first block was back, and the share that was done then.
        self._first: tuple[float, float] | None = None
        self._length, self._is_closed = 0, False
        if begun < 1:
            self._write(f"{name}: {f'{int(100 * begun)} %, ' if begun else ''}compiling")

    def advance(self, share: float, note: str = "") -> None:
        """Show that this share is done, and a few words at the end of the line."""
        if self._is_closed:
            return
        now, share = self._clock(), min(share, 1.0)
        if self._first is None and share > self._begun:
            self._first = now, share
        if self._is_overwritten or share == 1 or now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            full = int(share * _BAR)
            bar = f" |{'#' * full}{' ' * (_BAR - full)}|" if self._is_overwritten else ","
            left = f", {self._left(now, share)}" if share < 1 else ""
            ends = f"{_clocked(now - self._start)}{left}{note and f', {note}'}"
            self._write(f"{self._name}: {int(100 * share):3d} %{bar} {ends}")

    def close(self) -> None:
        """End the line, or take it back."""
        if not self._is_closed and self._is_overwritten:
            self._print("\n" if self._keep else f"\r{' ' * self._length}\r")
        self._is_closed = True

    def _left(self, now: float, share: float) -> str:
        """How long it takes, by the blocks that were not compiled."""
        if self._first is None:
            return "compiling"
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
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # Nobody reads it any more, or it is closed: that ends no run.
            self._is_closed = True


def _is_notebook() -> bool:
    """Whether a notebook's kernel runs, whose streams are no terminals but overwrite their line."""
    ipython = sys.modules.get("IPython")
    return getattr(ipython and ipython.get_ipython(), "kernel", None) is not None


def _clocked(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
