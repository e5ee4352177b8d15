"""The rows of a table as a problem: split, scaled, and turned into features.

The scaling is that of a study and not of a release: it reads the training rows without privacy.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np

from jaxdp.cli.declared import listed_names
from jaxdp.cli.sizes import check_sizes
from jaxdp.data.datasets import NumericTable, read_table
from jaxdp.data.standardisation import column_scaling
from jaxdp.data.table_files import as_numbers

_MOST_CLASSES = 100


class TableRows(NamedTuple):
    """A problem of a table's rows, and what is said of it.

    Attributes:
        problem: a `FixedFeatures`.
        table: as it was read.
        classes: the two or more values of the target, in the order of the labels; or None.
    """

    problem: Any
    table: NumericTable
    classes: list[str] | None


def read_rows(options: argparse.Namespace, split_key, weights_key) -> TableRows:
    """Read the table, hold rows out, and make features; fills in how many rows there are of each.

    The columns get mean 0 and variance 1 on the training rows, and so does a target of numbers. A
    row is then divided by the root of its number of columns, a column of ones included, so that
    |phi|^2 has mean 1 over the training rows; with random features, over normal inputs.

    Args:
        options: `data`, `target`, `drop`, `drop_constant`, `header`, `loss`, `num_features`,
            `activation`.
        split_key: of the split.
        weights_key: of the weights of random features.

    Raises:
        ValueError: the table cannot be used, or does not have that many rows.
    """
    import jaxdp

    is_of_numbers = options.loss == "squared"
    table = read_table(
        options.data,
        options.target,
        drop=listed_names(options.drop),
        drop_constant=options.drop_constant,
        header=getattr(options, "header", None),
        is_text_label=not is_of_numbers,
    )
    if options.num_features is not None:
        sizes = len(table.labels), options.num_features
        check_sizes(the_features=sizes, the_weights=(options.num_features, table.inputs.shape[1]))
    train, test = _split(options, len(table.labels), split_key)
    scaling = column_scaling(table.inputs[train], floor=0.0)
    features = _features(scaling(table.inputs), options, weights_key)
    if is_of_numbers:
        labels, classes = _standardised(options, table, train), None
        loss = jaxdp.losses.Squared()
    else:
        labels, classes = _classes(options, table)
        is_binary = options.loss == "logistic"
        loss = jaxdp.losses.Logistic() if is_binary else jaxdp.losses.Softmax(len(classes))
        labels = 2 * labels - 1 if is_binary else labels
    problem = jaxdp.FixedFeatures.from_arrays(
        features[train], labels[train], features[test], labels[test], loss=loss
    )
    return TableRows(problem, table, classes)


def _split(options: argparse.Namespace, rows: int, key) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are trained on, and which are held out."""
    import jax

    from jaxdp.cli.output import settle
    from jaxdp.core.checks import require_count

    settle(options, {"num_test": max(1, rows // 5)}, {})
    require_count("num_test", options.num_test)
    settle(options, {"num_train": max(1, rows - options.num_test)}, {})
    require_count("num_train", options.num_train)
    if options.num_train + options.num_test > rows:
        raise ValueError(
            f"expected --num-train and --num-test of {rows} rows together at most, got "
            f"{options.num_train} and {options.num_test}"
        )
    order = np.asarray(jax.random.permutation(key, rows))
    ends = options.num_test, options.num_test + options.num_train
    return order[ends[0] : ends[1]], order[: ends[0]]


def _standardised(options: argparse.Namespace, table: NumericTable, train: np.ndarray):
    """The target with mean 0 and variance 1 on the training rows."""
    spread = table.labels[train].std()
    if not spread > 0:
        raise ValueError(
            f"{options.data}: the target {table.label_name!r} never varies in the training rows"
        )
    return (table.labels - table.labels[train].mean()) / spread


def _classes(options: argparse.Namespace, table: NumericTable) -> tuple[np.ndarray, list[str]]:
    """The number of each row's class, and what the classes are called: labels as written."""
    numbers = as_numbers(table.labels)
    values, first, labels = np.unique(
        table.labels if np.isnan(numbers).any() else numbers, return_index=True, return_inverse=True
    )
    if options.loss == "logistic" and len(values) != 2:
        raise ValueError(
            f"{options.data}: expected two classes in the target {table.label_name!r} for "
            f"--loss logistic, got {len(values)} values; --loss softmax is for more"
        )
    if len(values) > _MOST_CLASSES:
        raise ValueError(
            f"{options.data}: expected at most {_MOST_CLASSES} classes in the target "
            f"{table.label_name!r} for --loss softmax, got {len(values)} values; --loss squared "
            "is for numbers"
        )
    names = table.labels[first]
    return labels, [name if isinstance(name, str) else f"{name:g}" for name in names]


def _features(inputs: np.ndarray, options: argparse.Namespace, key) -> np.ndarray:
    """Columns of mean square 1, a column of ones last, over the root of how many there are."""
    columns = inputs if options.num_features is None else _random_features(inputs, options, key)
    rows = np.concatenate([columns, np.ones((len(columns), 1))], axis=1)
    return rows / np.sqrt(rows.shape[1])


def _random_features(inputs: np.ndarray, options: argparse.Namespace, key) -> np.ndarray:
    """phi(V x), of mean square 1 where x is normal."""
    import jax.random as jr

    from jaxdp.cli.victims import activation_named
    from jaxdp.core.numerics.hermite import host_function, scaled_coefficients

    activation = activation_named(options.activation)
    dim = inputs.shape[1]
    weights = np.asarray(jr.normal(key, (options.num_features, dim)), np.float64) / np.sqrt(dim)
    _, (mean_square,) = scaled_coefficients(host_function(activation), np.array([1.0]), 1)
    return np.asarray(activation(inputs @ weights.T), np.float64) / np.sqrt(float(mean_square))
