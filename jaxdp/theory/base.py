"""The abstract theory: predicts a trajectory without sampling, within its assumptions."""

import abc

import equinox as eqx

from jaxdp.algorithms.base import AbstractAlgorithm
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.base import AbstractProblem


class AbstractTheory(eqx.Module):
    """A deterministic prediction for the pairs of problem and algorithm that it covers."""

    @abc.abstractmethod
    def covers(self, problem: AbstractProblem, algorithm: AbstractAlgorithm) -> str | None:
        """None when it covers the pair, else which assumption fails and what to use instead."""

    @abc.abstractmethod
    def predict(
        self, problem: AbstractProblem, algorithm: AbstractAlgorithm, *, records: int
    ) -> Trajectory:
        """The predicted trajectory of a covered pair."""
