"""The options of `jaxdp account`."""

import argparse

ALGORITHMS = ("one-pass", "correlated", "dp-gd", "dp-sgd")


def add_account(commands) -> None:
    """Add the command to the parsers of `jaxdp`."""
    account = commands.add_parser(
        "account",
        help="what an algorithm costs in privacy, or the noise that a budget needs",
        description=(
            "What running an algorithm costs in privacy, as it is proved; or, with --epsilon, the "
            "noise that keeps it within a budget. one-pass: one-pass DP-SGD, whose last iterate "
            "is rho-GDP. correlated: one pass with correlated noise, whose iterates together are "
            "rho-GDP. dp-gd: gradient descent on all rows. dp-sgd: DP-SGD with Poisson batches "
            "(--sampling-rate) or shuffled epochs (--batch-size)."
        ),
        allow_abbrev=False,
    )
    account.add_argument("algorithm", choices=ALGORITHMS, help="what is run")

    def add(flag: str, **settings) -> None:
        account.add_argument(flag, default=argparse.SUPPRESS, **settings)

    account.add_argument("--delta", type=float, default=1e-5, help="of the budget [1e-5]")
    add("--epsilon", type=float, help="find the noise of this budget")
    add("--rho", type=float, help="of one-pass and correlated")
    add("--noise-multiplier", type=float, help="of dp-gd and dp-sgd: noise on a sum over its clip")
    add("--num-steps", type=int, help="of dp-gd and dp-sgd")
    add("--num-records", type=int, help="of dp-sgd: rows of the table")
    add("--sampling-rate", type=float, help="of dp-sgd: q of Poisson batches")
    add("--batch-size", type=int, help="of dp-sgd: rows of each batch of shuffled epochs")
    account.add_argument("--json", action="store_true", help="print one JSON object")
    account.set_defaults(command=_account)


def _account(options: argparse.Namespace) -> None:
    from jaxdp.cli.commands.account import account

    account(options)
