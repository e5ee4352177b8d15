"""The options of `jaxdp fit` and `jaxdp predict`."""

import argparse
import pathlib

from jaxdp.cli.options.compare_options import add_header

_PUBLIC = """\
Public, and not to be chosen by looking at the data: every option; the number of rows; the names of
the columns, which the model file keeps; their ranges. Neighbouring tables differ in one row. The
noise comes from the operating system. What is printed on standard error (labels that were clipped,
cells that are no numbers) is for whoever holds the data and no part of the release."""


def add_models(commands) -> None:
    """Add both commands to the parsers of `jaxdp`."""
    _add_fit(commands)
    _add_predict(commands)


def _add_fit(commands) -> None:
    fit = commands.add_parser(
        "fit",
        help="learn a function from a table, with differential privacy, and save it",
        description=(
            "Private kernel ridge regression of a column on the others, or, with --classify, a "
            "private classifier; the function is saved together with what it costs. Inputs and "
            "target are numbers; of a classifier the target may be texts."
        ),
        epilog=_PUBLIC,
        allow_abbrev=False,
    )
    fit.add_argument(
        "data", type=pathlib.Path, help="a table: text with a line of column names, or .npz"
    )

    def add(flag: str, **settings) -> None:
        """An option that is absent unless given, so that defaults are the learner's."""
        fit.add_argument(flag, default=settings.pop("default", argparse.SUPPRESS), **settings)

    add("--target", default=None, help="the label column, by name or number [the last]")
    add(
        "--drop",
        default="",
        help="columns to leave out, by name or number, commas between, as in a CSV",
    )
    add_header(fit.add_argument)
    add("--epsilon", type=float, required=True, help="of the budget, > 0")
    add("--delta", type=float, required=True, help="of the budget, in (0, 1)")
    add("--label-bound", type=float, help="the target is clipped to -T..T, public")
    add(
        "--input-range",
        help="LOW:HIGH of all columns (--input-range=-1:1), or a file of lines column,low,high",
    )
    add(
        "--input-bound",
        type=float,
        help="rows are scaled down to this norm, instead of ranges; inf: public numbers have "
        "scaled them already",
    )
    add("--scale", type=float, help="of the Gaussian kernel [root of columns, or --input-bound]")
    add("--num-projections", type=int, help="functions that are fitted [200]")
    add("--num-features", type=int, help="features that they are made of [2048]")
    add("--ridge", type=float, help="lambda [as large as the noise needs]")
    add("--intercept-share", type=float, help="of the budget, for the mean of the target [0]")
    add("--public-seed", type=int, help="of the features, published with them")
    fit.add_argument(
        "--classify", action="store_true", help="logistic loss, for a target of two classes"
    )
    add("--classes", metavar="A,B", help="the two values of the target, with --classify")
    add("--out", type=pathlib.Path, default=pathlib.Path("model.npz"), help="new file [model.npz]")
    fit.add_argument("--json", action="store_true", help="print one JSON object")
    fit.set_defaults(command=_fit)


def _add_predict(commands) -> None:
    predict = commands.add_parser(
        "predict",
        help="evaluate a function that `jaxdp fit` saved",
        description=(
            "The saved function at the rows of a table: columns by name (others are ignored), or "
            "by position where the model or, with --no-header, the table has no names."
        ),
        allow_abbrev=False,
    )
    add = predict.add_argument
    add("model", type=pathlib.Path, help="a file of jaxdp fit")
    add("data", type=pathlib.Path, help="a table with the columns of the fit")
    add_header(add)
    add("--out", type=pathlib.Path, help="CSV to write [standard output]")
    add("--json", action="store_true", help="print one JSON object")
    predict.set_defaults(command=_predict)


def _fit(options: argparse.Namespace) -> None:
    from jaxdp.cli.commands.models import fit

    fit(options)


def _predict(options: argparse.Namespace) -> None:
    from jaxdp.cli.commands.models import predict

    predict(options)
