r"""The greedy feedback: at each state the learning rate at which the state falls fastest.

Let $Z = R + K\tilde\eta^2$, the risk that there would be if all the noise that the rest of the pass
adds were added now. In Z the isotropic problem has one state and no derivative of the schedule:

$$ Z' = F(Z, \tilde\eta) = -2\tilde\eta\,m(R) + \tilde\eta^2\gamma N(R), \qquad
   R = Z - K\tilde\eta^2, \quad m = \mu R, \quad N = \nu(R + \zeta^2/2), $$

up to the cap, and the risk of what is released is Z(1). `Optimal` says why it is best to follow
$\tilde\eta(t) = \min(\tilde\eta(0), \tilde\eta^*(Z(t)), 2/\gamma)$.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import erfc
from jaxtyping import Array, Float

from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor
from jaxdp.planning.streams.equations.clock import log_clock, runge_kutta_stages
from jaxdp.planning.streams.equations.setting import Setting

_DENSITY = math.sqrt(2 / math.pi)
# Newton's steps for the learning rate, from that of the step before; the state sees the square of
# what is left.
_NEWTON, _ROUNDING = 6, 1e-9
_TINY = 1e-300


class Law(NamedTuple):
    """What F depends on besides the state and the rate."""

    clip_scale: Float[Array, ""]
    strength: Float[Array, ""]
    gamma: Float[Array, ""]
    half_variance: Float[Array, ""]


def greedy_run(
    point: Float[Array, " two"], setting: Setting, steps: int
) -> tuple[Float[Array, ""], Float[Array, " knots"], Float[Array, " knots"]]:
    """Follow the feedback from t = 0 to 1, by Runge and Kutta's method on the log clock.

    Args:
        point: ln c, and the root of the logarithm of the cap over the first rate.
        setting: with equal eigenvalues.
        steps: of the method.

    Returns:
        Z(1), the risk of what is released; the times of the steps' ends, with 0; and the learning
        rates there.
    """
    clip_scale = jnp.exp(point[0])
    highest = setting.cap * jnp.exp(-(point[1] ** 2))
    strength = setting.noise_strength(clip_scale)
    law = Law(clip_scale, strength, setting.gamma, setting.label_noise**2 / 2)
    clock = log_clock(setting.gamma, 2 * steps + 1)

    def stage(carry, given):
        state, last, total, guess = carry
        pace, reach, weight, is_end = given
        inside = state + reach * last
        rate = _feedback(inside, guess, highest, law)
        change = pace * fall(inside, rate, law)
        total = total + weight * change
        state = state + jnp.where(is_end, total, 0)
        return (state, change, jnp.where(is_end, 0, total), rate), rate

    start = setting.initial_risk + strength * highest**2
    zero = jnp.zeros_like(start)
    (final, _, _, guess), rates = lax.scan(
        stage, (start, zero, zero, highest), runge_kutta_stages(clock.speed / steps)
    )
    return final, clock.time[::2], jnp.append(rates[::4], _feedback(final, guess, highest, law))


def fall(state, rate, law: Law):
    """F(Z, eta)."""
    risk = jnp.maximum(state - law.strength * rate**2, _TINY)
    power = risk + law.half_variance
    ratio = law.clip_scale / jnp.sqrt(2 * power)
    spread = rate**2 * law.gamma * variance_factor(ratio) * power
    return spread - 2 * rate * descent_factor(ratio) * risk


def slope_in_rate(rate, state, law: Law):
    r"""$\tfrac12\partial F/\partial\tilde\eta$: where it is 0 the state falls fastest.

    It is $\gamma N\tilde\eta + 2Km'\tilde\eta^2 - K\gamma N'\tilde\eta^3 - m$, with
    $m' = \mu - R\,\sqrt{2/\pi}\,e^{-z^2/2} z/(2P)$ and
    $N' = \nu - z^2\,\mathrm{erfc}(z/\sqrt2)$ at $z = c/\sqrt{2P}$.
    Derived: test_the_condition_is_the_derivative_of_the_fall.
    """
    risk = jnp.maximum(state - law.strength * rate**2, _TINY)
    power = risk + law.half_variance
    ratio = law.clip_scale / jnp.sqrt(2 * power)
    descent, variance = descent_factor(ratio), variance_factor(ratio)
    descent_slope = descent - risk / power * _DENSITY * jnp.exp(-(ratio**2) / 2) * ratio / 2
    spread_slope = variance - ratio**2 * erfc(ratio * math.sqrt(0.5))
    noise = law.strength * rate**2
    return (
        law.gamma * rate * (variance * power - noise * spread_slope)
        + 2 * noise * descent_slope
        - descent * risk
    )


def _feedback(state, guess, highest, law: Law):
    """The rate at which the state falls fastest, among those up to the highest.

    On the arc F does not see a small change of the rate, so that neither does a derivative of what
    follows from it: the root is a constant to JAX.
    """
    known = jax.tree.map(lax.stop_gradient, (state, guess, highest, law))
    root, is_below = _root(*known)
    return jnp.where(is_below, root, highest)


def _root(state, guess, highest, law: Law):
    """The root of the condition by Newton's steps within a bracket, and whether there is one."""
    # Beyond the second the noise to come would be more than all of the state.
    limit = jnp.minimum(highest, jnp.sqrt(state / jnp.maximum(law.strength, _TINY)))

    def narrow(_, found):
        low, high, rate = found
        value, slope = jax.jvp(
            lambda rate: slope_in_rate(rate, state, law), (rate,), (jnp.ones_like(rate),)
        )
        low, high = jnp.where(value < 0, rate, low), jnp.where(value < 0, high, rate)
        newton = rate - value / slope
        # At the root itself rounding may put the step just outside, which is no reason to bisect.
        margin = _ROUNDING * limit
        is_inside = (newton >= low - margin) & (newton <= high + margin)
        return low, high, jnp.where(is_inside, newton, (low + high) / 2)

    start = jnp.zeros_like(limit), limit, jnp.minimum(guess, limit)
    *_, rate = lax.fori_loop(0, _NEWTON, narrow, start)
    return rate, slope_in_rate(limit, state, law) > 0
