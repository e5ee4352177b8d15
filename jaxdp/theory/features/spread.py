r"""How much the test error differs from run to run, from the moments of the Gaussian closure.

Two parts. If the coordinates were normal with the closure's moments, the test error's variance
would be that of a quadratic form, with $b = M^\top(M\mu - y)/m$, $H = M^\top M/m$,

$$ 4b^\top Sb + 2\,\mathrm{tr}(HSHS) $$

(`readout.SquaredForm`). But a run with more noise clips more, and so forgets less. The variance is
also the sum of what each step's draws add to it,

$$ \sum_t p_t^\top Q_tp_t + 4\,\mathrm{tr}(P_tQ_tP_tS'_t) + 2\,\mathrm{tr}(P_tQ_tP_tQ_t), $$

where $Q_t$ is the covariance that step t injects, $S'_t$ the one that it finds, and $p_t$, $P_t$
the derivatives of the final mean test error in the mean and in the covariance after the step:
reverse differentiation through the closure. Without clipping the sum telescopes to the first
formula; with it the derivatives see that the moments of the clipped slopes change.

Derived: here; test_everyday (against stored numbers) and test_everyday_agreement (against
simulated runs).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float, Int, PyTree

from jaxdp.core.arrays import in_types_of
from jaxdp.core.numerics.precision import safe_sqrt
from jaxdp.theory.features.closed_moments import Closure, Moments
from jaxdp.theory.features.linear_recursion import LinearRecursion
from jaxdp.theory.features.modes import product
from jaxdp.theory.features.readout import Readout, SquaredForm

# Shares of the steps at which the spread is found.
_PLACES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)


def spread_places(at_record: np.ndarray) -> np.ndarray:
    """The records, as numbers of steps, at which the spread over runs is found."""
    wanted = at_record[-1] * np.asarray(_PLACES)
    found = np.unique(at_record[np.abs(at_record[None] - wanted[:, None]).argmin(axis=1)])
    return found[found > 0]


class Slope(eqx.Module):
    """Derivatives of a number in the moments, one for each place that is asked about."""

    mean: Float[Array, "*places size modes"]
    leading: Float[Array, "*places size size rank rank"]
    others: Float[Array, "*places size size others"]


def all_states(
    step: Callable[[Any, Int[Array, ""]], Any], start: PyTree[Array], num_steps: int
) -> PyTree[Array]:
    """The states before the first step and after each of a known number of steps."""

    def forward(state, index):
        new = in_types_of(step(state, index), state)
        return new, new

    _, afters = lax.scan(forward, start, jnp.arange(num_steps))
    return jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), start, afters)


def spread_over_runs(
    closure: Closure,
    recursion: LinearRecursion,
    states: Moments,
    readout: Readout,
    at_record: Int[Array, " records"],
    places: Int[Array, " places"],
) -> Float[Array, " records"]:
    """The standard deviation of the test error over runs, with the feedback of clipping.

    The sum over the steps knows no correlations that the closure does not keep; so what is added
    to the Gaussian's variance is its difference from the same sum without feedback. The difference
    is found at `places`, some of the records; between them the ratio to the Gaussian's variance is
    interpolated.
    """
    variance = jax.vmap(SquaredForm(readout).variance)(moments_at(states, at_record))
    added = _feedback(closure, recursion, readout, states, places)
    plain = variance[jnp.searchsorted(at_record, places)]
    ratio = jnp.where(plain > 0, 1 + added / jnp.where(plain > 0, plain, 1), 1)
    dtype = variance.dtype
    steps = jnp.concatenate([jnp.zeros(1, dtype), places.astype(dtype)])
    ratio = jnp.concatenate([jnp.ones(1, dtype), ratio])
    ratio = jnp.interp(at_record.astype(dtype), steps, ratio)
    return safe_sqrt(variance * ratio)


def moments_at(states: Moments, counts: Int[Array, "*shape"]) -> Moments:
    return jax.tree.map(lambda part: part[counts], states)


def _feedback(closure, recursion, readout: Readout, states: Moments, places):
    """The sum over the steps less the same sum without feedback, at each place."""

    ends, num_steps = moments_at(states, places), len(states.clipped) - 1
    begun = jax.vmap(jax.grad(readout.risk))(ends)
    begun = _symmetric(Slope(begun.mean, begun.leading, begun.others))
    without = jax.vmap(lambda slope, end: _variance(slope, end, None))(begun, ends)

    def back(carry, part):
        slope, total = carry
        index, before = part

        def begin(old, new):
            return jnp.where((places == index + 1).reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        slope = jax.tree.map(begin, slope, begun)
        after, pull, noise = jax.vjp(
            lambda moments: closure.step_and_noise(moments, recursion, recursion.at(index)),
            before,
            has_aux=True,
        )
        found = jax.tree.map(jnp.subtract, after, noise)
        total += jax.vmap(lambda one: _variance(one, noise, found))(slope)
        return (_pulled(pull, slope), total), None

    nothing = jax.tree.map(jnp.zeros_like, begun)
    befores = jax.tree.map(lambda part: part[:-1], states)
    start = nothing, jnp.zeros_like(without)
    (_, total), _ = lax.scan(back, start, (jnp.arange(num_steps), befores), reverse=True)
    return total - without


def _pulled(pull, slope: Slope) -> Slope:
    """The slopes before a step, from those after it."""

    def one(slope):
        size = slope.others.shape[0]
        nothing = jnp.zeros((size, size), slope.mean.dtype), jnp.zeros((), slope.mean.dtype)
        (found,) = pull(Moments(slope.mean, slope.leading, slope.others, *nothing))
        return Slope(found.mean, found.leading, found.others)

    return _symmetric(jax.vmap(one)(slope))


def _symmetric(slope: Slope) -> Slope:
    """The slopes with halves of the derivatives in covariances and of their transposes."""
    turned = jnp.swapaxes(jnp.swapaxes(slope.leading, -4, -3), -2, -1)
    return Slope(
        slope.mean,
        (slope.leading + turned) / 2,
        (slope.others + jnp.swapaxes(slope.others, -3, -2)) / 2,
    )


def _variance(slope: Slope, noise: Moments, found: Moments | None) -> Float[Array, ""]:
    """What injected noise adds to the variance of a number with these derivatives.

    `found` is the covariance that is there already, None for nothing.
    """
    there = jax.tree.map(jnp.zeros_like, noise) if found is None else found
    rank = noise.leading.shape[-1]
    size = noise.others.shape[0]
    mean = slope.mean.reshape(*slope.mean.shape[:2])
    # Of the leading modes, all numbers of all of them as one vector.
    leading, added, others = (
        jnp.swapaxes(part, 1, 2).reshape(size * rank, size * rank)
        for part in (slope.leading, noise.leading, there.leading)
    )
    first = mean[:, :rank].reshape(size * rank)
    linear = jnp.sum(first * product(added, first))
    turned = product(leading, added)
    squares = jnp.sum(turned * product(leading, 2 * others + added).T)
    # Of the others, one small matrix a mode.
    first = mean[:, rank:]
    linear += jnp.einsum("aj,abj,bj->", first, noise.others, first, precision=Precision.HIGHEST)
    turned = _small(slope.others, noise.others)
    rest = _small(slope.others, 2 * there.others + noise.others)
    squares += jnp.sum(turned * jnp.swapaxes(rest, 0, 1))
    return linear + 2 * squares


def _small(left, right):
    """Products of one small matrix a mode."""
    return jnp.einsum("abj,bcj->acj", left, right, precision=Precision.HIGHEST)
