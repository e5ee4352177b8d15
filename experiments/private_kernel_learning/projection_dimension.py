r"""Test error against M, of the runs of PK Figures 1 and 3: PK Figures 2, 4 to 6 and 8 to 12.

A picture has a row for each dimension or bandwidth and a column for each epsilon, the least error
over lambda for each M; bands are two standard errors.

Source: PK Figures 2, 4 to 6 and 8 to 12.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import SubFigure

from experiments.harness import Check, listed, span, table
from experiments.private_kernel_learning.error_curves import (
    PUBLISHED,
    RP_CERTIFIED,
    RP_PUBLISHED,
    against_projections,
    mean_and_error,
    shown,
)
from experiments.private_kernel_learning.ridge_grid import Grid
from experiments.private_kernel_learning.ridge_methods import METHODS, Bounds, Budget
from experiments.private_kernel_learning.synthetic import NUM_TRAIN, kernel

# The fewest points on a curve that show where it rises.
_FEWEST = 6


def draw(
    part: SubFigure, dataset: xarray.Dataset, axis: str, titles: Mapping[Any, str], sharey: Any
) -> None:
    """A row for each value of an axis, a column for each epsilon."""
    rows, columns = len(titles), dataset.sizes["epsilon"]
    panels = part.subplots(rows, columns, sharex=True, sharey=sharey, squeeze=False)
    for row, (value, title) in zip(panels, titles.items(), strict=True):
        for axes, epsilon in zip(row, dataset.epsilon.values, strict=True):
            at = dataset.sel({axis: value, "epsilon": epsilon})
            against_projections(axes, at, rf"{title}, $\varepsilon$ = {epsilon:.3g}")
        row[0].set_ylabel("test error")
    for axes in panels[-1]:
        axes.set_xlabel("$M$")


def checks_of_synthetic(dataset: xarray.Dataset) -> list[Check]:
    """The best M, the errors beyond it, and the nature of the peaks."""
    words = "ten times smaller at some M, for every d"
    found = [_shift(dataset), *_beyond(dataset), _resonances(dataset, 10, words)]
    if dataset.attrs["num_train"] == NUM_TRAIN:
        found.append(_steps(dataset))
    return found


def checks_of_songs(dataset: xarray.Dataset) -> list[Check]:
    """The cost of a large M, with either noise."""
    words = "five times smaller at some M, for every bandwidth (ten times was claimed before songs "
    words += "were split by stretches, whose runs refuted it)"
    found = [_resonances(dataset, 5, words)]
    if dataset.sizes["num_projections"] < _FEWEST:
        return found
    published, certified = (
        float(_loss_at_most(dataset, name).mean()) for name in (RP_PUBLISHED, RP_CERTIFIED)
    )
    cost = Check(
        "the certified learner pays less for the largest M in the mean over all cells (that it "
        "costs the published one a fifth, then a twentieth, at some epsilon for every bandwidth "
        "was claimed before, and is within the noise)",
        f"{certified:.2f} times against {published:.2f}",
        certified < published,
    )
    return [*found, cost]


def _best_projections(dataset: xarray.Dataset) -> xarray.DataArray:
    """The M of least mean error."""
    return shown(dataset).mean("repetition").idxmin("num_projections")


def _loss_at_most(dataset: xarray.Dataset, learner: str) -> xarray.DataArray:
    """Mean error at the largest M over that at the best one."""
    means = shown(dataset).sel(learner=learner).mean("repetition")
    return means.isel(num_projections=-1) / means.min("num_projections")


def _medians(dataset: xarray.Dataset) -> xarray.DataArray:
    """Random projection, published noise, at one lambda, n^-0.4: good if C is positive."""
    return dataset.fixed_error.sel(learner=RP_PUBLISHED).median("repetition")


def _resonances(dataset: xarray.Dataset, least: float, claim: str) -> Check:
    medians = _medians(dataset)
    peaks = medians.sel(form="as printed") / medians.sel(form="repaired", drop=True)
    most = peaks.max(("epsilon", "num_projections"))
    return Check(
        "the peaks are resonances of an indefinite matrix: at lambda = n^-0.4 its positive part "
        f"has a median error {claim}",
        listed(most, "{:.0f} times"),
        bool((most > least).all()),
    )


def _shift(dataset: xarray.Dataset) -> Check:
    best = _best_projections(dataset).sel(learner=PUBLISHED).transpose("learner", "dim", "epsilon")
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
    worst = _loss_at_most(dataset, RP_PUBLISHED).max("epsilon")
    lost = _loss_at_most(dataset, RP_CERTIFIED)
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
        low, high = _noise_norms(dataset, learner)[steepest : steepest + 2]
        places.append(f"{low:.3f} to {high:.3f}")
        found.append(((low < grid) & (grid < high)).any())
    return Check(
        "at the largest epsilon the steepest rise of each published curve, averaged over d, is "
        "where the norm of the noise on C passes one of the eleven lambdas",
        f"from {' and from '.join(places)}; n^-0.4 is {dataset.attrs['num_train'] ** -0.4:.3f}",
        all(found),
    )


def _noise_norms(dataset: xarray.Dataset, learner: str) -> np.ndarray:
    r"""$\sigma_C \sqrt{2M}$ for every M at the largest epsilon, where Wigner's semicircle ends."""
    budget = Budget(float(dataset.epsilon[-1]), int(dataset.attrs["num_train"]))
    sizes = dataset.num_projections.values
    # The bounds have no part in the noise on C.
    noise = METHODS[learner].noise_std
    stds = [noise(kernel(), int(size), Bounds(1.0, 1.0), budget)["C"] for size in sizes]
    return np.array(stds) * np.sqrt(2 * sizes)


def synthetic_summary(dataset: xarray.Dataset) -> str:
    """The best M for both kinds of noise, and an explanation of the curves against M."""
    medians = _medians(dataset)
    rows = [
        f"d = {dim}: {span(at.sel(form='as printed'), '.3g')} as printed, "
        f"{span(at.sel(form='repaired'), '.3g')} without negative eigenvalues"
        for dim, at in ((dim, medians.sel(dim=dim)) for dim in dataset.dim.values)
    ]
    mean, error = mean_and_error(shown(dataset).sel(learner=RP_PUBLISHED))
    return (
        "Against M, the least error over λ; bands are two standard errors. "
        "The published curves' sharp rises, PK's peaks, are at the same M for every d: there the "
        "spectral norm of the noise on C, σ_C √(2M), passes a λ of the grid. Below its norm the "
        "noisy matrix is indefinite and its inverse has poles; the next λ is twice as large, and "
        f"shrinks twice as much. Standard errors are {float((error / mean).median()):.0%} in the "
        "median published cell.\n\n"
        + table_of_best(dataset, "dim", "d")
        + "\n\nMedian error of random projection with the published noise at λ = n^-0.4, over ε "
        "and M:\n\n- " + "\n- ".join(rows)
    )


def table_of_best(dataset: xarray.Dataset, axis: str, head: str) -> str:
    """The best M at every value of an axis, for each learner and epsilon."""
    best = _best_projections(dataset)
    rows = [
        [f"{at:.4g}", learner, *map(int, best.sel({axis: at, "learner": learner}).values)]
        for at in best[axis].values
        for learner in best.learner.values
    ]
    epsilons = (f"ε = {value:.3g}" for value in dataset.epsilon.values)
    return table([head, "best M", *epsilons], rows)
