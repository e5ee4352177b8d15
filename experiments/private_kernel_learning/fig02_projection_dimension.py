r"""PK Figures 2 and 4 to 6: test error against M on synthetic data, for every epsilon.

The paper's Figures 4, 5 and 6 are d = 10, 20 and 30; its Figure 2 is a part of Figure 5. The runs
are those of Figure 1: `--synthetic` names the folder of its result, which is then read, not run.
"""

import pathlib
import sys

import xarray
from matplotlib.figure import Figure

from experiments import command
from experiments.private_kernel_learning import fig01_synthetic
from experiments.private_kernel_learning.error_drawing import against_projections, legend
from experiments.private_kernel_learning.fig01_synthetic import Config as Config
from experiments.private_kernel_learning.fig02_checks import checks as checks
from experiments.private_kernel_learning.fig02_checks import summary as summary
from experiments.private_kernel_learning.saved_runs import runs_of

_VARIABLES = ["error", "fixed_error", "noiseless", "constant"]
FOLDER = {"synthetic": "folder with fig01_synthetic.nc of the same size; without it that is run"}


def run(config: Config, synthetic: pathlib.Path | None = None) -> xarray.Dataset:
    """The errors of Figure 1's runs at every M.

    Args:
        config: Figure 1's.
        synthetic: folder with its result; None runs it.

    Raises:
        ValueError: the result there is of another size.
    """
    if synthetic is None:
        return fig01_synthetic.run(config)[_VARIABLES]
    return runs_of(synthetic / "fig01_synthetic.nc", config)[_VARIABLES]


def claims(dataset: xarray.Dataset) -> dict[str, bool]:
    """Each claim and whether the dataset bears it out."""
    return {check.claim: check.holds for check in checks(dataset)}


def plot(dataset: xarray.Dataset) -> Figure:
    """A row for each dimension, a column for each epsilon."""
    rows, columns = dataset.sizes["dim"], dataset.sizes["epsilon"]
    figure = Figure(figsize=(2.3 * columns + 0.8, 2.2 * rows + 1.0), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey="row", squeeze=False)
    for row, dim in zip(panels, dataset.dim.values, strict=True):
        for axes, epsilon in zip(row, dataset.epsilon.values, strict=True):
            title = rf"$d$ = {dim}, $\varepsilon$ = {epsilon:.3g}"
            against_projections(axes, dataset.sel(dim=dim, epsilon=epsilon), title)
        row[0].set_ylabel("test error")
    for axes in panels[-1]:
        axes.set_xlabel("$M$")
    legend(figure, panels[0, 0])
    return figure


if __name__ == "__main__":
    sys.exit(command.main(sys.modules[__name__], optional_folders=FOLDER))
