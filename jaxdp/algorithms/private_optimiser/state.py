"""What goes on from step to step of a run: the state, the run's key and the keys of records."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

from jaxdp.core.checks import concrete, require_key, require_kind
from jaxdp.core.keys import numbered_key, stream_key


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
        clip_norm: of the next step, where it adapts; None where it is fixed.

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
    clip_norm: Float[Array, ""] | None = None


def require_untraced(argument: str, arrays: PyTree[Any]) -> None:
    """Raise ValueError where an array is traced, with an argument that needs its numbers."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays)):
        raise ValueError(f"expected a call outside jit and vmap with {argument}, got traced arrays")


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
    """The digest of a key; ValueError where it is known not to be that of the steps before.

    Beside it, whether it is that of the steps before, where that is not known.
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
