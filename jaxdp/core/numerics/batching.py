"""Batches under `vmap` that would be slow or deadlock: matrices in turn, cells side by side.

JAX computes decompositions and triangular solves on a CPU by LAPACK. For a batch, jaxlib 0.10 hands
the matrices to the program's own threads, one of which waits for them. With as many such batches
under way as threads, all threads wait and the program never ends (docs/known_faults.md). On CPUs a
batch is therefore a loop over its matrices here, with bit-identical results in about the time of
one thread; on GPUs and TPUs it stays one operation. All decompositions and solves of jaxdp go
through this module (test_architecture).
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
    """A function of single matrices that, under `vmap` on a CPU, loops over them.

    Its derivatives are those of `function`: under `vmap` they are batches again, so a function that
    is differentiated inside a program needs its own rule, as `cholesky` has.
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
    r"""The lower Cholesky root L of positive definite matrices, $LL^\top$; NaN if not definite.

    Its derivative is $\dot L = L\,\Phi(L^{-1}\dot A L^{-\top})$, $\Phi$ being the lower triangle
    with half of the diagonal: products and an inverse that is not differentiated, so that batches
    of derivatives are safe too. Derived: test_roots_and_their_derivatives.
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
    """The solution $A^{-1}b$ for a positive definite A, by Cholesky."""

    def solve(matrix, right):
        return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(matrix), right)

    return one_at_a_time(solve)(matrix, right)


def _over_leading_axes(function, matrices):
    flat = matrices.reshape(-1, *matrices.shape[-2:])
    found = jax.vmap(one_at_a_time(function))(flat)
    return found.reshape(*matrices.shape[:-2], *found.shape[-2:])


def inverse_of_lower(root: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The inverse of one lower triangular matrix."""
    identity = jnp.eye(len(root), dtype=root.dtype)
    return jax.scipy.linalg.solve_triangular(root, identity, lower=True)


def side_by_side(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of one cell (an element of a batch), which `vmap` computes for all together.

    `function` takes trees of arrays whose leading axis runs over the cells, or has length 1 if all
    cells share a value, and returns trees with all cells along their leading axis. `vmap`, also
    nested, lays all cells along one axis, which keeps the innermost loops of the compiled code
    long. The function must not close over traced values.
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
