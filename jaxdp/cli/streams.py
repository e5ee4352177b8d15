"""Standard output and error of a command: they take every text, and no failure ends a command.

A budget may be spent when a command prints. So text that a stream cannot encode is written with
escapes, a stream that is missing or closed takes nothing, and a disk that is full or a reader that
has gone is kept as a failure, for the command's end.
"""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from jaxdp.core.terminals import is_terminal, printable


class Stream(io.TextIOBase):
    """A text stream that raises no error of the stream below it.

    Args:
        below: the stream that text is passed on to, or None.
        shown: a function that changes each text first; none by default.
    """

    def __init__(self, below: Any, shown: Callable[[str], str] = str):
        self._below, self._shown = below, shown
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        self._try("write", self._shown(text))
        return len(text)

    def flush(self) -> None:
        self._try("flush")

    def isatty(self) -> bool:
        return is_terminal(self._below)

    def fileno(self) -> int:
        return self._below.fileno()

    def _try(self, name: str, *texts: str) -> None:
        if self.failure is not None:
            return
        try:
            method = getattr(self._below, name)
            try:
                method(*texts)
            except UnicodeEncodeError:
                encoding = getattr(self._below, "encoding", None) or "ascii"
                method(
                    *(one.encode(encoding, "backslashreplace").decode(encoding) for one in texts)
                )
        except OSError as error:
            self.failure = error
        except (AttributeError, ValueError):
            # There is no stream, it has no such method, or it is closed.
            pass


@contextlib.contextmanager
def standard_streams(*, is_process: bool) -> Iterator[Stream]:
    """Standard output while a command runs.

    The streams of a command that has the process for itself are in UTF-8 unless they are terminals,
    because commands read in UTF-8 what others have written.
    """
    if is_process:
        for number in range(3):
            # A file that is opened later would get the number of a closed stream, and its text.
            with contextlib.suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)
        for each in (sys.stdout, sys.stderr):
            if isinstance(each, io.TextIOWrapper) and not is_terminal(each):
                each.reconfigure(encoding="utf-8", errors="backslashreplace")
    output, errors = Stream(sys.stdout, printable), Stream(sys.stderr)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            yield output
        finally:
            output.flush()
            if output.failure is not None and is_process:
                # At its end the process would try to write what is left, and fail, again.
                os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
