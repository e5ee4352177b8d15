"""Standard output and error of a command, whose failures never interrupt it.

A budget may be spent when a command prints. So text that cannot be encoded is written with escapes,
a missing or closed stream is ignored, and a full disk or a closed pipe is kept for the command's
end.
"""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from jaxdp.core.terminals import is_terminal, printable


class Stream(io.TextIOBase):
    """A text stream that raises no errors of the stream below it.

    `shown` changes each text first. `failure` is the first error of the stream below.
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
            pass  # the stream is None, closed, or has no such method


@contextlib.contextmanager
def standard_streams(*, is_process: bool) -> Iterator[Stream]:
    """Replace standard output and error while a command runs, and give the first.

    The streams of a process are in UTF-8 unless they are terminals, because commands read UTF-8.
    """
    if is_process:
        for number in range(3):
            # Else a file opened later would get the number of a closed stream, and its text.
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
                # Else the process would try to write the rest at its end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
