r"""PK Figure 1: test error against epsilon on synthetic data, d = 10, 20 and 30.

Random projections and random Fourier features, with the published noise and with the certified.
Curves are the least test errors over M and lambda, as in the paper: an oracle's choice, with the
bound T = max|y| that the paper leaves open. The certified learner with public bounds and rules that
look at no data stands beside them. `fig02_projection_dimension.py` draws the same runs against M.

Source: PK Figure 1.
"""

import dataclasses
import functools

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.private_kernel_learning.error_drawing import against_epsilon, legend
from experiments.private_kernel_learning.fig01_checks import checks as checks
from experiments.private_kernel_learning.fig01_checks import summary as summary
from experiments.private_kernel_learning.repetition import data_free, oracle_errors
from experiments.private_kernel_learning.ridge_grid import Grid
from experiments.private_kernel_learning.ridge_methods import Bounds
from experiments.private_kernel_learning.synthetic import (
    LABEL_BOUNDS,
    RESIDUAL_BOUNDS,
    draw,
    kernel,
)
from jaxdp.core.keys import purpose_key


@dataclasses.dataclass(frozen=True)
class Config:
    """The figure's setting: the paper's, with more values of M."""

    dims: tuple[int, ...] = (10, 20, 30)
    num_train: int = 1000
    num_test: int = 1000
    epsilons: tuple[float, ...] = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)
    num_projections: tuple[int, ...] = (10, 20, 40, 70, 100, 150, 250, 400, 600, 1000)
    repetitions: int = 100
    seed: int = 6

    smoke = harness.size(
        dims=(10, 20),
        num_train=300,
        num_test=300,
        epsilons=(0.1, 1.0, 10.0),
        num_projections=(10, 40, 120),
        repetitions=4,
    )


def run(config: Config) -> xarray.Dataset:
    """Every repetition of every dimension."""
    cells = [(dim, number) for dim in config.dims for number in range(config.repetitions)]
    found = harness.spread(
        functools.partial(_repetition, config), cells, "d = {0[0]}, repetition {0[1]}".format
    )
    rows = [
        xarray.concat(found[start : start + config.repetitions], "repetition")
        for start in range(0, len(found), config.repetitions)
    ]
    dataset = xarray.concat(rows, "dim").astype(np.float32)
    return dataset.assign_attrs(num_train=config.num_train, num_test=config.num_test)


def _repetition(config: Config, cell: tuple[int, int]) -> xarray.Dataset:
    dim, number = cell
    key = jr.fold_in(jr.fold_in(jr.key(config.seed), dim), number)
    split = draw(config.num_train, config.num_test, dim, key=purpose_key(key, "data"))
    grid = Grid(config.epsilons, config.num_projections)
    bounds = Bounds(LABEL_BOUNDS[dim], RESIDUAL_BOUNDS[dim])
    largest = float(np.abs(split.train_labels).max())
    found = oracle_errors(kernel(), split, bounds._replace(label=largest), grid, key=key)
    found["data_free"] = data_free(kernel(), split, bounds, config.epsilons, number=number)
    return found.assign_coords(dim=dim, repetition=number)


def plot(dataset: xarray.Dataset) -> Figure:
    """A panel for each dimension."""
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    panels = figure.subplots(1, dataset.sizes["dim"], squeeze=False)[0]
    for axes, dim in zip(panels, dataset.dim.values, strict=True):
        against_epsilon(axes, dataset.sel(dim=dim), f"$d$ = {dim}")
    panels[0].set_ylabel("mean squared test error")
    legend(figure, panels[0])
    return figure


claims = harness.claims_of(checks)
harness.main(__name__)
