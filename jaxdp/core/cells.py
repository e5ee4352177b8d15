"""Functions that are given a whole batch along one axis, however many `vmap`s made the batch.

`jax.vmap` puts a new axis in front of each array. Where an element of the batch, here called a
cell, has only a few numbers, the innermost loops of the compiled code are then short and slow. The
function that `side_by_side` makes looks like a function of one cell; under `vmap`, also under
several, all cells are laid side by side along one axis and computed together, which keeps those
loops long.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap


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
