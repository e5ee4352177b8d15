"""The command `jaxdp` from its first line: Ctrl-C ends it cleanly also while JAX is imported.

This module stands outside the package because the package would be imported before it.
"""

# `signal` itself imports more, during which Ctrl-C would still raise.
import _signal  # pyright: ignore[reportMissingImports]
import os
import sys


def main() -> None:
    """Run `jaxdp` with the process's own arguments, and end."""
    # Where Ctrl-C is ignored, in a shell script's background, it stays so.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _end)
    from jaxdp.cli import main as command

    sys.exit(command())


def _end(number: int, frame: object) -> None:
    """What `jaxdp.core.files.interrupts.end_process` does, while nothing is written yet."""
    try:
        os.write(2, b"jaxdp: interrupted\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
