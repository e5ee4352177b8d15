r"""PK Figures 8 to 12: test error against M on the year-prediction data, for every epsilon.

One row for each bandwidth, $2^4$ (Figure 8) to $2^6$ (Figure 12). The runs are those of Figure 3:
`--year` names the folder of its result, which is then read, not run.
"""

import pathlib
import sys

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import command
from experiments.private_kernel_learning import fig03_year_prediction
from experiments.private_kernel_learning.error_drawing import against_projections, legend
from experiments.private_kernel_learning.fig03_year_prediction import FOLDER as _DATA
from experiments.private_kernel_learning.fig03_year_prediction import Config as Config
from experiments.private_kernel_learning.fig08_checks import checks as checks
from experiments.private_kernel_learning.fig08_checks import summary as summary
from experiments.private_kernel_learning.saved_runs import runs_of

_VARIABLES = ["error", "fixed_error", "noiseless", "constant"]
FOLDER = {
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


def claims(dataset: xarray.Dataset) -> dict[str, bool]:
    """Each claim and whether the dataset bears it out."""
    return {check.claim: check.holds for check in checks(dataset)}


def plot(dataset: xarray.Dataset) -> Figure:
    """A row for each bandwidth, a column for each epsilon."""
    rows, columns = dataset.sizes["bandwidth"], dataset.sizes["epsilon"]
    figure = Figure(figsize=(2.3 * columns + 0.8, 2.0 * rows + 1.0), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey="col", squeeze=False)
    for row, bandwidth in zip(panels, dataset.bandwidth.values, strict=True):
        power = np.log2(bandwidth)
        for axes, epsilon in zip(row, dataset.epsilon.values, strict=True):
            title = rf"$\sigma = 2^{{{power:g}}}$, $\varepsilon$ = {epsilon:.3g}"
            against_projections(axes, dataset.sel(bandwidth=bandwidth, epsilon=epsilon), title)
        row[0].set_ylabel("test error")
    for axes in panels[-1]:
        axes.set_xlabel("$M$")
    legend(figure, panels[0, 0])
    return figure


if __name__ == "__main__":
    sys.exit(command.main(sys.modules[__name__], optional_folders=FOLDER))
