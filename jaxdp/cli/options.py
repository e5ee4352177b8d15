"""The options of every command.

An option without a default is absent unless it is given, so that each problem has its own
defaults, and can refuse what describes another. The module of a command is imported when it runs:
it imports JAX, and `jaxdp --help` does not.
"""

import argparse
import importlib
import pathlib
import sys
from typing import Any

_Path = pathlib.Path
_HEADER = "whether the first line names the columns [told by names that are asked for]"
_DROP = "columns to leave out, by name or number, with commas between, as in a CSV"
_PUBLIC = (
    "Public, and not to be chosen by looking at the data: every option; the number of rows; the "
    "names of the columns, which the model file keeps; their ranges. Neighbouring tables differ in "
    "one row. The noise comes from the operating system. What is printed on standard error (labels "
    "that were clipped, cells that are no numbers) is for whoever holds the data and no part of "
    "the release."
)


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add every command, as a parser whose `command` is the function that runs it."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    learning = _columns, _fit, _predict
    for add in (_compare, _plan, _account, _sweep, *learning, _reconstruct, _explore, _doctor):
        add(commands)


def _command(commands, name: str, help: str, description: str, *, module="", epilog=""):
    """A command, run by the function of its name in a module: its parser and `_adder` of it."""

    def run(options: argparse.Namespace) -> int | None:
        found = importlib.import_module(f"jaxdp.cli.commands.{module or name}")
        return getattr(found, name)(options)

    parser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    parser.set_defaults(command=run)
    return parser, _adder(parser)


def _adder(group):
    """A function that adds an option to a parser or to a group of its options.

    An option's kind is a function that reads its text, a tuple of choices, bool if no value follows
    (the option is False then unless given), or None if more of `argparse` is said.
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
    """Numbers with commas between."""
    return [float(part) for part in text.split(",")]


def seed(text: str) -> int:
    """A seed that JAX takes."""
    if not 0 <= int(text) < 2**63:
        raise argparse.ArgumentTypeError(f"expected 0 <= seed < 2^63, got {text}")
    return int(text)


def _add_results(add) -> None:
    """The folder that is written to, and what is printed."""
    add("--out", _Path, "folder to write to", _Path("results"))
    add("--json", bool, "print one JSON object")


def _compare(commands) -> None:
    compare, add = _command(
        commands,
        "compare",
        "simulate and predict private learning, and put them side by side",
        "Simulate one-pass DP-SGD on linear regression, predict it, and put both side by side in a "
        "table and a picture, with bounds and the limiting diffusion (SDE); with --data on a real "
        "table, with its Gaussian surrogate.",
    )
    add("--clip-scale", float, "clip norm over sqrt(dim)", 1.0)
    add("--peak", float, "learning rate at time 0", 3.0)
    add("--power", float, "learning rate decays as (1 - t)^power", 0.5)
    add("--rho", float, "the result is rho-GDP", 1.0)
    add("--num-steps", int, "updates [10 * dim; half the rows of a table]")
    add("--delta", float, "delta of the budget", 1e-5)
    add("--num-runs", int, "independent runs", 10)
    add("--seed", seed, "of the simulation", 0)
    _add_results(add)
    add = _adder(compare.add_argument_group("synthetic data"))
    add("--dim", int, "number of inputs d [1000]")
    add("--label-noise", float, "zeta [0.3]")
    add("--condition-number", float, "kappa of a power-law spectrum [1, isotropic]")
    add = _adder(compare.add_argument_group("a table"))
    add("--data", _Path, "text or .npz")
    add("--target", str, "its label column, by name or number [the last]")
    add("--drop", str, _DROP)
    add("--drop-constant", None, "leave out columns that never vary", action="store_true")
    add("--header", None, _HEADER, action=argparse.BooleanOptionalAction)


def _plan(commands) -> None:
    parser, add = _command(
        commands,
        "plan",
        "how to run private linear regression within a budget, and what to expect",
        "The clip scale and the learning rate with which one pass of DP-SGD over Gaussian rows "
        "ends at the least predicted risk, the standard deviation over runs, the best risk "
        "without privacy, what an untuned choice costs, and a line of Python to paste. With "
        "--target-risk the inverse: the samples that a budget needs for it, or the epsilon "
        "that so many samples need.",
    )
    schedules = ("optimal", "constant", "polynomial", "hyperbolic")
    add("--dim", int, "number of inputs d", 100)
    add("--num-samples", int, "n, the length of the pass [100 * dim]")
    budget = _adder(parser.add_mutually_exclusive_group())
    budget("--epsilon", float, "the budget, with --delta [2]")
    budget("--rho", float, "the budget as rho-GDP, in place of --epsilon")
    add("--delta", float, "the budget's", 1e-5)
    add("--label-noise", float, "zeta, the noise's standard deviation", 0.3)
    add("--initial-risk", float, "R(0), before learning", 0.5)
    add("--condition-number", float, "kappa of a power-law spectrum; 1 is isotropic", 1.0)
    add("--schedule", schedules, "the best one that does not rise, or one of a family", "optimal")
    target = "find the samples that the budget needs for it, or the epsilon for --num-samples"
    add("--target-risk", float, target)
    add("--quiet", bool, "no word of the search")
    _add_results(add)


def _account(commands) -> None:
    parser, _ = _command(
        commands,
        "account",
        "what an algorithm costs in privacy, or the noise that a budget needs",
        "What running an algorithm costs in privacy, as it is proved; or, with --epsilon, the "
        "noise that keeps it within a budget. one-pass: one-pass DP-SGD, whose last iterate "
        "is rho-GDP. correlated: one pass with correlated noise, whose iterates together are "
        "rho-GDP. dp-gd: gradient descent on all rows. dp-sgd: DP-SGD with Poisson batches "
        "(--sampling-rate) or shuffled epochs (--batch-size).",
    )
    algorithms = parser.add_subparsers(dest="algorithm", required=True, metavar="ALGORITHM")
    for name in ("one-pass", "correlated", "dp-gd", "dp-sgd"):
        one = algorithms.add_parser(name, help=f"the cost of {name}, or its noise")
        noise, add = _adder(one.add_mutually_exclusive_group(required=True)), _adder(one)
        noise("--epsilon", float, "find the noise of this budget")
        if name in ("one-pass", "correlated"):
            noise("--rho", float, "the result is rho-GDP")
        else:
            noise("--noise-multiplier", float, "noise on a sum over its clip")
            add("--num-steps", int, "updates", required=True)
        if name == "dp-sgd":
            add("--num-records", int, "rows of the table", required=True)
            batches = _adder(one.add_mutually_exclusive_group(required=True))
            batches("--sampling-rate", float, "q of Poisson batches")
            batches("--batch-size", int, "rows of each batch of shuffled epochs")
        add("--delta", float, "delta of the budget", 1e-5)
        add("--json", bool, "print one JSON object")


def _sweep(commands) -> None:
    _, add = _command(
        commands,
        "sweep",
        "the predicted risk of private linear regression over clip scales, peaks and budgets",
        "The predicted risk of one-pass DP-SGD on Gaussian rows at every combination of the "
        "values, each several with commas between. Other grids are made with jaxdp.sweep.",
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
        "a template in which to say what is publicly known of a table's columns",
        "Write a file for jaxdp fit --columns: the names of the table's columns and whether each "
        "is of numbers, dates or text, with ranges and categories left to fill in. No value of "
        "the table is in it; which columns hold text is read off the table, so it is for the "
        "curator.",
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
        "With --columns, a file that jaxdp columns makes a template of: private linear or "
        "logistic regression of a table with text and missing values, saved with its model card. "
        "Else private kernel ridge regression of a column on the others, or, with --classify, a "
        "private classifier; inputs and target are numbers, or of a classifier texts.",
        module="models",
        epilog=_PUBLIC,
    )
    ranges = "LOW:HIGH of all columns (--input-range=-1:1), or a file of lines column,low,high"
    bound = (
        "rows are scaled down to this norm, instead of ranges; inf: public numbers have scaled "
        "them already"
    )
    known = "columns.json: the public range or the categories of each column, the target's too"
    tables = _adder(parser.add_mutually_exclusive_group(required=True))
    tables("table", _Path, "text with a line of column names, or .npz", None, nargs="?")
    tables("--data", _Path, "the table, said so", None)
    add("--target", str, "the label column, by name or number [the last]", None)
    add("--drop", str, _DROP, "")
    add("--header", None, _HEADER, None, action=argparse.BooleanOptionalAction)
    add("--epsilon", float, "of the budget, > 0", required=True)
    add("--delta", float, "of the budget, in (0, 1) [1e-6 with --columns]")
    add("--columns", _Path, known)
    kinds = _adder(parser.add_mutually_exclusive_group())
    kinds("--linear", bool, "linear in the columns, for a target with a range [with one]")
    kinds("--logistic", bool, "linear in the columns, for a target with categories [with some]")
    kinds("--additive", bool, "a curve for each column, for either target; needs more rows")
    add("--out", _Path, "new file", _Path("model.npz"))
    add("--json", bool, "print one JSON object")
    kernel = parser.add_argument_group("a kernel regression or classifier")
    add = _adder(kernel)
    target = _adder(kernel.add_mutually_exclusive_group())
    target("--label-bound", float, "the target is clipped to -T..T, public")
    target("--classify", bool, "logistic loss, for a target of two classes")
    inputs = _adder(kernel.add_mutually_exclusive_group())
    inputs("--input-range", str, ranges)
    inputs("--input-bound", float, bound)
    add("--scale", float, "of the Gaussian kernel [root of columns, or --input-bound]")
    add("--num-projections", int, "functions that are fitted [200]")
    add("--num-features", int, "features that they are made of [2048]")
    add("--ridge", float, "lambda [as large as the noise needs]")
    add("--intercept-share", float, "of the budget, for the mean of the target [0]")
    add("--public-seed", seed, "of the features, published with them")
    add("--classes", str, "the two values of the target, with --classify", metavar="A,B")


def _predict(commands) -> None:
    _, add = _command(
        commands,
        "predict",
        "evaluate a function that `jaxdp fit` saved",
        "The saved function at the rows of a table: columns by name (others are ignored), or "
        "by position where the model or, with --no-header, the table has no names.",
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
        "read the training rows off trained parameters",
        "Look for the rows that a model of features phi(V x) was trained on, on the sphere of "
        "radius sqrt(d). Without a model one is trained on synthetic rows first, and the attack is "
        "scored. Private training and other models are attacked with jaxdp.attacks.",
    )
    model = ".npz with the arrays weights V (p, d) and parameters (p,) or (p, k), the last "
    model += "layer's change in training [none]"
    add("model", _Path, model, None, nargs="?")
    add("--num-samples", int, "training rows n [10; required with a model]")
    add("--activation", ("relu", "tanh"), "phi", "relu")
    add("--dim", int, "number of inputs d of synthetic rows [30]")
    add("--num-features", int, "width p of their model [10 d n]")
    add("--seed", seed, "of all random numbers", 0)
    _add_results(add)


def _explore(commands) -> None:
    explore, add = _command(
        commands,
        "explore",
        "a page with sliders: what theory predicts, what it costs, what a sweep has found",
        "Serves a page on this machine: the predicted curve of private learning follows "
        "sliders; it can be planned and simulated, and a button copies the Python of the picture. "
        "With --store a tab shows a sweep, with --features another one what private training on "
        "such features is forecast to give. Only this machine can open the page, unless "
        "--address says otherwise: whoever can open it can use this machine's time.",
    )
    explore.set_defaults(command=_run_explore)
    origin = "a further name of the page, behind a proxy for example; may be repeated"
    store = "folder of a sweep (its --store), or its sweep.nc, for a tab of its own"
    features = (
        ".npz of public rows, for the forecast's tab: train_features, train_labels, "
        "test_features, test_labels"
    )
    add("--store", _Path, store, None)
    add("--features", _Path, features, None)
    add("--address", str, "IPv4 address to listen at", "127.0.0.1")
    add("--port", int, "port to listen at; 0: a free one", 5006)
    add("--origin", str, origin, (), action="append", metavar="HOST:PORT")
    add("--no-browser", bool, "open no browser")


def _run_explore(options: argparse.Namespace) -> None:
    from jaxdp.explorer import serve

    serve(
        options.store,
        features=options.features,
        address=options.address,
        port=options.port,
        origins=tuple(options.origin),
        is_shown=not options.no_browser,
    )


def _doctor(commands) -> None:
    _, add = _command(
        commands,
        "doctor",
        "what is installed, what JAX runs on, and a self-test of some seconds",
        "Versions, devices, precision, the compilation cache, optional packages with the extra "
        "that brings each, and two numbers that are known: exit status 1 where one is wrong.",
    )
    add("--json", bool, "print one JSON object")
