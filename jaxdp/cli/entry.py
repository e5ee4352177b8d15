"""The command line: parse, call, print. Bad input ends with one line and exit status 2."""

import argparse
import contextlib
import dataclasses
import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

_MOST_NAMED = 12
_SYNTHETIC_ONLY = ("dim", "label_noise", "condition_number")


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run `jaxdp` with the given arguments (the process's own by default); the exit status."""
    from jaxdp.core.errors import NotCoveredError

    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except (ValueError, TypeError, RuntimeError, NotCoveredError, OSError, MemoryError) as error:
        print(f"jaxdp: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(
            f"jaxdp: {error.name} is missing; install jaxdp with its extras [cli,plots,data]",
            file=sys.stderr,
        )
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="jaxdp", description="Theory of differentially private learning.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    compare = commands.add_parser(
        "compare",
        help="simulate and predict private linear regression, and put them side by side",
        description=(
            "Simulate one-pass DP-SGD on linear regression, predict it (ODE, bounds, SDE), and "
            "put them side by side in a table and a picture. With --data, on a real table: the "
            "table itself, its Gaussian surrogate, and the ODE."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = compare.add_argument
    add("--dim", type=int, help="number of inputs d [1000]", default=argparse.SUPPRESS)
    add("--label-noise", type=float, help="zeta [0.3]", default=argparse.SUPPRESS)
    add(
        "--condition-number",
        type=float,
        help="kappa of a power-law spectrum; 1 is isotropic [1]",
        default=argparse.SUPPRESS,
    )
    add("--peak", type=float, default=3.0, help="learning rate at time 0")
    add("--power", type=float, default=0.5, help="learning rate decays as (1 - t)^power")
    add("--clip-scale", type=float, default=1.0, help="clip norm over sqrt(dim)")
    add("--rho", type=float, default=1.0, help="the result is (rho^2/2)-zCDP")
    add(
        "--num-steps",
        type=int,
        help="updates, one sample each [10 * dim; half the rows of a table]",
        default=argparse.SUPPRESS,
    )
    add("--num-runs", type=int, default=10, help="independent runs")
    add("--seed", type=int, default=0, help="of the simulation")
    add("--delta", type=float, default=1e-5, help="delta at which epsilon is stated")
    add("--data", type=pathlib.Path, help="a table: text or .npz")
    add("--target", help="its label column, by name or number [the last]")
    add("--drop", default="", help="columns to leave out, by name or number, with commas between")
    add("--drop-constant", action="store_true", help="leave out columns that never vary")
    add("--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder to write to")
    add("--json", action="store_true", help="print one JSON object on standard output")
    compare.set_defaults(command=_compare)
    return parser


def _version() -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version("jaxdp-lab")
    except importlib.metadata.PackageNotFoundError:
        return "source tree, not installed"


def _compare(options: argparse.Namespace) -> None:
    import jax

    import jaxdp
    from jaxdp.comparison import average
    from jaxdp.plots import plot_comparison

    given = vars(options)
    if options.data is None:
        for flag in ("target", "drop", "drop_constant"):
            if given[flag]:
                raise ValueError(f"--{flag.replace('_', '-')} needs --data")
        dim = given.get("dim", 1000)
        kappa = given.get("condition_number", 1.0)
        noise = given.get("label_noise", 0.3)
        if kappa == 1:
            problem = jaxdp.LinearRegression.isotropic(dim, label_noise=noise)
        else:
            problem = jaxdp.LinearRegression.power_law(
                dim, condition_number=kappa, label_noise=noise
            )
        described = problem
        num_steps = given.get("num_steps", 10 * dim)
        title = f"$d$ = {dim}, $n$ = {num_steps}, $\\kappa$ = {kappa:g}, $\\zeta$ = {noise:g}"
        names = {"simulated": "simulated"}
    else:
        described, table = _table(options, given)
        problem = described.surrogate
        num_steps = given.get("num_steps", described.num_steps)
        if num_steps > described.num_steps:
            raise ValueError(
                f"expected --num-steps <= {described.num_steps}, half the rows, got {num_steps}"
            )
        title = f"{options.data.stem}: {_named(table.label_name)} from {problem.dim} columns"
        names = {"simulated": "table", "surrogate": "surrogate"}
    algorithm = jaxdp.OnePassDPSGD(
        jaxdp.Polynomial(options.peak, options.power), options.clip_scale, options.rho, num_steps
    )
    cost = jaxdp.account(algorithm, delta=options.delta)
    # The folder is made before the work, so that a bad one costs nothing.
    if options.out.exists() and not options.out.is_dir():
        raise ValueError(f"expected --out to be a folder, got the file {options.out}")
    options.out.mkdir(parents=True, exist_ok=True)
    if not 0 <= options.seed < 2**63:
        raise ValueError(f"expected 0 <= --seed < 2^63, got {options.seed}")
    first_key, second_key = jax.random.split(jax.random.key(options.seed))

    def simulate(name, problem, key, simulator=None):
        with _progress(name) as progress:
            runs = jaxdp.simulate(
                problem,
                algorithm,
                key=key,
                num_runs=options.num_runs,
                simulator=simulator,
                progress=progress,
            )
        return dataclasses.replace(runs, label=name)

    simulated = simulate(names["simulated"], described, first_key)
    ode = jaxdp.predict(problem, algorithm).check()
    if options.data is None:
        bounds = [
            jaxdp.predict(problem, algorithm, theory()).check()
            for theory in (jaxdp.LowerBound, jaxdp.UpperBound)
        ]
        beside = simulate("SDE", problem, second_key, jaxdp.HomogenizedSDE())
    else:
        bounds = []
        beside = simulate(names["surrogate"], problem, second_key)
    comparison = jaxdp.compare(simulated, ode, *bounds, average(beside))
    picture = options.out / "compare.png"
    figure = plot_comparison(simulated, ode, *bounds, beside=[beside], title=title)
    figure.savefig(picture, dpi=160)
    summary = _summary(options, described, algorithm, comparison, cost)
    if options.data is not None:
        summary |= {"target": table.label_name, "inputs": list(table.input_names)}
    numbers = options.out / "compare.json"
    summary["files"] = [str(picture), str(numbers)]
    text = json.dumps(summary, indent=2)
    numbers.write_text(text + "\n")
    if options.json:
        print(text)
        return
    if options.data is None:
        print(_plain(title))
        if kappa == 1:
            print("isotropic: both bounds coincide with the ODE")
    else:
        print(described)
        shown = ", ".join(table.input_names[:_MOST_NAMED])
        more = len(table.input_names) - _MOST_NAMED
        more = f" and {more} more" if more > 0 else ""
        print(f"target: {_named(table.label_name)}; inputs: {shown}{more}")
        print("standard errors are over runs; the ODE is a limit of many columns")
    print(comparison, cost, f"picture: {picture}", f"numbers: {numbers}", sep="\n")


def _table(options: argparse.Namespace, given: dict[str, Any]):
    """The table as a problem, and as it was read."""
    import jaxdp
    from jaxdp.problems.datasets import read_table

    conflicts = [name for name in _SYNTHETIC_ONLY if name in given]
    if conflicts:
        flag = "--" + conflicts[0].replace("_", "-")
        raise ValueError(f"{flag} describes synthetic data; leave it out with --data")
    drop = [name.strip() for name in options.drop.split(",") if name.strip()]
    table = read_table(
        options.data, options.target, drop=drop, drop_constant=options.drop_constant
    ).scaled()
    return jaxdp.TabularRegression(table.inputs, table.labels), table


def _named(column: str) -> str:
    """A column's name in a sentence."""
    return f"column {column}" if column.isdigit() else column


def _summary(options, described, algorithm, comparison, cost) -> dict[str, Any]:
    """What the command found, as plain numbers."""
    ode, *rest = comparison.predictions

    def prediction(trajectory):
        return {"final_risk": float(trajectory.final_risk), "risk": _floats(trajectory.risk)}

    summary = {
        "problem": repr(described) if options.data is not None else "linear regression",
        "dim": described.dim,
        "num_steps": algorithm.num_steps,
        "num_runs": options.num_runs,
        "seed": options.seed,
        "options": {
            name: str(value) if isinstance(value, pathlib.Path) else value
            for name, value in vars(options).items()
            if name != "command"
        },
        "time": _floats(comparison.time),
        "simulated": {
            "final_risk": comparison.final_mean,
            "standard_error": comparison.final_standard_error,
            "risk": _floats(comparison.mean),
            "risk_standard_error": _floats(comparison.standard_error),
        },
        "predicted": prediction(ode),
        "beside": {trajectory.label: prediction(trajectory) for trajectory in rest},
        "gap": comparison.final_gap,
        "gap_in_standard_errors": comparison.final_sigmas,
        "max_gap": comparison.max_gap,
        "cost": {field.name: getattr(cost, field.name) for field in dataclasses.fields(cost)},
    }
    return _without_nan(summary)


def _plain(title: str) -> str:
    """A picture's title as text."""
    greek = {"\\kappa": "kappa", "\\zeta": "zeta", "$": ""}
    for mark, word in greek.items():
        title = title.replace(mark, word)
    return f"linear regression: {title}"


def _floats(values) -> list[float]:
    return [float(value) for value in values]


def _without_nan(value: Any) -> Any:
    """NaN and infinity, which JSON does not have, as null and "inf"."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


@contextlib.contextmanager
def _progress(name: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error, where that is a terminal."""
    from tqdm import tqdm

    with tqdm(
        total=100,
        desc=name,
        unit="%",
        leave=False,
        disable=None,
        bar_format="{desc}: {percentage:3.0f}% |{bar}| {elapsed}<{remaining}",
    ) as bar:

        def advance(share: float) -> None:
            bar.update(100 * share - bar.n)

        yield advance


if __name__ == "__main__":
    sys.exit(main())
