"""Which pairs of problem and algorithm the theories are about, and what to use for the others.

Each function raises NotCoveredError, which says what was expected and what to use instead.
"""

from typing import Any

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.errors import NotCoveredError
from jaxdp.problems.rows.feature_arguments import reason_not_squared
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.problems.streams.tabular import TabularRegression


def require_linear_pass(problem: Any, algorithm: Any, kind: type = OnePassDPSGD) -> None:
    """Raise unless it is linear regression in one pass of a kind of algorithm.

    Inputs of random scale and Huber's loss pass: a theory that leaves them out asks
    `require_plain_pass`.
    """
    if not isinstance(problem, LinearRegression):
        fits = isinstance(problem, TabularRegression) and isinstance(algorithm, kind)
        hint = "; predict on its .surrogate, the Gaussian problem of the same moments"
        raise NotCoveredError(
            f"AC Assumption 1 needs Gaussian inputs of known covariance (LinearRegression), got "
            f"{type(problem).__name__}{hint if fits else ''}"
        )
    _require_algorithm(algorithm, kind)


def require_plain_pass(problem: Any, algorithm: Any, kind: type = OnePassDPSGD) -> None:
    """Raise unless it is least squares on Gaussian inputs in one pass of a kind of algorithm."""
    require_linear_pass(problem, algorithm, kind)
    if problem.input_scales is not None:
        raise NotCoveredError(
            "it is for Gaussian inputs, got input_scales; CoupledODE() covers inputs of any scale"
        )
    if problem.loss.square_curvature != 1:
        came = type(problem.loss).__name__
        raise NotCoveredError(
            f"it is for least squares (HalfSquared), got the loss {came}; use CoupledODE()"
        )


def require_gaussian_pass(problem: Any, algorithm: Any) -> None:
    """Raise unless it is OnePassDPSGD on Gaussian inputs, whatever sets the labels."""
    if isinstance(problem, AbstractSignalProblem):
        _require_algorithm(algorithm, OnePassDPSGD)
    else:
        require_linear_pass(problem, algorithm)


def _require_algorithm(algorithm: Any, kind: type, hint: str = "") -> None:
    if not isinstance(algorithm, kind):
        raise NotCoveredError(f"it describes {kind.__name__}, got {type(algorithm).__name__}{hint}")


def require_rows(problem: Any, algorithm: Any) -> None:
    """Raise unless it is DP-GD or a private optimiser of known batches on fixed rows."""
    if not isinstance(problem, AbstractFeatureProblem):
        is_gaussian = isinstance(problem, (LinearRegression, AbstractSignalProblem))
        fits = is_gaussian and isinstance(algorithm, OnePassDPSGD)
        raise NotCoveredError(
            "it describes features on fixed rows (FixedFeatures, RandomFeatures), got "
            f"{type(problem).__name__}{'; use CoupledODE()' if fits else ''}"
        )
    if isinstance(algorithm, PrivateOptimiser):
        # A sampler whose batches are not known well enough raises.
        _ = algorithm.sampler.inclusion_moments
        if algorithm.clip.is_adaptive:
            raise NotCoveredError("it describes a fixed clip norm, got one that adapts")
    else:
        _require_dp_gd(algorithm)


def require_dp_gd(problem: Any, algorithm: Any) -> None:
    """Raise unless it is DP-GD with the squared loss on fixed rows."""
    require_rows(problem, algorithm)
    _require_dp_gd(algorithm)
    if (reason := reason_not_squared(problem)) is not None:
        raise NotCoveredError(reason)


def _require_dp_gd(algorithm: Any) -> None:
    _require_algorithm(algorithm, DPGD, "; on fixed rows use DPGD")
