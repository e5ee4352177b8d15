"""The commands and their options.

Bad input ends with one line and exit status 2; a defect of the toolkit with its traceback.
"""

import argparse
import contextlib
import os
import pathlib
import re
import sys
import warnings
from collections.abc import Sequence

from jaxdp.cli.options.account_options import add_account
from jaxdp.cli.options.attack_options import add_reconstruct
from jaxdp.cli.options.compare_options import add_compare
from jaxdp.cli.options.explore_options import add_explore
from jaxdp.cli.options.model_options import add_models
from jaxdp.cli.options.plan_options import add_plan
from jaxdp.cli.options.shell_options import add_completion, add_doctor
from jaxdp.cli.programs import keep_programs
from jaxdp.core.files.interrupts import end_by_interrupts
from jaxdp.core.version import installed_version

_NO_CACHE = "--no-cache"


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose values may begin with a minus."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # What an option with `type=int` or `type=float` reads; argparse itself would say
        # "invalid int value" of what is none.
        self.register("type", int, _whole_number)
        self.register("type", float, _number)

    def parse_known_args(self, args=None, namespace=None):
        given = sys.argv[1:] if args is None else args
        return super().parse_known_args(_joined(given), namespace)

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a whole number in digits, such as 20000, got {text!r}"
        ) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a number, such as 0.5 or 1e-5, got {text!r}"
        ) from None


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
    given = sys.argv[1:] if arguments is None else arguments
    # Of the process, not of one command: it may stand anywhere.
    asked = [each for each in given if each != _NO_CACHE]
    if arguments is None:
        end_by_interrupts()
        if len(asked) == len(given) and not _reads_rows(asked):
            _keep_programs()
    parser = _parser()
    if not asked:
        parser.print_help()
        return 0
    options = parser.parse_args(asked)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        status, line = _ended(options)
    if status == 0:
        # Of what ends in an error one line is said.
        texts = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
        lines = [f"warning: {text}" for text in dict.fromkeys(texts)]
    else:
        lines = [line] if line else []
        _discard_unwritable()
    # Nobody may be left to read it.
    with contextlib.suppress(BrokenPipeError):
        for each in lines:
            print(f"jaxdp: {' '.join(each.split())}", file=sys.stderr)
    return status


def _reads_rows(arguments: Sequence[str]) -> bool:
    """Whether a command reads a table or data of the user, which its programs may hold."""
    return arguments[:1] in (["fit"], ["predict"]) or any(
        each.partition("=")[0] == "--data" for each in arguments
    )


def _keep_programs() -> None:
    try:
        keep_programs()
    except (OSError, RuntimeError) as error:
        # Only a later run is slower for it.
        print(f"jaxdp: warning: no compiled program is kept: {error}", file=sys.stderr)


def _ended(options: argparse.Namespace) -> tuple[int, str]:
    """The exit status of a command, and why, in words."""
    from jaxdp.cli.answers import as_line, is_answer

    try:
        status = options.command(options) or 0
        # Here, where a full disk can still be told.
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        return 128 + 13, ""
    except MemoryError as error:
        return 2, str(error) or "there is not enough memory for it"
    except ModuleNotFoundError as error:
        return 2, str(error)
    except KeyboardInterrupt as error:
        return 130, str(error) or "interrupted"
    except Exception as error:
        if not is_answer(error):
            raise
        return 2, as_line(error)
    return status, ""


def _discard_unwritable() -> None:
    """Drop what standard output does not take: the process's end would try, and fail, again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _joined(arguments: Sequence[str]) -> list[str]:
    """Options with `=` before values such as -1,1, which argparse would take for options."""
    joined: list[str] = []
    for each in arguments:
        option = joined[-1] if joined else ""
        if re.match(r"-[\d.]", each) and re.fullmatch(r"--[a-z][a-z-]*", option):
            joined[-1] = f"{option}={each}"
        else:
            joined.append(each)
    return joined


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="jaxdp", description="Theory of differentially private learning.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=installed_version())
    keeps = "use no compiled program of earlier runs, and keep none (JAXDP_CACHE_DIR: their folder)"
    parser.add_argument(_NO_CACHE, action="store_true", help=keeps)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_compare(commands)
    add_plan(commands)
    add_account(commands)
    _add_sweep(commands)
    add_models(commands)
    add_reconstruct(commands)
    add_explore(commands)
    add_doctor(commands)
    add_completion(commands, parser)
    return parser


def _add_sweep(commands) -> None:
    from jaxdp.cli.commands.sweep import GRIDS

    sweep = commands.add_parser(
        "sweep",
        help="the risk of private linear regression over a grid, predicted or simulated",
        description=(
            "The risk of what one-pass DP-SGD releases over a grid of its parameters, by the ODE, "
            "by simulation, or both. A grid is a number, numbers with commas between, "
            "first:last:count, or first:last:count:log."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    for name, (meaning, default) in GRIDS.items():
        flag = f"--{name.replace('_', '-')}"
        sweep.add_argument(flag, default=default, help=meaning, metavar="GRID")
    sweep.add_argument(
        "--by", choices=("ode", "simulation", "both"), default="ode", help="what to compute"
    )
    sweep.add_argument("--dim", type=int, default=1000, help="number of inputs d")
    sweep.add_argument("--label-noise", type=float, default=0.3, help="zeta")
    sweep.add_argument(
        "--condition-number", type=float, default=1.0, help="kappa of a power-law spectrum"
    )
    sweep.add_argument("--num-runs", type=int, default=10, help="independent runs of a cell")
    sweep.add_argument("--seed", type=int, default=0, help="of the simulation")
    sweep.add_argument(
        "--store",
        type=pathlib.Path,
        help="folder that keeps finished shards, to go on after a stop",
    )
    sweep.add_argument("--shard-size", type=int, help="cells of a shard [what fits the memory]")
    sweep.add_argument("--quiet", action="store_true", help="no progress bar")
    sweep.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder to write to"
    )
    sweep.add_argument("--json", action="store_true", help="print one JSON object")
    sweep.set_defaults(command=_sweep)


def _sweep(options: argparse.Namespace) -> None:
    from jaxdp.cli.commands.sweep import sweep

    sweep(options)
