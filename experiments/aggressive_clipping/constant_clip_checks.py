"""What must be seen if a constant clip is better than one that grows with log n."""

import numpy as np
import xarray

from experiments.harness import Check

_SIGMAS, _RELATIVE_BIAS = 5, 2.0
_CONSTANT = "constant"


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Agreement with simulation, and who wins."""
    return [
        _agreement(dataset),
        _flat(dataset),
        *_grows(dataset),
        _worse(dataset),
        _unclipped(dataset),
    ]


def _agreement(dataset: xarray.Dataset) -> Check:
    dims = dataset.gamma * dataset.num_steps
    allowed = _SIGMAS * dataset.standard_error + _RELATIVE_BIAS * dataset.predicted / dims
    gap = abs(dataset["mean"] - dataset.predicted)
    relative, share = float((gap / dataset.predicted).max()), float((gap / allowed).max())
    return Check(
        "every simulated mean is within 5 standard errors + 2 R/d of the ODE",
        f"{int(gap.count())} of them, at most {relative:.1%} apart, {share:.0%} of what is allowed",
        share < 1,
    )


def _flat(dataset: xarray.Dataset) -> Check:
    """The ODE's risk is constant by construction, so that simulation must show it."""
    at = dataset.sel(rule=_CONSTANT)
    known = at.dropna("num_steps", subset=["mean"])
    first, last = known.isel(num_steps=0), known.isel(num_steps=-1)
    bias = _RELATIVE_BIAS * first.predicted / (first.gamma * first.num_steps)
    allowed = _SIGMAS * np.hypot(first.standard_error, last.standard_error) + bias
    gap = abs(first["mean"] - last["mean"])
    return Check(
        "with a constant clip the simulated risk is the same at the least and the largest n, "
        "within 5 standard errors + 2 R/d",
        ", ".join(f"{a:.5f} and {b:.5f}" for a, b in zip(first["mean"], last["mean"], strict=True)),
        bool((gap < allowed).all()),
    )


def _grows(dataset: xarray.Dataset) -> list[Check]:
    found = []
    for rule in dataset.rule.values[dataset.rule.values != _CONSTANT]:
        risk = dataset.predicted.sel(rule=rule)
        steps = risk.diff("num_steps") / risk.isel(num_steps=slice(1, None))
        ratio = (risk.isel(num_steps=-1) / risk.isel(num_steps=0)).values
        decades = np.log10(dataset.num_steps.values[-1] / dataset.num_steps.values[0])
        found.append(
            Check(
                f"{rule}: the tuned risk grows with n all the way, by 2% or more a decade",
                ", ".join(f"{value:.2f} times" for value in ratio) + f" over {decades:.0f} decades",
                bool(steps.min() > 0) and bool((ratio ** (1 / decades) > 1.02).all()),
            )
        )
    return found


def _worse(dataset: xarray.Dataset) -> Check:
    """Simulated at the largest n that is; each rule against the constant clip."""
    last = dataset.dropna("num_steps", subset=["mean"]).isel(num_steps=-1)
    constant, others = last.sel(rule=_CONSTANT), last.drop_sel(rule=_CONSTANT)
    gap = others["mean"] - constant["mean"]
    sigmas = gap / np.hypot(others.standard_error, constant.standard_error)
    ratios = (others["mean"] / constant["mean"]).transpose("gamma", "rule")
    return Check(
        f"at n = {int(last.num_steps)} every growing clip is worse than the constant one, "
        "simulated, by 5 standard errors",
        "; ".join(
            f"gamma = {gamma:g}: " + ", ".join(f"{value:.2f}" for value in row) + " times"
            for gamma, row in zip(dataset.gamma.values, ratios.values, strict=True)
        ),
        bool(sigmas.min() > _SIGMAS),
    )


def _unclipped(dataset: xarray.Dataset) -> Check:
    known = dataset.dropna("num_steps", subset=["mean"])
    often = known.clipped_fraction.sel(rule=_CONSTANT)
    rarely = known.clipped_fraction.sel(rule=["fixed root", "fixed log"])
    return Check(
        "fixed growing clips leave all but 1 gradient in 1000 as they are; the constant one clips "
        "more than 1 in 5",
        f"{float(rarely.max()):.1e} and {float(often.min()):.0%} to {float(often.max()):.0%}",
        float(rarely.max()) < 1e-3 and float(often.min()) > 0.2,
    )
