"""The abstract simulator: samples runs, and says which problems and algorithms it covers."""

import abc
from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Key

from jaxdp.algorithms.base import AbstractAlgorithm
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.base import AbstractProblem

Progress = Callable[[float], None]
"""Called on the host with the share of the work that is done, in (0, 1]."""


class AbstractSimulator(eqx.Module):
    """A way of sampling runs of an algorithm on a problem."""

    @abc.abstractmethod
    def covers(self, problem: AbstractProblem, algorithm: AbstractAlgorithm) -> str | None:
        """None when it covers the pair, else the reason and what to use instead."""

    @abc.abstractmethod
    def simulate(
        self,
        problem: AbstractProblem,
        algorithm: AbstractAlgorithm,
        *,
        key: Key[Array, ""],
        num_runs: int,
        records: int,
        keep_parameters: bool,
        progress: Progress | None,
    ) -> Trajectory:
        """Independent runs along a leading axis; arguments as in `jaxdp.simulate`."""
