"""The options of `jaxdp plan`."""

import argparse
import pathlib

SCHEDULES = ("optimal", "constant", "polynomial", "hyperbolic")


def add_plan(commands) -> None:
    """Add the command to the parsers of `jaxdp`."""
    plan = commands.add_parser(
        "plan",
        help="how to run private linear regression within a budget, and what to expect",
        description=(
            "The clip scale and the learning rate with which one pass of DP-SGD over Gaussian rows "
            "ends at the least predicted risk, the standard deviation over runs, the best risk "
            "without privacy, what an untuned choice costs, and a line of Python to paste. With "
            "--target-risk the inverse: the samples that a budget needs for it, or the epsilon "
            "that so many samples need."
        ),
        allow_abbrev=False,
    )

    def add(flag: str, **settings) -> None:
        plan.add_argument(flag, default=argparse.SUPPRESS, **settings)

    plan.add_argument("--dim", type=int, default=100, help="number of inputs d [%(default)s]")
    add("--num-samples", type=int, help="n, the length of the pass [100 * dim]")
    add("--epsilon", type=float, help="the budget, with --delta [2]")
    plan.add_argument("--delta", type=float, default=1e-5, help="the budget's [%(default)s]")
    add("--rho", type=float, help="the budget as rho-GDP, in place of --epsilon")
    plan.add_argument(
        "--label-noise",
        type=float,
        default=0.3,
        help="zeta, the noise's standard deviation [%(default)s]",
    )
    plan.add_argument(
        "--initial-risk", type=float, default=0.5, help="R(0), before learning [%(default)s]"
    )
    plan.add_argument(
        "--condition-number",
        type=float,
        default=1.0,
        help="kappa of a power-law spectrum [1, isotropic]",
    )
    plan.add_argument(
        "--schedule",
        choices=SCHEDULES,
        default="optimal",
        help="the learning rate's, the best one that does not rise or one of a family "
        "[%(default)s]",
    )
    add(
        "--target-risk",
        type=float,
        help="find the samples that the budget needs for it, or the epsilon for --num-samples",
    )
    plan.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("results"),
        help="folder to write to [%(default)s]",
    )
    plan.add_argument("--json", action="store_true", help="print one JSON object")
    plan.add_argument("--quiet", action="store_true", help="no word of the search")
    plan.set_defaults(command=_plan)


def _plan(options: argparse.Namespace) -> None:
    from jaxdp.cli.commands.plan import plan

    plan(options)
