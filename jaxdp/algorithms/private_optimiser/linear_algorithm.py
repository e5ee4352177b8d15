r"""A private optimiser read as matrices, with the average that it releases as one more component.

Each step of an average is linear too: with the row $F_\theta$ of the weight in the optimiser's
matrix, $g_\theta$ in its vector, and the share $\alpha_t$ of the new iterate,

$$ a_{t+1} = (1 - \alpha_t)\, a_t + \alpha_t (F_\theta z_t + g_\theta\, \hat g_t). $$

Derived: test_linear_algorithm, against runs of `PrivateOptimiser` itself.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from jaxdp.algorithms.private_optimiser.averages import AbstractAverage
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.transformations.linear_state import AVERAGE, LinearState, linear_state
from jaxdp.core.checks import require_kind
from jaxdp.core.numerics.precision import on_host


def linear_state_of(algorithm: PrivateOptimiser) -> LinearState:
    """The matrices of a private optimiser that is linear: how noisy means of gradients move it.

    Numbers are read in float64 of NumPy, without x64, unless the learning rate or the average is
    traced: then they are JAX arrays, of which derivatives can be taken and which vmap batches, and
    the factory is checked at another rate.

    Args:
        algorithm: whose optimiser `linear_state` covers.

    Returns:
        The optimiser's state, its weight first; an average is the last component, "average", and
        is the `output`.

    Raises:
        NotCoveredError: the optimiser is not linear; says why.
        TypeError: it is no PrivateOptimiser, or a number inside its optimiser is traced.

    Example:
        >>> import jaxdp, optax
        >>> from jaxdp.algorithms import linear_state_of
        >>> sampler = jaxdp.privacy.FixedSizeBatches(num_records=40, batch_size=10)
        >>> steps = {"clip_norm": 1.0, "noise_multiplier": 5.0, "num_steps": 20, "sampler": sampler}
        >>> average = jaxdp.PolyakAverage()
        >>> algorithm = jaxdp.PrivateOptimiser(optax.sgd(0.1), **steps, average=average)
        >>> state = linear_state_of(algorithm)
        >>> state.names, state.output
        (('weight', 'average'), 1)
    """
    require_kind("algorithm", algorithm, PrivateOptimiser, "a PrivateOptimiser")
    found = linear_state(algorithm.transformation, int(algorithm.num_steps))
    return found if algorithm.average is None else with_average(found, algorithm.average)


def with_average(state: LinearState, average: AbstractAverage) -> LinearState:
    """The matrices of an optimiser with those of an average of its weight."""
    shares = _shares(average, state.num_steps)
    arrays = state.transitions, state.injections, state.initial, shares
    numbers: Any = jnp if any(isinstance(one, jax.Array) for one in arrays) else np
    count = max(len(state.transitions), len(shares))
    shares = numbers.asarray(shares)[:, None]
    # Of the average itself, then of what the weight becomes.
    above = numbers.concatenate([state.transitions, 0 * state.transitions[:, :, :1]], axis=2)
    kept = np.eye(state.size + 1)[-1]
    below = (1 - shares) * kept[None] + shares * above[:, 0]
    above = numbers.broadcast_to(above, (count, *above.shape[1:]))
    below = numbers.broadcast_to(below, (count, below.shape[-1]))
    moved = shares * state.injections[:, :1]
    injections = numbers.broadcast_to(state.injections, (len(moved), state.size))
    return LinearState(
        numbers.concatenate([above, below[:, None]], axis=1),
        numbers.concatenate([injections, moved], axis=1),
        numbers.concatenate([state.initial, state.initial[:1]]),
        (*state.names, AVERAGE),
        state.num_steps,
    )


def _shares(average: AbstractAverage, num_steps: int) -> np.ndarray | Array:
    """The shares of all steps, in float64; one where they are known to be equal."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(average)):
        return average.weight(jnp.arange(1, num_steps + 1), num_steps)
    with jax.ensure_compile_time_eval(), on_host():
        steps = jnp.arange(1, num_steps + 1)
        shares = np.asarray(average.weight(steps, num_steps), np.float64)
    return shares[:1] if np.all(shares == shares[0]) else shares
