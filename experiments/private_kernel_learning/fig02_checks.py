"""What PK Figures 2 and 4 to 6 must show."""

import numpy as np
import xarray

from experiments.harness import Check, table
from experiments.private_kernel_learning.error_averages import mean_and_error, shown
from experiments.private_kernel_learning.independent_study import NUM_TRAIN
from experiments.private_kernel_learning.ridge_grid import Grid
from experiments.private_kernel_learning.ridge_methods import METHODS, Bounds, Budget
from experiments.private_kernel_learning.synthetic import kernel

_PUBLISHED, _CERTIFIED = "RP, published", "RP, certified"
_PUBLISHED_BOTH = [_PUBLISHED, "RFF, published"]


def best_projections(dataset: xarray.Dataset, learner: str) -> xarray.DataArray:
    """The M of least mean error, by d and epsilon."""
    means = shown(dataset).sel(learner=learner).mean("repetition")
    return means.idxmin("num_projections")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """How the best M moves, what lies beyond it, and what the peaks are."""
    found = [_shift(dataset), _beyond(dataset), _flat(dataset), _peaks(dataset)]
    if dataset.attrs["num_train"] == NUM_TRAIN:
        found.append(_steps(dataset))
    return found


def _shift(dataset: xarray.Dataset) -> Check:
    best = xarray.concat([best_projections(dataset, name) for name in _PUBLISHED_BOTH], "learner")
    first, last = best.isel(epsilon=0), best.isel(epsilon=-1)
    typical = [float(np.exp(np.log(sizes).mean())) for sizes in (first, last)]
    pairs = zip(first.values.ravel(), last.values.ravel(), strict=True)
    return Check(
        "as published, the best M is smaller at the smallest epsilon than at the largest, in the "
        "geometric mean over d and both features",
        f"{typical[0]:.0f} and {typical[1]:.0f}; "
        + ", ".join(f"{low:.0f} and {high:.0f}" for low, high in pairs),
        typical[0] < typical[1],
    )


def _beyond(dataset: xarray.Dataset) -> Check:
    """The cost of privacy grows with M: PK after Lemma 14."""
    means = shown(dataset).sel(learner=_PUBLISHED).mean("repetition")
    ratio = means.isel(num_projections=-1) / means.min("num_projections")
    worst = ratio.max("epsilon").values
    return Check(
        "as published, the largest M costs random projection half as much again as the best one, "
        "at some epsilon for every d",
        ", ".join(f"{value:.1f} times" for value in worst),
        bool((worst > 1.5).all()),
    )


def _flat(dataset: xarray.Dataset) -> Check:
    means = shown(dataset).sel(learner=_CERTIFIED).mean("repetition")
    ratio = means.isel(num_projections=-1) / means.min("num_projections")
    lost = float(ratio.mean())
    return Check(
        "the certified learner pays little for too large an M: in the mean over all cells the "
        "largest is at most a quarter worse than the best",
        f"{lost:.2f} times, at most {float(ratio.max()):.2f}",
        lost < 1.25,
    )


def _peaks(dataset: xarray.Dataset) -> Check:
    """At one lambda, n^-.4, which is as good as most where the matrix is positive."""
    medians = dataset.fixed_error.sel(learner=_PUBLISHED).median("repetition")
    ratio = medians.sel(form="as printed") / medians.sel(form="repaired", drop=True)
    most = ratio.max(("epsilon", "num_projections")).values
    return Check(
        "the peaks are resonances of an indefinite matrix: at lambda = n^-.4 its positive part "
        "has a median error ten times smaller at some M, for every d",
        ", ".join(f"{value:.0f} times" for value in most),
        bool((most > 10).all()),
    )


def _steps(dataset: xarray.Dataset) -> Check:
    """Up to a lambda as large as the noise's norm, the noisy matrix and lambda I is indefinite."""
    means = shown(dataset).mean("repetition").isel(epsilon=-1)
    logarithms = xarray.apply_ufunc(np.log, means)
    rises = logarithms.diff("num_projections").mean("dim")
    grid = Grid((), ()).ridges(int(dataset.attrs["num_train"]))
    found, places = [], []
    for learner in _PUBLISHED_BOTH:
        steepest = int(np.argmax(rises.sel(learner=learner).values))
        norms = noise_norms(dataset, learner)
        places.append(f"{norms[steepest]:.3f} to {norms[steepest + 1]:.3f}")
        found.append(((norms[steepest] < grid) & (grid < norms[steepest + 1])).any())
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
    head, cells = ["d", "best M", *(f"ε = {value:.3g}" for value in dataset.epsilon.values)], []
    for learner in dataset.learner.values:
        best = best_projections(dataset, str(learner))
        for dim in dataset.dim.values:
            cells.append([dim, learner, *map(int, best.sel(dim=dim).values)])
    medians = dataset.fixed_error.sel(learner=_PUBLISHED).median("repetition")
    rows = [
        f"d = {dim}: {_range(at.sel(form='as printed'))} as printed, "
        f"{_range(at.sel(form='repaired'))} without negative eigenvalues"
        for dim, at in ((dim, medians.sel(dim=dim)) for dim in dataset.dim.values)
    ]
    error = mean_and_error(shown(dataset).sel(learner=_PUBLISHED)).standard_error
    share = float((error / shown(dataset).sel(learner=_PUBLISHED).mean("repetition")).median())
    return (
        "The runs of Figure 1, the least error over λ for each M; bands are two standard errors. "
        "The published curves' sharp rises, PK's peaks, are at the same M for every d: there the "
        "spectral norm of the noise on C, σ_C √(2M), passes a λ of the grid. Below its norm the "
        "noisy matrix is indefinite and its inverse has poles; the next λ is twice as large, and "
        f"shrinks twice as much. Standard errors are {share:.0%} in the median published "
        "cell.\n\n"
        + table(head, cells)
        + "\n\nMedian error of random projection with the published noise at λ = n^-.4, over ε "
        "and M:\n\n- " + "\n- ".join(rows)
    )


def _range(values: xarray.DataArray) -> str:
    return f"{float(np.min(values)):.3g} to {float(np.max(values)):.3g}"
