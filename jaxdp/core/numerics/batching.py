r"""Batches under `vmap` that would be slow or lock up: one matrix at a time, cells side by side.

JAX computes decompositions and triangular solves on a CPU by LAPACK. For a batch, jaxlib 0.10 hands
the matrices to the threads that the program itself runs on, and one of these threads waits until
they are done. If a program has as many such batches under way as there are threads (two on two
cores: those of training rows and of test rows), all threads wait and none is left to compute: the
program never ends (docs/known_faults.md). A single matrix is decomposed by the thread that asks for
it. On CPUs a batch is therefore a loop over its matrices here, with the same results to the bit, in
about the time that one thread needs; on GPUs and TPUs a batch stays one operation. No other module
of jaxdp calls `jnp.linalg` or `jax.scipy.linalg` for a decomposition or a solve: test_architecture
looks.

`jax.vmap` puts a new axis in front of each array. If an element of the batch, here called a cell,
has only a few numbers, the innermost loops of the compiled code are then short and slow. The
function that `side_by_side` makes looks like a function of one cell; under `vmap`, also under
several, all cells are laid side by side along one axis and computed together, which keeps those
loops long.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from jaxdp.core.numerics.precision import product


def one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of single matrices that may be vmapped, and then loops over them on a CPU.

    Derivatives are those of `function` itself: vmapped, they are batches again, so that what is
    differentiated inside a program needs a rule of its own, as `cholesky` has.
    """

    @jax.custom_batching.custom_vmap
    def single(*values):
        return function(*values)

    @single.def_vmap
    def batched(size, is_batched, *values):
        def in_turn(*values):
            own = [value for value, has_axis in zip(values, is_batched, strict=True) if has_axis]

            def one(own):
                rest = iter(own)
                pairs = zip(values, is_batched, strict=True)
                return single(*(next(rest) if has_axis else value for value, has_axis in pairs))

            return lax.map(one, own)

        axes = tuple(0 if has_axis else None for has_axis in is_batched)
        found = lax.platform_dependent(*values, cpu=in_turn, default=jax.vmap(function, axes))
        return found, jax.tree.map(lambda _: True, found)

    # JAX differentiates no function with a batching rule in reverse.
    differentiable = jax.custom_jvp(single)

    @differentiable.defjvp
    def derivative(primals, tangents):
        return jax.jvp(function, primals, tangents)

    return differentiable


@jax.custom_jvp
def cholesky(matrix: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    r"""Cholesky's lower root L of positive definite matrices, $LL^\top$; NaN where one is not.

    Its derivative is $\dot L = L\,\Phi(L^{-1}\dot A L^{-\top})$, $\Phi$ being the lower triangle
    with half of the diagonal, in products of matrices and an inverse that is not differentiated, so
    that batches of derivatives are safe too. Derived: test_roots_and_their_derivatives.
    """
    return _over_leading_axes(jnp.linalg.cholesky, matrix)


@cholesky.defjvp
def _cholesky_derivative(primals, tangents):
    ((matrix,), (change,)) = primals, tangents
    root = cholesky(matrix)
    inverse = _over_leading_axes(inverse_of_lower, root)
    # JAX gives LAPACK the symmetric part of a matrix that is not symmetric.
    change = (change + jnp.swapaxes(change, -1, -2)) / 2
    moved = product(product(inverse, change), jnp.swapaxes(inverse, -1, -2))
    half = jnp.tril(moved) - jnp.eye(matrix.shape[-1], dtype=matrix.dtype) * moved / 2
    return root, product(root, half)


def solve_positive(matrix: Float[Array, "n n"], right: Float[Array, "n ..."]) -> Array:
    r"""The solution $A^{-1}b$ for a positive definite A, by Cholesky."""
    return one_at_a_time(_solve_positive)(matrix, right)


def _solve_positive(matrix, right):
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(matrix), right)


def _over_leading_axes(function, matrices):
    flat = matrices.reshape(-1, *matrices.shape[-2:])
    found = jax.vmap(one_at_a_time(function))(flat)
    return found.reshape(*matrices.shape[:-2], *found.shape[-2:])


def inverse_of_lower(root: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The inverse of one lower triangular matrix."""
    identity = jnp.eye(len(root), dtype=root.dtype)
    return jax.scipy.linalg.solve_triangular(root, identity, lower=True)


def side_by_side(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of one cell, which `vmap` computes for all cells together.

    `function` takes trees of arrays whose leading axis runs over the cells, or has length 1 where
    all cells share a value, and returns a tree of arrays, with all cells along their leading axis.
    The function must not close over traced values.
    """

    @custom_vmap
    def many(*arguments):
        return function(*arguments)

    @many.def_vmap
    def _(size, is_batched, *arguments):
        is_batched = tuple(is_batched)
        before = jax.tree.map(lambda leaf, new: leaf.shape[int(new)], arguments, is_batched)
        cells = max(jax.tree.leaves(before))

        def merge(leaf, new):
            if not new and len(leaf) == 1:
                return leaf
            full = jnp.broadcast_to(leaf, (size, cells, *leaf.shape[1 + int(new) :]))
            return full.reshape(size * cells, *full.shape[2:])

        results = many(*jax.tree.map(merge, arguments, is_batched))
        results = jax.tree.map(lambda leaf: leaf.reshape(size, cells, *leaf.shape[1:]), results)
        return results, jax.tree.map(lambda _: True, results)

    def one_of(many):
        def one(*arguments):
            results = many(*jax.tree.map(lambda leaf: leaf[None], arguments))
            return jax.tree.map(lambda leaf: leaf[0], results)

        return one

    one = jax.custom_jvp(one_of(many))
    # A function with its own rule for batches has no derivative in reverse; the plain one has.
    one.defjvp(lambda primals, tangents: jax.jvp(one_of(function), primals, tangents))
    return one
