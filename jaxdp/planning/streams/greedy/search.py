r"""The search for the best greedy plan: two numbers, for many settings at once.

The two are the clip scale and the first learning rate; the greedy arc gives the rest of the
schedule. A coarse grid finds the basin, since the risk has more than one, and descents end there.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.equations.setting import Setting
from jaxdp.planning.streams.families.descent import descend
from jaxdp.planning.streams.greedy.greedy_arc import greedy_run

# Steps of the integration, and far rougher ones of the grid. Next to 1,600 steps the risk is off by
# less than 2e-5 where zeta^2 >= 2e-3 R(0), by up to 1e-4 where it is >= 2e-4 R(0), at gamma from
# 1e-3 to .03 and rho from .3 to 3; with less label noise by percents, or more without any.
STEPS, _ROUGH_STEPS = 200, 48
# Points of the grid along each side, and settings that are searched at once.
_CLIPS, _STARTS, _BATCH = 20, 8, 16


class Greedy(NamedTuple):
    """The best greedy plan of each setting.

    Attributes:
        points: ln c, and the root of the logarithm of the cap over the first rate.
        risk: of what is released.
    """

    points: Float[np.ndarray, "settings 2"]
    risk: Float[np.ndarray, " settings"]


def best_greedy(settings: Setting) -> Greedy:
    """The best clip scale and first rate of settings along a leading axis, all with noise.

    Several settings are searched in batches of one size, which is compiled once.
    """
    count = len(settings.gamma)
    size = 1 if count == 1 else _BATCH
    found = [
        _best_of_batch(jax.tree.map(lambda leaf, places=places: leaf[places], settings))
        for places in _batches(count, size)
    ]
    return Greedy(*(np.concatenate(parts)[:count] for parts in zip(*found, strict=True)))


def _batches(count: int, size: int) -> list[Int[np.ndarray, " size"]]:
    """Places in batches of one size; the last is filled up with its last place."""
    starts = range(0, count, size)
    return [np.minimum(np.arange(start, start + size), count - 1) for start in starts]


def _best_of_batch(settings: Setting) -> Greedy:
    with on_host():
        grid = _grid(settings)
        rough = np.array(_risks_on_grid(grid, settings, _ROUGH_STEPS))
        rough[~np.isfinite(rough)] = np.inf
        starts = np.take_along_axis(grid, rough.argmin(axis=1)[:, None, None], axis=1)[:, 0]
        found = descend(lambda points: _evaluated(jnp.asarray(points), settings, STEPS)[:2], starts)
    return Greedy(found.points, np.exp(found.values))


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
    count = len(root)
    return np.stack(
        [
            np.broadcast_to(clips[:, :, None], (count, _CLIPS, _STARTS)).reshape(count, -1),
            np.broadcast_to(roots[:, None, :], (count, _CLIPS, _STARTS)).reshape(count, -1),
        ],
        axis=-1,
    )


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
