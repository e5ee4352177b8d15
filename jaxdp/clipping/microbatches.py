"""Sums over a batch that is cut into microbatches, and these into blocks.

Where a sample goes depends on its place in the batch alone, never on data. So if one record is
replaced or masked out, only one block changes, as `sensitivity` needs.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from jaxdp.clipping.two_part_sum import TwoPartSum, add, blocks_of

# Arrays with a leading batch axis, the last of which says which samples count.
Batch = tuple[PyTree[Array], PyTree[Array], Array]


def in_microbatches(
    function: Callable[[Batch, int], tuple[dict[int, TwoPartSum], Array]], batch: Batch, size: int
) -> tuple[dict[int, TwoPartSum], Array]:
    """The sum of a function's first results over microbatches, and all of its second.

    Where a sample goes depends on its place and on the length of the batch, never on data.

    Args:
        function: of a microbatch and of the number of blocks that it is to be summed in.
        batch: samples, clip norms (or None) and mask.
        size: the most samples in a microbatch.
    """
    length = len(batch[-1])
    num_pieces = -(-length // min(size, length))
    num_blocks, block = blocks_of(-(-length // num_pieces))
    size = num_blocks * block
    missing = num_pieces * size - length
    samples, clip_norm, mask = batch
    if missing:
        # The last sample stands in for the missing ones, masked out.
        samples, clip_norm = jax.tree.map(
            lambda leaf: jnp.concatenate([leaf, jnp.repeat(leaf[-1:], missing, axis=0)]),
            (samples, clip_norm),
        )
        mask = jnp.concatenate([mask, jnp.zeros(missing, bool)])
    batch = samples, clip_norm, mask
    if num_pieces == 1:
        total, norms = function(batch, num_blocks)
        return total, norms[:length]
    pieced = jax.tree.map(lambda leaf: leaf.reshape(num_pieces, size, *leaf.shape[1:]), batch)

    def body(total: Any, piece: Batch):
        added, norms = function(piece, num_blocks)
        return {at: add(total[at], part) for at, part in added.items()}, norms

    shapes = jax.eval_shape(
        lambda piece: function(piece, num_blocks)[0], jax.tree.map(lambda p: p[0], pieced)
    )
    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    total, norms = lax.scan(body, start, pieced)
    return total, norms.ravel()[:length]
