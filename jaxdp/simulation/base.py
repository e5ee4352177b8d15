"""The abstract simulator: it samples runs, and says which problems and algorithms it covers."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Key

from jaxdp.algorithms.base import AbstractOnePassAlgorithm, AbstractStepwise, require_pair
from jaxdp.core.description import AbstractDescription
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.base import AbstractSampleProblem

Progress = Callable[[float], None]
"""Called on the host with the share of the work that is done, in (0, 1]."""


class AbstractSimulator(AbstractDescription):
    """A way of sampling runs of an algorithm on a problem.

    Attributes:
        has_parameters: whether its runs have released iterates to return.
    """

    has_parameters: eqx.AbstractClassVar[bool]

    def why_not(self, problem: Any, algorithm: Any) -> str | None:
        """The reason why it does not cover a pair, and what to use instead; None if it does."""
        require_pair(problem, algorithm)
        return self.reason_against(problem, algorithm)

    @abc.abstractmethod
    def reason_against(self, problem: Any, algorithm: Any) -> str | None:
        """The answer of `why_not`, for arguments known to be a problem and an algorithm."""

    @abc.abstractmethod
    def simulate(
        self,
        problem: Any,
        algorithm: Any,
        *,
        key: Key[Array, ""],
        num_runs: int,
        records: int,
        keep_parameters: bool,
        progress: Progress | None,
    ) -> Trajectory:
        """Independent runs along a leading axis; arguments as in `jaxdp.simulate`."""


def known_length(algorithm: AbstractStepwise) -> int:
    if not isinstance(algorithm.num_steps, int):
        why = "because it sets the length of the simulation's loop"
        raise TypeError(f"expected algorithm.num_steps to be a Python int, {why}; got an array")
    return algorithm.num_steps


def length_of_pass(problem: AbstractSampleProblem, algorithm: AbstractOnePassAlgorithm) -> int:
    """Number of steps; ValueError if they need more samples than the problem has."""
    num_steps = known_length(algorithm)
    needed = num_steps * algorithm.batch_size
    if problem.max_samples is not None and needed > problem.max_samples:
        why = f" ({problem.why_max_samples})" if problem.why_max_samples else ""
        raise ValueError(
            f"expected at most {problem.max_samples} samples, the length of one pass{why}, got "
            f"num_steps * batch_size = {needed}"
        )
    return num_steps
