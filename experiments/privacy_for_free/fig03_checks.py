"""What PF Figure 3 must show, and known values of its curves."""

import numpy as np
import xarray

from experiments.harness import Check
from experiments.privacy_for_free.fig03_known_values import known_values
from experiments.privacy_for_free.fig03_measures import (
    best_risk,
    best_time,
    error,
    transferred,
    tuned_there,
)

_SIGMAS = 4
_MINUTES = 10


def checks(dataset: xarray.Dataset) -> list[Check]:
    """What the paper says of its figure, what is added here, and known values."""
    return [
        *_double_descent(dataset),
        _levels_off(dataset),
        _exact_is_better(dataset),
        *_collapse(dataset),
        _longer_with_less_noise(dataset),
        _clipping_is_the_rule(dataset),
        _steps_hardly_matter(dataset),
        *_heat_map(dataset),
        _transfer(dataset),
        *known_values(dataset),
        _duration(dataset),
    ]


def _double_descent(dataset: xarray.Dataset) -> list[Check]:
    """At the width nearest to n, next to those a factor of two away."""
    finite = dataset.sel(width=np.isfinite(dataset.width))
    middle = finite.interpolator.median("seed")
    ratio = finite.width / dataset.num_train
    nearest = float(finite.width[abs(np.log(ratio)).argmin("width")])
    highest = float(finite.width[middle.argmax("width")])
    peak = float(middle.max() / middle.sel(width=abs(np.log(ratio)) > np.log(1.5)).max())
    narrow = best_risk(dataset).sel(width=dataset.width <= 4 * dataset.num_train)
    rises = narrow.diff("width")
    worst = float((rises.mean("seed") / error(rises)).max())
    largest = float(rises.mean("seed").max())
    return [
        Check(
            "theta* peaks at p = n: median at least twice that of widths 1.5 times away",
            f"at p = {highest:.0f}, {peak:.1f} times",
            highest == nearest and peak > 2,
        ),
        Check(
            "DP-GD has no peak: up to p = 4 n no width has more error than the one before, within "
            f"{_SIGMAS} standard errors",
            f"largest change {largest:+.4f}, {worst:+.1f} standard errors",
            worst < _SIGMAS,
        ),
    ]


def _levels_off(dataset: xarray.Dataset) -> Check:
    risks = best_risk(dataset)
    gaps = risks.isel(width=-2) - risks.isel(width=-1)
    shares = abs(gaps.mean("seed")) / (_SIGMAS * error(gaps) + 0.01)
    width = float(dataset.width[-2])
    return Check(
        f"at p = {width:.0f} DP-GD is at its infinite-width limit, within .01 and {_SIGMAS} "
        "standard errors",
        f"{_signed(gaps.mean('seed'))} ({_names(dataset)})",
        bool((shares < 1).all()),
    )


def _exact_is_better(dataset: xarray.Dataset) -> Check:
    """Fewer features than inputs learn little, with any noise."""
    risks = best_risk(dataset).sel(width=dataset.width >= dataset.dim)
    gains = risks.sel(calibration="published") - risks.sel(calibration="exact")
    means, sigmas = gains.mean("seed"), gains.mean("seed") / error(gains)
    return Check(
        "the exact calibration is better at every p >= d, by more than 3 standard errors",
        f"by {float(means.min()):.3f} to {float(means.max()):.3f}, at least "
        f"{float(sigmas.min()):.1f} standard errors",
        bool((sigmas > 3).all()),
    )


def _collapse(dataset: xarray.Dataset) -> list[Check]:
    """Widths from 4 n on: against tau p/d, and against T at one learning rate."""
    risks = dataset.risk.sel(calibration="published")
    limit = risks.isel(width=-1, drop=True)
    wide = risks.sel(width=np.isfinite(dataset.width) & (dataset.width >= 4 * dataset.num_train))
    gaps = abs((wide - limit).mean("seed"))
    collapsed = float(gaps.max())
    excess = float((gaps - _SIGMAS * error(wide - limit)).max())
    factors = (wide.width / wide.width[0] * dataset.time[0]).data
    within = factors <= float(dataset.time[-1])
    means = wide.mean("seed")[within]
    same_steps = [
        float(np.interp(factor, dataset.time, curve))
        for factor, curve in zip(factors[within], means, strict=True)
    ]
    apart = max(same_steps) - min(same_steps)
    return [
        Check(
            "against tau p/d the curves of all p >= 4 n are within .02 and "
            f"{_SIGMAS} standard errors of infinite width's",
            f"{collapsed:.3f} at most, {max(excess, 0):.3f} beyond the errors",
            excess < 0.02,
        ),
        Check(
            "at one number of steps the same widths differ by more than twice that",
            f"{apart:.3f} at the T that gives p = {float(wide.width[0]):.0f} its first point",
            apart > 2 * collapsed,
        ),
    ]


def _longer_with_less_noise(dataset: xarray.Dataset) -> Check:
    times = best_time(dataset).sel(width=dataset.width >= dataset.num_train)
    published, exact = (
        float(np.exp(np.log(times.sel(calibration=name).data).mean()))
        for name in ("published", "exact")
    )
    return Check(
        "with the exact calibration the best tau p/d is longer (p >= n, geometric mean)",
        f"{published:.1f} to {exact:.1f}",
        exact > 1.1 * published,
    )


def _clipping_is_the_rule(dataset: xarray.Dataset) -> Check:
    times = best_time(dataset).isel(width=-1)
    shares = dataset.clipped.isel(width=-1).sel(time=times).mean("seed")
    return Check(
        "most gradients are clipped at the best T: the OU process does not describe the figure",
        f"{_percent(shares)} of them ({_names(dataset)}), infinite width",
        bool((shares > 0.5).all()),
    )


def _steps_hardly_matter(dataset: xarray.Dataset) -> Check:
    counts = dataset.step_count >= 8
    gaps = (dataset.step_risk - dataset.step_risk.isel(step_count=-1)).sel(step_count=counts)
    mean = abs(gaps.mean("seed"))
    return Check(
        f"from 8 steps on the number of steps moves the risk by less than .005 and {_SIGMAS} "
        "standard errors",
        f"by at most {float(mean.max()):.4f} from that at {int(dataset.step_count[-1])} steps",
        bool((mean < 0.005 + _SIGMAS * error(gaps)).all()),
    )


def _heat_map(dataset: xarray.Dataset) -> list[Check]:
    risks = dataset.heat_risk.mean("seed")
    where = risks.argmin(("heat_time", "heat_clip"))
    least = risks.isel(where)
    corner, start = float(risks[-1, -1]), float(risks[0, 0])
    times = risks.heat_time[risks.argmin("heat_time")]
    # Columns whose best T is inside the map.
    inside = (times > risks.heat_time[0]) & (times < risks.heat_time[-1])
    inside &= risks.min("heat_time") < 0.6
    products = (times * times.heat_clip)[inside.data]
    never = dataset.heat_clipped.mean("seed") == 0
    unclipped = float(risks.where(never).min().fillna(np.inf))
    return [
        Check(
            "heat map: nothing is learnt at the least C and T, noise rules at the largest",
            f"{start:.3f} and {corner:.3g}; least {float(least):.3f} at C = "
            f"{float(least.heat_clip):.2g} sqrt(p), tau p/d = {float(least.heat_time):.3g}",
            start > 0.95 and corner > 10 and float(least) < 0.6,
        ),
        Check(
            "heat map: the valley is C tau p/d = 3 sqrt(p), within a factor of 3",
            f"{float(products.min()):.1f} to {float(products.max()):.1f}",
            bool(products.size and products.min() > 1 and products.max() < 9),
        ),
        Check(
            "heat map: the best cells clip, those that never do are worse by .05 or more",
            f"{unclipped:.3f} without clipping"
            if np.isfinite(unclipped)
            else "no cell never clips",
            not unclipped < float(least) + 0.05,
        ),
    ]


def _transfer(dataset: xarray.Dataset) -> Check:
    """At infinite width, against what is tuned there."""
    there = tuned_there(dataset).isel(tuned_width=-1)
    widths = dataset.tuned_width.data[:-1]
    gaps = [transferred(dataset, width).isel(tuned_width=-1) - there for width in widths]
    losses = [float(gap.mean("seed").max()) for gap in gaps]
    enough = widths >= dataset.num_train.item() / 2
    texts = [f"{loss:.4f} from p = {width:.0f}" for loss, width in zip(losses, widths, strict=True)]
    return Check(
        "(tau p/d, C/sqrt p) tuned at any p >= n/2 lose less than .005 and "
        f"{_SIGMAS} standard errors at infinite width",
        f"at most {', '.join(texts)}",
        all(
            bool((gap.mean("seed") < 0.005 + _SIGMAS * error(gap)).all())
            for gap, is_enough in zip(gaps, enough, strict=True)
            if is_enough
        ),
    )


def _duration(dataset: xarray.Dataset) -> Check:
    seconds = float(dataset.seconds.sel(part="curves"))
    curves = (dataset.sizes["width"] - 1) * dataset.sizes["seed"] * 2
    return Check(
        f"the first panel takes less than {_MINUTES} minutes",
        f"{seconds / 60:.1f} minutes for {curves} curves",
        seconds < 60 * _MINUTES,
    )


def _names(dataset: xarray.Dataset) -> str:
    return ", ".join(map(str, dataset.calibration.data))


def _signed(values: xarray.DataArray) -> str:
    return ", ".join(f"{float(value):+.4f}" for value in values)


def _percent(values: xarray.DataArray) -> str:
    return ", ".join(f"{float(value):.0%}" for value in values)
