r"""Per-sample clipping of any loss of any Equinox model, at about the cost of one batch gradient.

The loss of one sample is traced; one backward pass over the batch, stopped where weights meet
samples, gives every per-sample norm and the clipped sum without forming a gradient per sample.
Weights that the trace uses in a way that is not recognised fall back, alone, to gradients formed
for a few samples at a time.

Source: Abadi et al. (2016), "Deep learning with differential privacy", Algorithm 1, for clipping;
Goodfellow (2015) and Lee and Kifer (2021) for norms without gradients.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from jaxdp.clipping.ghost_pass import GhostPass
from jaxdp.clipping.traced_loss import batch_size, refuse_mixing_layers, trace_loss
from jaxdp.clipping.weight_gradient import widened
from jaxdp.core.checks import concrete, require_count


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
    r"""$\sum_i g_i \min(1, C/\|g_i\|)$ over a batch, and the norms $\|g_i\|$ before clipping.

    Equal to `vmap(grad(loss))`, clipped and summed, to rounding; the norm of a sample is taken
    over all weights together. What one sample adds has norm at most C, to rounding: adding or
    removing a sample moves the sum by at most C, replacing one by at most 2C.

    A sample whose loss or gradient is not finite contributes zero, and its norm comes back as
    infinity or NaN: it can neither destroy the sum nor leak through it. The norms themselves are
    private data.

    Args:
        loss: `loss(model, input, target)` of one sample, a scalar.
        model: any pytree; its inexact arrays are the weights.
        inputs: a pytree of arrays with a leading batch axis, per-sample keys among them.
        targets: likewise.
        clip_norm: C >= 0, one for all or one a sample; infinity for no clipping.
        mask: which samples count; the others (padding) contribute zero and have norm 0.
        microbatch_size: how many samples are differentiated at a time, to bound memory; it need
            not divide the batch. Fewer where gradients that have to be formed would not fit.

    On several devices: under `jit` with the batch sharded over an axis of a mesh of Auto axes, or
    under `shard_map(..., check_vma=False)` with a `psum` of the sum.

    Returns:
        The sum, in the structure of `eqx.filter(model, eqx.is_inexact_array)`, and the norms; both
        in float32 at least, since a sum rounded to less would move by more than C.

    Raises:
        ValueError: the loss is not a scalar, batch axes differ, a concrete clip norm is negative
            or NaN, or a layer mixes samples (BatchNorm).
        TypeError: there is no weight, one is complex, or an input is not an array.
    """
    size = batch_size(inputs, targets)
    known = concrete(clip_norm)
    if known is not None and not (known.shape in ((), (size,)) and (known >= 0).all()):
        raise ValueError(
            f"expected clip_norm >= 0, a scalar or one for each of {size} samples, got {clip_norm}"
        )
    clip_norm = jnp.broadcast_to(jnp.asarray(clip_norm, float), (size,))
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
    """The norms of `clipped_gradient_sum` alone, which are private data.

    Args and errors as there.
    """
    return _clipped_sum(loss, model, inputs, targets, None, mask, microbatch_size)[1]


def _clipped_sum(loss, model, inputs, targets, clip_norm, mask, microbatch_size):
    """Sum and norms; without a clip norm the sum is None."""
    size = batch_size(inputs, targets)
    if microbatch_size is not None:
        microbatch_size = require_count("microbatch_size", microbatch_size)
    mask = jnp.ones(size, bool) if mask is None else jnp.asarray(mask)
    if mask.shape != (size,) or mask.dtype != bool:
        raise ValueError(
            f"expected mask to be {size} booleans, got {mask.dtype} of shape {mask.shape}"
        )
    refuse_mixing_layers(model)
    _refuse_varying((model, inputs, targets))
    weights = eqx.filter(model, eqx.is_inexact_array)
    if not jax.tree.leaves(weights):
        raise TypeError("expected a model with floating-point arrays, its weights, got none")
    if any(jnp.iscomplexobj(leaf) for leaf in jax.tree.leaves(weights)):
        raise TypeError("expected real weights, got a complex one")
    if size == 0:
        return jax.tree.map(_zeros, weights), jnp.zeros(0)
    return _traced_sum(loss, model, (inputs, targets), clip_norm, mask, microbatch_size)


def _refuse_varying(arrays):
    """Inside a checked `shard_map` a derivative is silently summed over the devices."""
    for leaf in jax.tree.leaves(eqx.filter(arrays, eqx.is_array)):
        kind = jax.typeof(leaf)
        # Newer releases of jax keep the set one level deeper.
        axes = getattr(kind, "vma", None) or getattr(getattr(kind, "mat", None), "varying", None)
        if axes:
            raise ValueError(
                f"expected shard_map(..., check_vma=False), got a checked one over {set(axes)}: "
                "it sums derivatives over devices, so that no sample's gradient would be known"
            )


@eqx.filter_jit
def _traced_sum(loss, model, batch, clip_norm, mask, microbatch_size):
    program = trace_loss(loss, model, *batch)
    leaves, structure = jax.tree.flatten(eqx.filter(model, eqx.is_inexact_array))
    ghost_pass = GhostPass(program, leaves)

    def clip(batch):
        samples, clip_norm, mask = batch
        measured = ghost_pass.measure(samples)
        norms = measured.norms
        if clip_norm is None:
            return {}, jnp.where(mask, norms, 0)
        clip_norm = clip_norm.astype(norms.dtype)
        is_clipped = norms > clip_norm
        factor = jnp.where(is_clipped, clip_norm / jnp.where(is_clipped, norms, 1), 1)
        # A traced clip norm that is none (negative, NaN) lets nothing through.
        counts = mask & (clip_norm >= 0)
        sums = ghost_pass.weighted_sum(measured, jnp.where(counts, factor, 0))
        return sums, jnp.where(mask, norms, 0)

    microbatch_size = min(microbatch_size or len(mask), ghost_pass.largest_microbatch)
    batch = jax.tree.leaves(batch), clip_norm, mask
    sums, norms = _in_microbatches(clip, batch, microbatch_size)
    if clip_norm is None:
        return None, norms
    total = [
        sums[position] if position in sums else _zeros(leaf) for position, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(structure, total), norms


def _zeros(leaf):
    return jnp.zeros_like(widened(leaf))


def _in_microbatches(function, batch, size):
    """The sum of the first results and all of the second, over pieces of a batch."""
    length = len(batch[-1])
    size = min(size, length)
    num_pieces = -(-length // size)
    if num_pieces == 1:
        return function(batch)
    samples, clip_norm, mask = batch
    missing = num_pieces * size - length

    def pieces(leaf):
        # The last sample stands in for the missing ones, masked out.
        padded = jnp.concatenate([leaf, jnp.repeat(leaf[-1:], missing, axis=0)])
        return padded.reshape(num_pieces, size, *leaf.shape[1:])

    mask = jnp.concatenate([mask, jnp.zeros(missing, bool)]).reshape(num_pieces, size)
    pieced = (*jax.tree.map(pieces, (samples, clip_norm)), mask)

    def body(total, piece):
        added, norms = function(piece)
        return jax.tree.map(jnp.add, total, added), norms

    start = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(lambda piece: function(piece)[0], jax.tree.map(lambda p: p[0], pieced)),
    )
    total, norms = lax.scan(body, start, pieced)
    return total, norms.ravel()[:length]
