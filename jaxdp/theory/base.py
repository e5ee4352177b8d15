"""The abstract theory, and `require_` functions, which raise NotCoveredError for other pairs."""

import abc
from typing import Any

from jaxdp.algorithms.base import require_pair
from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.checks import NotCoveredError
from jaxdp.core.description import AbstractDescription
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.rows.features import AbstractFeatureProblem, reason_not_squared
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.problems.streams.tabular import TabularRegression


class AbstractTheory(AbstractDescription):
    """A deterministic prediction for the pairs of problem and algorithm that it covers."""

    @abc.abstractmethod
    def read(self, problem: Any, algorithm: Any) -> Any:
        """Refuse a pair, or return the quantities that `solve` needs.

        Raises:
            NotCoveredError: an assumption fails; names it, and what to use instead.
        """

    @abc.abstractmethod
    def solve(self, reading: Any, records: int) -> Trajectory:
        """Predict the trajectory from the return value of `read`."""

    def why_not(self, problem: Any, algorithm: Any) -> str | None:
        """Which assumption fails, and what to use instead; None if the pair is covered."""
        require_pair(problem, algorithm)
        try:
            self.read(problem, algorithm)
        except (NotCoveredError, ValueError) as error:
            return str(error)
        return None


def require_linear_pass(problem: Any, algorithm: Any, kind: type = OnePassDPSGD) -> None:
    """Raise unless it is linear regression, with any input scales and loss, in one pass."""
    if not isinstance(problem, LinearRegression):
        fits = isinstance(problem, TabularRegression) and isinstance(algorithm, kind)
        hint = "; predict on its .surrogate, the Gaussian problem of the same moments"
        raise NotCoveredError(
            f"AC Assumption 1 needs Gaussian inputs of known covariance (LinearRegression), got "
            f"{type(problem).__name__}{hint if fits else ''}"
        )
    _require_algorithm(algorithm, kind)


def require_plain_pass(problem: Any, algorithm: Any, kind: type = OnePassDPSGD) -> None:
    """Raise unless it is least squares on Gaussian inputs in one pass."""
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
    """Raise unless it is OnePassDPSGD on Gaussian inputs, with labels of any kind."""
    if isinstance(problem, AbstractSignalProblem):
        _require_algorithm(algorithm, OnePassDPSGD)
    else:
        require_linear_pass(problem, algorithm)


def require_fixed_rows(problem: Any, algorithm: Any) -> None:
    """Raise unless it is DP-GD, or a private optimiser with known batches of these fixed rows."""
    _require_features(problem, algorithm)
    _require_algorithm(algorithm, DPGD, PrivateOptimiser, hint="; on fixed rows use one of these")
    if isinstance(algorithm, PrivateOptimiser):
        require_known_batches(algorithm, problem.num_train)


def require_known_batches(algorithm: PrivateOptimiser, num_train: int) -> None:
    """Raise unless batches of so many rows have known moments, and the clip norm is fixed."""
    # Raises if the moments of the sampler's batches are not known.
    _ = algorithm.sampler.inclusion_moments
    if algorithm.clip.is_adaptive:
        raise NotCoveredError("it describes a fixed clip norm, got one that adapts")
    algorithm.require_rows(num_train)


def require_dp_gd(problem: Any, algorithm: Any) -> None:
    """Raise unless it is DP-GD with the squared loss on fixed rows."""
    _require_features(problem, algorithm)
    _require_algorithm(algorithm, DPGD, hint="; on fixed rows use DPGD")
    if (reason := reason_not_squared(problem)) is not None:
        raise NotCoveredError(reason)


def _require_features(problem: Any, algorithm: Any) -> None:
    if isinstance(problem, AbstractFeatureProblem):
        return
    came, hint = type(problem).__name__, ""
    if isinstance(problem, (LinearRegression, AbstractSignalProblem)):
        is_pass = isinstance(algorithm, OnePassDPSGD)
        hint = "; use CoupledODE()" if is_pass else f"; on {came} use OnePassDPSGD"
    raise NotCoveredError(
        f"it describes features on fixed rows (FixedFeatures, RandomFeatures), got {came}{hint}"
    )


def _require_algorithm(algorithm: Any, *kinds: type, hint: str = "") -> None:
    if not isinstance(algorithm, kinds):
        names = " and ".join(kind.__name__ for kind in kinds)
        raise NotCoveredError(f"it describes {names}, got {type(algorithm).__name__}{hint}")
