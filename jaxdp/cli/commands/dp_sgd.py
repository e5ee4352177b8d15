"""`jaxdp compare --data TABLE --optimiser NAME`: DP-SGD as it is run, beside its prediction.

Every default is set by the loss, the optimiser and the number of steps alone. Rows are scaled so
that |phi|^2 has mean 1; no eigenvalue of the features' second moments is then above 1, whatever
the rows are.
"""

import argparse
import functools
import math
import warnings
from typing import Any

from jaxdp.cli.output import COMPARE_FILES, named, seeded_keys, settle, simulate_named, write
from jaxdp.cli.sizes import check_sizes, check_steps

_MOST_NAMED = 12
_DEFAULTS = {
    "target": None,
    "drop": "",
    "drop_constant": False,
    "optimiser": "sgd",
    "sampling_rate": 0.1,
    "epsilon": 4.0,
    "delta": 1e-5,
    "num_steps": 100,
    "average": None,
    "loss": "squared",
    "num_features": None,
}
_OF_STREAMS = ("label_noise", "condition_number", "dim")
_OF_ONE_PASS = ("peak", "power", "rho")
_WITH_MOMENTUM = ("momentum", "nesterov")
# How far Adam can move a weight in all: for predictions of variance 1 the weights are about 1.
_REACH_OF_ADAM = 5.0


def compare(options: argparse.Namespace) -> None:
    """Predict, simulate, tabulate and draw."""
    import jaxdp
    from jaxdp.cli.table_rows import read_rows
    from jaxdp.comparison.picture import plot_comparison

    _settle(options)
    split_key, weights_key, key = seeded_keys(options, 3, *COMPARE_FILES)
    rows = read_rows(options, split_key, weights_key)
    problem = rows.problem
    check_sizes(all_runs=(options.num_runs, problem.num_features, len(rows.classes or [0])))
    algorithm = _algorithm(options, problem)
    cost = jaxdp.account(algorithm, delta=options.delta)
    # Before the runs: what is not covered ends here.
    predicted = jaxdp.predict(problem, algorithm)
    simulated = simulate_named("simulated", problem, algorithm, key, options.num_runs)
    comparison = jaxdp.compare(simulated, predicted)
    table, name = rows.table, named(rows.table.label_name)
    with warnings.catch_warnings():
        # Of runs that diverged: the table says how many.
        warnings.simplefilter("ignore", RuntimeWarning)
        figure = plot_comparison(
            simulated,
            predicted,
            title=f"{options.data.stem}: {name} by {_described(options)}".replace("$", "\\$"),
            time_label="epochs",
            risk_label="test loss",
        )
    numbers = {
        "problem": f"DP-SGD on {options.data.name}",
        "dim": problem.num_features,
        "num_steps": options.num_steps,
        "num_train": problem.num_train,
        "num_test": problem.num_test,
        "target": table.label_name,
        "inputs": list(table.input_names),
        "classes": rows.classes,
        "noise_multiplier": float(algorithm.noise_multiplier),
        "adjacency": cost.adjacency,
        "scaling": "by means and deviations of the training rows, which is not private",
        **_beside(problem, simulated, predicted),
    }
    write(options, comparison, cost, figure, numbers, _heading(options, rows, numbers))


def _settle(options: argparse.Namespace) -> None:
    """Fill in the defaults, and refuse what describes another problem."""
    from jaxdp.core.checks import require_count, require_finite, require_positive

    if "data" not in options:
        raise ValueError("expected --data, a table, with the options of DP-SGD such as --optimiser")
    foreign = {name: "describes synthetic data; leave it out with --data" for name in _OF_STREAMS}
    foreign |= {name: "is of one-pass DP-SGD; leave it out here" for name in _OF_ONE_PASS}
    foreign["duration"] = "goes with --num-features without a table; give --learning-rate"
    foreign["clip_scale"] = "goes without --optimiser; give --clip-norm"
    if getattr(options, "num_features", 1) is None:
        raise ValueError("expected a number of --num-features with --data, got inf")
    settle(options, _DEFAULTS, foreign)
    if options.num_features is None:
        settle(options, {}, {"activation": "needs --num-features"})
    else:
        require_count("num_features", options.num_features)
        settle(options, {"activation": "relu"}, {})
    if options.optimiser in _WITH_MOMENTUM:
        settle(options, {"momentum": 0.9}, {})
        if not 0 <= options.momentum < 1:
            raise ValueError(f"expected 0 <= --momentum < 1, got {options.momentum:g}")
    else:
        settle(options, {}, {"momentum": "needs --optimiser momentum or nesterov"})
    require_count("num_steps", options.num_steps)
    require_count("num_runs", options.num_runs)
    check_steps(options.num_steps)
    for name in ("learning_rate", "clip_norm"):
        if name in options:
            require_finite(name, getattr(options, name))
            require_positive(name, getattr(options, name))
    _average(options)


def _algorithm(options: argparse.Namespace, problem):
    import optax

    import jaxdp
    from jaxdp.privacy import PoissonSampler, ShuffledEpochs

    rows, rate = problem.num_train, options.sampling_rate
    # Full batches are accounted for with one record replaced; a Poisson rate of one is not.
    sampler = ShuffledEpochs(rows, rows) if rate == 1 else PoissonSampler(rows, rate)
    makers: dict[str, Any] = {"sgd": optax.sgd, "adam": optax.adam}
    if options.optimiser in _WITH_MOMENTUM:
        is_nesterov = options.optimiser == "nesterov"
        makers[options.optimiser] = functools.partial(
            optax.sgd, momentum=options.momentum, nesterov=is_nesterov
        )
    settle(options, {"learning_rate": _learning_rate(options, problem.loss)}, {})
    settle(options, {"clip_norm": _clip_norm(problem.loss)}, {})
    return jaxdp.PrivateOptimiser.calibrated(
        makers[options.optimiser],
        options.epsilon,
        options.delta,
        learning_rate=options.learning_rate,
        clip_norm=options.clip_norm,
        num_steps=options.num_steps,
        sampler=sampler,
        average=_average(options),
    )


def _learning_rate(options: argparse.Namespace, loss) -> float:
    """Half of what is stable for any rows of mean square norm 1; of Adam, by its reach."""
    if options.optimiser == "adam":
        return _REACH_OF_ADAM / options.num_steps
    # Momentum adds up to 1/(1 - momentum) times the step.
    return (1 - getattr(options, "momentum", 0.0)) / loss.curvature_bound


def _clip_norm(loss) -> float:
    """Half the root mean square norm of a gradient at theta = 0, for targets of variance 1."""
    from jaxdp.losses import Softmax, Squared

    if isinstance(loss, Squared):
        slope = 2.0
    else:
        slope = math.sqrt(1 - 1 / loss.num_classes) if isinstance(loss, Softmax) else 0.5
    return slope / 2


def _average(options: argparse.Namespace):
    import jaxdp

    known = {None: None, "polyak": jaxdp.PolyakAverage(), "tail": jaxdp.TailAverage()}
    if options.average in known:
        return known[options.average]
    try:
        return jaxdp.ExponentialAverage(float(options.average))
    except ValueError:
        raise ValueError(
            "expected --average polyak, tail, or a number d with 0 <= d < 1, the decay of an "
            f"exponential average, got {options.average}"
        ) from None


def _beside(problem, simulated, predicted) -> dict[str, Any]:
    """What is compared besides the risk, simulated and predicted."""
    found: dict[str, Any] = {}
    for name in ("accuracy", "train_risk", "clipped_fraction"):
        if name in predicted.observables:
            values = simulated.observables[name][:, -1]
            found[name] = {
                "simulated": float(values.mean()),
                "predicted": float(predicted.observables[name][-1]),
            }
    if predicted.std is not None:
        spread = float(simulated.final_risk.std(ddof=1)) if len(simulated.final_risk) > 1 else None
        found["spread"] = {"simulated": spread, "predicted": float(predicted.std[-1])}
    if problem.loss.num_outputs is None and "accuracy" not in predicted.observables:
        found["least_squares_risk"] = problem.interpolator_risk()
    return found


def _heading(options: argparse.Namespace, rows, numbers: dict[str, Any]) -> list[str]:
    """The lines above the table."""
    problem, table = rows.problem, rows.table
    shown = ", ".join(table.input_names[:_MOST_NAMED])
    more = len(table.input_names) - _MOST_NAMED
    shown += f" and {more} more" if more > 0 else ""
    kind = "" if options.num_features is None else f" by {options.activation} features"
    lines = [
        f"{options.data.stem}: {_described(options)}; test losses ({options.loss})",
        f"target: {named(table.label_name)}; inputs: {shown}",
        f"{problem.num_train} rows trained on, {problem.num_test} held out; "
        f"{problem.num_features} weights{kind}, one of them the intercept",
        f"learning rate {options.learning_rate:.4g}, clip norm {options.clip_norm:.4g} (rows have "
        f"mean square norm 1), noise multiplier {numbers['noise_multiplier']:.4g}",
        "columns"
        + (" and target" if rows.classes is None else "")
        + " are standardised by the training rows, non-privately: a study, not a release",
    ]
    if rows.classes is not None:
        lines.append(f"classes: {', '.join(rows.classes[:_MOST_NAMED])}")
    if "least_squares_risk" in numbers:
        lines.append(f"without privacy: {numbers['least_squares_risk']:.5f} (least squares)")
    for name, words in (
        ("accuracy", "test accuracy"),
        ("clipped_fraction", "clipped gradients"),
        ("spread", "standard deviation over runs"),
    ):
        if name in numbers and numbers[name]["simulated"] is not None:
            both = numbers[name]
            lines.append(
                f"{words}: {both['simulated']:.4g} simulated, {both['predicted']:.4g} predicted"
            )
    return lines


def _described(options: argparse.Namespace) -> str:
    """The algorithm in a few words."""
    batches = (
        "full batches"
        if options.sampling_rate == 1
        else f"Poisson batches of rate {options.sampling_rate:g}"
    )
    return f"DP-{options.optimiser}, {batches}, {options.num_steps} steps"
