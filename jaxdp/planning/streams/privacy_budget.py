"""What a plan is given of privacy: rho, or epsilon and delta."""

import math
from typing import Any

import numpy as np

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import host_number
from jaxdp.privacy.arguments import check_budget
from jaxdp.privacy.conversions.gaussian import gaussian_mu


def rho_of(rho: Any, epsilon: Any, delta: Any) -> float:
    r"""$\rho$ of a budget: the algorithm is exactly $\rho$-GDP.

    Raises:
        TypeError, ValueError: not exactly one of rho and (epsilon, delta) is given, or it is out
            of range.
    """
    if (rho is None) == (epsilon is None):
        came = "both" if rho is not None else "neither"
        raise ValueError(f"expected either rho or epsilon and delta, got {came}")
    if rho is not None:
        if delta is not None:
            raise ValueError("expected rho alone or epsilon and delta, got rho and delta")
        known = host_number("rho", rho)
        if not known > 0 or math.isnan(known):
            raise ValueError(f"expected rho > 0, got {known}")
        return known
    if delta is None:
        raise ValueError("expected delta with epsilon, got epsilon alone")
    check_budget(host_number("epsilon", epsilon), host_number("delta", delta))
    found = float(gaussian_mu(float(epsilon), float(delta)))
    if found == 0:
        raise ValueError(f"expected an epsilon that some noise reaches, got {epsilon}")
    return found


def rounded_down(value: float) -> np.ndarray:
    """The number in JAX's default type, not larger: a larger rho would be less private."""
    array = np.asarray(as_wide_float(value))
    return np.nextafter(array, np.zeros_like(array)) if float(array) > value else array
