r"""The best plans for equal eigenvalues: a search over two numbers, and the floor without privacy.

The two are the clip scale and the first learning rate; the greedy arc gives the rest of the
schedule. A coarse grid finds the basin, since the risk has more than one, and descents end there,
for many settings at once.

Without noise $K = 0$, and no clip is best: $F = -2\tilde\eta\mu R + \tilde\eta^2\gamma\nu P$ is
least at $-\mu^2R^2/(\gamma\nu P)$, and $\mu^2 \le \nu$ by the inequality of Cauchy and Schwarz.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Float

from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.fit import descend
from jaxdp.planning.streams.optimal import greedy_run
from jaxdp.planning.streams.setting import Setting

# Steps of the integration, and far rougher ones of the grid. Next to 1,600 steps the risk is off by
# less than 2e-5 where zeta^2 >= 2e-3 R(0), by up to 1e-4 where it is >= 2e-4 R(0), at gamma from
# 1e-3 to .03 and rho from .3 to 3; with less label noise by percents, or more without any.
STEPS, _ROUGH_STEPS = 200, 48
# Points of the grid along each side, and settings that are searched at once.
_CLIPS, _STARTS, _BATCH = 20, 8, 16


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
