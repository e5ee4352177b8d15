"""The answer of simulations and predictions: the risk over time, with the status of each run."""

import dataclasses
import enum
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdp.core.checks import require_host
from jaxdp.core.display import (
    AbstractExplained,
    Explanation,
    Row,
    endings,
    in_words,
    is_known,
    row_at_end,
    row_over_time,
    rows_of_time,
    tidy_columns,
)
from jaxdp.core.packages import require_extra
from jaxdp.core.pictures import BLUE, panels_in

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure, SubFigure


_LONG_NAMES = {
    "time": "time of the record",
    "risk": "risk",
    "final_risk": "risk of the released iterate",
    "status": "how the run ended",
    "std": "predicted standard deviation of the risk",
    "final_std": "predicted standard deviation of the released iterate's risk",
    "parameters": "released iterate",
}


# Darkest and lightest colour of a batch's curves.
_SHADES = (0.0, 0.15, 0.35), (0.55, 0.82, 0.97)


class Status(enum.IntEnum):
    """How a run, or the solution of a theory's equations, ended.

    Attributes:
        OK: it ended well.
        DIVERGED: a recorded risk is not finite.
        SOLVER_STOPPED: the differential equation's solver stopped before the end.
        INVALID: traced parameters left their range (an increasing schedule, rho <= 0).
        UNSTABLE: a prediction beyond its limit of trust: of stability, or of how far a network's
            weights move.

    Example:
        >>> import jaxdp
        >>> jaxdp.Status(1).name
        'DIVERGED'
    """

    OK = 0
    DIVERGED = 1
    SOLVER_STOPPED = 2
    INVALID = 3
    UNSTABLE = 4


class Trajectory(AbstractExplained, eqx.Module):
    """The risk over time, of simulated runs or as predicted.

    Attributes:
        time: true time of each record. With R = `records`, record j of 0..R is after floor(j n / R)
            of the n updates.
        risk: the problem's own risk at each record.
        final_risk: risk of the released iterate.
        status: a `Status` for each run.
        observables: further quantities by name, each shaped like `risk`.
        std: predicted standard deviation of the risk over runs, or None.
        final_std: predicted standard deviation of `final_risk`; None if `std` is None.
        parameters: the released iterates, (*batch, dim), or (*batch, dim, outputs) for losses with
            several outputs; None unless requested.
        label: name of the simulator or theory, shown in tables and legends.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> predicted = jaxdp.predict(problem, algorithm).check()
        >>> predicted.time.shape, predicted.risk.shape, sorted(predicted.observables)
        ((101,), (101,), ['capped_fraction', 'clipped_fraction', 'distance'])
    """

    time: Float[Array, " records"]
    risk: Float[Array, "*batch records"]
    final_risk: Float[Array, "*batch"]
    status: Int[Array, "*batch"]
    observables: dict[str, Float[Array, "*batch records"]]
    std: Float[Array, "*batch records"] | None = None
    parameters: Float[Array, "*shape"] | None = None
    label: str = eqx.field(static=True, default="")
    final_std: Float[Array, "*batch"] | None = None

    def check(self) -> "Trajectory":
        """Return self if every run ended well, else raise RuntimeError."""
        require_host("status", self.status)
        status = np.asarray(self.status).reshape(-1)
        counts = {code.name: int((status == code).sum()) for code in Status if code}
        bad = [
            f"{count} {name.lower().replace('_', ' ')}" for name, count in counts.items() if count
        ]
        if bad:
            name = self.label or "trajectory"
            raise RuntimeError(f"{name}: of {status.size} runs {', '.join(bad)}")
        return self

    def to_xarray(self) -> "xarray.Dataset":
        """An `xarray.Dataset` of all arrays, each with its units.

        Dimensions are "run" ("run_0", "run_1", ... for batches of more axes), "time" and, for
        released iterates, "parameter" and "output". Under `vmap`, if each trajectory has its own
        clock, "record" replaces "time", with the times as a coordinate. The label is an attribute.

        Raises:
            ModuleNotFoundError: xarray is not installed; names the extra.
            TypeError: the trajectory is traced.
        """
        require_host("trajectory", self)
        with require_extra("xarray", "sweeps", "Trajectory.to_xarray"):
            import xarray

        variables = {
            variable.name: xarray.Variable(variable.dims, np.asarray(value), dict(variable.attrs))
            for variable, value in variables_of_trajectory(self)
        }
        attrs = {"label": self.label, "units": "dimensionless unless a variable says otherwise"}
        time = variables.pop("time")
        dataset = xarray.Dataset(variables, {"time": time}, attrs)
        # With one clock for all runs, records can be selected by their times.
        return dataset.swap_dims(record="time") if time.ndim == 1 else dataset

    def to_pandas(self) -> "pandas.DataFrame":
        """A `pandas.DataFrame` with one row for each record of each run.

        Columns are the number of the run ("run", or "run_0", "run_1", ... for batches of more
        axes), "time", "risk", "std" if predicted, every observable, and the run's "final_risk" and
        "status", a name of `Status`. The label is in `.attrs`.

        Raises:
            ModuleNotFoundError: pandas is not installed; names the extra.
            TypeError: the trajectory is traced.
        """
        require_host("trajectory", self)
        with require_extra("pandas", "data", "Trajectory.to_pandas"):
            import pandas

        over_time = {"risk": self.risk, **({} if self.std is None else {"std": self.std})}
        status = np.vectorize(lambda code: Status(code).name)(self.status)
        once = {"final_risk": self.final_risk, "status": status}
        columns = tidy_columns(self.time, over_time | self.observables, once)
        frame = pandas.DataFrame(columns)
        frame.attrs["label"] = self.label
        return frame

    def plot(self, name: str = "risk", *, ax: Any = None) -> "Figure | SubFigure":
        """A picture of the risk, or of an observable, over time.

        Runs are drawn as the mean of those that ended well with a band of one standard deviation, a
        prediction with a `std` as a curve with the predicted band, and a batch made by `vmap` as
        one curve each. `jaxdp.plots.plot_comparison` draws several trajectories.

        Args:
            name: "risk" (default), or one of the `observables`.
            ax: matplotlib's Axes to draw into; None (default) for a new figure.

        Raises:
            KeyError: there is no observable of that name; lists the names.
            ModuleNotFoundError: matplotlib is not installed; names the extra.
            TypeError: the trajectory is traced.
            ValueError: no run ended well.
        """
        require_host("trajectory", self)
        known = {"risk": self.risk, **self.observables}
        if name not in known:
            raise KeyError(f"expected one of {', '.join(known)}, got {name!r}")
        values, times = (np.asarray(each, np.float64) for each in (known[name], self.time))
        values, clocks = (each.reshape(-1, each.shape[-1]) for each in (values, times))
        are_runs = np.ndim(self.time) == 1 and np.ndim(self.risk) > 1
        if are_runs:
            values = values[(np.asarray(self.status) == Status.OK).reshape(-1)]
        count, label, spread, colors = len(values), self.label, None, [BLUE]
        if not count:
            raise ValueError(f"expected a run that ended well, got none in {self.label!r}")
        if name == "risk" and self.std is not None and np.ndim(self.risk) == 1:
            spread = np.asarray(self.std, np.float64)
        if are_runs and count > 1:
            label = f"{label}, mean of {count} runs".lstrip(", ")
            spread, values = values.std(axis=0, ddof=1), values.mean(axis=0, keepdims=True)
        elif count > 1:
            label = f"{label}, a batch of {count}, dark to light".lstrip(", ")
            colors = np.linspace(*_SHADES, count).tolist()
        _, (axes,) = panels_in(ax, "one quantity over time", (6.0, 3.6), 1, 1)
        # Runs of one trajectory of a batch share its clock.
        clocks = np.repeat(clocks, max(1, len(values) // len(clocks)), axis=0)
        for place, (row, clock, color) in enumerate(zip(values, clocks, colors, strict=False)):
            text = label or None if place == 0 else None
            axes.plot(clock, row, color=color, linewidth=1.5, label=text)
        if spread is not None:
            band = {"color": BLUE, "alpha": 0.2, "linewidth": 0, "label": "one standard deviation"}
            axes.fill_between(clocks[0], values[0] - spread, values[0] + spread, **band)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(clocks.min(), clocks.max())
        axes.set(xlabel="time", ylabel=name.replace("_", " "))
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False)
        return axes.figure

    def __repr__(self):
        if not all(map(is_known, (self.time, self.risk, self.final_risk, self.status))):
            return eqx.tree_pformat(self)
        values = {row.name: row.value for row in self._explanation().rows}
        shown = [f"{name} {values[name]}" for name in ("status", "time", "risk", "final_risk")]
        return f"Trajectory({self.label!r}: {', '.join(shown)})"

    def _explanation(self):
        is_seen = is_known(self.status)
        # Runs share one clock; under vmap each trajectory of a batch has its own.
        is_batch = np.ndim(self.time) > 1
        chosen = np.asarray(self.status) == Status.OK if is_seen and not is_batch else None
        codes = [(code.value, code.name) for code in Status]
        ended = endings(codes, self.status) if is_seen else in_words(self.status)
        rows = [Row("status", ended, _LONG_NAMES["status"]), rows_of_time(self.time)]
        rows.append(row_over_time("risk", self.risk, chosen, "from start to end"))
        rows.append(row_at_end("final_risk", self.final_risk, chosen, _LONG_NAMES["final_risk"]))
        over = {} if self.std is None else {"std": self.std}
        for name, values in (over | self.observables).items():
            rows.append(row_over_time(name, values, chosen, _LONG_NAMES.get(name, "")))
        if self.parameters is not None:
            rows.append(Row("parameters", in_words(self.parameters), _LONG_NAMES["parameters"]))
        title = ": ".join(filter(None, ("Trajectory", self.label)))
        title += f", a batch of {np.shape(self.time)[0]}" if is_batch else ""
        return Explanation(title, tuple(rows))


def trajectory_of(
    is_valid: Bool[Array, ""],
    *,
    time: Float[Array, " records"],
    risk: Float[Array, "*batch records"],
    final_risk: Float[Array, "*batch"],
    observables: dict[str, Float[Array, "*batch records"]],
    label: str,
    std: Float[Array, "*batch records"] | None = None,
    final_std: Float[Array, "*batch"] | None = None,
    parameters: Float[Array, "*shape"] | None = None,
    stopped: Bool[Array, "*batch"] | bool = False,
    unstable: Bool[Array, ""] | bool = False,
) -> Trajectory:
    """The Trajectory of runs or of a prediction, with the status of each.

    Risks are NaN unless `is_valid` (traced parameters are in their ranges), and if `stopped` (a
    solver ended early). `unstable` marks a prediction beyond its limit of trust. The other
    arguments are fields of the trajectory; `final_std` is by default the last of `std`.
    """
    is_finite = jnp.isfinite(risk).all(axis=-1) & jnp.isfinite(final_risk)
    status = jnp.where(is_finite, int(Status.OK), int(Status.DIVERGED))
    status = jnp.where(unstable & is_finite, int(Status.UNSTABLE), status)
    status = jnp.where(stopped, int(Status.SOLVER_STOPPED), status)
    is_known = is_valid & jnp.logical_not(stopped)
    if std is not None and final_std is None:
        final_std = std[..., -1]

    def known(values: Any, is_known: Any = is_known) -> Any:
        return None if values is None else jnp.where(is_known, values, jnp.nan)

    return Trajectory(
        time=time,
        risk=known(risk, is_known[..., None]),
        final_risk=known(final_risk),
        status=jnp.where(is_valid, status, int(Status.INVALID)),
        observables=observables,
        std=known(std, is_known[..., None]),
        parameters=parameters,
        label=label,
        final_std=known(final_std),
    )


@dataclasses.dataclass(frozen=True)
class Variable:
    """One named array: its own dimensions after those of a sweep's axes, and its attributes."""

    name: str
    dims: tuple[str, ...]
    attrs: tuple[tuple[str, str], ...] = ()


def variables_of_trajectory(trajectory: Trajectory) -> list[tuple[Variable, Array]]:
    """A trajectory's arrays, observables last, over run, record, parameter and output."""
    count = trajectory.status.ndim
    batch = ("run",) if count == 1 else tuple(f"run_{axis}" for axis in range(count))
    dims = {
        # Under vmap each trajectory of a batch has a clock, and its runs share it.
        "time": (*batch[: trajectory.time.ndim - 1], "record"),
        "risk": (*batch, "record"),
        "final_risk": batch,
        "status": batch,
        "std": (*batch, "record"),
        "final_std": batch,
        "parameters": (*batch, "parameter"),
    }
    if trajectory.parameters is not None and trajectory.parameters.ndim == count + 2:
        dims["parameters"] += ("output",)
    found = []
    for name, own in dims.items():
        value = getattr(trajectory, name)
        if value is not None:
            attrs = {"long_name": _LONG_NAMES[name], "units": "1"}
            if name == "status":
                attrs["meaning"] = ", ".join(f"{code.value} {code.name.lower()}" for code in Status)
            found.append((Variable(name, own, tuple(attrs.items())), value))
    for name, value in trajectory.observables.items():
        attrs = {"long_name": name.replace("_", " "), "units": "1"}
        found.append((Variable(name, dims["risk"], tuple(attrs.items())), value))
    return found


def record_steps(
    num_steps: int | Int[Array, ""], records: int
) -> np.ndarray | Int[Array, " recorded"]:
    """The numbers of updates at the `records + 1` records: floor(j n / records), j = 0, 1, ...

    NumPy integers for a Python int, else traced. With n = q records + r the value is j q + floor(j
    r / records), which does not overflow.
    """
    index = np.arange(records + 1)
    if isinstance(num_steps, int):
        return index * num_steps // records
    quotient, remainder = jnp.divmod(num_steps, records)
    return index * quotient + index * remainder // records


def longest_stretch(num_steps: int | Int[Array, ""], records: int) -> int | Int[Array, ""]:
    """The most updates between two records, a Python int for a Python int."""
    return -(-num_steps // records)
