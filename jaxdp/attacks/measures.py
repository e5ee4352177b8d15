"""Measures of a reconstruction, in float64 on the host. Source: DR (12), (167) and Section 5."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Float, Int

from jaxdp.attacks.base import AbstractTarget
from jaxdp.core.checks import host_array, require_kind
from jaxdp.core.numerics.precision import in_float64

# Features of all rows that are held in memory at once.
_BLOCK_FEATURES = 16384
# Smallest singular value, relative to the largest, of linearly independent features.
_INDEPENDENT = 1e-12


def matching(
    true_inputs: Float[Any, "n dim"],
    found_inputs: Float[Any, "n dim"],
    *,
    allow_sign_flips: bool = False,
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """The assignment of found rows to true ones with the least sum of distances.

    As in DR (12), the distances are not squared: squares prefer two half-wrong rows to a wrong one.

    Args:
        true_inputs, found_inputs: (n, d), finite and not empty.
        allow_sign_flips: whether each pair takes the sign that brings it closer. DR Section 5 says
            that the error is maximised over signs; that would give 1.44 for a perfect
            reconstruction of natural images, so minimised must be meant.

    Returns:
        `order`, (n,), and `signs`, (n,), 1 or -1 (all 1 unless flips are allowed), such that
        `signs[:, None] * found_inputs[order]` corresponds to `true_inputs`.

    Raises:
        ValueError: the shapes differ, are not those of matrices, or something is not finite.

    Example:
        >>> from jaxdp.attacks import matching
        >>> matching([[1.0], [2.0]], [[-2.0], [1.0]], allow_sign_flips=True)
        (array([1, 0]), array([ 1., -1.]))
    """
    true, found = _pair(true_inputs, found_inputs)
    # By differences, because inner products would lose small distances.
    distances = _distances(true, found)
    costs = distances
    if allow_sign_flips:
        flipped = _distances(true, -found)
        costs = np.minimum(distances, flipped)
    rows, order = scipy.optimize.linear_sum_assignment(costs)
    signs = np.where(costs[rows, order] < distances[rows, order], -1.0, 1.0)
    return order, signs


def row_errors(
    true_inputs: Float[Any, "n dim"],
    found_inputs: Float[Any, "n dim"],
    *,
    allow_sign_flips: bool = False,
) -> Float[np.ndarray, " n"]:
    r"""Distances of the true rows to their found ones, $|x_i - \hat x_{\pi(i)}| / \sqrt d$.

    0 for a row that was found, about $\sqrt 2$ for an independent one on the sphere.

    Args:
        true_inputs, found_inputs, allow_sign_flips: the arguments of `matching`.

    Returns:
        An error for each true row, (n,).

    Example:
        >>> from jaxdp.attacks import row_errors
        >>> row_errors([[2.0, 0.0], [0.0, 2.0]], [[0.0, 2.0], [2.0, 0.0]]).tolist()
        [0.0, 0.0]
    """
    order, signs = matching(true_inputs, found_inputs, allow_sign_flips=allow_sign_flips)
    true, found = np.asarray(true_inputs, np.float64), np.asarray(found_inputs, np.float64)
    difference = true - signs[:, None] * found[order]
    return np.linalg.norm(difference, axis=1) / np.sqrt(true.shape[1])


def reconstruction_error(
    true_inputs: Float[Any, "n dim"],
    found_inputs: Float[Any, "n dim"],
    *,
    allow_sign_flips: bool = False,
) -> float:
    r"""The mean of `row_errors`, $\rho = \min_\pi \sum_i |x_i - \hat x_{\pi(i)}|/(n\sqrt d)$.

    For independent rows it is somewhat below $\sqrt 2$, because the assignment is chosen: 1.384 for
    100 rows of 3072 numbers. Source: DR (12).

    Args:
        true_inputs, found_inputs, allow_sign_flips: the arguments of `matching`.

    Returns:
        The mean distance.

    Example:
        >>> from jaxdp.attacks import reconstruction_error
        >>> reconstruction_error([[1.0], [2.0]], [[2.0], [1.5]])
        0.25
    """
    errors = row_errors(true_inputs, found_inputs, allow_sign_flips=allow_sign_flips)
    return float(errors.mean())


def span_residual(
    true_inputs: Float[Any, "n dim"], found_inputs: Float[Any, "n dim"], target: AbstractTarget
) -> float:
    r"""The distance of true features from the span of the found ones, per feature and row.

    $\frac1{n\sqrt p}\sum_i |P^\perp_{\hat\Phi}\,\varphi(x_i)|$, which is 0 for p <= n independent
    features. Source: DR (167), here for networks too. Features are never in memory whole: one
    triangular factor is updated block by block, in float64 (on the host if the device has none).

    Args:
        true_inputs, found_inputs: (n, d), in any order.
        target: target that defines the features; its parameters are not used.

    Returns:
        The mean over the rows; 0 if the found features span the true ones.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import RandomFeaturesTarget, span_residual
        >>> rows, weights = np.eye(3)[:2], np.random.default_rng(0).normal(size=(40, 3))
        >>> target = RandomFeaturesTarget(weights, jax.nn.relu, np.ones(40))
        >>> span_residual(rows, rows[::-1], target) < 1e-6 < span_residual(rows, -rows, target)
        True
    """
    require_kind("target", target, AbstractTarget, "a target, such as RandomFeaturesTarget")
    true, found = _pair(true_inputs, found_inputs)
    if true.shape[1] != target.dim:
        raise ValueError(
            f"expected rows of length {target.dim}, as the target's inputs, got {true.shape[1]}"
        )
    count = len(true)
    upper = np.zeros((0, 2 * count))
    for features in _feature_blocks(target, np.concatenate([found, true])):
        stacked: Any = np.linalg.qr(np.concatenate([upper, features.T]), mode="r")
        upper = stacked
    # Duplicates among the found rows leave directions that are rounding only.
    basis, lengths, _ = np.linalg.svd(upper[:, :count], full_matrices=False)
    basis = basis[:, lengths > _INDEPENDENT * max(lengths[0], np.finfo(float).tiny)]
    others = upper[:, count:]
    left = others - basis @ (basis.T @ others)
    return float(np.linalg.norm(left, axis=0).mean() / np.sqrt(target.num_features))


def _feature_blocks(target, inputs) -> Iterator[Float[np.ndarray, "rows features"]]:
    with in_float64():
        wide, rows = target.widened().in_blocks(_BLOCK_FEATURES), jnp.asarray(inputs, jnp.float64)
    for index in range(wide.num_blocks):
        # Entered for each block, because the caller runs between two of them.
        with in_float64():
            features = np.asarray(_block_features(wide, jnp.asarray(index), rows))
        yield features


@eqx.filter_jit
def _block_features(target, index, inputs):
    return target.block(index).features(inputs)


def _pair(true_inputs: Any, found_inputs: Any):
    true, found = _rows("true_inputs", true_inputs), _rows("found_inputs", found_inputs)
    if true.shape != found.shape:
        raise ValueError(
            f"expected as many found rows as true ones and of the same length, got "
            f"{found.shape} and {true.shape}"
        )
    return true, found


def _rows(name: str, value: Any) -> Float[np.ndarray, "n dim"]:
    rows = host_array(name, value)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"expected {name} of shape (n, dim), not empty, got {rows.shape}")
    if not np.isfinite(rows).all():
        count = int((~np.isfinite(rows)).sum())
        raise ValueError(f"expected finite {name}, got {count} entries that are not")
    return rows


def _distances(true, found) -> Float[np.ndarray, "n n"]:
    return np.stack([np.linalg.norm(found - row, axis=1) for row in true])
