"""One width of one seed of PF Figure 3, and how large the figure is."""

import dataclasses
import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from jaxtyping import Array, Key

from experiments import harness
from experiments.privacy_for_free.batches import (
    CALIBRATIONS,
    final_risks,
    noise_per_root_time,
    risks_on_grid,
    steps_for,
)
from experiments.privacy_for_free.nested_widths import AtWidth

# The paper's widths, and its heat map's.
_WIDTHS = tuple(sorted({*np.logspace(1.5, 5.3, 20).astype(int).tolist(), 40_000}))


def _logspace(low: float, high: float, count: int) -> tuple[float, ...]:
    return tuple(np.logspace(low, high, count).tolist())


@dataclasses.dataclass(frozen=True)
class Config:
    r"""The figure's setting; infinite width always comes after the widths.

    Attributes:
        num_train, num_test, dim, epsilon: n, m, d; delta is 1/n.
        clip: $C/\sqrt p$ of the curves.
        widths: p, rising.
        num_seeds: data sets, each with its weights and noises.
        times: $\tau p/d$ of the curves.
        fewest_steps: T, unless stability asks for more.
        tuned_widths, tuned_seeds, tuned_clips, tuned_times: what is tuned and carried over.
        heat_width, heat_seeds, heat_clips, heat_times: of the heat map.
        step_counts, step_runs, step_time: of the panel against T, at infinite width.
    """

    num_train: int = 2000
    num_test: int = 1000
    dim: int = 100
    epsilon: float = 4.0
    clip: float = 0.5
    widths: tuple[int, ...] = _WIDTHS
    num_seeds: int = 10
    times: tuple[float, ...] = _logspace(0, 1.2, 20)
    fewest_steps: int = 16
    tuned_widths: tuple[float, ...] = (316, 1258, 5011, 40_000, math.inf)
    tuned_seeds: int = 5
    tuned_clips: tuple[float, ...] = _logspace(-1, 0.5, 7)
    tuned_times: tuple[float, ...] = _logspace(0, 1.6, 9)
    heat_width: int = 40_000
    heat_seeds: int = 3
    heat_clips: tuple[float, ...] = _logspace(-2, 1.5, 20)
    heat_times: tuple[float, ...] = _logspace(-1.5, 2.5, 20)
    step_counts: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    step_runs: int = 16
    step_time: float = 4.3
    seed: int = 4

    def __post_init__(self):
        unknown = {self.heat_width, *self.tuned_widths} - {*self.widths, math.inf}
        if unknown:
            raise ValueError(f"expected heat_width and tuned_widths among widths, got {unknown}")

    smoke = harness.size(
        num_train=200,
        num_test=200,
        dim=20,
        widths=(50, 200, 800, 4000),
        num_seeds=5,
        seed=0,
        times=_logspace(-0.2, 1.2, 8),
        tuned_widths=(50, 800, math.inf),
        tuned_clips=_logspace(-1, 0.5, 4),
        tuned_times=_logspace(0, 1.6, 5),
        heat_width=800,
        heat_clips=_logspace(-2, 1.5, 6),
        heat_times=_logspace(-1.5, 2.5, 6),
        step_counts=(8, 32, 128),
    )


class Cell:
    """One width of one seed, and hyper-parameters in its units."""

    def __init__(self, config: Config, at: AtWidth, key: Key[Array, ""]):
        self.config, self.at = config, at
        self.curve_key, self.tuning_key, self.heat_key, self.step_key = jr.split(key, 4)
        self.stability_limit = at.problem.stability_limit()
        # Infinite width is free of p.
        scale = 1.0 if math.isinf(at.width) else at.width
        self.per_time, self.per_clip = config.dim / scale, math.sqrt(scale)
        delta = 1 / config.num_train
        levels = (noise_per_root_time(config.epsilon, delta, name) for name in CALIBRATIONS)
        self.noises = dict(zip(CALIBRATIONS, levels, strict=True))

    def grid(self, times, clips, calibrations, key):
        return risks_on_grid(
            self.at.problem,
            self.per_time * np.asarray(times),
            self.per_clip * np.asarray(clips),
            np.asarray([self.noises[name] for name in calibrations]),
            stability_limit=self.stability_limit,
            fewest_steps=self.config.fewest_steps,
            key=key,
        )


def fill_curves(cell: Cell, into: xarray.Dataset) -> None:
    """Risks at every time with the figure's clip, and the interpolator's."""
    config, at = cell.config, cell.at
    levels = list(cell.noises.values())
    if math.isinf(at.width):
        levels.append(0.0)
    durations = cell.per_time * np.repeat(config.times, len(levels))
    settings = (durations, np.full_like(durations, cell.per_clip * config.clip))
    noises = np.tile(levels, len(config.times))
    steps = steps_for(durations.max(), cell.stability_limit, config.fewest_steps)
    risks, clipped = (
        np.asarray(values).reshape(len(config.times), len(levels))
        for values in final_risks(
            at.problem,
            *(jnp.asarray(values, float) for values in (*settings, noises)),
            num_steps=jnp.asarray(steps),
            key=cell.curve_key,
        )
    )
    here = {"width": at.width}
    into.risk.loc[here] = risks[:, : len(CALIBRATIONS)]
    into.clipped.loc[here] = clipped[:, : len(CALIBRATIONS)]
    into.num_steps.loc[here] = float(steps)
    into.interpolator.loc[here] = at.interpolator_risk
    if math.isinf(at.width):
        into.noiseless[:] = risks[:, -1]


def fill_tuning(cell: Cell, into: xarray.Dataset) -> None:
    """Risks over the grid of times and clip norms that is tuned."""
    grid = cell.config.tuned_times, cell.config.tuned_clips, CALIBRATIONS
    into.tuned_risk.loc[{"tuned_width": cell.at.width}] = cell.grid(*grid, cell.tuning_key)[0]


def fill_heat_map(cell: Cell, into: xarray.Dataset) -> None:
    """Risks over the heat map's grid, and which gradients are clipped."""
    grid = cell.config.heat_times, cell.config.heat_clips, ["published"]
    risks, clipped = cell.grid(*grid, cell.heat_key)
    into.heat_risk[:], into.heat_clipped[:] = risks[..., 0], clipped[..., 0]


def fill_steps(cell: Cell, into: xarray.Dataset) -> None:
    """Risks against the number of steps, at one time."""
    config = cell.config
    setting = config.step_time * cell.per_time, config.clip * cell.per_clip
    setting = *setting, cell.noises["published"]
    for count in config.step_counts:
        risks, _ = final_risks(
            cell.at.problem,
            *(jnp.full(1, value) for value in setting),
            num_steps=jnp.asarray(count),
            key=cell.step_key,
            num_runs=config.step_runs,
        )
        into.step_risk.loc[{"step_count": count}] = float(risks.mean())
