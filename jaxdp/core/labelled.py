"""A trajectory's arrays with their names, dimensions and units."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Array

from jaxdp.core.checks import require_host
from jaxdp.core.extras import require_extra
from jaxdp.core.trajectory import Status, Trajectory

if TYPE_CHECKING:
    import xarray

_LONG_NAMES = {
    "time": "time of the record",
    "risk": "risk",
    "final_risk": "risk of the released iterate",
    "status": "how the run ended",
    "std": "predicted standard deviation of the risk",
    "parameters": "released iterate",
}


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
    """Its arrays, observables last, over the dimensions run, record and parameter."""
    count = trajectory.status.ndim
    batch = ("run",) if count == 1 else tuple(f"run_{axis}" for axis in range(count))
    dims = {
        # Under vmap each trajectory of a batch has a clock, and its runs share it.
        "time": (*batch[: trajectory.time.ndim - 1], "record"),
        "risk": (*batch, "record"),
        "final_risk": batch,
        "status": batch,
        "std": (*batch, "record"),
        "parameters": (*batch, "parameter"),
    }
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


def dataset_of(trajectory: Trajectory) -> "xarray.Dataset":
    """The trajectory as a dataset; see `Trajectory.to_xarray`."""
    require_host("trajectory", trajectory)
    with require_extra("xarray", "sweeps", "Trajectory.to_xarray"):
        import xarray

    variables = {
        variable.name: xarray.Variable(variable.dims, np.asarray(value), dict(variable.attrs))
        for variable, value in variables_of_trajectory(trajectory)
    }
    attrs = {"label": trajectory.label, "units": "dimensionless unless a variable says otherwise"}
    time = variables.pop("time")
    dataset = xarray.Dataset(variables, {"time": time}, attrs)
    # One clock for all runs names the records, so that they can be selected by their times.
    return dataset.swap_dims(record="time") if time.ndim == 1 else dataset
