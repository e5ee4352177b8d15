r"""The inverse question: how many samples, or how much privacy, a risk needs.

The best risk falls strictly with n, as a plan for n samples is one for more that stops early, and
with $\rho$, as noise then falls: bisection on a logarithmic scale finds the one answer.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy
from jaxtyping import Float

from jaxdp.core.checks import NotCoveredError, host_array, host_number, require_count
from jaxdp.planning.streams.best_schedule import best_risk, family_of, floor_of, rho_of
from jaxdp.planning.streams.families import AbstractFamily
from jaxdp.planning.streams.greedy_arc import Optimal, best_greedy, isotropic_floor
from jaxdp.planning.streams.setting import require_least_squares, setting_of
from jaxdp.privacy.arguments import check_delta, warn_of_large_delta
from jaxdp.privacy.budgets import AbstractBudget, budget_of, warn_of_budget
from jaxdp.privacy.conversions.gaussian import gaussian_epsilon
from jaxdp.problems.streams.linear import LinearRegression

_FACTOR, _FARTHEST = 4.0, 1e15  # growth factor of a bracket, and the most samples per dimension
_TOLERANCE, _ROUNDING = 1e-7, 1e-6  # tolerance of the logarithm, rounding above whole numbers
_MOST_RHO = 1e6  # beyond this rho the noise is negligible


def required_samples(
    problem: LinearRegression,
    target_risk: float,
    *,
    rho: float | None = None,
    epsilon: float | AbstractBudget | None = None,
    delta: float | None = None,
    schedule: Any = Optimal,
) -> int:
    """The least number of samples with which a plan reaches a risk; one exists for every risk
    above 0.

    Args:
        problem: least squares on a stream of Gaussian inputs.
        target_risk: predicted risk of the released iterate, above 0 and below the problem's R(0).
        rho, epsilon, delta, schedule: see `jaxdp.plan`.

    Returns:
        n: the search reaches the target with n samples and not with n - 1; `jaxdp.plan` predicts at
        most the target, up to 1e-4.

    Warns:
        UserWarning: delta is at least one over the number of samples.

    Raises:
        NotCoveredError: the problem has input scales or another loss, or is logistic.
        RuntimeError: more than 1e15 samples per dimension are needed.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> jaxdp.required_samples(problem, 0.05, rho=1.0)
        1068
    """
    family, target = _checked(problem, target_risk, schedule)
    strength = rho_of(rho, epsilon, delta)

    def excess(log_count):
        setting = setting_of(problem, math.exp(log_count), strength)
        return math.log(best_risk(family, setting) / target)

    start = math.log(problem.dim)
    root = _root(excess, start, start + math.log(_FARTHEST))
    if root is None:
        raise RuntimeError(
            f"expected a target that 1e15 samples per dimension reach, got {target_risk}"
        )
    count = max(1, math.ceil(math.exp(root) * (1 - _ROUNDING)))
    if epsilon is not None:
        warn_of_budget(budget_of(epsilon, delta), count, stacklevel=2)
    return count


def required_epsilon(
    problem: LinearRegression,
    target_risk: float,
    *,
    num_samples: int,
    delta: float,
    schedule: Any = Optimal,
) -> float:
    """The least epsilon with which a plan reaches a risk; infinite if none does.

    Args:
        problem, target_risk, schedule: see `required_samples`.
        num_samples: number n of samples.
        delta: delta of the budget, in (0, 1).

    Returns:
        epsilon; infinite at or below the floor (`.floor` of a plan), 0 if delta alone suffices.

    Warns:
        UserWarning: delta is at least one over the number of samples.

    Raises:
        NotCoveredError: the problem has input scales or another loss, or is logistic.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> epsilon = jaxdp.required_epsilon(problem, 0.05, num_samples=1000, delta=1e-5)
        >>> print(f"{epsilon:.2f}")
        4.84
        >>> jaxdp.required_epsilon(problem, 0.005, num_samples=1000, delta=1e-5)
        inf
    """
    family, target = _checked(problem, target_risk, schedule)
    count = require_count("num_samples", num_samples)
    check_delta(host_number("delta", delta))
    warn_of_large_delta(delta, count, stacklevel=2)
    if target <= floor_of(setting_of(problem, count, math.inf)):
        return math.inf

    def excess(log_rho):
        setting = setting_of(problem, count, math.exp(log_rho))
        return math.log(best_risk(family, setting) / target)

    root = _root(excess, 0.0, math.log(_MOST_RHO))
    return math.inf if root is None else float(gaussian_epsilon(math.exp(root), float(delta)))


def best_risks(
    problem: LinearRegression, *, num_samples: Any, rho: Any
) -> Float[np.ndarray, "*budgets"]:
    """The least risk of a plan (`Optimal`) for every budget, in one batched search.

    Args:
        problem: least squares on a stream of Gaussian inputs, with equal eigenvalues.
        num_samples: one number or an array, > 0.
        rho: one number or an array, > 0, broadcast against `num_samples`; infinite without privacy.

    Returns:
        The risks that the search saw, in float64. Below 1e-6 R(0) they are accurate only with label
        noise (zeta^2 >= 2e-4 R(0) is enough); `jaxdp.plan` has a status for this.

    Raises:
        NotCoveredError: the eigenvalues are unequal, or the problem is not such a least squares.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> risks = jaxdp.planning.best_risks(problem, num_samples=[1000, 10_000], rho=1.0)
        >>> print(risks.round(4))
        [0.0565 0.0009]
    """
    require_least_squares(problem, "best_risks")
    counts, strengths = host_array("num_samples", num_samples), host_array("rho", rho)
    for name, values in (("num_samples", counts), ("rho", strengths)):
        if not np.all(values > 0):
            raise ValueError(f"expected {name} > 0 everywhere, got one of {np.min(values)}")
    counts, strengths = np.broadcast_arrays(counts, strengths)
    one = setting_of(problem, 1, 1.0)
    if not one.is_isotropic:
        raise NotCoveredError(
            "expected equal eigenvalues in best_risks, got unequal ones; use jaxdp.plan one by one"
        )
    cells = counts.size
    repeated = jax.tree.map(lambda leaf: np.stack([leaf] * cells), one)
    settings = dataclasses.replace(
        repeated, gamma=problem.dim / counts.ravel(), rho=strengths.ravel()
    )
    is_noisy = np.isfinite(settings.rho)
    risks = np.empty(cells)
    for place in np.flatnonzero(~is_noisy):
        risks[place] = isotropic_floor(jax.tree.map(lambda leaf, at=place: leaf[at], settings))
    if is_noisy.any():
        _, risks[is_noisy] = best_greedy(jax.tree.map(lambda leaf: leaf[is_noisy], settings))
    return risks.reshape(counts.shape)


def _checked(
    problem: LinearRegression, target_risk: Any, schedule: Any
) -> tuple[AbstractFamily | None, float]:
    require_least_squares(problem, "the inverse question")
    family, target = family_of(schedule), host_number("target_risk", target_risk)
    start = float(setting_of(problem, 1, 1.0).initial_risk)
    if not 0 < target < start:
        raise ValueError(
            f"expected target_risk above 0 and below the initial risk {start:.6g}, got {target}"
        )
    return family, target


def _root(excess: Callable[[float], float], start: float, highest: float) -> float | None:
    """The zero of a falling function, bracketed outwards from a start; None beyond the highest."""
    step = math.log(_FACTOR)
    low = high = start
    value = excess(start)
    while value < 0:
        high, low = low, low - step
        value = excess(low)
    while low == high or excess(high) > 0:
        if high >= highest:
            return None
        low, high = high, min(high + step, highest)
    found = scipy.optimize.brentq(excess, low, high, xtol=_TOLERANCE, rtol=4 * np.finfo(float).eps)
    return float(found)
