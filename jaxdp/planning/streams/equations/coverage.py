"""What the searches that know least squares alone say of other problems."""

from typing import Any

from jaxdp.core.checks import require_host, require_kind
from jaxdp.core.errors import NotCoveredError
from jaxdp.problems.base import AbstractProblem
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem


def require_least_squares(problem: AbstractProblem, asked: str) -> None:
    """Raise NotCoveredError for a stream that is not least squares on Gaussian inputs.

    Args:
        problem: a description; nothing is said of what is no stream.
        asked: what is asked for.
    """
    if isinstance(problem, AbstractSignalProblem):
        came = type(problem).__name__
    elif not isinstance(problem, LinearRegression):
        return
    elif problem.input_scales is not None:
        came = "input_scales"
    elif problem.loss.square_curvature != 1:
        came = f"the loss {type(problem.loss).__name__}"
    else:
        return
    raise NotCoveredError(
        f"{asked} is for least squares on Gaussian inputs (LinearRegression without input_scales), "
        f"got {came}; jaxdp.plan for one budget, of a problem taken as known, covers it"
    )


def require_known_least_squares(problem: Any, asked: str) -> None:
    """Raise unless it is least squares on Gaussian inputs with numbers that are known.

    Args:
        problem: what was given.
        asked: what is asked for.

    Raises:
        NotCoveredError: it is another problem on a stream.
        TypeError: it is no problem on a stream, or traced.
    """
    if isinstance(problem, AbstractProblem):
        require_least_squares(problem, asked)
    require_kind("problem", problem, LinearRegression, "a LinearRegression")
    require_host("problem", problem)
