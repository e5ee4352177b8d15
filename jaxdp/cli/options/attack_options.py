"""The options of `jaxdp reconstruct`."""

import argparse
import pathlib

ACTIVATIONS = ("relu", "tanh", "relu+tanh")


def add_reconstruct(commands) -> None:
    """Add the command to the parsers of `jaxdp`."""
    attack = commands.add_parser(
        "reconstruct",
        help="read the training rows off trained parameters",
        description=(
            "Look for the rows that a model of features phi(V x) was trained on, given its weights "
            "V, its activation and what training added to its parameters. Without a model one is "
            "trained on synthetic rows first, privately with --epsilon, and the attack is scored."
        ),
        epilog=(
            "The model is an .npz file with the arrays weights (p, d) and parameters (p,) or "
            "(p, k); of a two-layer network the trained first layer and the change of the second. "
            "Rows are looked for on the sphere of radius sqrt(d)."
        ),
        allow_abbrev=False,
    )

    def add(group, flag: str, **settings) -> None:
        """An option that is absent unless given, so that each case has its own defaults."""
        group.add_argument(flag, default=argparse.SUPPRESS, **settings)

    attack.add_argument("model", nargs="?", type=pathlib.Path, help="weights and parameters [none]")
    add(attack, "--num-samples", type=int, help="training rows n [10; required with a model]")
    attack.add_argument("--activation", choices=ACTIVATIONS, default="relu", help="phi [relu]")
    add(attack, "--truth", type=pathlib.Path, help="a model's training rows, to score: (n, d)")
    attack.add_argument("--max-passes", type=int, default=2000, help="over all features [2000]")
    attack.add_argument("--num-starts", type=int, default=1, help="tried side by side [1]")
    attack.add_argument("--seed", type=int, default=0, help="of all random numbers [0]")
    attack.add_argument("--quiet", action="store_true", help="no progress bar")
    attack.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder [results]"
    )
    attack.add_argument("--json", action="store_true", help="print one JSON object")
    rows = attack.add_argument_group("synthetic rows, uniform on the sphere, linear labels")
    add(rows, "--dim", type=int, help="number of inputs d [30]")
    add(rows, "--num-features", type=int, help="width p [10 d n]")
    add(rows, "--label-noise", type=float, help="standard deviation of the labels' noise [0.5]")
    private = attack.add_argument_group("private training: DP-GD from 0, neighbours replace-one")
    add(private, "--epsilon", type=float, help="of the budget [no privacy: the interpolator]")
    add(private, "--delta", type=float, help="of the budget [1e-5]")
    add(private, "--num-steps", type=int, help="updates T [1]")
    attack.set_defaults(command=_reconstruct)


def _reconstruct(options: argparse.Namespace) -> None:
    from jaxdp.cli.commands.reconstruct import reconstruct

    reconstruct(options)
