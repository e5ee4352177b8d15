"""Sums over a batch that is cut into microbatches and into blocks, whichever are larger.

Where a sample goes depends on its place and on the length of the batch, never on data: if one
record is replaced or masked out, only one block changes, as `sensitivity` needs.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from jaxdp.clipping.two_part_sum import BLOCK_LENGTH, TwoPartSum, add, blocks_of

# Arrays with a leading batch axis, the last of which says which samples count.
Batch = tuple[PyTree[Array], PyTree[Array], Array]


def in_microbatches(
    function: Callable[[Batch, int], tuple[dict[int, TwoPartSum], Array]],
    batch: Batch,
    size: int,
    longest: int = BLOCK_LENGTH,
) -> tuple[dict[int, TwoPartSum], Array]:
    """The sum of a function's first results over microbatches, and all of its second.

    Args:
        function: of a microbatch and of the number of blocks that it is to be summed in.
        batch: samples, clip norms (or None) and mask.
        size: the most samples in a microbatch.
        longest: the most samples in a block, which may be made of several microbatches.
    """
    length = len(batch[-1])
    fewest = -(-length // min(size, length))
    # Equal ones, if there are any of fair length, need no samples that stand in for missing ones.
    number = next((n for n in range(fewest, 2 * fewest) if length % n == 0), fewest)
    num_blocks, block = blocks_of(-(-length // number))
    size = num_blocks * block
    most_in_block = max(1, longest // size)
    in_block = max(n for n in range(1, most_in_block + 1) if number % n == 0)

    def piece(at: Any) -> Batch:
        # Samples of a microbatch lie far apart, so that devices which share a batch share each of
        # them. One is cut out at a time: all in a new order would be a second copy of the batch.
        if number * size == length:
            return jax.tree.map(
                lambda leaf: lax.dynamic_index_in_dim(
                    leaf.reshape(size, number, *leaf.shape[1:]), at, 1, keepdims=False
                ),
                batch,
            )
        places = number * jnp.arange(size) + at
        # The last sample stands in for the missing ones, masked out.
        *rest, mask = jax.tree.map(lambda leaf: leaf[jnp.minimum(places, length - 1)], batch)
        return (*rest, mask & (places < length))

    def each(at: Any):
        return function(piece(at), num_blocks)

    def in_a_block(places: Any):
        return _added_up(
            each, places, lambda total, part: TwoPartSum(total.high + part.high, part.low)
        )

    places = jnp.arange(number).reshape(-1, in_block)
    total, norms = _added_up(in_a_block, places, add)
    return total, norms.reshape(number, size).T.ravel()[:length]


def _added_up(
    function: Callable[[Any], tuple[dict[int, TwoPartSum], Array]],
    places: Any,
    join: Callable[[TwoPartSum, TwoPartSum], TwoPartSum],
) -> tuple[dict[int, TwoPartSum], Array]:
    """The sum of a function's first results, one after another, and all of its second."""
    if len(places) == 1:
        total, norms = function(places[0])
        return total, norms[None]

    def body(total: Any, at: Any):
        added, norms = function(at)
        return {position: join(total[position], part) for position, part in added.items()}, norms

    shapes = jax.eval_shape(lambda: function(places[0])[0])
    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return lax.scan(body, start, places)
