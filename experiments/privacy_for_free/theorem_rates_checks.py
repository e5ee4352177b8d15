"""What the lemmas behind PF Theorem 1 say of measured sizes."""

import math

import numpy as np
import xarray

from experiments.harness import Check, standard_error, table
from experiments.privacy_for_free.excess_risk_checks import best_risk

# Hermite coefficients of tanh: mu_1^2, and the sum of the squares of orders three and more.
_FIRST = 0.605705510**2
_REST = 0.394294490 - _FIRST


def slope(dataset: xarray.Dataset, values: xarray.DataArray) -> tuple[float, float]:
    """Exponent of a mean over seeds as a power of d, and its standard error."""
    logs = np.log(values.mean("seed").transpose("dim").data)
    (found, _), covariance = np.polyfit(np.log(dataset.dim.data), logs, 1, cov="unscaled")
    # Seeds of different sizes are independent.
    spread = standard_error(values, "seed") / values.mean("seed")
    error = float((spread**2).mean() ** 0.5)
    return float(found), float(error * covariance[0, 0] ** 0.5)


def scaled_shift(dataset: xarray.Dataset) -> xarray.DataArray:
    r"""The largest shift times $\sqrt p/\log n$, bounded by Lemma 6.5."""
    return dataset.row_shift / np.log(dataset.num_train)


def stopping_terms(dataset: xarray.Dataset) -> xarray.DataArray:
    """d/n + n/d^1.5: (6.11) without its logarithms."""
    return dataset.dim / dataset.num_train + dataset.num_train / dataset.dim**1.5


def noise_term(dataset: xarray.Dataset) -> xarray.DataArray:
    """d^2 log^10 n log(1/delta) / (n epsilon)^2 with delta = 1/n: (6.10)."""
    logs = np.log(dataset.num_train)
    return dataset.dim**2 * logs**11 / (dataset.num_train * dataset.attrs["epsilon"]) ** 2


def dim_of_small_noise(dataset: xarray.Dataset, level: float = 0.1) -> float:
    """log10 of the d from which the noise of (4.3), by its last measured constant, is below."""
    constant = float((dataset.noise.mean("seed") / noise_term(dataset))[-1])
    power, epsilon = dataset.attrs["exponent"], dataset.attrs["epsilon"]
    for digits in np.arange(2, 400, 0.1):
        logs = power * digits * math.log(10)
        value = math.log(constant) + 2 * digits * math.log(10) * (1 - power)
        if value + 11 * math.log(logs) - 2 * math.log(epsilon) < math.log(level):
            return float(digits)
    return math.inf


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Each lemma's order, and (4.3) against tuning."""
    shift, shift_error = slope(dataset, scaled_shift(dataset))
    distance, distance_error = slope(dataset, dataset.distance)
    bound, _ = np.polyfit(np.log(dataset.dim), np.log(stopping_terms(dataset)), 1)
    inside = dataset.noise / dataset.free_noise
    constants = dataset.noise.mean("seed") / noise_term(dataset)
    above = dataset.above * dataset.dim / dataset.num_train / _FIRST
    below, least = dataset.below / _REST, dataset.least / _REST
    tuned = best_risk(dataset).sel(calibration="published")
    return [
        Check(
            "Lemma 6.5: the largest shift, times sqrt(p)/log n, does not grow with d",
            f"d^({shift:.2f} ± {shift_error:.2f}), from {float(scaled_shift(dataset).max()):.2f}",
            shift < 2 * shift_error,
        ),
        Check(
            "Lemma C.3: eigenvalue d is of the order of n/d, number d + 1 and the least of one",
            f"{float(above.min()):.2f} to {float(above.max()):.2f} times mu_1^2 n/d; "
            f"{float(below.max()):.2f} and {float(least.min()):.2f} times the bulk's",
            float(above.min()) > 0.05 and float(below.max()) < 2 and float(least.min()) > 0.1,
        ),
        Check(
            "Lemma 6.4: at tau of (4.3) the distance to the interpolator falls with d, no slower "
            "than d/n + n/d^1.5",
            f"d^({distance:.2f} ± {distance_error:.2f}) against d^{bound:.2f}; "
            f"{float(dataset.distance.mean('seed')[0]):.1e} to "
            f"{float(dataset.distance.mean('seed')[-1]):.1e}",
            distance < bound + 2 * distance_error,
        ),
        Check(
            "Lemma 6.3: the noise adds less than free Brownian motion of the same length would",
            f"{float(inside.min()):.3f} to {float(inside.max()):.3f} of it",
            bool((inside <= 1).all()),
        ),
        Check(
            "Lemma 6.3: over d^2 log^10 n log(1/delta)/(n epsilon)^2 it does not grow with d",
            ", ".join(f"{value:.2g}" for value in constants.values),
            bool(constants[-1] <= constants[0]),
        ),
        Check(
            "with the hyper-parameters of (4.3) DP-GD's error is 10 times that of predicting "
            "nothing, or more, at every size; tuned it is below it",
            f"{float(dataset.theorem_risk.mean('seed').min()):.3g} to "
            f"{float(dataset.theorem_risk.mean('seed').max()):.3g}; "
            f"{float(tuned.mean('seed').min()):.3f} to {float(tuned.mean('seed').max()):.3f}",
            bool((dataset.theorem_risk.mean("seed") > 10).all())
            and bool((tuned.mean("seed") < 1).all()),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """What is seen, and the numbers."""
    mean, tuned = dataset.mean("seed"), best_risk(dataset).mean("seed")
    head = ["d", "n", "shift √p/log n", "distance", "noise", "error with (4.3)"]
    head += [f"tuned, {name}" for name in dataset.calibration.data] + ["θ*"]
    rows = []
    for dim in dataset.dim.data:
        at, best = mean.sel(dim=dim), tuned.sel(dim=dim)
        cells = [f"{float(scaled_shift(dataset).mean('seed').sel(dim=dim)):.2f}"]
        cells += [f"{float(at.distance):.1e}", f"{float(at.noise):.3g}"]
        cells += [f"{float(at.theorem_risk):.3g}"]
        cells += [f"{float(best.sel(calibration=name)):.3f}" for name in dataset.calibration.data]
        rows.append([dim, int(at.num_train), *cells, f"{float(at.interpolator):.3f}"])
    digits = dim_of_small_noise(dataset)
    return (
        f"Infinite width, rows on the sphere, n = d^{dataset.attrs['exponent']:g}, ε = "
        f"{dataset.attrs['epsilon']:g}, δ = 1/n, means over {dataset.sizes['seed']} data sets.\n\n"
        "What the lemmas bound is of their order or below. Stopping costs next to nothing at τ of "
        "(4.3): the distance falls much faster than its bound. The noise is what is left of the "
        "theorem at these sizes: log n to the tenth power outweighs d²/n², and by the constant of "
        f"the last row it falls below .1 only from d = 10^{digits:.0f} on. So (4.3) is a scaling "
        "of d/p and √p, which is right (Figure 3), and no choice of hyper-parameters: the tuned "
        "τ and C have no logarithms, and clip most gradients.\n\n" + table(head, rows)
    )
