"""Clip and learning rate that minimise the predicted risk, on isotropic data.

A grid in (log c, log c eta~(0)), coordinates with a straight valley, shrinks around its best point.
This needs no gradients, is one `vmap`, and also follows a crooked valley: each round halves every
side.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float

import jaxdp

_SIDE, _ROUNDS = 15, 14
# Predictions in one compiled call.
_MOST_CELLS = 20_000
_DIM = 1000


@dataclasses.dataclass(frozen=True)
class Setting:
    """The fixed part of AC's figures: isotropic data, rho, zeta and R(0)."""

    rho: float = 1.0
    label_noise: float = 0.3
    initial_risk: float = 0.5

    def describe(self, dim: int, rate, power, clip_scale, num_steps, *, rho=None):
        """The problem and the algorithm of one cell; every number but `dim` may be traced.

        Args:
            dim: number of inputs.
            rate, power, clip_scale, num_steps: arguments of the schedule and the algorithm.
            rho: None for the setting's rho.
        """
        problem = jaxdp.LinearRegression.isotropic(
            dim, label_noise=self.label_noise, initial_risk=self.initial_risk
        )
        # Power 0 is the constant schedule of output perturbation. Source: AC (6).
        schedule = jaxdp.Polynomial(rate, power)
        rho = self.rho if rho is None else rho
        return problem, jaxdp.OnePassDPSGD(schedule, clip_scale, rho, num_steps)


class Tuned(NamedTuple):
    """Per case: c, eta~(0), their risk, and whether both are inside the searched ranges."""

    clip_scale: Float[np.ndarray, " cases"]
    rate: Float[np.ndarray, " cases"]
    risk: Float[np.ndarray, " cases"]
    is_interior: Bool[np.ndarray, " cases"]


def tune(setting: Setting, powers, gammas, clip_scales=None) -> Tuned:
    """The best c and eta~(0) for each power and gamma, in float64.

    Args:
        setting: the fixed part.
        powers: alpha of each case.
        gammas: gamma of each case.
        clip_scales: c of each case; if given, only the rate is tuned.
    """
    powers, gammas = np.asarray(powers, np.float64), np.asarray(gammas, np.float64)
    sides = np.full((2, len(powers)), np.log(100.0))
    # Every optimum of the paper is within a factor 3 of c = 0.3 and c eta~(0) = 3.
    middle = np.log(np.stack([np.full(len(powers), 0.3), np.full(len(powers), 3.0)]))
    if clip_scales is not None:
        sides[0] = 0
        middle[0] = np.log(clip_scales)
    low, high = middle - sides, middle + sides
    offsets = np.linspace(-1, 1, _SIDE)
    clip_offsets = offsets if clip_scales is None else np.zeros(1)
    for _ in range(_ROUNDS):
        first = middle[0][:, None, None] + sides[0][:, None, None] * clip_offsets[:, None]
        second = middle[1][:, None, None] + sides[1][:, None, None] * offsets
        first, second = np.broadcast_arrays(first, second)
        risks = predicted(
            setting,
            powers[:, None, None],
            gammas[:, None, None],
            np.exp(first),
            np.exp(second - first),
        )
        best = np.nanargmin(risks.reshape(len(powers), -1), axis=1)
        cells = np.arange(len(powers))
        middle = np.stack([part.reshape(len(powers), -1)[cells, best] for part in (first, second)])
        sides /= 2
    risk = risks.reshape(len(powers), -1)[cells, best]
    is_free = (high > low).any(axis=1, keepdims=True)
    inside = np.all(((middle > low) & (middle < high)) | ~is_free, axis=0)
    clip_scale = np.exp(middle[0])
    return Tuned(clip_scale, np.exp(middle[1]) / clip_scale, risk, np.asarray(inside))


def predicted(setting: Setting, power, gamma, clip_scale, rate, *, rho=None) -> np.ndarray:
    """Released risk by the coupled ODE in float64, NaN where it fails; arguments broadcast."""
    # The isotropic equation depends on d/n alone.
    num_steps = np.rint(_DIM / np.asarray(gamma)).astype(np.int64)
    rho = setting.rho if rho is None else rho
    given = np.broadcast_arrays(power, num_steps, clip_scale, rate, np.float64(rho))
    flat = [part.ravel() for part in given]
    with jax.enable_x64():
        parts = [
            _final_risks(
                setting, *(jnp.asarray(part[first : first + _MOST_CELLS]) for part in flat)
            )
            for first in range(0, flat[0].size, _MOST_CELLS)
        ]
    return np.concatenate([np.asarray(part) for part in parts]).reshape(given[0].shape)


def simulated(
    setting: Setting, dim: int, num_steps: int, powers, clip_scales, rates, *, key, num_runs
):
    """Released risks, one row per case, and the share of clipped gradients per case."""

    def released(key, power, clip_scale, rate):
        problem, algorithm = setting.describe(dim, rate, power, clip_scale, num_steps)
        simulator = jaxdp.Reduced()
        runs = jaxdp.simulate(
            problem, algorithm, key=key, num_runs=num_runs, simulator=simulator, records=1
        )
        return runs.final_risk, runs.observables["clipped_fraction"][:, -1].mean()

    cases = map(jnp.asarray, (powers, clip_scales, rates))
    return tuple(map(np.asarray, jax.vmap(released)(jr.split(key, len(powers)), *cases)))


@functools.partial(jax.jit, static_argnums=0)
@functools.partial(jax.vmap, in_axes=(None, 0, 0, 0, 0, 0))
def _final_risks(setting, power, num_steps, clip_scale, rate, rho) -> Float[Array, ""]:
    problem, algorithm = setting.describe(_DIM, rate, power, clip_scale, num_steps, rho=rho)
    return jaxdp.predict(problem, algorithm, records=1).final_risk
