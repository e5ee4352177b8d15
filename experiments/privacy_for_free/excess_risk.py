r"""PF Theorem 1, measured: what privacy costs against n, d and epsilon, and the plateau.

$R_P$ is the mean test error of DP-GD less that of theta*, the interpolator, at infinite width and
at one finite p. $\tau$ and C are tuned by the mean *test* error of the cell, which is not
privatised, instead of taken from (4.3), whose $\log^2 n$ make the noise astronomic at any size that
fits a computer. The theorem's terms $d/(n\epsilon)$, $\sqrt{d/n}$ and $\sqrt{n/d^{3/2}}$ are drawn
with constants of one and without their logarithms: they bound, they do not predict.
"""

import dataclasses
import itertools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray

import jaxdp
from experiments import harness
from experiments.privacy_for_free.batches import (
    CALIBRATIONS,
    interpolator_risk,
    noise_per_root_time,
    risks_on_grid,
)
from experiments.privacy_for_free.excess_risk_checks import checks as checks
from experiments.privacy_for_free.excess_risk_drawing import plot as plot
from experiments.privacy_for_free.excess_risk_summary import summary as summary


@dataclasses.dataclass(frozen=True)
class Config:
    r"""Sizes; `finite_width` is measured at `finite_dim` only.

    Attributes:
        dims, nums_train: every pair is a cell; delta is 1/n.
        times, clips: the grid of $\tau p/d$ and $C/\sqrt p$ over which each cell is tuned.
        num_seeds: data sets of each cell, with one run of each setting.
    """

    dims: tuple[int, ...] = (10, 20, 40, 80)
    nums_train: tuple[int, ...] = (100, 200, 400, 800, 1600, 3200)
    num_test: int = 1000
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    finite_dim: int = 40
    finite_width: int = 12_800
    times: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    clips: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    fewest_steps: int = 12
    num_seeds: int = 4
    seed: int = 15

    def __post_init__(self):
        if self.finite_dim not in self.dims:
            raise ValueError(f"expected finite_dim among dims, got {self.finite_dim}")

    smoke = harness.size(
        dims=(10, 40),
        nums_train=(100, 400, 800),
        num_test=300,
        epsilons=(0.5, 2.0, 8.0),
        finite_width=3200,
        times=(2.0, 8.0),
        clips=(0.003, 0.03, 0.3),
        num_seeds=3,
        seed=6,
    )


def run(config: Config) -> xarray.Dataset:
    """Every cell at infinite width, and those of one dimension at a finite one too."""
    dataset = _empty(config)
    cells = list(itertools.product(config.dims, config.nums_train))
    for number, (dim, num_train) in enumerate(
        harness.track(cells, "d = {0[0]}, n = {0[1]}".format)
    ):
        for seed in range(config.num_seeds):
            row_key, *keys = jr.split(jr.fold_in(jr.fold_in(jr.key(config.seed), number), seed), 3)
            at = {"num_train": num_train, "seed": seed}
            limit, finite = ("", None, at | {"dim": dim}), ("finite_", config.finite_width, at)
            widths = (limit, finite) if dim == config.finite_dim else (limit,)
            for (prefix, width, here), key in zip(widths, keys, strict=False):
                sizes = num_train, config.num_test, dim, width
                # The same rows at either width.
                problem = jaxdp.RandomFeatures.sample(*sizes, activation=jnp.tanh, key=row_key)
                risks, interpolator = _measure(config, problem, key)
                dataset[f"{prefix}risk"].loc[here] = risks
                dataset[f"{prefix}interpolator"].loc[here] = interpolator
    return dataset


def _empty(config: Config) -> xarray.Dataset:
    axes = {
        "dim": config.dims,
        "num_train": config.nums_train,
        "seed": range(config.num_seeds),
        "time": config.times,
        "clip_scale": config.clips,
        "calibration": CALIBRATIONS,
        "epsilon": config.epsilons,
    }
    cell, grid = ("num_train", "seed"), ("time", "clip_scale", "calibration", "epsilon")
    dataset = harness.empty(
        axes,
        {
            ("dim", *cell, *grid): ["risk"],
            ("dim", *cell): ["interpolator"],
            (*cell, *grid): ["finite_risk"],
            cell: ["finite_interpolator"],
        },
    )
    return dataset.assign(finite_dim=config.finite_dim, finite_width=config.finite_width)


def _measure(config: Config, problem: jaxdp.RandomFeatures, key):
    """Test errors over the grid, (times, clips, calibrations, epsilons), and the interpolator's."""
    reduced = problem.reduced()
    # Infinite width is free of p.
    scale = problem.num_features or 1
    budgets = itertools.product(CALIBRATIONS, config.epsilons)
    noises = [noise_per_root_time(eps, 1 / problem.num_train, name) for name, eps in budgets]
    risks, _ = risks_on_grid(
        reduced,
        np.asarray(config.times) * problem.dim / scale,
        np.asarray(config.clips) * scale**0.5,
        np.asarray(noises),
        stability_limit=reduced.stability_limit(),
        fewest_steps=config.fewest_steps,
        key=key,
    )
    shape = (*risks.shape[:2], len(CALIBRATIONS), len(config.epsilons))
    return risks.reshape(shape), interpolator_risk(reduced)


claims = harness.claims_of(checks)
harness.main(__name__)
