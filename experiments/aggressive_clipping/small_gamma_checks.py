"""Exponents fitted to the risk as gamma tends to 0, and what AC Theorems 6 and 7 say of them."""

import numpy as np
import xarray
from jaxtyping import Float
from scipy.optimize import least_squares

from experiments.harness import Check

Estimate = tuple[float, float]
"""A value and by how much it moves with the window."""


def printed_exponent(power: float) -> float:
    """Of ln(1/gamma) in the first term; twice that in the second. Source: AC Theorems 6 and 7."""
    return 1 / (1 + power)


def local_exponents(risk: xarray.DataArray) -> Float[np.ndarray, " pairs"]:
    """d ln(R/gamma) / d ln ln(1/gamma) between neighbouring gammas."""
    gamma = risk.gamma.values
    return np.diff(np.log(risk.values / gamma)) / np.diff(np.log(np.log(1 / gamma)))


def fitted(risk: xarray.DataArray) -> tuple[Estimate, Estimate]:
    """Exponents of gamma and of ln(1/gamma), together, over the smaller half of ln(1/gamma)."""
    found = []
    for window in _windows(risk):
        logs = np.log(1 / window.gamma.values)
        columns = np.stack([np.ones_like(logs), -logs, np.log(logs)], axis=1)
        found.append(np.linalg.lstsq(columns, np.log(window.values), rcond=None)[0][1:])
    (gamma, log), (other_gamma, other_log) = found
    return (gamma, abs(gamma - other_gamma)), (log, abs(log - other_log))


def shifted(risk: xarray.DataArray) -> Estimate:
    """p of R/gamma = A (ln(1/gamma) + b)^p over the smallest third of ln(1/gamma)."""
    found = []
    for window in _windows(risk, 3):
        logs = np.log(1 / window.gamma.values)
        scaled = np.log(window.values / window.gamma.values)

        def residuals(unknown, logs=logs, scaled=scaled):
            level, shift, exponent = unknown
            return level + exponent * np.log(logs + shift) - scaled

        start = [scaled[-1] - np.log(logs[-1]), 1.0, 0.7]
        bounds = [-np.inf, 0.5 - logs[0], 0], np.inf
        found.append(least_squares(residuals, start, bounds=bounds, x_scale=[1, 10, 1]).x[2])
    return found[0], abs(found[0] - found[1])


def _windows(risk: xarray.DataArray, parts: int = 2) -> list[xarray.DataArray]:
    """The smallest of so many parts of the gammas, and the same moved up by a decade."""
    logs = np.log10(1 / risk.gamma.values)
    shift = max(1, int(np.searchsorted(logs, logs[0] + 1 - 1e-9)))
    length = (len(logs) + parts - 1) // parts
    return [risk[len(logs) - length :], risk[len(logs) - length - shift : len(logs) - shift]]


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The printed exponents against those found; at the theorems' rates and tuned."""
    found = []
    for power in dataset.power.values:
        found += _exponents(dataset.sel(power=power), float(power))
    found.append(_gamma_exponents(dataset))
    found.append(_order(dataset))
    if "best_risk" in dataset:
        found += _tuned(dataset)
    return found


def _exponents(dataset: xarray.Dataset, power: float) -> list[Check]:
    theorem = "6" if power < 1 else "7"
    found = []
    for risk, name, times in ((dataset.risk, "gamma", 1), (dataset.privacy_part, "privacy", 2)):
        printed = times * printed_exponent(power)
        last = [local_exponents(risk.sel(constant=c))[-1] for c in dataset.constant.values]
        worst = max(abs(value - printed) for value in last)
        texts = ", ".join(
            f"{value:.4f} at C = {constant:g}"
            for value, constant in zip(last, dataset.constant.values, strict=True)
        )
        found.append(
            Check(
                f"alpha = {power:g}: in the {name} term ln(1/gamma) has the exponent "
                f"{printed:.3f} of Theorem {theorem} at the least gamma, to .01",
                texts,
                worst < 0.01,
            )
        )
    return found


def _gamma_exponents(dataset: xarray.Dataset) -> Check:
    """With the power of the logarithm fitted beside it, so that neither helps the other."""
    estimates = [
        fitted(dataset.risk.sel(power=power, constant=constant))
        for power in dataset.power.values
        for constant in dataset.constant.values
    ]
    worst = max(abs(gamma - 1) for (gamma, _), _ in estimates)
    moved = max(error for (_, error), _ in estimates)
    return Check(
        "fitted together with it, gamma has the exponent 1, to .005",
        f"to {worst:.1e}; windows a decade apart differ by up to {moved:.1e}",
        worst < 0.005,
    )


def _order(dataset: xarray.Dataset) -> Check:
    """Source: AC after Theorem 7: a larger alpha is better as gamma tends to 0, up to ln ln."""
    name = "best_risk" if "best_risk" in dataset else "risk"
    last = dataset[name].isel(gamma=-1)
    last = last.isel(constant=0) if "constant" in last.dims else last
    scaled = (last / last.gamma).values
    return Check(
        "at the least gamma alpha = 0 has the largest risk",
        ", ".join(
            f"{value:.3f} gamma at {power:g}"
            for value, power in zip(scaled, dataset.power.values, strict=True)
        ),
        bool(scaled[0] > scaled[1:].max()),
    )


def _tuned(dataset: xarray.Dataset) -> list[Check]:
    rising, below, ends, found, allowed = True, True, [], [], []
    for power in dataset.power.values:
        printed = printed_exponent(power)
        local = local_exponents(dataset.best_risk.sel(power=power))
        half = local[len(local) // 2 :]
        rising &= bool((np.diff(half) > -0.01).all())
        below &= bool(half.max() < printed)
        ends.append(f"{half[0]:.2f} to {half[-1]:.2f} for {printed:.2f}")
        exponent, error = shifted(dataset.best_risk.sel(power=power))
        found.append(f"{exponent:.2f} ± {error:.2f} for {printed:.2f}")
        allowed.append(abs(exponent - printed) < error < 0.1)
    return [
        Check(
            "c and the rate tuned: the local exponent rises toward the printed one as gamma falls",
            "; ".join(ends),
            rising and below,
        ),
        Check(
            "tuned, R/gamma = A (ln(1/gamma) + b)^p: p is the printed exponent, within what "
            "moving the window by a decade changes (less than .1)",
            "; ".join(found),
            all(allowed),
        ),
    ]
