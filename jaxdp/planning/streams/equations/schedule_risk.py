r"""The risk of a given schedule, in any setting, by a method of fixed steps.

For least squares on Gaussian inputs each mode obeys, with $Z_i = D_i + K\tilde\eta^2$ and $e =
\min(\tilde\eta, 2/\gamma)$,

$$ Z_i' = \lambda_i(-2e\mu D_i + e^2\gamma\nu P), \qquad R = \sum_i w_i D_i, $$

and the risk of what is released is $\sum_i w_i Z_i(1)$. Elsewhere a setting has another state and
other equations (`AbstractSetting`), to which noise adds in the same way. A search asks for
thousands of such risks and their gradients: fixed steps on a clock that follows the schedule cost
less than an adaptive solver, whose answer they are held against.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdp.planning.streams.equations.clock import Clock, at_stages, runge_kutta_stages
from jaxdp.planning.streams.equations.setting import AbstractSetting
from jaxdp.schedules import AbstractSchedule

# Beyond so many caps a schedule is not worth a look, and how steeply it is punished there.
MOST_CAPS, _STEEPNESS = 1.5, 10.0


def schedule_log_risk(
    schedule: AbstractSchedule,
    log_clip_scale: Float[Array, ""],
    setting: AbstractSetting,
    clock: Clock,
) -> Float[Array, ""]:
    r"""The logarithm of the risk of what is released; infinite where the method fails.

    Much noise that is still to come and a rate far beyond the cap let the steps fail so that the
    risk goes below 0, where a search that saw it cut off at 0 would find impossible risks. There
    the risk is infinite, and beyond 1.5 caps it is punished.

    Args:
        schedule: whose values at the clock's readings are asked for.
        log_clip_scale: ln c.
        setting: of any stream.
        clock: an odd number of readings, two to a step.
    """
    rates = schedule(clock.time)
    clip_scale = jnp.exp(log_clip_scale)
    strength = setting.noise_strength(clip_scale)

    def stage(carry, given):
        state, last, total, is_sound = carry
        pace, reach, weight, is_end, rate = given
        found = state + reach * last - strength * rate**2
        is_sound &= setting.is_possible(found)
        change = pace * setting.velocity(found, rate, clip_scale)
        total = total + weight * change
        state = state + jnp.where(is_end, total, 0)
        return (state, change, jnp.where(is_end, 0, total), is_sound), None

    start = setting.start + strength * rates[0] ** 2
    zero = jnp.zeros_like(start)
    stages = runge_kutta_stages(clock.speed / (len(rates) // 2))
    (final, _, _, is_sound), _ = lax.scan(
        stage, (start, zero, zero, jnp.array(True)), (*stages, at_stages(rates))
    )
    excess = jnp.log(jnp.maximum(rates[0] / (MOST_CAPS * setting.cap), 1))
    # All noise has come: this is the state of what is released.
    is_sound &= setting.is_possible(final)
    risk = jnp.where(is_sound, setting.risk(final), 1)
    is_sound &= risk > 0
    value = jnp.log(jnp.where(is_sound, risk, 1)) + _STEEPNESS * excess**2
    return jnp.where(is_sound, value, jnp.inf)
