"""The check that a problem and an algorithm were passed, neither swapped nor left out."""

from typing import Any

from jaxdp.algorithms.base import AbstractAlgorithm, AbstractTrainable
from jaxdp.core.checks import require_kind
from jaxdp.problems.base import AbstractProblem


def require_pair(problem: Any, algorithm: Any) -> None:
    """Raise TypeError unless the two are a problem and an algorithm, covered or not."""
    require_kind("problem", problem, AbstractProblem, "a problem, such as LinearRegression")
    kinds = AbstractAlgorithm, AbstractTrainable
    require_kind("algorithm", algorithm, kinds, "an algorithm, such as OnePassDPSGD")
