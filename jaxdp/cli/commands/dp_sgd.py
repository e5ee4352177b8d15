"""`jaxdp compare --data TABLE --optimiser NAME`: DP-SGD as it is run, beside its prediction.

The columns get mean 0 and variance 1 on the training rows, which a release could not do, and so
does a target of numbers. A row is then divided by the root of its number of columns, one of ones
included, so that |phi|^2 has mean 1 over the training rows; with random features, over normal
inputs. No eigenvalue of the features' second moments is then above 1, whatever the rows are, and
every default is set by the loss, the optimiser and the number of steps alone.
"""

import argparse
import functools
import math
import warnings
from typing import Any

import jax
import numpy as np
import optax

import jaxdp
from jaxdp.cli import output
from jaxdp.cli.commands.reconstruct import activation_named, mean_square
from jaxdp.cli.values import check_sizes, check_steps, listed_names
from jaxdp.comparison import plot_comparison
from jaxdp.core.checks import require_count, require_finite, require_positive
from jaxdp.data.datasets import NumericTable, read_table
from jaxdp.data.standardisation import column_scaling
from jaxdp.data.table_files import as_numbers
from jaxdp.privacy import PoissonSampler, ShuffledEpochs

_MOST_CLASSES = 100
_MOST_NAMED = 12
_DEFAULTS = {
    "target": None,
    "drop": "",
    "drop_constant": False,
    "header": None,
    "optimiser": "sgd",
    "sampling_rate": 0.1,
    "epsilon": 4.0,
    "delta": 1e-5,
    "num_steps": 100,
    "average": None,
    "loss": "squared",
    "num_features": None,
}
_SYNTHETIC = ("label_noise", "condition_number", "dim")
_FOREIGN = {
    **dict.fromkeys(_SYNTHETIC, "describes synthetic data; leave it out with --data"),
    **dict.fromkeys(("peak", "power", "rho"), "is of one-pass DP-SGD; leave it out here"),
    "duration": "goes with --num-features without a table; give --learning-rate",
    "clip_scale": "goes without --optimiser; give --clip-norm",
}
# How far Adam can move a weight in all: for predictions of variance 1 the weights are about 1.
_REACH_OF_ADAM = 5.0


def compare(options: argparse.Namespace) -> None:
    """Predict, simulate, tabulate and draw."""
    _settle(options)
    average = _average(options)
    split_key, weights_key, key = output.seeded_keys(options, 3)
    files = output.prepared_files(options, output.COMPARE_FILES)
    problem, table, classes = read_rows(options, split_key, weights_key)
    check_sizes(all_runs=(options.num_runs, problem.num_features, len(classes or [0])))
    algorithm = _algorithm(options, problem, average)
    cost = jaxdp.account(algorithm, delta=options.delta)
    # Before the runs: what is not covered ends here.
    predicted = jaxdp.predict(problem, algorithm)
    simulated = output.simulate_named("simulated", problem, algorithm, key, options.num_runs)
    rate = options.sampling_rate
    batches = "full batches" if rate == 1 else f"Poisson batches of rate {rate:g}"
    described = f"DP-{options.optimiser}, {batches}, {options.num_steps} steps"
    title = f"{options.data.stem}: {output.named(table.label_name)} by {described}".replace(
        "$", "\\$"
    )
    with warnings.catch_warnings():
        # Of runs that diverged: the table says how many.
        warnings.simplefilter("ignore", RuntimeWarning)
        figure = plot_comparison(
            simulated, predicted, title=title, time_label="epochs", risk_label="test loss"
        )
    numbers = {
        "problem": f"DP-SGD on {options.data.name}",
        "dim": problem.num_features,
        "num_steps": options.num_steps,
        "num_train": problem.num_train,
        "num_test": problem.num_test,
        "target": table.label_name,
        "inputs": list(table.input_names),
        "classes": classes,
        "noise_multiplier": float(algorithm.noise_multiplier),
        "adjacency": cost.adjacency,
        "scaling": "by means and deviations of the training rows, which is not private",
        **_beside(problem, simulated, predicted),
    }
    heading = _heading(options, described, numbers)
    comparison = jaxdp.compare(simulated, predicted)
    output.finish_comparison(options, files, comparison, cost, figure, numbers, heading)


def _settle(options: argparse.Namespace) -> None:
    """Fill in the defaults, and refuse what describes another problem."""
    if "data" not in options:
        raise ValueError("expected --data, a table, with the options of DP-SGD such as --optimiser")
    if getattr(options, "num_features", 1) is None:
        raise ValueError("expected a number of --num-features with --data, got inf")
    output.settle(options, _DEFAULTS, _FOREIGN)
    if options.num_features is None:
        output.settle(options, {}, {"activation": "needs --num-features"})
    else:
        require_count("num_features", options.num_features)
        output.settle(options, {"activation": "relu"})
    if options.optimiser in ("momentum", "nesterov"):
        output.settle(options, {"momentum": 0.9})
        if not 0 <= options.momentum < 1:
            raise ValueError(f"expected 0 <= --momentum < 1, got {options.momentum:g}")
    else:
        output.settle(options, {}, {"momentum": "needs --optimiser momentum or nesterov"})
    for name in ("num_steps", "num_runs"):
        require_count(name, getattr(options, name))
    check_steps(options.num_steps)
    for name in ("learning_rate", "clip_norm"):
        if name in options:
            require_finite(name, getattr(options, name))
            require_positive(name, getattr(options, name))


def _average(options: argparse.Namespace):
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


def read_rows(
    options: argparse.Namespace, split_key, weights_key
) -> tuple[jaxdp.FixedFeatures, NumericTable, list[str] | None]:
    """The table as a problem, as it was read, and its classes, in the order of the labels.

    Fills in how many rows are trained on and held out.

    Args:
        options: `data`, `target`, `drop`, `drop_constant`, `header`, `loss`, `num_features`,
            `activation`.
        split_key: of the split.
        weights_key: of the weights of random features.

    Raises:
        ValueError: the table cannot be used, or does not have that many rows.
    """
    is_of_numbers = options.loss == "squared"
    table = read_table(
        options.data,
        options.target,
        drop=listed_names(options.drop),
        drop_constant=options.drop_constant,
        header=options.header,
        is_text_label=not is_of_numbers,
    )
    if options.num_features is not None:
        sizes = len(table.labels), options.num_features
        check_sizes(the_features=sizes, the_weights=(options.num_features, table.inputs.shape[1]))
    train, test = _split(options, len(table.labels), split_key)
    inputs = column_scaling(table.inputs[train], floor=0.0)(table.inputs)
    if options.num_features is not None:
        inputs = _random_features(inputs, options, weights_key)
    features = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    features /= np.sqrt(features.shape[1])
    if is_of_numbers:
        labels, classes, loss = table.labels, None, jaxdp.losses.Squared()
        spread = labels[train].std()
        if not spread > 0:
            raise ValueError(
                f"{options.data}: the target {table.label_name!r} never varies in the training rows"
            )
        labels = (labels - labels[train].mean()) / spread
    else:
        labels, classes = _classes(options, table)
        loss = jaxdp.losses.Softmax(len(classes))
        if options.loss == "logistic":
            labels, loss = 2 * labels - 1, jaxdp.losses.Logistic()
    problem = jaxdp.FixedFeatures.from_arrays(
        features[train], labels[train], features[test], labels[test], loss=loss
    )
    return problem, table, classes


def _split(options: argparse.Namespace, rows: int, key) -> tuple[np.ndarray, np.ndarray]:
    """Places of the rows to train on, and of those held out."""
    output.settle(options, {"num_test": max(1, rows // 5)})
    require_count("num_test", options.num_test)
    output.settle(options, {"num_train": max(1, rows - options.num_test)})
    require_count("num_train", options.num_train)
    if options.num_train + options.num_test > rows:
        raise ValueError(
            f"expected --num-train and --num-test of {rows} rows together at most, got "
            f"{options.num_train} and {options.num_test}"
        )
    test, train, _ = np.split(
        np.asarray(jax.random.permutation(key, rows)),
        [options.num_test, options.num_test + options.num_train],
    )
    return train, test


def _classes(options: argparse.Namespace, table: NumericTable) -> tuple[np.ndarray, list[str]]:
    """The number of each row's class, and what the classes are called: labels as written."""
    numbers = as_numbers(table.labels)
    values, first, labels = np.unique(
        table.labels if np.isnan(numbers).any() else numbers, return_index=True, return_inverse=True
    )
    where = (
        f"in the target {table.label_name!r} for --loss {options.loss}, got {len(values)} values"
    )
    if options.loss == "logistic" and len(values) != 2:
        raise ValueError(
            f"{options.data}: expected two classes {where}; --loss softmax is for more"
        )
    if len(values) > _MOST_CLASSES:
        raise ValueError(
            f"{options.data}: expected at most {_MOST_CLASSES} classes {where}; --loss squared is "
            "for numbers"
        )
    names = table.labels[first]
    return labels, [name if isinstance(name, str) else f"{name:g}" for name in names]


def _random_features(inputs: np.ndarray, options: argparse.Namespace, key) -> np.ndarray:
    """phi(V x), of mean square 1 where x is normal."""
    activation, dim = activation_named(options.activation), inputs.shape[1]
    weights = np.asarray(jax.random.normal(key, (options.num_features, dim)), np.float64)
    features = np.asarray(activation(inputs @ (weights / np.sqrt(dim)).T), np.float64)
    return features / np.sqrt(mean_square(activation))


def _algorithm(options: argparse.Namespace, problem, average) -> jaxdp.PrivateOptimiser:
    rows, loss = problem.num_train, problem.loss
    makers: dict[str, Any] = {"sgd": optax.sgd, "adam": optax.adam}
    if "momentum" in options:
        is_nesterov = options.optimiser == "nesterov"
        makers[options.optimiser] = functools.partial(
            optax.sgd, momentum=options.momentum, nesterov=is_nesterov
        )
    # Half of what is stable for any rows of mean square norm 1; momentum adds up to
    # 1/(1 - momentum) times the step.
    rate = (1 - getattr(options, "momentum", 0.0)) / loss.curvature_bound
    if options.optimiser == "adam":
        rate = _REACH_OF_ADAM / options.num_steps
    # Half the root mean square norm of a gradient at theta = 0, for targets of variance 1.
    slopes = {"squared": 2.0, "logistic": 0.5}
    slope = slopes.get(options.loss) or math.sqrt(1 - 1 / loss.num_classes)
    output.settle(options, {"learning_rate": rate, "clip_norm": slope / 2})
    return jaxdp.PrivateOptimiser.calibrated(
        makers[options.optimiser],
        options.epsilon,
        options.delta,
        learning_rate=options.learning_rate,
        clip_norm=options.clip_norm,
        num_steps=options.num_steps,
        # Full batches are accounted for with one record replaced; a Poisson rate of one is not.
        sampler=ShuffledEpochs(rows, rows)
        if options.sampling_rate == 1
        else PoissonSampler(rows, options.sampling_rate),
        average=average,
    )


def _beside(problem, simulated, predicted) -> dict[str, Any]:
    """Quantities besides the risk, simulated and predicted."""
    found: dict[str, Any] = {}
    for name in ("accuracy", "train_risk", "clipped_fraction"):
        if name in predicted.observables:
            found[name] = {
                "simulated": float(simulated.observables[name][:, -1].mean()),
                "predicted": float(predicted.observables[name][-1]),
            }
    if predicted.std is not None:
        spread = float(simulated.final_risk.std(ddof=1)) if len(simulated.final_risk) > 1 else None
        found["spread"] = {"simulated": spread, "predicted": float(predicted.std[-1])}
    if problem.loss.num_outputs is None and "accuracy" not in predicted.observables:
        found["least_squares_risk"] = problem.interpolator_risk()
    return found


def _heading(options: argparse.Namespace, described: str, numbers: dict[str, Any]) -> list[str]:
    """The lines above the table."""
    kind = "" if options.num_features is None else f" by {options.activation} features"
    scaled = "columns and target" if numbers["classes"] is None else "columns"
    lines = [
        f"{options.data.stem}: {described}; test losses ({options.loss})",
        f"target: {output.named(numbers['target'])}; inputs: {output.listed(numbers['inputs'])}",
        f"{numbers['num_train']} rows trained on, {numbers['num_test']} held out; "
        f"{numbers['dim']} weights{kind}, one of them the intercept",
        f"learning rate {options.learning_rate:.4g}, clip norm {options.clip_norm:.4g} (rows have "
        f"mean square norm 1), noise multiplier {numbers['noise_multiplier']:.4g}",
        f"{scaled} are standardised by the training rows, non-privately: a study, not a release",
    ]
    if numbers["classes"] is not None:
        lines.append(f"classes: {', '.join(numbers['classes'][:_MOST_NAMED])}")
    if options.optimiser == "adam":
        lines.append("Adam is predicted at its end: while the loss falls the closure is too high")
    if "least_squares_risk" in numbers:
        lines.append(f"without privacy: {numbers['least_squares_risk']:.5f} (least squares)")
    for name, words in {
        "accuracy": "test accuracy",
        "clipped_fraction": "clipped gradients",
        "spread": "standard deviation over runs",
    }.items():
        both = numbers.get(name, {"simulated": None})
        if both["simulated"] is not None:
            lines.append(
                f"{words}: {both['simulated']:.4g} simulated, {both['predicted']:.4g} predicted"
            )
    return lines
