r"""PK Figures 2 and 4 to 6: test error against M on synthetic data, for every epsilon.

The paper's Figures 4, 5 and 6 are d = 10, 20 and 30; its Figure 2 is a part of Figure 5. The runs
are those of Figure 1: `--synthetic` names the folder of its result, which is then read, not run.

Source: PK Figures 2, 4, 5 and 6.
"""

import pathlib

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness import Check, listed, span
from experiments.private_kernel_learning import fig01_synthetic
from experiments.private_kernel_learning.error_curves import (
    PUBLISHED,
    RP_CERTIFIED,
    RP_PUBLISHED,
    best_projections,
    grid_of_projections,
    loss_at_most,
    mean_and_error,
    resonances,
    runs_of,
    shown,
    table_of_best,
)
from experiments.private_kernel_learning.fig01_synthetic import Config as Config
from experiments.private_kernel_learning.ridge_grid import Grid
from experiments.private_kernel_learning.ridge_methods import METHODS, Bounds, Budget
from experiments.private_kernel_learning.synthetic import NUM_TRAIN, kernel

FOLDERS = {"synthetic": "folder with fig01_synthetic.nc of the same size; without it that is run"}


def run(config: Config, synthetic: pathlib.Path | None = None) -> xarray.Dataset:
    """The errors of Figure 1's runs at every M."""
    return runs_of(fig01_synthetic, synthetic, config)


def plot(dataset: xarray.Dataset) -> Figure:
    """A row for each dimension, a column for each epsilon."""
    titles = {dim: f"$d$ = {dim}" for dim in dataset.dim.values}
    return grid_of_projections(dataset, "dim", titles, height=2.2, sharey="row")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """How the best M moves, what lies beyond it, and what the peaks are."""
    words = "ten times smaller at some M, for every d"
    found = [_shift(dataset), *_beyond(dataset), resonances(dataset, 10, words)]
    if dataset.attrs["num_train"] == NUM_TRAIN:
        found.append(_steps(dataset))
    return found


def _shift(dataset: xarray.Dataset) -> Check:
    best = best_projections(dataset).sel(learner=PUBLISHED).transpose("learner", "dim", "epsilon")
    first, last = best.isel(epsilon=0), best.isel(epsilon=-1)
    typical = tuple(float(np.exp(np.log(sizes).mean())) for sizes in (first, last))
    pairs = [*zip(first.values.ravel(), last.values.ravel(), strict=True)]
    return Check(
        "as published, the best M is smaller at the smallest epsilon than at the largest, in the "
        "geometric mean over d and both features",
        f"{listed([typical], '{:.0f} and {:.0f}')}; {listed(pairs, '{:.0f} and {:.0f}')}",
        typical[0] < typical[1],
    )


def _beyond(dataset: xarray.Dataset) -> list[Check]:
    """The cost of privacy grows with M: PK after Lemma 14."""
    worst = loss_at_most(dataset, RP_PUBLISHED).max("epsilon")
    lost = loss_at_most(dataset, RP_CERTIFIED)
    return [
        Check(
            "as published, the largest M costs random projection half as much again as the best "
            "one, at some epsilon for every d",
            listed(worst, "{:.1f} times"),
            bool((worst > 1.5).all()),
        ),
        Check(
            "the certified learner pays little for too large an M: in the mean over all cells the "
            "largest is at most a quarter worse than the best",
            f"{float(lost.mean()):.2f} times, at most {float(lost.max()):.2f}",
            float(lost.mean()) < 1.25,
        ),
    ]


def _steps(dataset: xarray.Dataset) -> Check:
    """Up to a lambda as large as the noise's norm, the noisy matrix and lambda I is indefinite."""
    means = shown(dataset).mean("repetition").isel(epsilon=-1)
    logarithms = xarray.apply_ufunc(np.log, means)
    rises = logarithms.diff("num_projections").mean("dim")
    grid = Grid((), ()).ridges(int(dataset.attrs["num_train"]))
    found, places = [], []
    for learner in PUBLISHED:
        steepest = int(np.argmax(rises.sel(learner=learner).values))
        low, high = noise_norms(dataset, learner)[steepest : steepest + 2]
        places.append(f"{low:.3f} to {high:.3f}")
        found.append(((low < grid) & (grid < high)).any())
    return Check(
        "at the largest epsilon the steepest rise of each published curve, averaged over d, is "
        "where the norm of the noise on C passes one of the eleven lambdas",
        f"from {' and from '.join(places)}; n^-.4 is {dataset.attrs['num_train'] ** -0.4:.3f}",
        all(found),
    )


def noise_norms(dataset: xarray.Dataset, learner: str) -> np.ndarray:
    r"""$\sigma_C \sqrt{2M}$ for every M at the largest epsilon, where Wigner's semicircle ends."""
    budget = Budget(float(dataset.epsilon[-1]), int(dataset.attrs["num_train"]))
    sizes = dataset.num_projections.values
    # The bounds have no part in the noise on C.
    noise = METHODS[learner].noise_std
    stds = [noise(kernel(), int(size), Bounds(1.0, 1.0), budget)["C"] for size in sizes]
    return np.array(stds) * np.sqrt(2 * sizes)


def summary(dataset: xarray.Dataset) -> str:
    """The best M of both kinds of noise, and what the picture is made of."""
    medians = dataset.fixed_error.sel(learner=RP_PUBLISHED).median("repetition")
    rows = [
        f"d = {dim}: {span(at.sel(form='as printed'), '.3g')} as printed, "
        f"{span(at.sel(form='repaired'), '.3g')} without negative eigenvalues"
        for dim, at in ((dim, medians.sel(dim=dim)) for dim in dataset.dim.values)
    ]
    mean, error = mean_and_error(shown(dataset).sel(learner=RP_PUBLISHED))
    return (
        "The runs of Figure 1, the least error over λ for each M; bands are two standard errors. "
        "The published curves' sharp rises, PK's peaks, are at the same M for every d: there the "
        "spectral norm of the noise on C, σ_C √(2M), passes a λ of the grid. Below its norm the "
        "noisy matrix is indefinite and its inverse has poles; the next λ is twice as large, and "
        f"shrinks twice as much. Standard errors are {float((error / mean).median()):.0%} in the "
        "median published cell.\n\n"
        + table_of_best(dataset, "dim", "d")
        + "\n\nMedian error of random projection with the published noise at λ = n^-.4, over ε "
        "and M:\n\n- " + "\n- ".join(rows)
    )


claims = harness.claims_of(checks)
harness.main(__name__)
