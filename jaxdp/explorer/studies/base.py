"""A study: a kind of problem with its algorithm, as settings that can be predicted and run.

Everything here is a function of settings and knows nothing of widgets. Any program that opens a
websocket to the page can send any value, so ranges are checked here, on the server. They are chosen
such that no value costs much memory or time.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

import jaxdp
from jaxdp.core.trajectory import Status, Trajectory

SEED = 0
_ENDS = {
    Status.DIVERGED: "the predicted risk is not finite: a smaller learning rate may help",
    Status.SOLVER_STOPPED: "the solver of the equations gave up: a smaller learning rate may help",
    Status.INVALID: "the settings left their range",
    Status.UNSTABLE: "beyond a limit of stability: this prediction is not to be trusted",
}
_LONGEST_SHOWN = 40
# The name of a choice, and those of its values with which another setting is there to be set.
Shown = tuple[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Number:
    """A number between two ends."""

    name: str  # as `jaxdp` has it
    label: str  # symbol, words and unit, for the page
    # low, high: ends of the range, both inside.
    low: float
    high: float
    start: float  # before it is set
    group: str  # under which heading it stands
    is_log: bool = False  # whether the slider is logarithmic
    is_whole: bool = False  # whether it counts something
    # Whether another value may compile a program: the page then waits for the slider to be let go.
    compiles: bool = False
    shown: Shown | None = None  # when it is there; None for always
    help: str = ""  # a sentence beside the label

    def checked(self, value: Any) -> float | int:
        """A number, or text that is one, in the range; ValueError for anything else."""
        number = _number(value)
        is_inside = number is not None and self.low <= number <= self.high
        if number is None or not is_inside or (self.is_whole and not number.is_integer()):
            kind = "a whole number" if self.is_whole else "a number"
            raise ValueError(
                f"expected {self.label} to be {kind} from {self.low:g} to {self.high:g}, got "
                f"{_in_short(value)}"
            )
        return int(number) if self.is_whole else number


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of a few words."""

    name: str  # of the setting
    label: str  # for the page
    options: Mapping[str, str]  # each value, and its name on the page
    start: str  # before it is set
    group: str  # under which heading it stands
    shown: Shown | None = None  # when it is there; None for always

    def checked(self, value: Any) -> str:
        """The value; ValueError unless it is one of the options."""
        if not isinstance(value, str) or value not in self.options:
            raise ValueError(
                f"expected {self.label} to be one of {', '.join(self.options)}, got "
                f"{_in_short(value)}"
            )
        return value


Field = Number | Choice
Values = Mapping[str, Any]


def is_shown(field: Field, values: Values) -> bool:
    """Whether a setting counts, given the others."""
    return field.shown is None or values[field.shown[0]] in field.shown[1]


def _number(value: Any) -> float | None:
    """A float, or None for anything but a real number; text is read."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _in_short(value: Any) -> str:
    text = " ".join(str(value).split()) or "nothing"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


class Described(NamedTuple):
    """Settings, with the problem and the algorithm that they describe."""

    values: Values
    problem: Any
    algorithm: Any


class AbstractSettings(abc.ABC):
    """Settings of a tab, each with a range."""

    fields: tuple[Field, ...]  # the settings

    def start(self) -> dict[str, Any]:
        """The settings to begin with."""
        return {field.name: field.start for field in self.fields}

    def changed(self, values: Values, **changes: Any) -> dict[str, Any]:
        """Settings with some changed; ValueError if one is out of range or unfit for another."""
        found = {**values, **changes}
        for field in self.fields:
            found[field.name] = field.checked(found[field.name])
        self.check(found)
        return found

    @abc.abstractmethod
    def check(self, values: Values) -> None:
        """Raise ValueError if settings, each in its range, do not go together."""


class AbstractStudy(AbstractSettings):
    """A kind of problem with its algorithm."""

    label: str  # for the page
    # time_label, risk_label: of the axes.
    time_label: str
    risk_label: str

    @abc.abstractmethod
    def describe(self, values: Values) -> Described:
        """Problem and algorithm of some settings."""

    @abc.abstractmethod
    def curve(self, described: Described) -> Trajectory:
        """The predicted risk, on the host."""

    @abc.abstractmethod
    def band(self, described: Described) -> Trajectory | None:
        """A prediction with its spread, `std`, which takes longer; None if none is known."""

    @abc.abstractmethod
    def check_runs(self, values: Values, num_runs: int) -> None:
        """Raise ValueError if so many runs would take minutes."""

    @abc.abstractmethod
    def plan(self, described: Described) -> dict[str, Any]:
        """The settings that a plan changes."""

    @abc.abstractmethod
    def code(self, described: Described, num_runs: int | None) -> str:
        """Python that makes the same picture, with simulated runs unless their number is None."""

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
    """A warning about a prediction that did not end well, or ""."""
    return _ENDS.get(Status(int(predicted.status)), "")
