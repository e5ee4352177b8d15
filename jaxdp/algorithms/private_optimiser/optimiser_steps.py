"""The pieces of one step of a private optimiser: its checks, the clipped sum, the update.

Sum and update are compiled apart from each other, so that secret noise can be added between them on
the host.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

from jaxdp.algorithms.private_optimiser.averages import AbstractAverage
from jaxdp.algorithms.private_optimiser.loss_gradient import require_gradient
from jaxdp.algorithms.transformations.transformation import Transformation
from jaxdp.clipping import TwoPartSum, clipped_gradient_sum_in_parts
from jaxdp.core.checks import concrete, require_key, require_kind, require_scalar
from jaxdp.core.keys import numbered_key, stream_key
from jaxdp.core.meshes import on_auto_axes

# Between these, underflow and overflow are covered by the proof of the sums' sensitivity.
_LEAST_CLIP_NORM, _LARGEST_CLIP_NORM = 2.0**-60, 2.0**60


class OptimiserState(eqx.Module):
    """What a private optimiser carries from step to step.

    Attributes:
        inner: the state of the optax optimiser.
        num_released: how many noisy sums have been released.
        iterate: the weights at which the next gradient is taken, where an average of them is
            released as the model; None where they are the model's.
        buffers: of past noise, where the noise of the steps is correlated. They are secret: with
            them a state is no post-processing of what was released.
        key_digest: of the key whose batches the account is of, zero before the first step; None
            where every step may have a key of its own.

    Example:
        >>> import jaxdp, numpy as np, optax
        >>> sampler = jaxdp.privacy.FixedSizeBatches(num_records=40, batch_size=10)
        >>> steps = {"clip_norm": 1.0, "noise_multiplier": 5.0, "num_steps": 20, "sampler": sampler}
        >>> state = jaxdp.PrivateOptimiser(optax.sgd(0.1), **steps).init(np.zeros(3))
        >>> int(state.num_released), state.iterate is None
        (0, True)
    """

    inner: PyTree
    num_released: Int[Array, ""]
    iterate: PyTree[Array] | None = None
    buffers: PyTree[Array] | None = None
    key_digest: UInt32[Array, " words"] | None = None


def clip_norm_of(value: Any) -> Any:
    """A clip norm as a Python float; a traced one as it is.

    Raises:
        ValueError: it is not a scalar, or out of the range of the proof.
    """
    require_scalar("clip_norm", value)
    known = concrete(value, "clip_norm")
    if known is not None and not _LEAST_CLIP_NORM <= known <= _LARGEST_CLIP_NORM:
        raise ValueError(
            f"expected clip_norm > 0, between 2^-60 and 2^60 (8.7e-19 and 1.2e18), got {known}"
        )
    return value if known is None else float(known)


def steps_made(state: Any, num_steps: int | Int[Array, ""]) -> Int[Array, ""]:
    """How many steps have been made; ValueError where none of those accounted for is left."""
    require_kind("state", state, OptimiserState, "that of init(model) or of the last step")
    made, most = concrete(state.num_released), concrete(num_steps)
    if made is not None and most is not None and made >= most:
        raise ValueError(
            f"expected at most {num_steps} steps, which are accounted for, got one more"
        )
    return state.num_released


def digest_of_run(state: OptimiserState, key: Key[Array, ""]) -> tuple[Array, Bool[Array, ""]]:
    """The digest of a key, and whether it is that of the steps before.

    Raises:
        ValueError: it is known to be another, or the state has none.
    """
    require_key(key)
    if state.key_digest is None:
        raise ValueError(
            "expected a state of this optimiser's init, which holds a digest of the run's key, got "
            "one without"
        )
    digest = jr.bits(stream_key(key, "digest"), state.key_digest.shape, jnp.uint32)
    is_same = (state.num_released == 0) | jnp.all(digest == state.key_digest)
    if not isinstance(is_same, Tracer) and not is_same:
        raise ValueError(
            "expected the key of the steps before: one key orders the records of an epoch, and "
            "with another a record may be in more batches than are accounted for; got another key"
        )
    return digest, is_same


def require_host_arrays(arrays: Any) -> None:
    """Raise ValueError where secret noise cannot be added: under `jit`, `vmap` and `grad`."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays)):
        raise ValueError(
            "expected a call outside jit, vmap and grad with noise=SecretNoise(), got traced "
            "arrays: secret noise is added on the host (the parts of a step are compiled)"
        )


def with_keys_of(records: PyTree[Array], step: Int[Array, ""]) -> PyTree[Array]:
    """Records whose keys are those of one step: what a loss draws from them is drawn anew.

    A record's key at a step is made from its own key and the number of the step alone, so a run
    that is resumed draws what one without a break does, and the gradient is still a function of
    that record.
    """

    def at_step(leaf):
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        keys = jax.vmap(lambda key: numbered_key(key, step))(leaf.ravel())
        return keys.reshape(leaf.shape)

    return jax.tree.map(at_step, records)


@eqx.filter_jit
@on_auto_axes
def clipped_sum_over(
    loss: Callable[[Any, Any, Any], Float[Array, ""]],
    model: PyTree,
    inputs: PyTree[Array],
    targets: PyTree[Array],
    batch: tuple[Int[Array, " capacity"], Bool[Array, " capacity"]],
    step: Int[Array, ""],
    clip_norm: Float[Array, ""],
    microbatch_size: int | None,
) -> tuple[TwoPartSum, Int[Array, ""]]:
    """The sum of the clipped gradients of a batch, and how many of them were not finite."""
    indices, mask = batch
    records = jax.tree.map(lambda leaf: jnp.asarray(leaf)[indices], (inputs, targets))
    records = with_keys_of(records, step)
    total, norms = clipped_gradient_sum_in_parts(
        loss, model, *records, clip_norm=clip_norm, mask=mask, microbatch_size=microbatch_size
    )
    require_gradient(loss, model, *records)
    return total, jnp.sum(mask & ~jnp.isfinite(norms), dtype=jnp.int32)


def moved(
    transformation: Transformation,
    mean: PyTree,
    model: PyTree,
    state: OptimiserState,
    average: AbstractAverage | None,
    num_steps: Int[Array, ""] | None,
) -> tuple[PyTree, OptimiserState]:
    """Model and state after the optimiser has seen the mean of the clipped gradients.

    Args:
        transformation: what moves the weights.
        mean: of the clipped gradients, with its noise.
        model: before the step.
        state: likewise.
        average: that the model is of the iterates; None where it is the iterate.
        num_steps: T, for the average; None without one.
    """
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    mean = jax.tree.map(lambda leaf, weight: jnp.asarray(leaf, weight.dtype), mean, weights)
    iterate = weights if state.iterate is None else state.iterate
    updates, inner = transformation.update(mean, state.inner, iterate)
    iterate, count = optax.apply_updates(iterate, updates), state.num_released + 1
    if average is None or num_steps is None:
        return eqx.combine(iterate, rest), OptimiserState(inner, count)
    averaged = average.after(weights, iterate, count, num_steps)
    return eqx.combine(averaged, rest), OptimiserState(inner, count, iterate)


moved_compiled = eqx.filter_jit(on_auto_axes(moved))


def num_weights(model: PyTree) -> int:
    """How many inexact numbers a pytree has."""
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    return sum(np.size(leaf) for leaf in weights)
