"""The abstract theory: predicts a trajectory without sampling, within its assumptions."""

import abc
from typing import Any

from jaxdp.core.description import AbstractDescription
from jaxdp.core.trajectory import Trajectory


class AbstractTheory(AbstractDescription):
    """A deterministic prediction for the pairs of problem and algorithm that it covers."""

    @abc.abstractmethod
    def covers(self, problem: Any, algorithm: Any) -> str | None:
        """None when it covers the pair, else which assumption fails and what to use instead."""

    @abc.abstractmethod
    def predict(self, problem: Any, algorithm: Any, *, records: int) -> Trajectory:
        """The predicted trajectory of a covered pair."""
