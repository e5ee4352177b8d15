r"""The best of all non-increasing learning rates for equal eigenvalues, by greedy feedback.

A theorem, proved here, leaves two numbers to be searched for: the clip scale and the first learning
rate. Given both, the best rate is at each state the one at which the state falls fastest. A coarse
grid finds the basin, since the risk has more than one, and descents end there, for many settings at
once.

Without noise $K = 0$, and no clip is best: $F = -2\tilde\eta\mu R + \tilde\eta^2\gamma\nu P$ is
least at $-\mu^2R^2/(\gamma\nu P)$, and $\mu^2 \le \nu$ by the inequality of Cauchy and Schwarz.
"""

import dataclasses
import math
from typing import Any

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
# Newton's steps for the learning rate, from that of the step before; the state sees the square of
# what is left.
_NEWTON, _ROUNDING = 6, 1e-9
_TINY = 1e-300
# Steps of the integration, and far rougher ones of the grid. Next to 1,600 steps the risk is off by
# less than 2e-5 where zeta^2 >= 2e-3 R(0), by up to 1e-4 where it is >= 2e-4 R(0), at gamma from
# 1e-3 to .03 and rho from .3 to 3; with less label noise by percents, or more without any.
STEPS, _ROUGH_STEPS = 200, 48
# Points of the grid along each side, and settings that are searched at once.
_CLIPS, _STARTS, _BATCH = 20, 8, 16


class Optimal(AbstractDescription):
    r"""The best of all non-increasing schedules: what `jaxdp.plan` uses where none is named.

    **The problem.** For equal eigenvalues the risk obeys, with $e = \min(\tilde\eta, 2/\gamma)$,
    $m(R) = \mu R$, $N(R) = \nu P$, $P = R + \zeta^2/2$ and $K = 2c^2\gamma^2/\rho^2$,

        R' = -2 e m(R) + e^2 gamma N(R) - K d(eta~^2)/dt,

    and the noise of the last step adds $K\tilde\eta(1)^2$ at the end. Wanted are the clip scale c
    and the non-increasing $\tilde\eta \ge 0$ with the least risk of what is released.

    **One state.** $Z = R + K\tilde\eta^2$ obeys $Z' = F(Z, \tilde\eta) = -2 e m + e^2 \gamma N$ at
    $R = Z - K\tilde\eta^2$, without a derivative of the schedule, and begins at $Z(0) = R(0) +
    K\tilde\eta(0)^2$. The risk of what is released is Z(1): all of the noise to come has come.

    **Theorem.** Let c and $\tilde\eta(0)$ be given, and let $\eta^*(Z)$ be where $F(Z, \cdot)$ is
    least on $[0, \min(\tilde\eta(0), 2/\gamma)]$. No schedule with $\tilde\eta \le \tilde\eta(0)$,
    increasing or not, ends below the state that follows $Z' = F(Z, \eta^*(Z)) = f(Z)$.

    *Proof.* For any other schedule $Z' = F(Z, \tilde\eta(t)) \ge f(Z)$ at its own Z, from the same
    start. The two are scalar, so that where the other touches the greedy one from above it is not
    steeper downward: by the comparison of scalar differential equations (f is Lipschitz as a
    minimum of functions that are, uniformly, on a compact range) it stays above, and so does its
    end. Rates beyond $2/\gamma$ change nothing: there e is the cap, and F falls with R because $m'
    \ge N'$, so that a larger rate, which lowers R, only raises F. $\blacksquare$

    **The arc.** Inside the range the least F has $\partial F/\partial\tilde\eta = 0$, that is

        m = gamma N eta + 2 K m' eta^2 - K gamma N' eta^3,  the smallest positive root.

    As Z falls $\eta^*$ falls, so that the schedule is flat at $\tilde\eta(0)$ (or the cap) and then
    follows the arc: it is non-increasing by itself, hence the best of all that begin at or below
    $\tilde\eta(0)$. The two numbers c and $\tilde\eta(0)$ are found by descent from the best point
    of a grid.

    **What is checked and not proved.** That F has one minimum in $\tilde\eta$, so that the smallest
    root is it, and that $\eta^*$ increases with R: no violation is found at random settings in
    test_the_fall_has_one_minimum_and_the_arc_rises. That the search over two numbers finds their
    global minimum: `FreeForm` from a cold start reaches the same risk and nothing below.

    The clip scale is one number: one that falls with time is not looked at.

    With next to no label noise the search does not resolve risks below 1e-6 R(0): a plan then has
    the status UNSTABLE, because `CoupledODE` does not confirm what the search saw.

    For unequal eigenvalues there is a state per eigenvalue and the theorem does not hold. There
    the plan is the best `FreeForm` that descends through all modes from the isotropic plan.
    Nor is there a theorem for inputs of random scale, Huber's loss or logistic regression. There it
    is the best `FreeForm` that descends from the best hyperbola, or from a cold start.

    Derived: test_the_optimum_is_that_of_the_references,
    test_no_free_form_is_better_than_the_greedy_arc.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> plan = jaxdp.plan(problem, num_samples=1000, rho=1.0, schedule=jaxdp.Optimal)
        >>> print(f"{plan.predicted.final_risk:.4f}")
        0.0565
    """


def is_optimal(schedule: Any) -> bool:
    """Whether a schedule is named as the best of all, by the class or an object of it."""
    return schedule is Optimal or isinstance(schedule, Optimal)


def greedy_run(
    point: Float[Array, " two"], setting: Setting, steps: int
) -> tuple[Float[Array, ""], Float[Array, " knots"], Float[Array, " knots"]]:
    """Follow the feedback from t = 0 to 1, by Runge and Kutta's method on the log clock.

    A point is ln c, and the root of the logarithm of the cap over the first rate. Returns the risk
    of what is released, Z(1), the times of the steps' ends, with 0, and the learning rates there.
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
    """F(Z, eta): how fast the one state moves at a rate."""
    risk = jnp.maximum(state - setting.noise_strength(clip_scale) * rate**2, _TINY)
    return setting.velocity(risk[None], rate, clip_scale)[0]


def slope_in_rate(rate, state, clip_scale, setting: Setting):
    r"""$\tfrac12\partial F/\partial\tilde\eta$: where it is 0 the state falls fastest.

    The slope is $\gamma N\tilde\eta + 2Km'\tilde\eta^2 - K\gamma N'\tilde\eta^3 - m$, with
    $m' = \mu - R\,\sqrt{2/\pi}\,e^{-z^2/2} z/(2P)$ and
    $N' = \nu - z^2\,\mathrm{erfc}(z/\sqrt2)$ at $z = c/\sqrt{2P}$.
    Derived: test_the_condition_is_the_derivative_of_the_fall.
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
    """The rate at which the state falls fastest, among those up to the highest.

    On the arc F does not see a small change of the rate, so that neither does a derivative of what
    follows from it: the root is a constant to JAX.
    """
    known = jax.tree.map(lax.stop_gradient, (state, guess, highest, clip_scale, setting))
    root, is_below = _root(*known)
    return jnp.where(is_below, root, highest)


def _root(state, guess, highest, clip_scale, setting: Setting):
    """The root of the condition by Newton's steps within a bracket, and whether there is one."""
    strength = setting.noise_strength(clip_scale)
    # Beyond the second the noise to come would be more than all of the state.
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
        # At the root itself rounding may put the step just outside, which is no reason to bisect.
        margin = _ROUNDING * limit
        is_inside = (newton >= low - margin) & (newton <= high + margin)
        return low, high, jnp.where(is_inside, newton, (low + high) / 2)

    start = jnp.zeros_like(limit), limit, jnp.minimum(guess, limit)
    *_, rate = lax.fori_loop(0, _NEWTON, narrow, start)
    return rate, slope_in_rate(limit, state, clip_scale, setting) > 0


def best_greedy(
    settings: Setting,
) -> tuple[Float[np.ndarray, "settings two"], Float[np.ndarray, " settings"]]:
    """The best points (see `greedy_run`) of settings along a leading axis, and their risks.

    All have noise. Several settings are searched in batches of one size, which is compiled once;
    the last batch is filled up with its last setting.
    """
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
    """Knots in time and the learning rates there, of one plan."""
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[None], setting)
    with on_host():
        _, _, (time, rates) = _evaluated(jnp.asarray(point)[None], batch, STEPS)
        return np.array(time[0]), np.minimum.accumulate(np.array(rates[0]))


def _grid(settings: Setting) -> Float[np.ndarray, "settings points 2"]:
    """Clip scales down to where noise leaves hardly a step, and first rates up to the cap."""
    root = np.sqrt(settings.label_variance)
    signal = 2 * settings.initial_risk / settings.label_variance
    lowest = 1e-2 * signal * np.minimum(1, np.minimum(1, settings.rho) ** 2 / settings.gamma)
    shares = np.linspace(0, 1, _CLIPS)
    clips = np.log(root)[:, None] + np.log(lowest)[:, None] * (1 - shares) + math.log(5) * shares
    # None at the cap itself, where the descent would not see which way to go.
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
    r"""The least risk that one pass without privacy reaches, for equal eigenvalues.

    With $\tilde\eta = R/(\gamma P)$ the risk obeys $R' = -R^2/(\gamma P)$, hence

    $$ \ln\frac{R(0)}{R} + \frac{\zeta^2}{2}\Bigl(\frac1R - \frac1{R(0)}\Bigr)
       = \frac1\gamma. $$

    Derived: test_the_floor_solves_its_equation_and_is_known.
    """
    start, half = float(setting.initial_risk), float(setting.modes.label_noise) ** 2 / 2
    wanted = 1 / float(setting.gamma)

    def excess(fall):
        # In fall = ln(R(0)/R), of which the left side is a convex function.
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
    # Where nothing is left of the risk the rate does not matter.
    powers = np.maximum(risks + half, np.finfo(float).tiny)
    return np.minimum.accumulate(risks / powers) / float(setting.gamma)
