r"""PK Figures 3 and 7: test error against epsilon on the year-prediction data, five bandwidths.

Figure 3 is the bandwidth $2^4$ and one curve against M; Figure 7 has all five. The published
algorithms stand in the paper's units, those of the training rows, which no proof covers; the
certified ones in public units. Curves are an oracle's, as in `fig01_synthetic.py`, with data-free
releases beside them. `fig08_year_projection_dimension.py` draws the same runs against M.

Source: PK Figures 3 and 7.
"""

import dataclasses
import functools
import pathlib

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.private_kernel_learning.error_drawing import (
    against_epsilon,
    against_projections,
    legend,
)
from experiments.private_kernel_learning.fig03_checks import checks as checks
from experiments.private_kernel_learning.fig03_checks import summary as summary
from experiments.private_kernel_learning.repetition import data_free, oracle_errors
from experiments.private_kernel_learning.ridge_grid import Grid
from experiments.private_kernel_learning.ridge_methods import METHODS
from experiments.private_kernel_learning.year_prediction import Songs, read_year_prediction
from experiments.private_kernel_learning.year_splits import (
    BOUNDS,
    draw,
    publicly_scaled,
    scaled_by_training_rows,
)
from jaxdp.core.keys import purpose_key
from jaxdp.kernels import Gaussian

FOLDERS = {
    "data": "folder whose folder yearmsd has YearPredictionMSD.txt or rows of it; without it "
    "scikit-learn fetches them"
}
# PK's Figure 3 (b).
_PANEL_EPSILON = 10**-0.5


@dataclasses.dataclass(frozen=True)
class Config:
    """The figure's setting; `num_songs` are drawn, or all of a file that has fewer.

    Attributes:
        together: songs that follow one another in the file and go to one side; a short file has
            few albums, and those are to be trained or tested on as a whole.
    """

    bandwidths: tuple[float, ...] = (2**4, 2**4.5, 2**5, 2**5.5, 2**6)
    num_songs: int = 2000
    together: int = 20
    epsilons: tuple[float, ...] = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)
    num_projections: tuple[int, ...] = (10, 20, 40, 70, 100, 150, 250, 400, 1000)
    repetitions: int = 100
    seed: int = 7

    smoke = harness.size(
        bandwidths=(2**4, 2**6),
        num_songs=500,
        epsilons=(0.1, 1.0, 10.0),
        num_projections=(10, 40, 120),
        repetitions=4,
    )

    paper = harness.size(together=1, num_projections=(*num_projections[:-1], 600, 1000))


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Every repetition of every bandwidth; the songs of one repetition are the same for all.

    Args:
        config: the setting.
        data: folder with `yearmsd/`; None fetches the songs.
    """
    songs = read_year_prediction(None if data is None else data / "yearmsd")
    numbers = range(config.repetitions)
    cells = [(bandwidth, number) for bandwidth in config.bandwidths for number in numbers]
    found = harness.spread(
        functools.partial(_repetition, config, songs),
        cells,
        "s = {0[0]:.3g}, repetition {0[1]}".format,
    )
    rows = [
        xarray.concat(found[start : start + config.repetitions], "repetition")
        for start in range(0, len(found), config.repetitions)
    ]
    dataset = xarray.concat(rows, "bandwidth").astype(np.float32)
    return dataset.assign_attrs(num_songs=len(songs.years), together=config.together)


def _repetition(config: Config, songs: Songs, cell: tuple[float, int]) -> xarray.Dataset:
    bandwidth, number = cell
    key = jr.fold_in(jr.key(config.seed), number)
    kernel, grid = Gaussian(bandwidth), Grid(config.epsilons, config.num_projections)
    split = draw(songs, config.num_songs, together=config.together, key=purpose_key(key, "data"))
    parts = []
    for noise, units in (("published", scaled_by_training_rows), ("certified", publicly_scaled)):
        methods = {name: METHODS[name] for name in METHODS if noise in name}
        scaled = units(split)
        parts.append(oracle_errors(kernel, scaled, BOUNDS, grid, methods, key=key))
    leaky, public = parts
    both = xarray.concat([leaky[_PRIVATE], public[_PRIVATE]], "learner")
    both = both.assign({name: public[name] for name in ("noiseless", "constant")})
    both["leaky_noiseless"] = leaky.noiseless
    both["data_free"] = data_free(
        kernel, publicly_scaled(split), BOUNDS, config.epsilons, number=number
    )
    both["num_train"] = split.num_train
    return both.assign_coords(bandwidth=bandwidth, repetition=number)


_PRIVATE = ["error", "fixed_error"]


def plot(dataset: xarray.Dataset) -> Figure:
    """Figure 7's panels, one for each bandwidth, and Figure 3 (b)."""
    count = dataset.sizes["bandwidth"] + 1
    columns = min(3, count)
    figure = Figure(figsize=(3.4 * columns, 3.0 * -(-count // columns) + 0.8), layout="constrained")
    panels = figure.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for axes, bandwidth in zip(panels, dataset.bandwidth.values, strict=False):
        title = rf"$\sigma = 2^{{{np.log2(bandwidth):g}}}$"
        against_epsilon(axes, dataset.sel(bandwidth=bandwidth), title)
    last = panels[count - 1]
    at = dataset.isel(bandwidth=0).sel(epsilon=_PANEL_EPSILON, method="nearest")
    power, epsilon = np.log2(at.bandwidth.item()), at.epsilon.item()
    against_projections(last, at, rf"$\sigma = 2^{{{power:g}}}$, $\varepsilon$ = {epsilon:.3g}")
    last.set_xlabel("$M$")
    for axes in panels[::columns]:
        axes.set_ylabel("mean squared test error (years²)")
    for axes in panels[count:]:
        axes.set_axis_off()
    legend(figure, panels[0])
    return figure


claims = harness.claims_of(checks)
harness.main(__name__)
