r"""PK Figures 2 and 4 to 6: test error against M on synthetic data, for every epsilon.

The paper's Figures 4, 5 and 6 are d = 10, 20 and 30; its Figure 2 is a part of Figure 5. The runs
are those of Figure 1: `--synthetic` names the folder of its result, which is then read, not run.

Source: PK Figures 2, 4, 5 and 6.
"""

import pathlib

import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.private_kernel_learning import fig01_synthetic
from experiments.private_kernel_learning.error_drawing import grid_of_projections
from experiments.private_kernel_learning.fig01_synthetic import Config as Config
from experiments.private_kernel_learning.fig02_checks import checks as checks
from experiments.private_kernel_learning.fig02_checks import summary as summary
from experiments.private_kernel_learning.saved_runs import runs_of

_VARIABLES = ["error", "fixed_error", "noiseless", "constant"]
FOLDERS = {"synthetic": "folder with fig01_synthetic.nc of the same size; without it that is run"}


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


def plot(dataset: xarray.Dataset) -> Figure:
    """A row for each dimension, a column for each epsilon."""
    titles = {dim: f"$d$ = {dim}" for dim in dataset.dim.values}
    return grid_of_projections(dataset, "dim", titles, height=2.2, sharey="row")


claims = harness.claims_of(checks)
harness.main(__name__)
