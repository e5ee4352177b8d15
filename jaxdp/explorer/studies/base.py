"""A study: a kind of problem with its algorithm, as settings that can be predicted and run.

Everything here is a function of settings and knows nothing of widgets.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

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


@dataclasses.dataclass(frozen=True)
class Described:
    """What settings describe.

    Attributes:
        values: the settings.
        problem, algorithm: for `simulate` and `account`.
    """

    values: Values
    problem: Any
    algorithm: Any


@dataclasses.dataclass(frozen=True)
class Curve:
    """A risk over time, as it is drawn.

    Attributes:
        time, risk: of the records.
        final_risk: of what is released.
        label: name of the simulator or theory, shown in the legend.
        note: what a reader has to know, or "".
    """

    time: Float[np.ndarray, " records"]
    risk: Float[np.ndarray, " records"]
    final_risk: float
    label: str
    note: str = ""

    @classmethod
    def of(cls, trajectory: Trajectory, *, note: str = "") -> "Curve":
        """A single trajectory's."""
        status = Status(int(trajectory.status))
        return cls(
            np.asarray(trajectory.time, np.float64),
            np.asarray(trajectory.risk, np.float64),
            float(trajectory.final_risk),
            trajectory.label,
            "; ".join(each for each in (_ENDS.get(status, ""), note) if each),
        )


class Band(NamedTuple):
    """The predicted standard deviation of single runs.

    Attributes:
        std: of the risk at each record.
        final_std: of the released risk.
    """

    std: Float[np.ndarray, " records"]
    final_std: float


class Runs(NamedTuple):
    """Simulated runs.

    Attributes:
        time: of the records.
        mean, error: mean of the risk and its standard error at each record.
        final_mean, final_error: of the released risk.
        num_runs: how many there are, of which `num_failed` did not end well and do not count.
    """

    time: Float[np.ndarray, " records"]
    mean: Float[np.ndarray, " records"]
    error: Float[np.ndarray, " records"]
    final_mean: float
    final_error: float
    num_runs: int
    num_failed: int


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
    def curve(self, described: Described) -> Curve:
        """The predicted risk, at once."""

    @abc.abstractmethod
    def curve_program(self, values: Values) -> tuple[Any, ...]:
        """What the compiled program of the curve depends on: equal settings compile nothing."""

    @abc.abstractmethod
    def band(self, described: Described) -> Band | None:
        """The predicted spread of single runs, which takes longer; None where none is known."""

    @abc.abstractmethod
    def band_program(self, values: Values) -> tuple[Any, ...] | None:
        """The same of the band; None where there is none."""

    @abc.abstractmethod
    def check_runs(self, values: Values, num_runs: int) -> None:
        """Raise ValueError where so many runs would take minutes."""

    @abc.abstractmethod
    def plan(self, described: Described) -> dict[str, Any]:
        """The settings that a plan changes."""

    @abc.abstractmethod
    def code(self, described: Described, num_runs: int | None) -> str:
        """Python that makes the same picture.

        Args:
            described: by the settings.
            num_runs: of the simulation; None where nothing is simulated.
        """

    def simulate(
        self, described: Described, num_runs: int, progress: Callable[[float], None] | None = None
    ) -> Runs:
        """Independent runs from the seed that the copied Python has too.

        Raises:
            ValueError: they would take minutes, or all of them ended badly.
        """
        self.check_runs(described.values, num_runs)
        runs = jaxdp.simulate(
            described.problem,
            described.algorithm,
            num_runs=num_runs,
            key=jax.random.key(SEED),
            progress=progress,
        )
        well = np.asarray(runs.status) == Status.OK
        if not well.any():
            raise ValueError("expected a run that ends well, but all simulated runs diverged")
        risk, final = (np.asarray(each, np.float64)[well] for each in (runs.risk, runs.final_risk))
        root = np.sqrt(len(risk))
        return Runs(
            np.asarray(runs.time, np.float64),
            risk.mean(axis=0),
            risk.std(axis=0, ddof=1) / root if len(risk) > 1 else np.full(risk.shape[1], np.nan),
            float(final.mean()),
            float(final.std(ddof=1) / root) if len(final) > 1 else float("nan"),
            len(risk),
            int((~well).sum()),
        )
