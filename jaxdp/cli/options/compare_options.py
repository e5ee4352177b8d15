"""The options of `jaxdp compare`, and which problem they describe."""

import argparse
import pathlib

OPTIMISERS = ("sgd", "momentum", "nesterov", "adam")
LOSSES = ("squared", "logistic", "softmax")
ACTIVATIONS = ("relu", "tanh")
# Any of them says that it is DP-SGD on the rows of a table, step by step as it is trained.
OF_DP_SGD = {
    "optimiser",
    "sampling_rate",
    "learning_rate",
    "momentum",
    "clip_norm",
    "average",
    "loss",
    "activation",
}


def add_compare(commands) -> None:
    """Add the command to the parsers of `jaxdp`."""
    compare = commands.add_parser(
        "compare",
        help="simulate and predict private learning, and put them side by side",
        description=(
            "Simulate private learning, predict it, and put both side by side in a table and a "
            "picture: one-pass DP-SGD on linear regression (ODE, bounds, SDE); with --data, on a "
            "real table (the table itself, its Gaussian surrogate, the ODE); with --data and "
            "--optimiser, DP-SGD as it is run, with Poisson batches, momentum or Adam, on the "
            "table's rows (Gaussian closure); with --num-features alone, DP-GD on random features "
            "(closure of the clipped process, Ornstein-Uhlenbeck process, gradient flow, both "
            "diffusions)."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = adder(compare)
    add("--dim", type=int, help="number of inputs d [1000; 40 for random features]")
    add("--clip-scale", type=float, help="clip norm over sqrt(dim) [1], or sqrt(features) [0.5]")
    add(
        "--num-steps",
        type=int,
        help="updates [10 * dim; half the rows of a table; 40 for random features; 100 for DP-SGD]",
    )
    add("--delta", type=float, help="delta of the budget [1e-5; 1 / rows for random features]")
    compare.add_argument("--num-runs", type=int, default=10, help="independent runs")
    compare.add_argument("--seed", type=int, default=0, help="of the simulation")
    compare.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder to write to"
    )
    compare.add_argument("--json", action="store_true", help="print one JSON object")
    add = adder(compare.add_argument_group("linear regression"))
    add("--label-noise", type=float, help="zeta [0.3]")
    add("--condition-number", type=float, help="kappa of a power-law spectrum [1, isotropic]")
    add("--peak", type=float, help="learning rate at time 0 [3]")
    add("--power", type=float, help="learning rate decays as (1 - t)^power [0.5]")
    add("--rho", type=float, help="the result is rho-GDP [1]")
    add = adder(compare.add_argument_group("a table"))
    add("--data", type=pathlib.Path, help="text or .npz")
    add("--target", help="its label column, by name or number [the last]")
    add("--drop", help="columns to leave out, by name or number, with commas between, as in a CSV")
    add("--drop-constant", action="store_true", help="leave out columns that never vary")
    add_header(add)
    add = adder(compare.add_argument_group("random features, or fixed rows of a table"))
    add("--num-features", type=_whole_or_inf, help="width p, or inf; of a table [its columns]")
    add("--num-train", type=int, help="training rows n [800; the others of a table]")
    add("--num-test", type=int, help="test rows [500; a fifth of a table]")
    add("--epsilon", type=float, help="of the budget [4]")
    add("--duration", type=float, help="learning rate * steps * p / d [4.3]; without a table")
    _add_dp_sgd(compare.add_argument_group("DP-SGD on a table's rows, with --data"))
    compare.set_defaults(command=_compare)


def _add_dp_sgd(group) -> None:
    add = adder(group)
    add("--optimiser", choices=OPTIMISERS, help="[sgd]")
    add("--sampling-rate", type=float, help="q of Poisson batches; 1 takes all rows [0.1]")
    add("--learning-rate", type=float, help="eta [half of what is stable; 5 / steps for adam]")
    add("--momentum", type=float, help="of momentum and nesterov [0.9]")
    add("--clip-norm", type=float, help="C [half the norm of a gradient at the start]")
    add("--average", help="of the iterates: polyak, tail, or an exponential one's decay [none]")
    add("--loss", choices=LOSSES, help="logistic for two classes, softmax for more [squared]")
    add("--activation", choices=ACTIVATIONS, help="of random features of the columns [relu]")


def adder(group):
    """Adds options that are absent unless given, so that each problem has its own defaults."""

    def add(flag: str, **settings) -> None:
        group.add_argument(flag, default=argparse.SUPPRESS, **settings)

    return add


def add_header(add) -> None:
    """Add `--header` and `--no-header` by a function that adds an option."""
    add(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first line names the columns [told by names that are asked for]",
    )


def _whole_or_inf(text: str) -> int | None:
    return None if text == "inf" else int(text)


def _compare(options: argparse.Namespace) -> None:
    if not OF_DP_SGD.isdisjoint(vars(options)):
        from jaxdp.cli.commands import dp_sgd as problem
    elif "num_features" in options:
        from jaxdp.cli.commands import random_features as problem
    else:
        from jaxdp.cli.commands import linear_regression as problem
    problem.compare(options)
