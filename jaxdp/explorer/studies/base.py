"""A study: a kind of problem with its algorithm, as settings that can be predicted and run.

Everything here is a function of settings and knows nothing of widgets.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

import jaxdp
from jaxdp.core.trajectory import Status, Trajectory
from jaxdp.explorer.studies.fields import Choice, Field, Number, Values

SEED = 0
_ENDS = {
    Status.DIVERGED: "the predicted risk is not finite: a smaller learning rate may help",
    Status.SOLVER_STOPPED: "the solver of the equations gave up: a smaller learning rate may help",
    Status.INVALID: "the settings left their range",
    Status.UNSTABLE: "beyond a limit of stability: this prediction is not to be trusted",
}


class Described(NamedTuple):
    """Settings, with the problem and the algorithm that they describe."""

    values: Values
    problem: Any
    algorithm: Any


class AbstractStudy(abc.ABC):
    """A kind of problem with its algorithm.

    Attributes:
        name: of the study; a word.
        label: for the page.
        time_label, risk_label: of the axes.
        fields: its settings.
    """

    name: str
    label: str
    time_label: str
    risk_label: str
    fields: tuple[Field, ...]

    def start(self) -> dict[str, Any]:
        """The settings to begin with."""
        return {field.name: field.start for field in self.fields}

    def changed(self, values: Values, **changes: Any) -> dict[str, Any]:
        """Settings with some changed, checked.

        Raises:
            ValueError: a value is out of its range, or does not go with another.
        """
        found = {**values, **changes}
        for field in self.fields:
            found[field.name] = field.checked(found[field.name])
        self.check(found)
        return found

    def field(self, name: str) -> Number | Choice:
        """The setting of a name."""
        return next(field for field in self.fields if field.name == name)

    @abc.abstractmethod
    def check(self, values: Values) -> None:
        """Raise ValueError where settings, each in its range, do not go together."""

    @abc.abstractmethod
    def describe(self, values: Values) -> Described:
        """Problem and algorithm of some settings."""

    @abc.abstractmethod
    def program(self, values: Values) -> tuple[Any, ...]:
        """The key of the compiled programs of curve and band: settings of equal keys share them."""

    @abc.abstractmethod
    def curve(self, described: Described) -> Trajectory:
        """The predicted risk, at once; on the host."""

    @abc.abstractmethod
    def band(self, described: Described) -> Trajectory | None:
        """A prediction with its spread, `std`, which takes longer; None where none is known."""

    @abc.abstractmethod
    def check_runs(self, values: Values, num_runs: int) -> None:
        """Raise ValueError where so many runs would take minutes."""

    @abc.abstractmethod
    def plan(self, described: Described) -> dict[str, Any]:
        """The settings that a plan changes."""

    @abc.abstractmethod
    def code(self, described: Described, num_runs: int | None) -> str:
        """Python that makes the same picture; simulates where the number of runs is given."""

    def simulate(
        self, described: Described, num_runs: int, progress: Callable[[float], None] | None = None
    ) -> Trajectory:
        """Independent runs from the seed that the copied Python has too.

        Raises:
            ValueError: they would take minutes.
        """
        self.check_runs(described.values, num_runs)
        _, problem, algorithm = described
        options: dict[str, Any] = {"key": jax.random.key(SEED), "progress": progress}
        return jaxdp.simulate(problem, algorithm, num_runs=num_runs, **options)


def note_on(predicted: Trajectory) -> str:
    """What a reader has to know of a prediction that did not end well, or ""."""
    return _ENDS.get(Status(int(predicted.status)), "")
