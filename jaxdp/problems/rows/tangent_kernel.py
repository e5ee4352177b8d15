r"""The kernel of a network's tangent features, for any model that can be differentiated.

The features of a row are the gradients of its predictions. For k outputs the kernel is the *trace
kernel* $\frac1k\sum_c \nabla f_c(x)^\top\nabla f_c(x')$, which treats the outputs as independent.
Gradients of a weight matrix that is used once are outer products $u v^\top$; their inner products
are $(u^\top u')(v^\top v')$, which need no memory of the matrix's size. Outer products are
recognised by their numbers, in any layer.
"""

import functools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision
from jaxtyping import Array, Float, Int, PyTree

from jaxdp.core.checks import is_on_accelerator
from jaxdp.problems.rows.linearised import BLOCK_ROWS, Linearised, blocks_of

# Largest share of a gradient's square outside of an outer product.
_DEFECT = 1e-5
# Rows that decide which gradients are outer products.
_LOOKED_AT = 8


class TangentKernel(NamedTuple):
    """Inner products of tangent features, on the host."""

    train: Float[np.ndarray, "train train"]  # of two training rows
    cross: Float[np.ndarray, "test train"]  # of a test row and a training row
    test_squares: Float[np.ndarray, " test"]  # of each test row with itself

    def average(self, other: "TangentKernel") -> "TangentKernel":
        """The mean of two kernels of the same rows."""
        pairs = zip(self, other, strict=True)
        return TangentKernel(*((one + two) / 2 for one, two in pairs))


class _Features(NamedTuple):
    """Tangent features of rows: those kept whole, and the two sides of each outer product."""

    whole: Array
    sides: list[tuple[Array, Array]]


def tangent_kernel(problem: Linearised, weights: PyTree[Array] | None = None) -> TangentKernel:
    """The kernel of the model's tangent features at given weights, by default the problem's own.

    Exact for any model, to the rounding of the weights' type. Work is n (n + m) times the numbers
    kept for a row, for each output. MemoryError, before any work, if memory does not suffice.
    """
    weights = problem.weights if weights is None else weights
    outer = _outer_leaves(problem, weights)
    require_memory(problem, outer)
    outputs = range(problem.loss.num_outputs or 1)
    parts = [_of_output(problem, weights, jnp.asarray(output), outer) for output in outputs]
    if not all(is_exact for _, is_exact in parts):
        # Some row's gradient is not an outer product.
        outer = (False,) * len(outer)
        require_memory(problem, outer)
        parts = [_of_output(problem, weights, jnp.asarray(output), outer) for output in outputs]
    kernels = [kernel for kernel, _ in parts]
    pairs = zip(*kernels, strict=True)
    return TangentKernel(*(np.asarray(sum(each) / len(kernels)) for each in pairs))


def _of_output(problem, weights, output, outer) -> tuple[TangentKernel, bool]:
    """The kernel of one output, and whether all assumed outer products are outer products."""
    find = functools.partial(_features, problem, weights, output=output, outer=outer)
    found = [find(rows) for rows in blocks_of(problem.inputs)]
    defects = [defect for _, defect in found]
    train = jax.tree.map(lambda *blocks: jnp.concatenate(blocks), *(block for block, _ in found))
    del found
    cross, squares = [], []
    for rows in blocks_of(problem.test_inputs):
        block, defect = find(rows)
        defects.append(defect)
        cross.append(_products(block, train))
        squares.append(np.asarray(_squares(block)))
    kernel = TangentKernel(_products(train, train), np.concatenate(cross), np.concatenate(squares))
    return kernel, max(map(float, defects)) <= _DEFECT


def require_memory(problem: Linearised, outer: Sequence[bool]) -> None:
    """Raise MemoryError if the kernel takes more memory than the machine has."""
    n, m, leaves = problem.num_train, problem.num_test, jax.tree.leaves(problem.weights)
    pairs = zip(leaves, outer, strict=True)
    kept = sum(sum(leaf.shape) if is_outer else leaf.size for leaf, is_outer in pairs)
    numbers = n * kept + 2 * BLOCK_ROWS * problem.num_weights + 2 * m * n + 2 * n * n
    # Kernels are kept, averaged and decomposed: six of them, half in float64.
    needed = 4 * (numbers + 12 * n * n)
    there_is = memory_of_machine()
    if needed > there_is:
        raise MemoryError(
            f"expected a tangent kernel that fits into memory, {there_is / 2**30:.1f} GiB, got one "
            f"of {n} training and {m} test rows and {problem.num_weights} weights, about "
            f"{needed / 2**30:.1f} GiB: give fewer rows, or train fewer weights (trainable=)"
        )


def memory_of_machine() -> float:
    """Bytes of memory; infinite if the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _outer_leaves(problem: Linearised, weights: PyTree[Array]) -> tuple[bool, ...]:
    """Which weights' gradients are outer products at the first rows, and smaller as such."""
    leaves = jax.tree.leaves(weights)
    rows = problem.inputs[:_LOOKED_AT]
    gradients = _gradients(problem, weights, rows, jnp.asarray(0))
    return tuple(
        leaf.ndim == 2 and 2 * sum(leaf.shape) < leaf.size and float(_sides(gradient)[2]) <= _DEFECT
        for leaf, gradient in zip(leaves, gradients, strict=True)
    )


@eqx.filter_jit
def _gradients(problem: Linearised, weights, rows, output) -> list[Array]:

    def one(row):
        return jax.grad(lambda at: jnp.ravel(problem.prediction(at, row))[output])(weights)

    return jax.tree.leaves(jax.vmap(one)(rows))


@eqx.filter_jit
def _features(
    problem: Linearised,
    weights: PyTree[Array],
    rows: Float[Array, " rows *shape"],
    *,
    output: Int[Array, ""],
    outer: tuple[bool, ...],
) -> tuple[_Features, Array]:
    gradients = _gradients(problem, weights, rows, output)
    pairs = list(zip(gradients, outer, strict=True))
    whole = [leaf.reshape(len(rows), -1) for leaf, is_outer in pairs if not is_outer]
    nothing = jnp.zeros((len(rows), 0), gradients[0].dtype)
    found = [_sides(leaf) for leaf, is_outer in pairs if is_outer]
    defect = functools.reduce(jnp.maximum, [one[2] for one in found], jnp.zeros(()))
    sides = [(left, right) for left, right, _ in found]
    return _Features(jnp.concatenate([nothing, *whole], axis=1), sides), defect


def _sides(matrices: Float[Array, "rows out inner"]) -> tuple[Array, Array, Array]:
    r"""u and v of matrices $u v^\top$, and the largest share of a square that is left out."""
    lengths = jnp.sum(matrices**2, axis=2)
    right = jnp.take_along_axis(matrices, jnp.argmax(lengths, axis=1)[:, None, None], axis=1)[:, 0]
    size = jnp.sum(right**2, axis=1)
    left = jnp.einsum("noi,ni->no", matrices, right, precision=Precision.HIGHEST)
    left = left / jnp.where(size > 0, size, 1)[:, None]
    # A sum of squares, which does not cancel as a difference of squares would.
    rest = jnp.sum((matrices - left[:, :, None] * right[:, None]) ** 2, axis=(1, 2))
    total = jnp.sum(lengths, axis=1)
    return left, right, jnp.max(rest / jnp.where(total > 0, total, 1))


def _products(left: _Features, right: _Features) -> np.ndarray:
    total = _matrix(left.whole, right.whole)
    for (one, two), (other, another) in zip(left.sides, right.sides, strict=True):
        total += _matrix(one, other) * _matrix(two, another)
    return total


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
