"""The best risks of many budgets at once, without their plans.

A figure of risk against privacy asks for dozens of plans of which only the risks are wanted. All
are searched for in one compiled call.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import host_array
from jaxdp.core.errors import NotCoveredError
from jaxdp.planning.streams.equations.coverage import require_known_least_squares
from jaxdp.planning.streams.equations.setting import Setting, setting_of
from jaxdp.planning.streams.floor import isotropic_floor
from jaxdp.planning.streams.greedy.search import best_greedy
from jaxdp.problems.streams.linear import LinearRegression


def best_risks(
    problem: LinearRegression, *, num_samples: Any, rho: Any
) -> Float[np.ndarray, "*budgets"]:
    """The least risk of a plan (`Optimal`) for every budget, in one batched search.

    Args:
        problem: linear regression on a stream, with equal eigenvalues.
        num_samples: one or an array, any numbers > 0.
        rho: one or an array, > 0; infinite without privacy. Broadcast against `num_samples`.

    Returns:
        The risks that the search saw, in float64. Below 1e-6 R(0) they are right only with label
        noise (zeta^2 >= 2e-4 R(0) is enough); a plan's status tells, this does not.

    Raises:
        NotCoveredError: the eigenvalues are not equal, or it is not least squares on Gaussian
            inputs.
        TypeError, ValueError: an argument is of the wrong kind or out of range.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> risks = jaxdp.planning.best_risks(problem, num_samples=[1000, 10_000], rho=1.0)
        >>> print(risks.round(4))
        [0.0565 0.0009]
    """
    require_known_least_squares(problem, "best_risks")
    counts, strengths = host_array("num_samples", num_samples), host_array("rho", rho)
    for name, values in (("num_samples", counts), ("rho", strengths)):
        if not np.all(values > 0):
            raise ValueError(f"expected {name} > 0 everywhere, got one of {np.min(values)}")
    counts, strengths = np.broadcast_arrays(counts, strengths)
    one = setting_of(problem, 1, 1.0)
    if not one.is_isotropic:
        raise NotCoveredError(
            "best_risks: a batched search is for equal eigenvalues; use jaxdp.plan one by one"
        )
    size = counts.size

    def repeated(values):
        return np.broadcast_to(values, (size, *np.shape(values))).copy()

    settings = Setting(
        problem.dim / counts.ravel(),
        strengths.ravel(),
        repeated(one.label_noise),
        repeated(one.eigenvalues),
        repeated(one.weights),
        repeated(one.initial),
    )
    is_noisy = np.isfinite(strengths.ravel())
    risks = np.empty(size)
    for place in np.flatnonzero(~is_noisy):
        risks[place] = isotropic_floor(jax.tree.map(lambda leaf, at=place: leaf[at], settings))
    if is_noisy.any():
        noisy = jax.tree.map(lambda leaf: leaf[is_noisy], settings)
        risks[is_noisy] = best_greedy(noisy).risk
    return risks.reshape(counts.shape)
