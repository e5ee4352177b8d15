"""What PK Figures 2 and 4 to 6 must show."""

import numpy as np
import xarray

from experiments.command import Check
from experiments.private_kernel_learning.error_averages import mean_and_error, shown

_PUBLISHED, _CERTIFIED = "RP, published", "RP, certified"


def best_projections(dataset: xarray.Dataset, learner: str) -> xarray.DataArray:
    """The M of least mean error, by d and epsilon."""
    means = shown(dataset).sel(learner=learner).mean("repetition")
    return means.idxmin("num_projections")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """How the best M moves, what lies beyond it, and what the peaks are."""
    return [
        _shift(dataset),
        _beyond(dataset),
        _flat(dataset),
        _peaks(dataset),
    ]


def _shift(dataset: xarray.Dataset) -> Check:
    best = best_projections(dataset, _PUBLISHED)
    first, last = best.isel(epsilon=0), best.isel(epsilon=-1)
    return Check(
        "as published, the best M for random projection is smaller at the smallest epsilon than "
        "at the largest, for every d",
        ", ".join(f"{int(a)} and {int(b)}" for a, b in zip(first, last, strict=True)),
        bool((first < last).all()),
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


def summary(dataset: xarray.Dataset) -> str:
    """The best M of both kinds of noise, and what the picture is made of."""
    head = " | ".join(f"ε = {epsilon:.3g}" for epsilon in dataset.epsilon.values)
    lines = [f"| d | best M | {head} |", "|---" * (dataset.sizes["epsilon"] + 2) + "|"]
    for learner in dataset.learner.values:
        best = best_projections(dataset, str(learner))
        for dim in dataset.dim.values:
            cells = " | ".join(str(int(value)) for value in best.sel(dim=dim).values)
            lines.append(f"| {dim} | {learner} | {cells} |")
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
        "The published curves are rough because the noisy matrix is indefinite and its inverse "
        f"has poles (standard errors of {share:.0%} in the median cell): which M has a peak is "
        "chance, and differs from one noise to the next.\n\n"
        + "\n".join(lines)
        + "\n\nMedian error of random projection with the published noise at λ = n^-.4, over ε "
        "and M:\n\n- " + "\n- ".join(rows)
    )


def _range(values: xarray.DataArray) -> str:
    return f"{float(np.min(values)):.3g} to {float(np.max(values)):.3g}"
