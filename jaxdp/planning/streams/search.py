r"""The search for the best greedy plan: two numbers, for many settings at once."""

import functools
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.descent import descend
from jaxdp.planning.streams.greedy_arc import greedy_run
from jaxdp.planning.streams.setting import Setting

# Steps of the integration: their error is below 3e-6 of the risk; of the grid, far rougher.
STEPS, _ROUGH_STEPS = 200, 48
# c over the standard deviation of a label beyond which nothing is clipped.
_NO_CLIP = 1e3
_CLIPS, _STARTS = 20, 8


class Greedy(NamedTuple):
    """The best greedy plan of each setting.

    Attributes:
        points: ln c, and the root of the logarithm of the cap over the first rate.
        risk: of what is released.
    """

    points: Float[np.ndarray, "settings 2"]
    risk: Float[np.ndarray, " settings"]


def best_greedy(settings: Setting) -> Greedy:
    """The best clip scale and first rate of settings along a leading axis."""
    with on_host():
        grid = _grid(settings)
        # Without noise nothing is won by clipping, and the arc is below the cap.
        is_quiet = np.isinf(settings.rho)
        no_clip = np.log(_NO_CLIP * np.sqrt(settings.label_variance))
        grid[is_quiet] = np.stack([no_clip, 0 * no_clip], axis=-1)[is_quiet, None]
        rough = np.array(_risks_on_grid(grid, settings, _ROUGH_STEPS))
        rough[~np.isfinite(rough)] = np.inf
        starts = np.take_along_axis(grid, rough.argmin(axis=1)[:, None, None], axis=1)[:, 0]
        found = descend(
            lambda points: _value_and_gradient(jnp.asarray(points), settings, STEPS), starts
        )
    return Greedy(found.points, np.exp(found.values))


def greedy_schedule(
    point: Float[np.ndarray, " two"], setting: Setting
) -> tuple[Float[np.ndarray, " knots"], Float[np.ndarray, " knots"]]:
    """Knots in time and the learning rates there, of one plan."""
    with on_host():
        _, time, rates = _run(jnp.asarray(point), setting)
        return np.array(time), np.minimum.accumulate(np.array(rates))


def _grid(settings: Setting) -> Float[np.ndarray, "settings points 2"]:
    """Clip scales down to where noise leaves hardly a step, and first rates up to the cap."""
    root = np.sqrt(settings.label_variance)
    lowest = 1e-2 * np.minimum(1, np.minimum(1, settings.rho) ** 2 / np.sqrt(settings.gamma))
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


def log_risk(point, setting: Setting, steps: int):
    """The logarithm of the risk, which a search minimises."""
    final, _, _ = greedy_run(point, setting, steps)
    return jnp.log(final)


@functools.partial(eqx.filter_jit)
def _risks_on_grid(points, settings, steps: int):
    rough = functools.partial(log_risk, steps=steps)
    return jax.vmap(jax.vmap(rough, in_axes=(0, None)))(points, settings)


@eqx.filter_jit
def _value_and_gradient(points, settings, steps: int):
    def one(point, setting):
        # Two tangents cost less than a reverse pass.
        def directional(direction):
            return jax.jvp(lambda point: log_risk(point, setting, steps), (point,), (direction,))

        values, slopes = jax.vmap(directional)(jnp.eye(2))
        return values[0], slopes

    return jax.vmap(one)(points, settings)


@eqx.filter_jit
def _run(point, setting):
    return greedy_run(point, setting, STEPS)
