"""Checks of rows, labels and losses for features on fixed rows."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import require_finite, require_kind, require_shape
from jaxdp.losses import AbstractLoss, Squared

# Of a problem whose loss is not named.
SQUARED = Squared()


def wide_array(name: str) -> Callable[[Any], Array]:
    """A field's converter to an array, whose errors use this name."""
    return functools.partial(as_wide_float, name=name)


def are_finite(tree: Any) -> Bool[Array, ""]:
    """Whether all real numbers in a pytree are finite, traced ones too."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()


def require_loss(loss: Any) -> None:
    require_kind("loss", loss, AbstractLoss, "one of jaxdp.losses such as Squared()")


def require_arrays(train: tuple[str, Any, Any], test: tuple[str, Any, Any]) -> None:
    """Raise ValueError unless rows and labels, by (name, rows, labels), fit together."""
    columns = None
    for kind, (name, rows, labels) in (("train", train), ("test", test)):
        require_shape(name, rows, (None, columns))
        count, columns = rows.shape
        require_shape(f"{kind}_labels", labels, (count,))
    for name, rows, _ in (train, test):
        require_filled(name, rows)


def require_filled(name: str, values: Any) -> None:
    """Raise ValueError unless an array has entries, and all of them are finite."""
    require_finite(name, values)
    if 0 in values.shape:
        raise ValueError(f"expected a non-empty {name}, got shape {values.shape}")


def require_labels(problem: Any) -> None:
    """Raise unless all labels are valid for the problem's loss; traced ones pass."""
    problem.loss.require_labels("train_labels", problem.train_labels)
    problem.loss.require_labels("test_labels", problem.test_labels)


def reason_not_squared(problem: Any) -> str | None:
    """Why a result for the loss $(f - y)^2$ does not apply to the problem, or None."""
    if problem.loss.square_curvature == SQUARED.square_curvature:
        return None
    return f"it describes the squared loss, got {type(problem.loss).__name__}"


def require_rows_of_both(train_labels: Any, test_labels: Any) -> None:
    """Raise ValueError unless there is a training row and a test row."""
    for name, labels in (("training", train_labels), ("test", test_labels)):
        if not len(labels):
            raise ValueError(f"expected at least one {name} row, got none")
