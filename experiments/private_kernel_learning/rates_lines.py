"""The drawn predictions beside the runs they are drawn for: at tuned ridges runs lie below them."""

import numpy as np
import xarray

from experiments.harness import Check, standard_error
from experiments.private_kernel_learning.rates_table import exponent, slope
from experiments.statements.private_kernel_learning.rates import random_projection_rate

_SIGMAS, _SAMPLE_SIGMAS = 4.0, 3.0
# Of the drawn line: what is far below it, and where no mean is.
_FAR, _LEAST = 0.8, 0.5


def ratios(dataset: xarray.Dataset) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Runs over their drawn line at n = 10^9: means and standard errors, by what is drawn."""
    projected = dataset.squared.sel(learner="random projection", drop=True)
    line = dataset.squared_predicted.sel(formula="random projection", drop=True)
    pairs = {f"squared loss, r = {r:g}": (projected.sel(source=r), line.sel(source=r))
             for r in dataset.source.values}  # fmt: skip
    for name in dataset.quadratic.values:
        curve = dataset.logistic_predicted.sel(quadratic=name, drop=True)
        pairs[f"logistic, {name}"] = dataset.logistic.sel(objective=name, drop=True), curve
    pairs["features"] = dataset.by_count.sel(loss="squared", drop=True), dataset.count_predicted
    noisy = dataset.power_predicted.sel(noisy="C and u", drop=True)
    pairs["kernel to a power"] = dataset.by_power, noisy
    pairs["linear kernel"] = dataset.by_dim, dataset.dim_predicted
    return {name: _ratio(*pair) for name, pair in pairs.items()}


def _ratio(runs: xarray.DataArray, line: xarray.DataArray) -> tuple[np.ndarray, np.ndarray]:
    ratio = runs / line
    mean, error = ratio.mean("run"), standard_error(ratio, "run")
    seen = mean.notnull().values
    return mean.values[seen], error.transpose(*mean.dims).values[seen]


def line_checks(dataset: xarray.Dataset) -> list[Check]:
    """How far from the drawn lines the runs are, and the exponents of n."""
    return [_below(dataset), _without_privacy(dataset), _fixed_budget(dataset)]


def _below(dataset: xarray.Dataset) -> Check:
    found = ratios(dataset)
    mean, error = (np.concatenate([one[i] for one in found.values()]) for i in (0, 1))
    lowest = {name: one[0].min() for name, one in found.items()}
    return Check(
        f"at the tuned settings the drawn lines are no means: the runs are below them or at most "
        f"5% above, and nowhere below {_LEAST:g} of them (to {_SIGMAS:g} standard errors)",
        f"{int((mean < _FAR).sum())} of {mean.size} points are more than 20% below; least: "
        + ", ".join(f"{name} {value:.2f}" for name, value in lowest.items()),
        bool(((mean - _SIGMAS * error < 1.05) & (mean + _SIGMAS * error > _LEAST)).all()
             and (mean < _FAR).any()),
    )  # fmt: skip


def exponents_of_samples(dataset: xarray.Dataset, name: str, axis: str) -> list[tuple[float, ...]]:
    """For every r: the exponent found, its error, and that of the predicted risks."""
    found = []
    for source in dataset.source.values:
        at = dataset.sel(source=source)
        runs = at[name].rename(sample_run="run")
        found.append((*exponent(runs, axis), slope(at[f"{name}_predicted"], axis)))
    return found


def _said(dataset: xarray.Dataset, found: list[tuple[float, ...]]) -> str:
    return ", ".join(
        f"r = {float(source):g}: {value:.3f} ± {error:.3f}, predicted {predicted:.3f}"
        for source, (value, error, predicted) in zip(dataset.source, found, strict=True)
    )


def _as_predicted(found: list[tuple[float, ...]]) -> bool:
    return all(abs(a - b) < _SAMPLE_SIGMAS * error + 0.03 for a, error, b in found)


def _without_privacy(dataset: xarray.Dataset) -> Check:
    found = exponents_of_samples(dataset, "by_samples", "samples")
    ratio = dataset.by_samples / dataset.by_samples_predicted
    gap, error = abs(ratio.mean("sample_run") - 1), standard_error(ratio, "sample_run")
    limits = [
        random_projection_rate(float(r), dataset.capacity).decay.samples for r in dataset.source
    ]
    return Check(
        "exponents of n without privacy, at Theorem 11's M: the risk falls as predicted (to 3 "
        "errors and .03), and every mean is the predicted one (to 4 standard errors and 5%)",
        f"{_said(dataset, found)} (in the limit {', '.join(f'{one:.3f}' for one in limits)}); "
        f"largest gap {float(gap.max()):.1%}",
        _as_predicted(found) and bool((gap < _SIGMAS * error + 0.05).all()),
    )


def _fixed_budget(dataset: xarray.Dataset) -> Check:
    found = exponents_of_samples(dataset, "by_budget", "budget_samples")
    return Check(
        f"exponents of n at a fixed budget, mu = {dataset.budget_mu:g}: the risk of the tuned "
        "private learner falls as predicted (to 3 errors and .03)",
        _said(dataset, found),
        _as_predicted(found),
    )
