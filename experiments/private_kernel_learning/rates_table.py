"""Exponents fitted to the rates' runs, with their errors, beside those printed and derived."""

import math

import numpy as np
import xarray

from experiments.harness import table
from experiments.statements.private_kernel_learning.rates import (
    filtered_noise_rate,
    functional_perturbation_rate,
    minimax_rate,
    random_feature_rate,
    random_projection_rate,
    undersmoothed_rate,
)

_NUM_RESAMPLES = 400


def exponent(risk: xarray.DataArray, level: str) -> tuple[float, float]:
    """Fitted -d ln(mean risk) / d ln(level), and its error by the bootstrap over runs."""
    logs = np.log(risk[level].values)
    runs = risk.transpose(level, "run").values
    random = np.random.default_rng(0)
    picks = random.integers(runs.shape[1], size=(_NUM_RESAMPLES, *runs.shape))
    means = np.take_along_axis(runs[None], picks, axis=2).mean(axis=2)
    fits = np.polyfit(logs, np.log(means).T, 1)[0]
    return float(-np.polyfit(logs, np.log(runs.mean(axis=1)), 1)[0]), float(fits.std(ddof=1))


def slope(values: xarray.DataArray, level: str) -> float:
    """The same of a deterministic curve."""
    return float(-np.polyfit(np.log(values[level].values), np.log(values.values), 1)[0])


def summary(dataset: xarray.Dataset) -> str:
    """Exponents found beside those printed and derived."""
    rows = []
    for source in dataset.source.values:
        at = dataset.sel(source=source)
        feature = random_feature_rate(source, dataset.capacity, 1.0)
        projection = random_projection_rate(source, dataset.capacity)
        filtered = filtered_noise_rate(source, dataset.capacity)
        lines = [
            (at.squared, "learner", "random projection", projection, filtered),
            (at.squared, "learner", "Theorem 11", projection, projection),
            (at.squared, "learner", "Fourier features", feature,
             filtered_noise_rate(source, dataset.capacity, 1.0)),
            (at.logistic, "objective", "random projection", projection, filtered),
            (at.logistic, "objective", "Fourier features", feature, filtered),
            (at.logistic, "objective", "no projection", projection, filtered),
            (at.logistic, "objective", "functional",
             *[functional_perturbation_rate(source, dataset.capacity)] * 2),
        ]  # fmt: skip
        for risk, axis, name, printed, derived in lines:
            level = "level" if axis == "learner" else "logistic_level"
            found, error = exponent(risk.sel({axis: name}), level)
            loss = "squared" if axis == "learner" else "logistic"
            rates = [f"{rate.decay.privacy:.3f}" for rate in (printed, derived)]
            rows.append([f"{source:g}", loss, name, *rates, f"{found:.3f} ± {error:.3f}"])
    head = ["r", "loss", "learner", "printed", "filtered", "found"]
    return (
        f"n = 10^{math.log10(dataset.num_samples):.0f} unless n is the axis: what is fitted here "
        "are exponents of $n\\epsilon$, where sampling costs nothing. Torus, gamma = "
        f"{dataset.capacity:g}. *printed*: the theorem's exponent of $n\\epsilon$; *filtered*: "
        "with the ridge's filtering of the noise counted, a first-order derivation; *found*: "
        "fitted over all levels, with bootstrap errors. At these levels the effective dimension is "
        "5 to 40, and local exponents wander by .1 about their limits. With the logistic loss "
        "random projection and Fourier features keep their number of features, and end at its "
        "floor; no projection means every eigenfunction. The lines are drawn at the tuned "
        "ridges, near the noise's spectrum, where the first-order prediction is too high: it "
        "leaves out that the noisy matrix is projected on the positive cone. The panel of ratios "
        "shows by how much; the prediction is tested at twice the ridge, where it holds.\n\n"
        f"{table(head, rows)}\n\n{_samples(dataset)}\n\n{_powers(dataset)}"
    )


def _samples(dataset: xarray.Dataset) -> str:
    """Exponents of n beside the two that the theorem prints."""
    rows = []
    for source in dataset.source.values:
        at, decay = dataset.sel(source=source), random_projection_rate(source, dataset.capacity)[0]
        for name, axis, what in (
            ("by_samples", "samples", "no privacy, Theorem 11's M"),
            ("by_budget", "budget_samples", f"μ = {dataset.budget_mu:g}, tuned"),
        ):
            found, error = exponent(at[name].rename(sample_run="run"), axis)
            predicted = slope(at[f"{name}_predicted"], axis)
            sizes = dataset[axis].values
            cells = [f"{sizes[0]:,} to {sizes[-1]:,}", f"{decay.samples:.3f}, {decay.privacy:.3f}"]
            rows.append(
                [f"{source:g}", what, *cells, f"{predicted:.3f}", f"{found:.3f} ± {error:.3f}"]
            )
    head = ["r", "random projection", "n", "printed, n and nε", "predicted over these n", "found"]
    return f"Exponents of n, {dataset.sizes['sample_run']} runs each:\n\n{table(head, rows)}"


def _powers(dataset: xarray.Dataset) -> str:
    """Predicted risks with a rougher kernel, and with a known basis."""
    capacity, source = dataset.rough_capacity, dataset.rough_source
    limit = minimax_rate(source, capacity, capacity).decay.privacy
    noisy = dataset.power_predicted.sel(noisy="C and u")
    curves = [
        (f"kernel to the power {b:g}", noisy.sel(power=b), undersmoothed_rate(source, capacity, b))
        for b in dataset.power.values
    ]
    lines = [(name, curve, rate.decay.privacy) for name, curve, rate in curves]
    lines += [
        (
            f"first d eigenfunctions, weights mu^{b:g}",
            dataset.known_basis.sel(weight=b),
            # Flat weights of trace 1 make |beta|^2, which multiplies the noise on C, grow as d.
            4 * source / (2 * source + capacity + (b or 2 * capacity)),
        )
        for b in dataset.weight.values
    ]
    lines.append(("canonical estimator", dataset.power_canonical, limit))
    levels = dataset.power_level.values
    head = ["features", "exponent", *(f"{level:.0e}" for level in levels)]
    rows = [
        [name, f"{rate:.3f}", *(f"{value:.1e}" for value in curve.values)]
        for name, curve, rate in lines
    ]
    return (
        f"beta < 1: gamma = beta = {capacity:g}, r = {source:g}, predicted risks at tuned d, M and "
        "ridge. A rougher kernel, which asks for no knowledge of the inputs' law where it is one "
        "of a family (Matern), closes the gap in the exponent as far as its power may fall (to r "
        "for a ridge), but not in the constant. A known basis, cut off and weighted by mu to a "
        "power just above beta, comes near the canonical estimator, noise on C included; flat "
        "weights do not, because of that noise. No proof is claimed.\n\n" + table(head, rows)
    )
