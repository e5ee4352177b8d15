"""What PK Figures 8 to 12 must show."""

import xarray

from experiments.harness import Check, table
from experiments.private_kernel_learning.error_averages import shown

_PUBLISHED, _CERTIFIED = "RP, published", "RP, certified"
# Of the points on a curve, to say where it rises.
_FEWEST = 6


def checks(dataset: xarray.Dataset) -> list[Check]:
    """What a large M costs, with either noise."""
    means = shown(dataset).mean("repetition")
    lost = means.isel(num_projections=-1) / means.min("num_projections")
    published, certified = (lost.sel(learner=name) for name in (_PUBLISHED, _CERTIFIED))
    medians = dataset.fixed_error.sel(learner=_PUBLISHED).median("repetition")
    peaks = medians.sel(form="as printed") / medians.sel(form="repaired", drop=True)
    most = peaks.max(("epsilon", "num_projections")).values
    resonances = Check(
        "the peaks are resonances of an indefinite matrix: at lambda = n^-.4 its positive part "
        "has a median error five times smaller at some M, for every bandwidth (ten times was "
        "claimed before songs were split by stretches, whose runs refuted it)",
        ", ".join(f"{value:.0f} times" for value in most),
        bool((most > 5).all()),
    )
    if dataset.sizes["num_projections"] < _FEWEST:
        return [resonances]
    return [
        resonances,
        Check(
            "the certified learner pays less for the largest M in the mean over all cells (that it "
            "costs the published one a fifth, then a twentieth, at some epsilon for every "
            "bandwidth was claimed before, and is within the noise)",
            f"{float(certified.mean()):.2f} times against {float(published.mean()):.2f}",
            float(certified.mean()) < float(published.mean()),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The best M for each bandwidth and epsilon."""
    head, rows = ["σ", "best M", *(f"ε = {value:.3g}" for value in dataset.epsilon.values)], []
    best = shown(dataset).mean("repetition").idxmin("num_projections")
    for bandwidth in dataset.bandwidth.values:
        for learner in dataset.learner.values:
            row = best.sel(bandwidth=bandwidth, learner=learner).values
            rows.append([f"{bandwidth:.4g}", learner, *map(int, row)])
    return (
        "The runs of Figure 3, the least error over λ for each M; bands are two standard errors. "
        "The noise does not depend on the bandwidth, but the wider the kernel, the fewer "
        "directions there are to learn.\n\n" + table(head, rows)
    )
