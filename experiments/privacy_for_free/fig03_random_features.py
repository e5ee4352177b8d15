r"""PF Figure 3: random features of any width under DP-GD, and what the calibration costs.

The paper's setting: tanh, Gaussian rows, d = 100, n = 2000, epsilon = 4, $C = \sqrt p/2$, theta*
by the pseudo-inverse, T chosen by the mean *test* loss (which is not privatised, and C is not
tuned). Three things differ. The learning rate is $\tau/T$ with T as small as stability allows and
the same for all $\tau$, instead of 3e-5 with up to 1.7 million steps: a panel shows that T hardly
matters, and the axis in T is that of the paper's rate. Rows are shared by all widths of a seed,
and weights are nested. Runs are simulated in function space, which is exact in law.

Beyond the paper: the exact calibration, infinite width, runs without noise, hyper-parameters
carried over from narrow models, and the dependence on T.

Source: PF Figure 3.
"""

import math
import time

import jax.numpy as jnp
import jax.random as jr
import xarray

import jaxdp
from experiments import harness
from experiments.privacy_for_free.batches import CALIBRATIONS
from experiments.privacy_for_free.fig03_cells import (
    Cell,
    fill_curves,
    fill_heat_map,
    fill_steps,
    fill_tuning,
)
from experiments.privacy_for_free.fig03_cells import Config as Config
from experiments.privacy_for_free.fig03_checks import checks as checks
from experiments.privacy_for_free.fig03_drawing import plot as plot
from experiments.privacy_for_free.fig03_summary import summary as summary
from experiments.privacy_for_free.nested_widths import at_widths


def run(config: Config) -> xarray.Dataset:
    """All seeds, each from narrow to wide."""
    dataset, clock = _empty(config), _Clock()
    for seed in harness.track(range(config.num_seeds), lambda seed: f"seed {seed}"):
        keys = jr.split(jr.fold_in(jr.key(config.seed), seed), 3)
        sizes = config.num_train, config.num_test, config.dim
        limit = jaxdp.RandomFeatures.sample(*sizes, None, activation=jnp.tanh, key=keys[0])
        for number, at in enumerate(at_widths(limit, dataset.width.data, key=keys[1])):
            cell = Cell(config, at, jr.fold_in(keys[2], number))
            fill_curves(cell, dataset.sel(seed=seed))
            clock.lap("curves")
            if at.width in config.tuned_widths and seed < config.tuned_seeds:
                fill_tuning(cell, dataset.sel(seed=seed))
                clock.lap("transfer")
            if at.width == config.heat_width and seed < config.heat_seeds:
                fill_heat_map(cell, dataset.sel(seed=seed))
                clock.lap("heat map")
            if math.isinf(at.width):
                fill_steps(cell, dataset.sel(seed=seed))
                clock.lap("steps")
    return dataset.assign_coords(part=list(clock.seconds)).assign(
        seconds=("part", list(clock.seconds.values()), {"units": "s"})
    )


def _empty(config: Config) -> xarray.Dataset:
    """Everything that will be measured, NaN where it will not."""
    axes = {
        "calibration": CALIBRATIONS,
        "width": [*map(float, config.widths), math.inf],
        "time": config.times,
        "seed": range(config.num_seeds),
        "tuned_width": list(map(float, config.tuned_widths)),
        "tuned_clip": config.tuned_clips,
        "tuned_time": config.tuned_times,
        "heat_clip": config.heat_clips,
        "heat_time": config.heat_times,
        "step_count": config.step_counts,
    }
    dataset = harness.empty(
        axes,
        {
            ("seed", "width", "time", "calibration"): ["risk", "clipped"],
            ("seed", "width"): ["num_steps", "interpolator"],
            ("seed", "time"): ["noiseless"],
            ("seed", "tuned_width", "tuned_time", "tuned_clip", "calibration"): ["tuned_risk"],
            ("seed", "heat_time", "heat_clip"): ["heat_risk", "heat_clipped"],
            ("seed", "step_count"): ["step_risk"],
        },
    )
    names = ("num_train", "num_test", "dim", "epsilon", "clip", "heat_width")
    return dataset.assign({name: getattr(config, name) for name in names})


class _Clock:
    """Seconds of each part, from lap to lap."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now


claims = harness.claims_of(checks)
harness.main(__name__)
