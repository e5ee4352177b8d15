"""Which pairs of problem and algorithm the theories are about, and what to use for the others."""

from jaxdp.algorithms.base import AbstractFullBatchAlgorithm
from jaxdp.algorithms.correlated_dp_sgd import CorrelatedDPSGD
from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.algorithms.pair import require_pair
from jaxdp.algorithms.private_optimiser.linear_algorithm import linear_state_of
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.errors import NotCoveredError
from jaxdp.problems.rows.feature_arguments import reason_not_squared
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.problems.streams.tabular import TabularRegression


def require_one_pass(problem, algorithm) -> str | None:
    """The reason why the pair is not linear regression under one-pass DP-SGD, or None.

    Inputs of random scale and Huber's loss pass: a theory that leaves them out asks
    `require_plain_one_pass`.
    """
    return _require_pass_of(OnePassDPSGD, problem, algorithm)


def require_correlated_pass(problem, algorithm) -> str | None:
    """The reason why it is not least squares on Gaussian inputs with correlated noise, or None."""
    reason = _require_pass_of(CorrelatedDPSGD, problem, algorithm)
    return _reason_not_plain(problem) if reason is None else reason


def _require_pass_of(kind: type, problem, algorithm) -> str | None:
    require_pair(problem, algorithm)
    if not isinstance(problem, LinearRegression):
        fits = isinstance(problem, TabularRegression) and isinstance(algorithm, kind)
        hint = "; predict on its .surrogate, the Gaussian problem of the same moments"
        return (
            f"AC Assumption 1 needs Gaussian inputs of known covariance (LinearRegression), got "
            f"{type(problem).__name__}{hint if fits else ''}"
        )
    if not isinstance(algorithm, kind):
        return f"it describes {kind.__name__}, got {type(algorithm).__name__}"
    return None


def require_plain_one_pass(problem, algorithm) -> str | None:
    """Why the pair is not OnePassDPSGD on Gaussian least squares, or None."""
    reason = require_one_pass(problem, algorithm)
    return _reason_not_plain(problem) if reason is None else reason


def _reason_not_plain(problem: LinearRegression) -> str | None:
    if problem.input_scales is not None:
        return (
            "it is for Gaussian inputs, got input_scales; CoupledODE() covers inputs of any scale"
        )
    if problem.loss.square_curvature != 1:
        came = type(problem.loss).__name__
        return f"it is for least squares (HalfSquared), got the loss {came}; use CoupledODE()"
    return None


def require_gaussian_pass(problem, algorithm) -> str | None:
    """Why the pair is not OnePassDPSGD on Gaussian inputs, whatever sets the labels, or None."""
    require_pair(problem, algorithm)
    if not isinstance(problem, AbstractSignalProblem):
        return require_one_pass(problem, algorithm)
    if not isinstance(algorithm, OnePassDPSGD):
        return f"it describes OnePassDPSGD, got {type(algorithm).__name__}"
    return None


def require_rows(problem, algorithm) -> str | None:
    """The reason why the pair is not DP-GD or linear DP-SGD on features of fixed rows, or None."""
    if not isinstance(algorithm, PrivateOptimiser):
        return _require_dp_gd_of_any_loss(problem, algorithm)
    require_pair(problem, algorithm)
    if not isinstance(problem, AbstractFeatureProblem):
        return (
            "it describes features on fixed rows (FixedFeatures, RandomFeatures), got "
            f"{type(problem).__name__}"
        )
    reason = reason_of_sampler(algorithm)
    if reason is not None:
        return reason
    try:
        linear_state_of(algorithm)
    except NotCoveredError as error:
        return str(error)
    return None


def reason_of_sampler(algorithm: PrivateOptimiser) -> str | None:
    """The reason why theories know too little of the batches, or None."""
    try:
        _ = algorithm.sampler.inclusion_moments
    except NotCoveredError as error:
        return str(error)
    return None


def require_dp_gd(problem, algorithm) -> str | None:
    """The reason why the pair is not DP-GD with squared loss on fixed rows, or None."""
    reason = _require_dp_gd_of_any_loss(problem, algorithm)
    return reason_not_squared(problem) if reason is None else reason


def _require_dp_gd_of_any_loss(problem, algorithm):
    require_pair(problem, algorithm)
    if not isinstance(problem, AbstractFeatureProblem):
        is_one_pass = require_gaussian_pass(problem, algorithm) is None
        return (
            "it describes least squares on features of fixed rows (RandomFeatures), got "
            f"{type(problem).__name__}{'; use CoupledODE()' if is_one_pass else ''}"
        )
    if not isinstance(algorithm, DPGD):
        hint = (
            "simulate it with FunctionSpace()"
            if isinstance(algorithm, AbstractFullBatchAlgorithm)
            else "on fixed rows use DPGD"
        )
        return f"it describes DPGD, got {type(algorithm).__name__}; {hint}"
    return None
