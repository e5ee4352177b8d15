r"""PK Figures 8 to 12: test error against M on the year-prediction data, for every epsilon.

One row for each bandwidth, $2^4$ (Figure 8) to $2^6$ (Figure 12). The picture has the least, the
middle and the largest epsilon, the result all. The runs are those of Figure 3: `--year` names the
folder of its result, which is then read, not run.

Source: PK Figures 8 to 12.
"""

import pathlib

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.private_kernel_learning import fig03_year_prediction
from experiments.private_kernel_learning.error_drawing import grid_of_projections
from experiments.private_kernel_learning.fig03_year_prediction import FOLDERS as _DATA
from experiments.private_kernel_learning.fig03_year_prediction import Config as Config
from experiments.private_kernel_learning.fig08_checks import checks as checks
from experiments.private_kernel_learning.fig08_checks import summary as summary
from experiments.private_kernel_learning.saved_runs import runs_of

_VARIABLES = ["error", "fixed_error", "noiseless", "constant"]
FOLDERS = {
    "year": "folder with fig03_year_prediction.nc of the same size; without it that is run",
    **_DATA,
}


def run(
    config: Config, year: pathlib.Path | None = None, data: pathlib.Path | None = None
) -> xarray.Dataset:
    """The errors of Figure 3's runs at every M.

    Args:
        config: Figure 3's.
        year: folder with its result; None runs it.
        data: what that run reads.

    Raises:
        ValueError: the result there is of another size.
    """
    if year is None:
        return fig03_year_prediction.run(config, data)[_VARIABLES]
    return runs_of(year / "fig03_year_prediction.nc", config)[_VARIABLES]


def plot(dataset: xarray.Dataset) -> Figure:
    """A row for each bandwidth, and a column for the least, the middle and the largest epsilon."""
    titles = {width: rf"$\sigma = 2^{{{np.log2(width):g}}}$" for width in dataset.bandwidth.values}
    last = dataset.sizes["epsilon"] - 1
    chosen = dataset.isel(epsilon=sorted({0, last // 2, last}))
    size = {"height": 2.3, "width": 3.6}
    return grid_of_projections(chosen, "bandwidth", titles, sharey=False, **size)


claims = harness.claims_of(checks)
harness.main(__name__)
