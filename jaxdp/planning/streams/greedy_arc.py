r"""The best of all non-increasing learning rates for equal eigenvalues, by the theorem at
`Optimal`.

Without noise no clip is best: $F = -2\tilde\eta\mu R + \tilde\eta^2\gamma\nu P$ has the least value
$-\mu^2R^2/(\gamma\nu P)$, and $\mu^2 \le \nu$ by Cauchy and Schwarz.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax
from jax.scipy.special import erfc
from jaxtyping import Array, Float

from jaxdp.core.description import AbstractDescription
from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor
from jaxdp.core.numerics.descent import descend
from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.families import log_clock, runge_kutta_stages
from jaxdp.planning.streams.setting import Setting

_DENSITY = math.sqrt(2 / math.pi)
_NEWTON, _ROUNDING = 6, 1e-9  # Newton steps from the last rate; errors enter squared
_TINY = 1e-300
# Steps of the integration, and of the rougher one on the grid. The risk is off by less than 2e-5 if
# zeta^2 >= 2e-3 R(0), by up to 1e-4 if it is >= 2e-4 R(0), and by percents with less label noise.
STEPS, _ROUGH_STEPS = 200, 48
_CLIPS, _STARTS, _BATCH = 20, 8, 16  # points of the grid along each side, and settings in a batch


class Optimal(AbstractDescription):
    r"""The best of all non-increasing schedules, the default of `jaxdp.plan`.

    **Problem.** For equal eigenvalues the risk obeys, with $e = \min(\tilde\eta, 2/\gamma)$,
    $m(R) = \mu R$, $N(R) = \nu P$, $P = R + \zeta^2/2$ and $K = 2c^2\gamma^2/\rho^2$,

        R' = -2 e m(R) + e^2 gamma N(R) - K d(eta~^2)/dt,

    and the noise of the last step adds $K\tilde\eta(1)^2$. Wanted are the clip scale c and the
    non-increasing $\tilde\eta \ge 0$ with the least released risk. The state
    $Z = R + K\tilde\eta^2$ obeys $Z' = F(Z, \tilde\eta) = -2 e m + e^2 \gamma N$ at
    $R = Z - K\tilde\eta^2$, without a derivative of the schedule. It starts at
    $Z(0) = R(0) + K\tilde\eta(0)^2$, and Z(1) is the released risk, after all noise.

    **Theorem.** Let c and $\tilde\eta(0)$ be given, and let $F(Z, \cdot)$ be least on $[0,
    \min(\tilde\eta(0), 2/\gamma)]$ at $\eta^*(Z)$. No schedule with $\tilde\eta \le \tilde\eta(0)$,
    increasing or not, ends below the solution of $Z' = F(Z, \eta^*(Z)) = f(Z)$.

    *Proof.* Any other schedule has $Z' = F(Z, \tilde\eta(t)) \ge f(Z)$ at its own Z, from the same
    start. f is Lipschitz, as a minimum of uniformly Lipschitz functions on a compact range, and
    where the other solution touches the greedy one it is not steeper downward. So by comparison of
    scalar differential equations the other solution stays above. Rates beyond
    $2/\gamma$ do not help: there e is the cap, and F falls with R because $m' \ge N'$, so a larger
    rate, which lowers R, raises F. $\blacksquare$

    **Arc.** Inside the range the least F has $\partial F/\partial\tilde\eta = 0$, that is

        m = gamma N eta + 2 K m' eta^2 - K gamma N' eta^3,  the smallest positive root.

    As Z falls $\eta^*$ falls: the schedule is flat at $\tilde\eta(0)$ (or the cap), then follows
    the arc. It is non-increasing, hence the best of all that begin at or below $\tilde\eta(0)$.
    Descent from the best point of a grid finds c, constant in time, and $\tilde\eta(0)$.

    **Checked, not proved.** F has one minimum in $\tilde\eta$ and $\eta^*$ increases with R:
    test_the_fall_has_one_minimum_and_the_arc_rises, at random settings. The search finds the global
    minimum: `FreeForm` from a cold start finds nothing below. Almost without label noise risks
    below 1e-6 R(0) are not resolved: the plan's status is then UNSTABLE.

    Without the theorem the plan is the best `FreeForm` found by descent: for unequal eigenvalues
    from the isotropic plan; for inputs of random scale, Huber's loss or logistic regression from
    the best hyperbola or a cold start.

    Derived: test_the_optimum_is_that_of_the_references,
    test_no_free_form_is_better_than_the_greedy_arc.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> plan = jaxdp.plan(problem, num_samples=1000, rho=1.0, schedule=jaxdp.Optimal)
        >>> print(f"{plan.predicted.final_risk:.4f}")
        0.0565
    """


def greedy_run(
    point: Float[Array, " two"], setting: Setting, steps: int
) -> tuple[Float[Array, ""], Float[Array, " knots"], Float[Array, " knots"]]:
    """Follow the feedback from t = 0 to 1 on the log clock; return Z(1), times and learning rates.

    A point is ln c, and the root of ln(cap / first rate).
    """
    clip_scale = jnp.exp(point[0])
    highest = setting.cap * jnp.exp(-(point[1] ** 2))
    clock = log_clock(setting.gamma, 2 * steps + 1)

    def stage(carry, given):
        state, last, total, guess = carry
        pace, reach, weight, is_end = given
        inside = state + reach * last
        rate = _feedback(inside, guess, highest, clip_scale, setting)
        change = pace * fall(inside, rate, clip_scale, setting)
        total = total + weight * change
        state = state + jnp.where(is_end, total, 0)
        return (state, change, jnp.where(is_end, 0, total), rate), rate

    start = setting.initial_risk + setting.noise_strength(clip_scale) * highest**2
    zero = jnp.zeros_like(start)
    (final, _, _, guess), rates = lax.scan(
        stage, (start, zero, zero, highest), runge_kutta_stages(clock.speed / steps)
    )
    last = _feedback(final, guess, highest, clip_scale, setting)
    return final, clock.time[::2], jnp.append(rates[::4], last)


def fall(state, rate, clip_scale, setting: Setting):
    r"""F(Z, $\tilde\eta$), the velocity of the state."""
    risk = jnp.maximum(state - setting.noise_strength(clip_scale) * rate**2, _TINY)
    return setting.velocity(risk[None], rate, clip_scale)[0]


def slope_in_rate(rate, state, clip_scale, setting: Setting):
    r"""$\tfrac12\partial F/\partial\tilde\eta = \gamma N\tilde\eta + 2Km'\tilde\eta^2 - K\gamma
    N'\tilde\eta^3 - m$, 0 at the rate of the fastest fall.

    $m' = \mu - R\,\sqrt{2/\pi}\,e^{-z^2/2} z/(2P)$ and $N' = \nu - z^2\,\mathrm{erfc}(z/\sqrt2)$ at
    $z = c/\sqrt{2P}$. Derived: test_the_condition_is_the_derivative_of_the_fall.
    """
    noise = setting.noise_strength(clip_scale) * rate**2
    risk = jnp.maximum(state - noise, _TINY)
    power = setting.modes.second_moment(risk) / 2
    ratio = clip_scale / jnp.sqrt(2 * power)
    descent, variance = descent_factor(ratio), variance_factor(ratio)
    descent_slope = descent - risk / power * _DENSITY * jnp.exp(-(ratio**2) / 2) * ratio / 2
    spread_slope = variance - ratio**2 * erfc(ratio * math.sqrt(0.5))
    return (
        setting.gamma * rate * (variance * power - noise * spread_slope)
        + 2 * noise * descent_slope
        - descent * risk
    )


def _feedback(state, guess, highest, clip_scale, setting: Setting):
    """The rate up to the highest at which the state falls fastest."""
    # The derivative of F in the rate is 0 at the root, which may be a constant to JAX.
    known = jax.tree.map(lax.stop_gradient, (state, guess, highest, clip_scale, setting))
    root, is_below = _root(*known)
    return jnp.where(is_below, root, highest)


def _root(state, guess, highest, clip_scale, setting: Setting):
    """The root of the condition by safeguarded Newton steps, and whether it is below the limit."""
    strength = setting.noise_strength(clip_scale)
    # The noise to come is at most the whole state.
    limit = jnp.minimum(highest, jnp.sqrt(state / jnp.maximum(strength, _TINY)))

    def narrow(_, found):
        low, high, rate = found
        value, slope = jax.jvp(
            lambda rate: slope_in_rate(rate, state, clip_scale, setting),
            (rate,),
            (jnp.ones_like(rate),),
        )
        low, high = jnp.where(value < 0, rate, low), jnp.where(value < 0, high, rate)
        newton = rate - value / slope
        # Near the root rounding may put the step just outside, without need to bisect.
        margin = _ROUNDING * limit
        is_inside = (newton >= low - margin) & (newton <= high + margin)
        return low, high, jnp.where(is_inside, newton, (low + high) / 2)

    start = jnp.zeros_like(limit), limit, jnp.minimum(guess, limit)
    *_, rate = lax.fori_loop(0, _NEWTON, narrow, start)
    return rate, slope_in_rate(limit, state, clip_scale, setting) > 0


def best_greedy(
    settings: Setting,
) -> tuple[Float[np.ndarray, "settings two"], Float[np.ndarray, " settings"]]:
    """The best points (see `greedy_run`) of noisy settings along a leading axis; and risks."""
    # Batches of one size compile once; the last one repeats its last setting.
    count = len(settings.gamma)
    size = 1 if count == 1 else _BATCH
    batches = [
        np.minimum(np.arange(start, start + size), count - 1) for start in range(0, count, size)
    ]
    found = [
        _best_of_batch(jax.tree.map(lambda leaf, places=places: leaf[places], settings))
        for places in batches
    ]
    points, risks = (np.concatenate(parts)[:count] for parts in zip(*found, strict=True))
    return points, risks


def _best_of_batch(settings: Setting) -> tuple[np.ndarray, np.ndarray]:
    with on_host():
        grid = _grid(settings)
        rough = np.array(_risks_on_grid(grid, settings, _ROUGH_STEPS))
        rough[~np.isfinite(rough)] = np.inf
        starts = np.take_along_axis(grid, rough.argmin(axis=1)[:, None, None], axis=1)[:, 0]
        points, values = descend(
            lambda points: _evaluated(jnp.asarray(points), settings, STEPS)[:2], starts
        )
    return points, np.exp(values)


def greedy_schedule(
    point: Float[np.ndarray, " two"], setting: Setting
) -> tuple[Float[np.ndarray, " knots"], Float[np.ndarray, " knots"]]:
    """Knots in time and the learning rates there, for one plan."""
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[None], setting)
    with on_host():
        _, _, (time, rates) = _evaluated(jnp.asarray(point)[None], batch, STEPS)
        return np.array(time[0]), np.minimum.accumulate(np.array(rates[0]))


def _grid(settings: Setting) -> Float[np.ndarray, "settings points 2"]:
    """Clip scales down to hardly any step, and first rates up to the cap."""
    root = np.sqrt(settings.label_variance)
    signal = 2 * settings.initial_risk / settings.label_variance
    lowest = 1e-2 * signal * np.minimum(1, np.minimum(1, settings.rho) ** 2 / settings.gamma)
    shares = np.linspace(0, 1, _CLIPS)
    clips = np.log(root)[:, None] + np.log(lowest)[:, None] * (1 - shares) + math.log(5) * shares
    # None is at the cap itself, where the gradient in the second number is 0.
    farthest = np.sqrt(np.log(20 / np.minimum(1, settings.gamma)))
    roots = farthest[:, None] * np.linspace(0.05, 1, _STARTS)
    pairs = np.broadcast_arrays(clips[:, :, None], roots[:, None, :])
    return np.stack(pairs, axis=-1).reshape(len(root), -1, 2)


@eqx.filter_jit
def _risks_on_grid(points, settings, steps: int):
    def one(point, setting):
        return jnp.log(greedy_run(point, setting, steps)[0])

    return jax.vmap(jax.vmap(one, in_axes=(0, None)))(points, settings)


@eqx.filter_jit
def _evaluated(points, settings, steps: int):
    """Logarithms of risks, their gradients, and the schedules as times and rates."""

    def one(point, setting):
        def run(point):
            final, *schedule = greedy_run(point, setting, steps)
            return jnp.log(final), schedule

        # Two tangents cost less than a reverse pass.
        def along(direction):
            value, slope, schedule = jax.jvp(run, (point,), (direction,), has_aux=True)
            return (value, schedule), slope

        (value, schedule), slopes = jax.vmap(along, out_axes=(None, 0))(jnp.eye(2))
        return value, slopes, schedule

    return jax.vmap(one)(points, settings)


def isotropic_floor(setting: Setting) -> float:
    r"""The least risk of one pass without privacy, for equal eigenvalues, with
    $\tilde\eta = R/(\gamma P)$.

    $R' = -R^2/(\gamma P)$, so
    $\ln\frac{R(0)}{R} + \frac{\zeta^2}{2}\bigl(\frac1R - \frac1{R(0)}\bigr) = \frac1\gamma$.
    Derived: test_the_floor_solves_its_equation_and_is_known.
    """
    start, half = float(setting.initial_risk), float(setting.modes.label_noise) ** 2 / 2
    wanted = 1 / float(setting.gamma)

    def excess(fall):
        # The left side is convex in fall = ln(R(0)/R).
        return fall + half / start * math.expm1(min(fall, 700.0)) - wanted

    fall = float(scipy.optimize.brentq(excess, 0.0, wanted, xtol=1e-14 * wanted, rtol=1e-14))
    return start * math.exp(-fall)


def noiseless_schedule(
    setting: Setting, time: Float[np.ndarray, " knots"]
) -> Float[np.ndarray, " knots"]:
    r"""The rates $R/(\gamma P)$ to the floor, with R(t) the floor of the first tn samples."""
    half = float(setting.modes.label_noise) ** 2 / 2
    floors = [
        isotropic_floor(dataclasses.replace(setting, gamma=setting.gamma / one)) for one in time[1:]
    ]
    risks = np.asarray([float(setting.initial_risk), *floors])
    powers = np.maximum(risks + half, np.finfo(float).tiny)
    return np.minimum.accumulate(risks / powers) / float(setting.gamma)
