"""The command `jaxdp`: parses and runs a command, and reports a failure in one line.

Bad input ends with exit status 2; a defect of the toolkit with its traceback.
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
from jaxdp.core.packages import version_of
from jaxdp.core.terminals import printable

_NO_CACHE = "--no-cache"


def main(arguments: list[str] | None = None) -> int:
    """Run the command `jaxdp`.

    Args:
        arguments: words after `jaxdp`; None for the process's own. Ctrl-C then ends the process at
            once.

    Returns:
        The exit status, 0 for success and 2 for bad input.

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
    # This option belongs to the process, not to one command: it may be anywhere.
    asked = [each for each in given if each != _NO_CACHE]
    if arguments is None:
        _end_by_interrupts()
        # Tracing makes millions of lasting objects; frequent collections would take a tenth of a
        # short command's time.
        gc.set_threshold(50_000)
        if len(asked) == len(given) and not _reads_rows(asked):
            try:
                keep_programs()
            except (OSError, RuntimeError) as error:
                _say([f"warning: no compiled program is kept: {error}"])
    parser = make_parser()
    if not asked:
        parser.print_help()
        return 0
    options = parser.parse_args(asked)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        status, line = _ended(options, output)
    lines = [line] if line else []
    if status == 0:
        texts = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
        lines += [f"warning: {text}" for text in dict.fromkeys(texts)]
    _say(lines)
    return status


def _end_by_interrupts() -> None:
    """Let Ctrl-C end this process with status 130 and one line, unless it is ignored.

    A `KeyboardInterrupt` could be lost in a callback, or cause a segmentation fault if other
    threads compile while the interpreter ends.
    """

    def end(number: int, frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"jaxdp: interrupted\n")
        os._exit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    # A background job of a shell script ignores Ctrl-C.
    if is_main and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, end)


def _say(lines: list[str]) -> None:
    for each in lines:
        print(f"jaxdp: {printable(' '.join(each.split()))}", file=sys.stderr)


def _reads_rows(arguments: Sequence[str]) -> bool:
    """Return True if a command reads a user's data, which its compiled programs may hold."""
    return arguments[:1] in (["columns"], ["fit"], ["predict"]) or any(
        each.partition("=")[0] == "--data" for each in arguments
    )


def _ended(options: argparse.Namespace, output: Stream) -> tuple[int, str]:
    """Run a command; return its exit status, and the reason of a failure in words."""
    try:
        status = options.command(options) or 0
    except KeyboardInterrupt as error:
        return 130, str(error) or "interrupted"
    except Exception as error:
        if not is_answer(error):
            raise
        is_memory = isinstance(error, MemoryError)
        name = "this needs more memory than the machine has" if is_memory else type(error).__name__
        return 2, str(error) or name
    output.flush()
    failure, out = output.failure, getattr(options, "out", None)
    if failure is None or status != 0:
        return status, ""
    # The reader of the output, such as `head`, may have ended.
    is_left = isinstance(failure, BrokenPipeError)
    if out is None:
        return (128 + 13, "") if is_left else (2, str(failure))
    # The results are in files, and a budget may be spent.
    return 0, "" if is_left else f"warning: not all could be printed ({failure}); see {out}"


def is_answer(error: Exception) -> bool:
    """Return True if the class of an error means a wrong input, False for a defect of the toolkit.

    Wrong input is a file that cannot be used, a lack of memory, ValueError, RuntimeError and the
    toolkit's own classes. Subclasses that Python, NumPy and JAX raise (UnicodeError, LinAlgError)
    are defects, and so is TypeError, because the parser has converted all values.
    """
    # JAX's message for a device without enough memory.
    is_full = str(error).startswith("RESOURCE_EXHAUSTED")
    if is_full or isinstance(error, (OSError, MemoryError, ModuleNotFoundError)):
        return True
    kind = type(error)
    return kind in (ValueError, RuntimeError) or kind.__module__.startswith("jaxdp.")


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands, from which `shtab` makes a shell's completion."""
    parser = _Parser(prog="jaxdp", description="Theory of differentially private learning.")
    parser.add_argument("--version", action="version", version=version_of())
    keeps = "neither use nor keep compiled programs of other runs (in JAXDP_CACHE_DIR)"
    parser.add_argument(_NO_CACHE, action="store_true", help=keeps)
    add_commands(parser)
    return parser


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and without options that are not given."""

    def __init__(self, *args, **kwargs):
        kwargs |= {"allow_abbrev": False, "argument_default": argparse.SUPPRESS}
        super().__init__(*args, formatter_class=_Help, **kwargs)

    def error(self, message):
        self.exit(2, f"{self.prog}: {printable(message)}\n")


class _Help(argparse.HelpFormatter):
    """Help that shows defaults, except empty ones."""

    def _get_help_string(self, action):
        says = action.default not in (None, "", [], argparse.SUPPRESS) and action.nargs != 0
        return f"{action.help} [%(default)s]" if says else action.help
