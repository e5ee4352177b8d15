r"""The state of a private optimiser, and averages of its iterates, which cost no privacy.

After step t, from 1, an average moves towards the iterate by a share $\alpha_t$, from $a_0 =
\theta_0$: $a_t = (1 - \alpha_t)\, a_{t-1} + \alpha_t\, \theta_t$.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key, PyTree, UInt32

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import concrete, require_key, require_kind, require_scalar
from jaxdp.core.description import AbstractDescription
from jaxdp.core.keys import numbered_key, stream_key


class OptimiserState(eqx.Module):
    """The state that a private optimiser carries from step to step.

    Attributes:
        inner: the state of the optax optimiser.
        num_released: the number of noisy sums released so far.
        iterate: the weights at which the next gradient is taken; None if they are the model's.
        buffers: past noise, if noise is correlated. Secret: such a state is not post-processing.
        key_digest: a digest of the run's key if the account needs one key for all steps, else None.
        clip_norm: the clip norm of the next step if it adapts, else None.

    Example:
        >>> import numpy as np
        >>> from jaxdp.algorithms import OptimiserState  # as `init` returns it
        >>> int(OptimiserState(inner=None, num_released=np.int32(0)).num_released)
        0
    """

    inner: PyTree
    num_released: Int[Array, ""]
    iterate: PyTree[Array] | None = None
    buffers: PyTree[Array] | None = None
    key_digest: UInt32[Array, " words"] | None = None
    clip_norm: Float[Array, ""] | None = None


def require_untraced(argument: str, arrays: PyTree[Any]) -> None:
    """Raise ValueError if an array is traced, because `argument` needs its numbers."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays)):
        raise ValueError(f"expected a call outside jit and vmap with {argument}, got traced arrays")


def steps_made(state: Any, num_steps: int | Int[Array, ""]) -> Int[Array, ""]:
    """The number of steps made; ValueError if no step of the account is left."""
    require_kind("state", state, OptimiserState, "that of init(model) or of the last step")
    made, most = concrete(state.num_released), concrete(num_steps)
    if made is not None and most is not None and made >= most:
        raise ValueError(f"expected at most {num_steps} steps, which the account covers, got more")
    return state.num_released


def digest_of_run(state: OptimiserState, key: Key[Array, ""]) -> tuple[Array, Bool[Array, ""]]:
    """The digest of a key, and whether earlier steps had that key; ValueError if known not to."""
    require_key(key)
    if state.key_digest is None:
        raise ValueError("expected a state of this optimiser's init, got one without a key digest")
    digest = jr.bits(stream_key(key, "digest"), state.key_digest.shape, jnp.uint32)
    is_same = (state.num_released == 0) | jnp.all(digest == state.key_digest)
    if not isinstance(is_same, Tracer) and not is_same:
        raise ValueError(
            "expected the key of the steps before: one key orders the records of an epoch, and "
            "with another a record may be in more batches than are accounted for; got another key"
        )
    return digest, is_same


def with_keys_of(records: PyTree[Array], step: Int[Array, ""]) -> PyTree[Array]:
    """Records with random keys folded with the step number; a gradient still reads one record."""

    def at_step(leaf):
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        keys = jax.vmap(lambda key: numbered_key(key, step))(leaf.ravel())
        return keys.reshape(leaf.shape)

    return jax.tree.map(at_step, records)


class AbstractAverage(AbstractDescription):
    r"""A rule that gives the share $\alpha_t$ of the new iterate in the average."""

    @abc.abstractmethod
    def weight(
        self, step: Int[Any, "*shape"] | int, num_steps: int | Int[Array, ""]
    ) -> Float[Array, "*shape"]:
        r"""$\alpha_t$ after step t = `step`, from 1, of T = `num_steps`."""

    @property
    def is_valid(self) -> Bool[Any, ""]:
        """Whether traced parameters are in the constructor's ranges."""
        return np.asarray(True)

    def after(self, average: PyTree, iterate: PyTree, step: Any, num_steps: Any) -> PyTree:
        """The average after step number `step`, from 1, in the types of `average`."""
        share = self.weight(step, num_steps)

        def mixed(before, new):
            # A share of one gives the iterate to the last bit.
            return ((1 - share) * before + share * new).astype(before.dtype)

        return jax.tree.map(mixed, average, iterate)


class PolyakAverage(AbstractAverage):
    """The mean of the iterates after steps 1, ..., t.

    Source: Polyak and Juditsky (1992), "Acceleration of stochastic approximation by averaging".

    Example:
        >>> import jaxdp
        >>> [float(jaxdp.PolyakAverage().weight(step, 4)) for step in (1, 2, 4)]
        [1.0, 0.5, 0.25]
    """

    def weight(self, step, num_steps):
        return 1 / jnp.maximum(step, 1)


class TailAverage(AbstractAverage):
    """The mean of the iterates after the steps beyond T // 2; until then the current iterate.

    Example:
        >>> import jaxdp
        >>> [float(jaxdp.TailAverage().weight(step, 4)) for step in (1, 2, 3, 4)]
        [1.0, 1.0, 1.0, 0.5]
    """

    def weight(self, step, num_steps):
        return 1 / jnp.maximum(step - num_steps // 2, 1)


class ExponentialAverage(AbstractAverage):
    """A mean whose weights fall by the factor `decay` per step, starting at the initial weights.

    Args:
        decay: 0 <= decay < 1, where 0 averages nothing.

    Example:
        >>> import jaxdp
        >>> float(jaxdp.algorithms.ExponentialAverage(0.75).weight(3, 4))
        0.25
    """

    decay: Float[Array, ""]

    def __init__(self, decay: ArrayLike):
        self.decay = as_wide_float(decay, "decay")
        require_scalar("decay", self.decay)
        known = concrete(self.decay)
        if known is not None and not 0 <= known < 1:
            raise ValueError(f"expected 0 <= decay < 1, got {known}")

    def weight(self, step, num_steps):
        return (1 - self.decay) * jnp.ones(jnp.shape(step))

    @property
    def is_valid(self):
        return (self.decay >= 0) & (self.decay < 1)
