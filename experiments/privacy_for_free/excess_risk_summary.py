"""PF Theorem 1's excess risk in words and one table."""

import numpy as np
import xarray

from experiments.harness import table
from experiments.privacy_for_free.excess_risk_checks import (
    error,
    excess_risk,
    power_law,
    privacy_limited,
    terms,
)


def summary(dataset: xarray.Dataset) -> str:
    """What is seen, in a paragraph, and the excess risks."""
    epsilons = dataset.epsilon.data
    mean, spread = (of.sel(calibration="exact") for of in _mean_and_error(dataset))
    rows = []
    for dim in dataset.dim.data:
        for num_train in dataset.num_train.data:
            at = {"dim": dim, "num_train": num_train}
            cells = [
                f"{float(value):+.3f} ± {float(deviation):.3f}"
                for value, deviation in zip(mean.sel(at), spread.sel(at), strict=True)
            ]
            theta = float(dataset.interpolator.sel(at).mean())
            rows.append([dim, num_train, f"{theta:.3f}", *cells])
    head = ["d", "n", "θ*", *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    slopes = []
    for name in dataset.calibration.data:
        slope, deviation, factor = power_law(*privacy_limited(dataset, name))
        slopes.append(f"{factor:.2g} (d/(nε))^({slope:.2f} ± {deviation:.2f}), {name}")
    return (
        f"Infinite width, delta = 1/n, τp/d and C/√p tuned in each cell by the mean test error "
        f"(which is not private, and flatters R_P a little); ± is one standard error over "
        f"{dataset.sizes['seed']} data sets.\n\n"
        "Theorem 1 is an upper bound up to constants and logarithms. The sum of its three terms "
        f"with constants of one is at least {_least_sum(dataset):.2f} in every cell, more than "
        "predicting nothing loses, so that no run could be above it: the first check takes its "
        "first term alone. With the least constants that hold of the cells between n = d and d^1.5 "
        "the theorem is not vacuous there, but those constants are of these cells; nothing here "
        "shows that it is tight. Between n = 4 d "
        "and d², where privacy is what costs (.01 < R_P < .25), R_P is about "
        f"{' and '.join(slopes)}: the first term's shape. The other two, which bound how far "
        "early stopping is from interpolation, are not seen: at the largest d, n and epsilon "
        f"R_P is {float(mean[-1, -1, -1]):.3f}.\n\n"
        "R_P turns negative where interpolation hurts, and that is where n leaves the theorem's "
        "range: theta* has a plateau, well beyond d^1.5, but its error rises again as n nears the "
        "number of cubics, of the order of d³/6, before it learns them. DP-GD has no such peak, "
        "for it does not interpolate. For the same reason DP-GD hardly sees a finite p, while "
        "theta* needs p much larger than n. Where n is close to d both are poor.\n\n"
        "R_P with the exact calibration:\n\n" + table(head, rows)
    )


def _least_sum(dataset: xarray.Dataset) -> float:
    return float(np.min(sum(terms(dataset.dim, dataset.num_train, dataset.epsilon))))


def _mean_and_error(dataset: xarray.Dataset) -> tuple[xarray.DataArray, xarray.DataArray]:
    excess = excess_risk(dataset)
    return excess.mean("seed"), error(excess)
