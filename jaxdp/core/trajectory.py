"""The one answer type: what a run did, or what a theory says that it does, on one clock."""

import dataclasses
import enum
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdp.core.checks import require_host
from jaxdp.core.extras import require_extra

if TYPE_CHECKING:
    import xarray


_LONG_NAMES = {
    "time": "time of the record",
    "risk": "risk",
    "final_risk": "risk of the released iterate",
    "status": "how the run ended",
    "std": "predicted standard deviation of the risk",
    "final_std": "predicted standard deviation of the released iterate's risk",
    "parameters": "released iterate",
}


class Status(enum.IntEnum):
    """How a run, or the solution of a theory's equations, ended.

    Attributes:
        OK: it ended well.
        DIVERGED: a recorded risk is not finite.
        SOLVER_STOPPED: the differential equation's solver gave up before the end.
        INVALID: traced parameters left their range (an increasing schedule, rho <= 0).
        UNSTABLE: a prediction beyond a limit of stability, which is not to be trusted.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> jaxdp.Status(int(jaxdp.predict(problem, algorithm).status)).name
        'OK'
    """

    OK = 0
    DIVERGED = 1  # a recorded risk is not finite
    SOLVER_STOPPED = 2  # the differential equation's solver gave up before the end
    INVALID = 3  # traced parameters left their range (an increasing schedule, rho <= 0)
    UNSTABLE = 4  # a prediction beyond a limit of stability, which is not to be trusted


def status_of(
    risk: Float[Array, "*batch records"], final_risk: Float[Array, "*batch"]
) -> Int[Array, "*batch"]:
    """`Status.OK` where every recorded risk is finite, else `Status.DIVERGED`."""
    finite = jnp.isfinite(risk).all(axis=-1) & jnp.isfinite(final_risk)
    return jnp.where(finite, int(Status.OK), int(Status.DIVERGED))


class Trajectory(eqx.Module):
    """The risk over time, of simulated runs or as predicted.

    Attributes:
        time: true time of each record; record j of 0..R lies after floor(j n / R) of the n updates,
            with R the `records` that were asked for: R + 1 records.
        risk: the problem's own risk at each record.
        final_risk: risk of the iterate that is released.
        status: a `Status` per run.
        observables: further quantities by name, each shaped like `risk`.
        std: predicted standard deviation of the risk over runs, or None.
        final_std: the same of `final_risk`; None where `std` is None.
        parameters: the released iterates, (*batch, dim), or (*batch, dim, outputs) where the loss
            has several outputs; None when they were not asked for.
        label: who says so, for tables and legends.

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
        """Return self when every run ended well.

        Raises:
            RuntimeError: says how many runs ended badly, and how.
        """
        require_host("status", self.status)
        status = np.asarray(self.status).reshape(-1)
        bad = [
            f"{int((status == code).sum())} {code.name.lower().replace('_', ' ')}"
            for code in Status
            if code is not Status.OK and (status == code).any()
        ]
        if bad:
            raise RuntimeError(
                f"{self.label or 'trajectory'}: of {status.size} runs {', '.join(bad)}"
            )
        return self

    def to_xarray(self) -> "xarray.Dataset":
        """An `xarray.Dataset` of all arrays, each with its units.

        Dimensions are "run" ("run_0", "run_1", ... for batches of more axes), "time" and, of the
        released iterates, "parameter" and, of several outputs, "output"; under `vmap`, where each
        trajectory has a clock of its own, "record" with the times as a coordinate. The label is an
        attribute.

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
        # One clock for all runs names the records, so that they can be selected by their times.
        return dataset.swap_dims(record="time") if time.ndim == 1 else dataset


def void_unless(valid: Bool[Array, ""], trajectory: Trajectory) -> Trajectory:
    """The trajectory, or NaN risks and `Status.INVALID` where its description is not valid."""

    def known(value):
        return None if value is None else jnp.where(valid, value, jnp.nan)

    return dataclasses.replace(
        trajectory,
        risk=known(trajectory.risk),
        final_risk=known(trajectory.final_risk),
        std=known(trajectory.std),
        final_std=known(trajectory.final_std),
        status=jnp.where(valid, trajectory.status, int(Status.INVALID)),
    )


@dataclasses.dataclass(frozen=True)
class Variable:
    """One named array.

    Attributes:
        name: of the variable.
        dims: names of its own dimensions, after those of the axes of a sweep.
        attrs: its units and what it is.
    """

    name: str
    dims: tuple[str, ...]
    attrs: tuple[tuple[str, str], ...] = ()


def variables_of_trajectory(trajectory: Trajectory) -> list[tuple[Variable, Array]]:
    """Its arrays, observables last, over the dimensions run, record, parameter and output."""
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
