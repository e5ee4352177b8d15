r"""The risk of a given schedule, for any spectrum, by a method of fixed steps.

Each mode obeys, with $Z_i = D_i + K\tilde\eta^2$ and $e = \min(\tilde\eta, 2/\gamma)$,

$$ Z_i' = \lambda_i(-2e\mu D_i + e^2\gamma\nu P), \qquad R = \sum_i w_i D_i, $$

and the risk of what is released is $\sum_i w_i Z_i(1)$. A search asks for thousands of such risks
and their gradients: fixed steps on a clock that follows the schedule cost less than an adaptive
solver, whose answer they are held against.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor
from jaxdp.planning.streams.clock import Clock, runge_kutta_stages
from jaxdp.planning.streams.setting import Setting
from jaxdp.schedules import AbstractSchedule

# Beyond so many caps a schedule is not worth a look, and how steeply it is punished there.
MOST_CAPS, _STEEPNESS = 1.5, 10.0
_TINY = 1e-300


def schedule_log_risk(
    schedule: AbstractSchedule,
    log_clip_scale: Float[Array, ""],
    setting: Setting,
    clock: Clock,
) -> Float[Array, ""]:
    r"""The logarithm of the risk of what is released; infinite where the method fails.

    Much noise that is still to come and a rate far beyond the cap let the steps fail so that the
    risk goes below 0, where a search that saw it cut off at 0 would find impossible risks. There
    the risk is infinite, and beyond 1.5 caps it is punished.

    Args:
        schedule: whose values at the clock's readings are asked for.
        log_clip_scale: ln c.
        setting: with any spectrum.
        clock: an odd number of readings, two to a step.
    """
    rates = schedule(clock.time)
    clip_scale = jnp.exp(log_clip_scale)
    to_come = setting.noise_strength(clip_scale) * rates**2
    half = setting.label_noise**2 / 2

    def stage(carry, given):
        state, last, total, is_sound = carry
        pace, reach, weight, is_end, rate, noise = given
        modal = state + reach * last - noise
        risk = jnp.sum(setting.weights * modal)
        is_sound &= risk > 0
        risk = jnp.maximum(risk, _TINY)
        power = risk + half
        ratio = clip_scale / jnp.sqrt(2 * power)
        spread = rate**2 * setting.gamma * variance_factor(ratio) * power
        fall = spread - 2 * rate * descent_factor(ratio) * modal
        change = pace * setting.eigenvalues * fall
        total = total + weight * change
        state = state + jnp.where(is_end, total, 0)
        return (state, change, jnp.where(is_end, 0, total), is_sound), None

    start = setting.initial + to_come[0]
    zero = jnp.zeros_like(start)
    stages = runge_kutta_stages(clock.speed / (len(rates) // 2))
    readings = jnp.minimum(rates, setting.cap), to_come
    each = (_at_stages(values) for values in readings)
    (final, _, _, is_sound), _ = lax.scan(
        stage, (start, zero, zero, jnp.array(True)), (*stages, *each)
    )
    excess = jnp.log(jnp.maximum(rates[0] / (MOST_CAPS * setting.cap), 1))
    risk = jnp.sum(setting.weights * final)
    is_sound &= risk > 0
    value = jnp.log(jnp.where(is_sound, risk, 1)) + _STEEPNESS * excess**2
    return jnp.where(is_sound, value, jnp.inf)


def _at_stages(values: Float[Array, " readings"]) -> Float[Array, " stages"]:
    middle = values[1::2]
    return jnp.stack([values[:-1:2], middle, middle, values[2::2]], axis=1).ravel()
