r"""The kernel of a network's tangent features, for any model that can be differentiated.

The features of a row are the gradients of its predictions. For k outputs the kernel is the *trace
kernel* $\frac1k\sum_c \nabla f_c(x)^\top\nabla f_c(x')$, which treats the outputs as independent.
The gradient of a weight matrix in one product is an outer product $\delta_c x^\top$, and inner
products are $(\delta_c^\top\delta_c')(x^\top x')$: they need no memory of the matrix's size, and
the outputs share x. The ghost pass of `jaxdp.clipping` finds both sides.
"""

import os
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision
from jaxtyping import Array, Float, Int, PyTree

from jaxdp.clipping.ghost.ghost_pass import GhostPass
from jaxdp.clipping.ghost.ghosts import Kept, OuterProduct
from jaxdp.clipping.ghost.traced_loss import trace_loss
from jaxdp.core.arrays import float_dtype
from jaxdp.core.checks import is_on_accelerator
from jaxdp.problems.rows.linearised import BLOCK_ROWS, Linearised
from jaxdp.theory.features.modes import KernelModes

# Below this share of the largest eigenvalue, eigenvectors of a float32 kernel are rounding.
_LEAST = 1e-5


class TangentKernel(NamedTuple):
    """Inner products of tangent features, on the host."""

    train: Float[np.ndarray, "train train"]  # of two training rows
    cross: Float[np.ndarray, "test train"]  # of a test row and a training row
    test_squares: Float[np.ndarray, " test"]  # of each test row with itself


class _Features(NamedTuple):
    """Tangent features of rows for one output: those kept whole, and both sides of the others."""

    whole: Array
    sides: list[tuple[Array, Array]]  # x, which all outputs share, and the cotangents


def tangent_kernel(problem: Linearised, weights: PyTree[Array]) -> TangentKernel:
    """The kernel of the model's tangent features at given weights.

    Exact to the rounding of the weights' type. Work is n (n + m) times the numbers kept for a row.

    Raises:
        MemoryError: memory does not suffice; before any work.
        ValueError: a gradient is not finite.
    """
    _require_memory(problem, weights)
    train, test = (weights, problem.inputs), (weights, problem.test_inputs)
    squares = np.zeros(problem.num_test)
    for output in range(problem.loss.num_outputs or 1):
        squares += np.asarray(_squares(_features_of(problem, *test, output)))
    kernel = TangentKernel(
        products(problem, train, train),
        products(problem, test, train),
        squares / (problem.loss.num_outputs or 1),
    )
    if not all(np.isfinite(part).all() for part in kernel):
        raise ValueError(
            "expected a network with finite gradients at every row, got one whose gradient is not "
            "finite: scale the inputs or the initial weights down, and avoid functions without a "
            "derivative there, such as a root at zero"
        )
    return kernel


def products(
    problem: Linearised, left: tuple[PyTree[Array], Array], right: tuple[PyTree[Array], Array]
) -> Float[np.ndarray, "left right"]:
    """Inner products of the tangent features of two pairs of weights and rows."""
    count, total, grams = problem.loss.num_outputs or 1, 0.0, {}
    for output in range(count):
        one = _features_of(problem, *left, output)
        two = one if left is right else _features_of(problem, *right, output)
        total = total + _matrix(one.whole, two.whole)
        for place, ((x, by_x), (y, by_y)) in enumerate(zip(one.sides, two.sides, strict=True)):
            grams[place] = grams.get(place, 0.0) + _matrix(by_x, by_y)
            if output == count - 1:
                total += grams.pop(place) * _matrix(x, x if left is right else y)
    return np.asarray(total / count)


def _features_of(problem, weights, rows, output: int) -> _Features:
    blocks = (rows[first : first + BLOCK_ROWS] for first in range(0, len(rows), BLOCK_ROWS))
    found = [_features(problem, weights, one, jnp.asarray(output)) for one in blocks]
    return jax.tree.map(lambda *blocks: jnp.concatenate(blocks), *found)


@eqx.filter_jit
def _features(problem: Linearised, weights, rows, output: Int[Array, ""]) -> _Features:
    def of_output(weights, row, output):
        return jnp.ravel(problem.prediction(weights, row))[output]

    rows = rows, jnp.broadcast_to(output, len(rows))
    ghost_pass = GhostPass(trace_loss(of_output, weights, *rows), jax.tree.leaves(weights))
    _, captures, formed = ghost_pass.backward(rows)
    whole, sides = list(formed.values()), []
    for position, ghost in ghost_pass.ghosts.items():
        if isinstance(ghost, OuterProduct) and not ghost.axes.batch:
            sides.append(ghost.hold(captures[position]))
        else:
            whole.append(Kept(ghost.gradient).hold(captures[position]))
    nothing = jnp.zeros((len(rows[0]), 0), float_dtype(weights))
    whole, sides = jax.tree.map(lambda part: part.reshape(len(part), -1), (whole, sides))
    return _Features(jnp.concatenate([nothing, *whole], axis=1), sides)


def _matrix(left: Array, right: Array) -> np.ndarray:
    if is_on_accelerator(left):
        return np.array(jnp.matmul(left, right.T, precision=Precision.HIGHEST))
    # NumPy on a CPU computes half of a product of equal sides.
    one: Any = np.asarray(left)
    return one @ (one if left is right else np.asarray(right)).T


@jax.jit
def _squares(features: _Features) -> Array:
    total = jnp.sum(features.whole**2, axis=1)
    for left, right in features.sides:
        total += jnp.sum(left**2, axis=1) * jnp.sum(right**2, axis=1)
    return total


def _require_memory(problem: Linearised, weights: PyTree[Array]) -> None:
    """Raise MemoryError if the kernel takes more memory than the machine has."""
    n, m = problem.num_train, problem.num_test
    one = eqx.filter_eval_shape(_features, problem, weights, problem.inputs[:1], jnp.asarray(0))
    kept = sum(leaf.size for leaf in jax.tree.leaves(one))
    # Kernels are summed, kept, averaged and decomposed, in part in float64.
    needed = 4 * (2 * (n + m) * kept + 2 * m * n + (14 + len(one.sides)) * n * n)
    there_is = memory_of_machine()
    if needed > there_is:
        raise MemoryError(
            f"expected a tangent kernel that fits into memory, {there_is / 2**30:.1f} GiB, got one "
            f"of {n} training and {m} test rows with {kept} numbers kept of each, about "
            f"{needed / 2**30:.1f} GiB: give fewer rows, or train fewer weights (trainable=)"
        )


def memory_of_machine() -> float:
    """Bytes of memory; infinite if the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def tangent_modes(
    problem: Linearised,
    kernel: TangentKernel,
    norms: Float[Array, " train"],
    count: int,
    start: tuple[Array | None, Array | None] = (None, None),
) -> tuple[KernelModes, Float[np.ndarray, "train modes"]]:
    r"""At most `count` leading modes of a kernel $UwU^\top$ of a problem's rows, and $Uw^{-1/2}$.

    The modes have the rest's norms too. `norms` are those of the training rows' gradients, on which
    they are clipped, and `start` predictions of training and test rows.
    """
    from scipy.linalg import eigh

    size = problem.num_train
    leading = size - min(count, size), size - 1
    found = eigh(kernel.train.astype(np.float64), subset_by_index=leading)
    values, vectors = (part[..., ::-1] for part in found)
    # Modes below rounding belong to the rest; zeros in their places keep the compiled shapes.
    values = np.where(values > _LEAST * values[0], values, 0)
    roots = np.sqrt(values)
    basis = vectors / np.where(roots > 0, roots, np.inf)
    factor, test_factor = vectors * roots, kernel.cross @ basis
    # Rounding may leave a small rest negative.
    train_rest = np.maximum(np.diagonal(kernel.train) - (factor**2).sum(axis=1), 0)
    test_rest = np.maximum(kernel.test_squares - (test_factor**2).sum(axis=1), 0)
    dtype = float_dtype(problem.train_labels, norms)
    modes = KernelModes(
        eigenvalues=jnp.asarray(values, dtype),
        factor=jnp.asarray(factor, dtype),
        pull=jnp.asarray(factor.T @ np.asarray(problem.train_labels), dtype),
        test_factor=jnp.asarray(test_factor, dtype),
        feature_norms=norms.astype(dtype),
        train_labels=problem.train_labels,
        test_labels=problem.test_labels,
        is_valid=problem.is_valid,
        loss=problem.loss,
        # Norms suffice for means of losses; a spread would need the correlation of rows.
        unseen_factor=jnp.asarray(np.sqrt(test_rest)[:, None], dtype),
        train_start=start[0],
        test_start=start[1],
        train_unseen=jnp.asarray(train_rest, dtype),
    )
    return modes, basis
