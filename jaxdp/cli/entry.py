"""The command `jaxdp`: what is typed is parsed and run, and how it ended is told in one line.

Bad input ends with one line and exit status 2; a defect of the toolkit with its traceback.
"""

import argparse
import contextlib
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence

from jaxdp.cli.options import add_commands
from jaxdp.cli.programs import keep_programs
from jaxdp.cli.streams import Stream, standard_streams
from jaxdp.core.packages import installed_version
from jaxdp.core.terminals import printable

_NO_CACHE = "--no-cache"


def main(arguments: list[str] | None = None) -> int:
    """Run the command `jaxdp`.

    Args:
        arguments: of the command; None for the process's own, which Ctrl-C then ends at once.

    Returns:
        0 when all went well, else the status of the process.

    Example:
        >>> import contextlib, io, json
        >>> from jaxdp.cli import main
        >>> with contextlib.redirect_stdout(io.StringIO()) as said:
        ...     status = main(["account", "one-pass", "--rho", "0.5", "--json"])
        >>> status, json.loads(said.getvalue())["cost"]["mu"]
        (0, 0.5)
    """
    with standard_streams(is_process=arguments is None) as output:
        return _run(arguments, output)


def _run(arguments: list[str] | None, output: Stream) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    # Of the process, not of one command: it may stand anywhere.
    asked = [each for each in given if each != _NO_CACHE]
    if arguments is None:
        _end_by_interrupts()
        # Tracing makes millions of objects that live: looking for garbage among them every 700
        # took a tenth of a short command's time.
        gc.set_threshold(50_000)
        if len(asked) == len(given) and not _reads_rows(asked):
            try:
                keep_programs()
            except (OSError, RuntimeError) as error:
                # Only a later run is slower for it.
                _say([f"warning: no compiled program is kept: {error}"])
    parser = make_parser()
    if not asked:
        parser.print_help()
        return 0
    options = parser.parse_args(asked)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        status, line = _ended(options, output)
    if status == 0:
        texts = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
        _say([f"warning: {text}" for text in dict.fromkeys(texts)])
    else:
        _say([line] if line else [])
    return status


def _end_by_interrupts() -> None:
    """Let Ctrl-C end this process with status 130 and one line, unless Ctrl-C is ignored.

    `KeyboardInterrupt` could be lost within a callback, or take the interpreter down while other
    threads compile, which ends in a segmentation fault.
    """

    def end(number: int, frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"jaxdp: interrupted\n")
        os._exit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    # A shell script's background job ignores Ctrl-C, and goes on ignoring it.
    if is_main and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, end)


def _say(lines: list[str]) -> None:
    for each in lines:
        print(f"jaxdp: {printable(' '.join(each.split()))}", file=sys.stderr)


def _reads_rows(arguments: Sequence[str]) -> bool:
    """Whether a command reads a table or data of the user, which its programs may hold."""
    return arguments[:1] in (["columns"], ["fit"], ["predict"]) or any(
        each.partition("=")[0] == "--data" for each in arguments
    )


def _ended(options: argparse.Namespace, output: Stream) -> tuple[int, str]:
    """The exit status of a command, and why, in words."""
    try:
        status = options.command(options) or 0
    except KeyboardInterrupt as error:
        return 130, str(error) or "interrupted"
    except Exception as error:
        if not is_answer(error):
            raise
        is_memory = isinstance(error, MemoryError)
        name = "the machine's memory does not hold this" if is_memory else type(error).__name__
        return 2, str(error) or name
    output.flush()
    failure, out = output.failure, getattr(options, "out", None)
    if failure is None or status != 0:
        return status, ""
    is_left = isinstance(failure, BrokenPipeError)
    if out is not None:
        # The results stand in files, and a budget may be spent.
        if not is_left:
            warnings.warn(
                f"not all could be printed ({failure}); see {out}", UserWarning, stacklevel=1
            )
        return 0, ""
    # Whoever read the output may have seen enough.
    return (128 + 13, "") if is_left else (2, str(failure))


def is_answer(error: Exception) -> bool:
    """Whether an error is meant for the user, told by its class; any other is a defect of ours.

    A file that cannot be used and a lack of memory are, and what the toolkit's checks raise:
    ValueError, RuntimeError and the toolkit's own classes. Other classes are not: subclasses that
    Python, NumPy and JAX raise (UnicodeError, LinAlgError), and TypeError, because the parser has
    given its type to each value that was typed.
    """
    # JAX's word for a device without enough memory.
    is_full = str(error).startswith("RESOURCE_EXHAUSTED")
    if is_full or isinstance(error, (OSError, MemoryError, ModuleNotFoundError)):
        return True
    kind = type(error)
    return kind in (ValueError, RuntimeError) or kind.__module__.startswith("jaxdp.")


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands, of which `shtab` makes a shell's completion."""
    parser = _Parser(prog="jaxdp", description="Theory of differentially private learning.")
    parser.add_argument("--version", action="version", version=installed_version())
    keeps = "use no compiled program of earlier runs, and keep none (JAXDP_CACHE_DIR: their folder)"
    parser.add_argument(_NO_CACHE, action="store_true", help=keeps)
    add_commands(parser)
    return parser


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def __init__(self, *args, **kwargs):
        # An option that is not given is absent.
        kwargs |= {"allow_abbrev": False, "argument_default": argparse.SUPPRESS}
        super().__init__(*args, formatter_class=_Help, **kwargs)

    def error(self, message):
        self.exit(2, f"{self.prog}: {printable(message)}\n")


class _Help(argparse.HelpFormatter):
    """Help that shows the defaults that say something."""

    def _get_help_string(self, action):
        says = action.default not in (None, "", (), argparse.SUPPRESS) and action.nargs != 0
        return f"{action.help} [%(default)s]" if says else action.help
