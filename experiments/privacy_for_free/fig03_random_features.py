r"""PF Figure 3: random features of any width under DP-GD, and what the calibration costs.

The paper's setting: tanh, Gaussian rows, d = 100, n = 2000, epsilon = 4, $C = \sqrt p/2$, theta*
by the pseudo-inverse, T chosen by the mean *test* loss (which is not privatised, and C is not
tuned). Three things differ. The learning rate is $\tau/T$ with T as small as stability allows and
the same for all $\tau$, instead of 3e-5 with up to 1.7 million steps: a panel shows that T hardly
matters, and the axis in T is that of the paper's rate. Rows are shared by all widths of a seed,
and weights are nested. Runs are simulated in function space, which is exact in law.

Beyond the paper: the exact calibration, infinite width, runs without noise, hyper-parameters
carried over from narrow models, and the dependence on T.
"""

import dataclasses
import math
import sys
import time

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from jaxtyping import Array, Key

import jaxdp
from experiments import command
from experiments.privacy_for_free.batches import (
    CALIBRATIONS,
    final_risks,
    noise_per_root_time,
    risks_on_grid,
    steps_for,
)
from experiments.privacy_for_free.fig03_checks import checks as checks
from experiments.privacy_for_free.fig03_drawing import plot as plot
from experiments.privacy_for_free.fig03_summary import summary as summary
from experiments.privacy_for_free.nested_widths import AtWidth, at_widths

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

    @classmethod
    def smoke(cls) -> "Config":
        return cls(
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


def run(config: Config) -> xarray.Dataset:
    """All seeds, each from narrow to wide."""
    dataset, clock = _empty(config), _Clock()
    for seed in command.track(range(config.num_seeds), lambda seed: f"seed {seed}"):
        keys = jr.split(jr.fold_in(jr.key(config.seed), seed), 3)
        sizes = config.num_train, config.num_test, config.dim
        limit = jaxdp.RandomFeatures.sample(*sizes, None, activation=jnp.tanh, key=keys[0])
        for number, at in enumerate(at_widths(limit, dataset.width.data, key=keys[1])):
            cell = _Cell(config, at, jr.fold_in(keys[2], number))
            _curves(cell, dataset.sel(seed=seed))
            clock.lap("curves")
            if at.width in config.tuned_widths and seed < config.tuned_seeds:
                _tuning(cell, dataset.sel(seed=seed))
                clock.lap("transfer")
            if at.width == config.heat_width and seed < config.heat_seeds:
                _heat(cell, dataset.sel(seed=seed))
                clock.lap("heat map")
            if math.isinf(at.width):
                _steps(cell, dataset.sel(seed=seed))
                clock.lap("steps")
    return dataset.assign_coords(part=list(clock.seconds)).assign(
        seconds=("part", list(clock.seconds.values()), {"units": "s"})
    )


def claims(dataset: xarray.Dataset) -> dict[str, bool]:
    """Each claim and whether the dataset bears it out."""
    return {check.claim: check.holds for check in checks(dataset)}


def _empty(config: Config) -> xarray.Dataset:
    """Everything that will be measured, NaN where it will not."""
    coords = {
        "calibration": list(CALIBRATIONS),
        "width": [*map(float, config.widths), math.inf],
        "time": list(config.times),
        "seed": list(range(config.num_seeds)),
        "tuned_width": list(map(float, config.tuned_widths)),
        "tuned_clip": list(config.tuned_clips),
        "tuned_time": list(config.tuned_times),
        "heat_clip": list(config.heat_clips),
        "heat_time": list(config.heat_times),
        "step_count": list(config.step_counts),
    }
    dims = {
        "risk": ("seed", "width", "time", "calibration"),
        "clipped": ("seed", "width", "time", "calibration"),
        "num_steps": ("seed", "width"),
        "interpolator": ("seed", "width"),
        "noiseless": ("seed", "time"),
        "tuned_risk": ("seed", "tuned_width", "tuned_time", "tuned_clip", "calibration"),
        "heat_risk": ("seed", "heat_time", "heat_clip"),
        "heat_clipped": ("seed", "heat_time", "heat_clip"),
        "step_risk": ("seed", "step_count"),
    }
    shapes = {name: tuple(len(coords[dim]) for dim in of) for name, of in dims.items()}
    variables = {name: (of, np.full(shapes[name], np.nan)) for name, of in dims.items()}
    names = ("num_train", "num_test", "dim", "epsilon", "clip", "heat_width")
    settings = {name: getattr(config, name) for name in names}
    return xarray.Dataset(variables, coords).assign(settings)


class _Clock:
    """Seconds of each part, from lap to lap."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now


class _Cell:
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


def _curves(cell: _Cell, into: xarray.Dataset) -> None:
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


def _tuning(cell: _Cell, into: xarray.Dataset) -> None:
    grid = cell.config.tuned_times, cell.config.tuned_clips, CALIBRATIONS
    into.tuned_risk.loc[{"tuned_width": cell.at.width}] = cell.grid(*grid, cell.tuning_key)[0]


def _heat(cell: _Cell, into: xarray.Dataset) -> None:
    grid = cell.config.heat_times, cell.config.heat_clips, ["published"]
    risks, clipped = cell.grid(*grid, cell.heat_key)
    into.heat_risk[:], into.heat_clipped[:] = risks[..., 0], clipped[..., 0]


def _steps(cell: _Cell, into: xarray.Dataset) -> None:
    config = cell.config
    setting = (config.step_time * cell.per_time, config.clip * cell.per_clip)
    setting = (*setting, cell.noises["published"])
    for count in config.step_counts:
        risks, _ = final_risks(
            cell.at.problem,
            *(jnp.full(1, value) for value in setting),
            num_steps=jnp.asarray(count),
            key=cell.step_key,
            num_runs=config.step_runs,
        )
        into.step_risk.loc[{"step_count": count}] = float(risks.mean())


if __name__ == "__main__":
    sys.exit(command.main(sys.modules[__name__]))
