"""The abstract theory: predicts a trajectory without sampling, within its assumptions."""

import abc
from typing import Any

from jaxdp.algorithms.base import require_pair
from jaxdp.core.description import AbstractDescription
from jaxdp.core.errors import NotCoveredError
from jaxdp.core.trajectory import Trajectory


class AbstractTheory(AbstractDescription):
    """A deterministic prediction for the pairs of problem and algorithm that it covers.

    A pair is looked at once: `read` refuses it or finds what the equations need of it, and `solve`
    gets that.
    """

    @abc.abstractmethod
    def read(self, problem: Any, algorithm: Any) -> Any:
        """What `solve` needs of a pair.

        Raises:
            NotCoveredError: which assumption fails, and what to use instead.
        """

    @abc.abstractmethod
    def solve(self, reading: Any, records: int) -> Trajectory:
        """The predicted trajectory, from what `read` has returned."""

    def covers(self, problem: Any, algorithm: Any) -> str | None:
        """None when it covers the pair, else which assumption fails and what to use instead."""
        require_pair(problem, algorithm)
        try:
            self.read(problem, algorithm)
        except NotCoveredError as error:
            return str(error)
        return None

    def predict(self, problem: Any, algorithm: Any, *, records: int) -> Trajectory:
        """The predicted trajectory of a covered pair."""
        return self.solve(self.read(problem, algorithm), records)
