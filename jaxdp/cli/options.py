"""The options of every command.

An option without a default is absent unless it is given, so that each problem has its own defaults
and refuses the options of another. A command's module, which imports JAX, is imported when it runs.
"""

import argparse
import importlib
import pathlib
import sys
from typing import Any

_Path = pathlib.Path
_HEADER = "whether the first line names the columns [inferred from names that are asked for]"
_DROP = "columns to leave out, by name or number, with commas between, as in a CSV"
_PUBLIC = (
    "All options, the number of rows and the names and ranges of the columns are public: do not "
    "choose them by looking at the data. Neighbouring tables differ in one row. The noise comes "
    "from the operating system. Messages on standard error (clipped labels, cells that are not "
    "numbers) are for the holder of the data and not part of the release."
)


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add a parser for every command, whose default `command` is the function to run."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    learning, others = (_columns, _fit, _predict), (_reconstruct, _explore, _doctor)
    for add in (_compare, _plan, _account, _audit, _sweep, *learning, *others):
        add(commands)


def _command(commands, name: str, help: str, description: str, *, module="", epilog=""):
    """Add a command, which runs the function of its name in a module; return parser and adder."""

    def run(options: argparse.Namespace) -> int | None:
        found = importlib.import_module(f"jaxdp.cli.commands.{module or name}")
        return getattr(found, name)(options)

    parser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    parser.set_defaults(command=run)
    return parser, _adder(parser)


def _adder(group):
    """Return a function that adds options to a parser or a group.

    The kind of an option is a function that reads its text, a tuple of choices, bool for a flag, or
    None if further keywords of `argparse` describe it.
    """

    def add(name: str, kind, help: str, default: Any = argparse.SUPPRESS, **more) -> None:
        if kind is bool:
            more, default = {"action": "store_true"}, False
        elif kind is not None:
            more |= {"choices" if isinstance(kind, tuple) else "type": kind}
        action = group.add_argument(name, help=help, default=default, **more)
        if kind is _Path and "shtab" in sys.modules:
            action.complete = sys.modules["shtab"].FILE  # pyright: ignore[reportAttributeAccessIssue]

    return add


def numbers(text: str) -> list[float]:
    """Read numbers separated by commas."""
    return [float(part) for part in text.split(",")]


def seed(text: str) -> int:
    """Read a seed for JAX."""
    if not 0 <= int(text) < 2**63:
        raise argparse.ArgumentTypeError(f"expected 0 <= seed < 2^63, got {text}")
    return int(text)


def budget(text: str) -> Any:
    """Read a budget, such as advantage=0.1 or tpr=0.05@0.01."""
    from jaxdp import privacy

    name, _, values = text.partition("=")
    kinds = {"advantage": privacy.MembershipAdvantage, "tpr": privacy.TruePositiveRate}
    kinds |= {"mu": privacy.GaussianDP, "reconstruction": privacy.ReconstructionBound}
    reason = f"expected advantage=A, tpr=RATE@FPR, reconstruction=P@BASELINE or mu=M, got {text}"
    try:
        numbers = [float(value) for value in values.split("@")]
    except ValueError:
        raise argparse.ArgumentTypeError(reason) from None
    try:
        return kinds[name](*numbers)
    except (KeyError, TypeError):
        pass
    except ValueError as error:
        reason = f"{text}: {error}"
    raise argparse.ArgumentTypeError(reason)


def _add_budget(add) -> None:
    told = "the budget by an attack: advantage=0.1 (of any membership test), tpr=0.05@0.01 (its "
    told += "true-positive at a false-positive rate), reconstruction=0.1@0.01; or mu=0.5"
    add("--budget", budget, told, dest="epsilon", metavar="KIND=VALUE")


def _add_results(add) -> None:
    add("--out", _Path, "folder to write to", _Path("results"))
    add("--json", bool, "print one JSON object")


def _compare(commands) -> None:
    compare, add = _command(
        commands,
        "compare",
        "simulate and predict private learning, and compare the two",
        "Simulate and predict one-pass DP-SGD on linear regression, and compare the two in a table "
        "and a picture, with bounds and the limiting diffusion (SDE). With --data the rows are "
        "those of a table, and its Gaussian surrogate replaces bounds and SDE.",
    )
    add("--clip-scale", float, "clip norm over sqrt(dim)", 1.0)
    add("--peak", float, "learning rate at time 0", 3.0)
    add("--power", float, "learning rate decays as (1 - t)^power", 0.5)
    add("--rho", float, "the result is rho-GDP", 1.0)
    add("--num-steps", int, "updates [10 * dim; half the rows of a table]")
    add("--delta", float, "delta of the budget", 1e-5)
    add("--num-runs", int, "independent runs", 10)
    add("--seed", seed, "seed of the simulation", 0)
    _add_results(add)
    add = _adder(compare.add_argument_group("synthetic data"))
    add("--dim", int, "number of inputs d [1000]")
    add("--label-noise", float, "zeta [0.3]")
    add("--condition-number", float, "kappa of a power-law spectrum [1, isotropic]")
    add = _adder(compare.add_argument_group("a table"))
    add("--data", _Path, "a table: text or .npz")
    add("--target", str, "label column, by name or number [the last]")
    add("--drop", str, _DROP)
    add("--drop-constant", None, "leave out columns that never vary", action="store_true")
    add("--header", None, _HEADER, action=argparse.BooleanOptionalAction)


def _plan(commands) -> None:
    parser, add = _command(
        commands,
        "plan",
        "how to run private linear regression within a budget, and the risk to expect",
        "Find the clip scale and the learning rate with the least predicted risk of one pass of "
        "DP-SGD over Gaussian rows. Prints the standard deviation over runs, the best risk without "
        "privacy, the risk of an untuned choice, and a line of Python to paste. With --target-risk "
        "the inverse: the samples that a budget needs, or the epsilon that so many samples need.",
    )
    schedules = ("optimal", "constant", "polynomial", "hyperbolic")
    add("--dim", int, "number of inputs d", 100)
    add("--num-samples", int, "number of samples n [100 * dim]")
    limit = _adder(parser.add_mutually_exclusive_group())
    limit("--epsilon", float, "the budget, with --delta [2]")
    limit("--rho", float, "the budget as rho-GDP, in place of --epsilon")
    _add_budget(limit)
    add("--delta", float, "delta of the budget", 1e-5)
    add("--label-noise", float, "standard deviation zeta of the labels' noise", 0.3)
    add("--initial-risk", float, "R(0), before learning", 0.5)
    add("--condition-number", float, "kappa of a power-law spectrum; 1 is isotropic", 1.0)
    add(
        "--schedule",
        schedules,
        "learning rates to search: all that never rise, or a family",
        "optimal",
    )
    target = "risk for which to find the samples of the budget, or the epsilon of --num-samples"
    add("--target-risk", float, target)
    add("--quiet", bool, "hide the progress of the search")
    _add_results(add)


def _account(commands) -> None:
    parser, _ = _command(
        commands,
        "account",
        "the privacy cost of an algorithm, or the noise that a budget needs",
        "Print the proved privacy cost of an algorithm or, with --epsilon, the noise that keeps it "
        "within a budget. one-pass: one-pass DP-SGD, whose last iterate is rho-GDP. correlated: "
        "one pass with correlated noise, all of whose iterates together are rho-GDP. dp-gd: "
        "gradient descent on all rows. dp-sgd: DP-SGD with Poisson batches (--sampling-rate) or "
        "shuffled epochs (--batch-size).",
    )
    algorithms = parser.add_subparsers(dest="algorithm", required=True, metavar="ALGORITHM")
    for name in ("one-pass", "correlated", "dp-gd", "dp-sgd"):
        one = algorithms.add_parser(name, help=f"cost or noise of {name}")
        noise, add = _adder(one.add_mutually_exclusive_group(required=True)), _adder(one)
        noise("--epsilon", float, "find the noise for this budget")
        _add_budget(noise)
        if name in ("one-pass", "correlated"):
            noise("--rho", float, "the result is rho-GDP")
        else:
            noise("--noise-multiplier", float, "noise on a sum, divided by its clip norm")
            add("--num-steps", int, "updates", required=True)
        if name == "dp-sgd":
            add("--num-records", int, "rows of the table", required=True)
            batches = _adder(one.add_mutually_exclusive_group(required=True))
            batches("--sampling-rate", float, "q, for Poisson batches")
            batches("--batch-size", int, "rows in a batch, for shuffled epochs")
        add("--delta", float, "delta of the budget", 1e-5)
        add("--records-per-person", int, "largest number of one person's rows", 1)
        add("--json", bool, "print one JSON object")


def _audit(commands) -> None:
    _, add = _command(
        commands,
        "audit",
        "test a claim of privacy by the scores of canaries, whichever library trained",
        "Print a lower bound on epsilon beside the claimed one. SCORES has the columns score, "
        "higher if the canary looks included, and included, 0 or 1, by a fair coin for each canary "
        "of one run. Exit status: 0 if the claim is not refuted, 1 if it is, 2 for bad input.",
    )
    add("scores", _Path, "a table: text with a line of column names, or .npz")
    add("--claimed-epsilon", float, "the claim to test, at --delta", required=True)
    add("--delta", float, "delta of the claim", required=True)
    add("--confidence", float, "probability that the bound holds", 0.95)
    add("--json", bool, "print one JSON object")


def _sweep(commands) -> None:
    _, add = _command(
        commands,
        "sweep",
        "the predicted risk of private linear regression over clip scales, peaks and budgets",
        "Predict the risk of one-pass DP-SGD on Gaussian rows for every combination of values, "
        "which are separated by commas. Use jaxdp.sweep in Python for other grids.",
    )
    add("--clip-scale", numbers, "c, the clip norm over sqrt(dim) [20 values, 0.1 to 10]")
    add("--peak", numbers, "learning rate at time 0 [20 values, 1 to 20]")
    add("--rho", numbers, "the result is rho-GDP [1]")
    add("--power", float, "the learning rate decays as (1 - t)^power", 0.5)
    add("--dim", int, "number of inputs d", 1000)
    add("--num-steps", int, "updates [10 * dim]")
    add("--label-noise", float, "zeta", 0.3)
    _add_results(add)


def _columns(commands) -> None:
    _, add = _command(
        commands,
        "columns",
        "write a template for the public ranges and categories of a table's columns",
        "Write a file for jaxdp fit --columns: the names of the table's columns, and whether each "
        "has numbers, dates or text, with ranges and categories left to fill in. It has no value "
        "of the table; but the kinds of columns are read from the table, so do not publish it.",
    )
    add("data", _Path, "a table: text with a line of column names, or .npz")
    add("--header", None, _HEADER, None, action=argparse.BooleanOptionalAction)
    add("--out", _Path, "new file", _Path("columns.json"))
    add("--json", bool, "print one JSON object")


def _fit(commands) -> None:
    parser, add = _command(
        commands,
        "fit",
        "learn a function from a table, with differential privacy, and save it",
        "With --columns (a file whose template jaxdp columns writes): private linear or logistic "
        "regression of a table with text and missing values, saved with its model card. Otherwise "
        "private kernel ridge regression of a column on the others or, with --classify, a private "
        "classifier; all columns are numbers, except the target of a classifier.",
        module="models",
        epilog=_PUBLIC,
    )
    ranges = "LOW:HIGH for all columns (--input-range=-1:1), or a file of lines column,low,high"
    bound = "norm that rows are scaled down to, instead of ranges; inf if they are scaled already"
    known = "columns.json: the public range or the categories of each column and of the target"
    tables = _adder(parser.add_mutually_exclusive_group(required=True))
    tables("table", _Path, "text with a line of column names, or .npz", None, nargs="?")
    tables("--data", _Path, "the same as TABLE", None)
    add("--target", str, "the label column, by name or number [the last]", None)
    add("--drop", str, _DROP, "")
    add("--header", None, _HEADER, None, action=argparse.BooleanOptionalAction)
    limit = _adder(parser.add_mutually_exclusive_group(required=True))
    limit("--epsilon", float, "epsilon of the budget, > 0")
    _add_budget(limit)
    add("--delta", float, "delta of the budget, in (0, 1) [1e-6 with --columns]")
    add("--columns", _Path, known)
    add("--groups", str, "column that names the person of each row: the budget is a person's", None)
    add("--rows-per-person", int, "rows of each person that are used, with --groups", 1)
    kinds = _adder(parser.add_mutually_exclusive_group())
    kinds("--linear", bool, "linear in the columns; the default if the target has a range")
    kinds("--logistic", bool, "logistic regression; the default if the target has categories")
    kinds("--additive", bool, "a curve for each column, for either target; needs more rows")
    add("--out", _Path, "new file", _Path("model.npz"))
    add("--json", bool, "print one JSON object")
    kernel = parser.add_argument_group("a kernel regression or classifier")
    add = _adder(kernel)
    target = _adder(kernel.add_mutually_exclusive_group())
    target("--label-bound", float, "public bound T; the target is clipped to -T..T")
    target("--classify", bool, "logistic loss, for a target of two classes")
    inputs = _adder(kernel.add_mutually_exclusive_group())
    inputs("--input-range", str, ranges)
    inputs("--input-bound", float, bound)
    add("--scale", float, "scale of the Gaussian kernel [root of columns, or --input-bound]")
    add("--num-projections", int, "number of fitted functions [200]")
    add("--num-features", int, "number of features in each of them [2048]")
    add("--ridge", float, "lambda [as large as the noise needs]")
    add("--intercept-share", float, "share of the budget for the mean of the target [0]")
    add("--public-seed", seed, "seed of the features, published with them")
    add("--classes", str, "the two values of the target, with --classify", metavar="A,B")


def _predict(commands) -> None:
    _, add = _command(
        commands,
        "predict",
        "evaluate a function that `jaxdp fit` saved",
        "Evaluate the saved function at the rows of a table. Columns are found by name, and others "
        "ignored; or by position if the model or, with --no-header, the table has no names.",
        module="models",
    )
    add("model", _Path, "a file of jaxdp fit")
    add("data", _Path, "a table with the columns of the fit")
    add("--header", None, _HEADER, None, action=argparse.BooleanOptionalAction)
    add("--out", _Path, "CSV to write [standard output]", None)
    add("--json", bool, "print one JSON object")


def _reconstruct(commands) -> None:
    _, add = _command(
        commands,
        "reconstruct",
        "reconstruct training rows from trained parameters",
        "Search the sphere of radius sqrt(d) for the training rows of a model with features "
        "phi(V x). Without a model, one is trained on synthetic rows and the attack is scored. Use "
        "jaxdp.attacks in Python for private training and other models.",
    )
    model = ".npz with the arrays weights V (p, d) and parameters (p,) or (p, k), the change of "
    model += "the last layer in training [none]"
    add("model", _Path, model, None, nargs="?")
    add("--num-samples", int, "number of training rows n [10; required with a model]")
    add("--activation", ("relu", "tanh"), "phi", "relu")
    add("--dim", int, "number of inputs d of synthetic rows [30]")
    add("--num-features", int, "width p of their model [10 d n]")
    add("--seed", seed, "seed of all random numbers", 0)
    _add_results(add)


def _explore(commands) -> None:
    explore, add = _command(
        commands,
        "explore",
        "a page with sliders for predictions, privacy costs, forecasts and sweeps",
        "Serve a page on this machine: the predicted curve of private learning follows sliders. "
        "Plans and simulations are made at a click, and a button copies the Python of the picture. "
        "--store adds a tab with a sweep, --features a tab that forecasts private training on such "
        "features. The page has no password; without --address only this machine can open it.",
    )
    explore.set_defaults(command=_run_explore)
    origin = "further name of the page, for example behind a proxy; may be repeated"
    store = "store of a sweep, or its sweep.nc"
    features = ".npz of public rows: train_features, train_labels, test_features, test_labels"
    add("--store", _Path, store, None)
    add("--features", _Path, features, None)
    add("--address", str, "IPv4 address to listen at", "127.0.0.1")
    add("--port", int, "port to listen at; 0: a free one", 5006)
    add("--origin", str, origin, [], action="append", metavar="HOST:PORT", dest="origins")
    add("--no-browser", None, "open no browser", True, action="store_false", dest="is_shown")


def _run_explore(options: argparse.Namespace) -> None:
    from jaxdp.explorer import serve

    serve(**{name: value for name, value in vars(options).items() if name != "command"})


def _doctor(commands) -> None:
    _, add = _command(
        commands,
        "doctor",
        "installed packages, devices and a self-test of some seconds",
        "Print versions, devices, precision, the compilation cache and optional packages, and "
        "compute two known numbers: exit status 1 if one is wrong.",
    )
    add("--json", bool, "print one JSON object")
