"""Per-sample clipping of any loss of any Equinox model, at about the cost of one batch gradient.

One backward pass over the batch gives all norms and the clipped sum; weights that it does not cover
fall back, alone, to gradients formed for a few samples. A sample's microbatch and block depend on
its place and the batch length only, as `sensitivity` needs. Source: Abadi et al. (2016), "Deep
learning with differential privacy", Algorithm 1; Goodfellow (2015) and Lee and Kifer (2021).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from jaxdp.clipping.arguments import (
    clip_norms,
    mask_of,
    num_rows_of,
    records_of,
    refuse_varying,
    require_loss,
    weights_of,
)
from jaxdp.clipping.ghost.ghost_pass import GhostPass
from jaxdp.clipping.ghost.traced_loss import refuse_mixing_layers, trace_loss
from jaxdp.clipping.ghost.weight_gradient import widened
from jaxdp.clipping.norm_clip import clip_factor
from jaxdp.clipping.two_part_sum import BLOCK_LENGTH, TwoPartSum, add, blocks_of
from jaxdp.core.arrays import on_auto_axes
from jaxdp.core.checks import require_count

# Arrays with a leading batch axis; the last is the mask.
Microbatch = tuple[PyTree[Array], PyTree[Array], Array]


def in_microbatches(
    function: Callable[[Microbatch, int], tuple[dict[int, TwoPartSum], Array]],
    batch: Microbatch,
    size: int,
    longest: int = BLOCK_LENGTH,
) -> tuple[dict[int, TwoPartSum], Array]:
    """The sum of a function's first results over microbatches, and all of its second.

    `function` takes a microbatch and the number of blocks to sum it in; `batch` holds samples, clip
    norms (or None) and mask; `size` and `longest` are the most samples in a microbatch and in a
    block.
    """
    length = len(batch[-1])
    fewest = -(-length // min(size, length))
    # Equal microbatches, if there are any of fair length, need no padding.
    number = next((n for n in range(fewest, 2 * fewest) if length % n == 0), fewest)
    num_blocks, block = blocks_of(-(-length // number))
    size = num_blocks * block
    most_in_block = max(1, longest // size)
    in_block = max(n for n in range(1, most_in_block + 1) if number % n == 0)

    def piece(at: Any) -> Microbatch:
        # Samples of a microbatch lie far apart, so that devices that share a batch share each one.
        # It is cut out alone, because reordering all of them would copy the batch.
        if number * size == length:
            return jax.tree.map(
                lambda leaf: lax.dynamic_index_in_dim(
                    leaf.reshape(size, number, *leaf.shape[1:]), at, 1, keepdims=False
                ),
                batch,
            )
        places = number * jnp.arange(size) + at
        # Padded with the last sample, masked out.
        *rest, mask = jax.tree.map(lambda leaf: leaf[jnp.minimum(places, length - 1)], batch)
        return (*rest, mask & (places < length))

    def each(at: Any):
        return function(piece(at), num_blocks)

    def in_a_block(places: Any):
        return _added_up(each, places, lambda one, part: TwoPartSum(one.high + part.high, part.low))

    places = jnp.arange(number).reshape(-1, in_block)
    total, norms = _added_up(in_a_block, places, add)
    return total, norms.reshape(number, size).T.ravel()[:length]


def _added_up(function, places, join) -> tuple[dict[int, TwoPartSum], Array]:
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


def clipped_gradient_sum(
    loss: Callable[[Any, Any, Any], Float[Array, ""]],
    model: PyTree,
    inputs: PyTree[Array],
    targets: PyTree[Array],
    *,
    clip_norm: float | Float[Array, "*batch"],
    mask: Bool[Array, " batch"] | None = None,
    microbatch_size: int | None = None,
) -> tuple[PyTree[Array], Float[Array, " batch"]]:
    r"""The sum $\sum_i g_i \min(1, C/\|g_i\|)$ of a batch's clipped gradients, and their norms.

    Equal to `vmap(grad(loss))`, clipped and summed, up to rounding; a norm is taken over all
    weights together. Putting zero in the place of one sample moves the sum by at most C, replacing
    it by at most 2C, up to rounding that `sensitivity_excess` bounds. Blocks of at most 256 samples
    are added in float32, and such blocks in twice its precision. A sample whose loss or gradient is
    not finite contributes zero, and its norm comes back as infinity or NaN. The norms are private
    data.

    On several devices: use `jit` with the batch sharded over a mesh axis, or `shard_map(...,
    check_vma=False)` with `clipped_gradient_sum_in_parts` and `jaxdp.clipping.sum_over_devices`
    (the rounding of a `psum` is not bounded). Over Explicit axes all devices get the same sum and
    norms.

    Args:
        loss: `loss(model, input, target)` of one sample, a scalar.
        model: a pytree whose inexact arrays are the weights.
        inputs: a pytree of arrays, tables or lists of numbers with a leading batch axis, and of
            per-sample keys.
        targets: the labels of the batch, in the same forms as `inputs`.
        clip_norm: C >= 0, one for all or one a sample; infinity for no clipping.
        mask: True for samples that count; others (padding) contribute zero and have norm 0.
        microbatch_size: the most samples differentiated at a time; it need not divide the batch.
            Fewer are taken if memory would exceed the inputs and outputs of the products with the
            weights plus four copies of the weights. Below 256 it also shortens the float32 blocks:
            less rounding, but slower.

    Returns:
        The sum, in the structure of `eqx.filter(model, eqx.is_inexact_array)`, and the norms; both
        in float32 at least.

    Raises:
        ValueError, TypeError: an argument is not as described, the loss is not a scalar, a layer
            mixes samples (BatchNorm), or an operation may (a named axis, `custom_vmap`, a callback
            that is given whole batches).

    Example:
        >>> import equinox as eqx, jax, jaxdp, numpy as np
        >>> model = eqx.nn.Linear(3, 1, key=jax.random.key(0))
        >>> loss = lambda model, input, target: jax.numpy.sum((model(input) - target) ** 2)
        >>> rows = np.ones((8, 3)), np.zeros((8, 1))
        >>> total, norms = jaxdp.clipped_gradient_sum(loss, model, *rows, clip_norm=0.1)
        >>> total.weight.shape, norms.shape
        ((1, 3), (8,))
    """
    options = {"clip_norm": clip_norm, "mask": mask, "microbatch_size": microbatch_size}
    total, norms = clipped_gradient_sum_in_parts(loss, model, inputs, targets, **options)
    return total.high, norms


def clipped_gradient_sum_in_parts(
    loss: Callable[[Any, Any, Any], Float[Array, ""]],
    model: PyTree,
    inputs: PyTree[Array],
    targets: PyTree[Array],
    *,
    clip_norm: float | Float[Array, "*batch"],
    mask: Bool[Array, " batch"] | None = None,
    microbatch_size: int | None = None,
) -> tuple[TwoPartSum, Float[Array, " batch"]]:
    """The sum of `clipped_gradient_sum` before its last rounding, and the norms.

    `sensitivity_excess` bounds its change if one record is zeroed or replaced. Noise added to high
    and low together, before rounding, hides that change.

    Args:
        loss, model, inputs, targets, clip_norm, mask, microbatch_size: see `clipped_gradient_sum`.

    Returns:
        The sum in two parts, each in the structure of the weights, and the norms.

    Example:
        >>> import numpy as np
        >>> from jaxdp.clipping import clipped_gradient_sum_in_parts
        >>> loss = lambda weights, input, target: (weights @ input - target) ** 2
        >>> rows = np.ones(2, np.float32), np.eye(2, dtype=np.float32), np.zeros(2, np.float32)
        >>> clipped_gradient_sum_in_parts(loss, *rows, clip_norm=0.5)[0].in_float64().tolist()
        [0.5, 0.5]
    """
    inputs, targets = records_of(inputs, targets)
    clip_norm = clip_norms(clip_norm, num_rows_of(inputs, targets))
    return _clipped_sum(loss, model, inputs, targets, clip_norm, mask, microbatch_size)


def per_sample_gradient_norms(
    loss: Callable[[Any, Any, Any], Float[Array, ""]],
    model: PyTree,
    inputs: PyTree[Array],
    targets: PyTree[Array],
    *,
    mask: Bool[Array, " batch"] | None = None,
    microbatch_size: int | None = None,
) -> Float[Array, " batch"]:
    """The per-sample gradient norms of `clipped_gradient_sum` alone, which are private data.

    Args:
        loss, model, inputs, targets, mask, microbatch_size: see `clipped_gradient_sum`.

    Returns:
        A norm for each sample, before clipping.

    Example:
        >>> import jaxdp, numpy as np
        >>> loss = lambda weights, input, target: (weights @ input - target) ** 2
        >>> rows = np.ones(2, np.float32), np.eye(2, dtype=np.float32), np.zeros(2, np.float32)
        >>> jaxdp.clipping.per_sample_gradient_norms(loss, *rows).tolist()
        [2.0, 2.0]
    """
    records = records_of(inputs, targets)
    return _clipped_sum(loss, model, *records, None, mask, microbatch_size)[1]


def _clipped_sum(
    loss, model, inputs, targets, clip_norm, mask, microbatch_size
) -> tuple[Any, Float[Array, " batch"]]:
    """Sum and norms; without a clip norm the sum is None."""
    require_loss(loss)
    mask = mask_of(mask, num_rows_of(inputs, targets))
    if microbatch_size is not None:
        microbatch_size = require_count("microbatch_size", microbatch_size)
    weights = weights_of(model)
    refuse_mixing_layers(model)
    refuse_varying((model, inputs, targets))
    if not len(mask):
        zeros = jax.tree.map(_zeros, weights)
        return TwoPartSum(zeros, zeros), jnp.zeros(0)
    return _traced_sum(loss, model, (inputs, targets), clip_norm, mask, microbatch_size)


@eqx.filter_jit
@on_auto_axes
def _traced_sum(loss, model, batch, clip_norm, mask, microbatch_size):
    program = trace_loss(loss, model, *batch)
    leaves, structure = jax.tree.flatten(eqx.filter(model, eqx.is_inexact_array))
    ghost_pass = GhostPass(program, leaves)

    def clip(batch, num_blocks):
        samples, clip_norm, mask = batch
        measured = ghost_pass.measure(samples)
        norms = measured.norms
        if clip_norm is None:
            return {}, jnp.where(mask, norms, 0)
        # A traced clip norm that is negative or NaN lets nothing through.
        counts = mask & (clip_norm >= 0)
        scale = jnp.where(counts, clip_factor(norms, clip_norm.astype(norms.dtype)), 0)
        return ghost_pass.weighted_sum(measured, scale, num_blocks), jnp.where(mask, norms, 0)

    longest = min(microbatch_size or len(mask), BLOCK_LENGTH)
    microbatch_size = min(microbatch_size or len(mask), ghost_pass.largest_microbatch(len(mask)))
    batch = jax.tree.leaves(batch), clip_norm, mask
    sums, norms = in_microbatches(clip, batch, microbatch_size, longest)
    if clip_norm is None:
        return None, norms
    parts = [
        ghost_pass.in_the_weight(position, sums[position])
        if position in sums
        else TwoPartSum(_zeros(leaf), _zeros(leaf))
        for position, leaf in enumerate(leaves)
    ]
    both = zip(*((part.high, part.low) for part in parts), strict=True)
    return TwoPartSum(*(jax.tree.unflatten(structure, leaves) for leaves in both)), norms


def _zeros(leaf):
    return jnp.zeros_like(widened(leaf))
