"""The one answer type: what a run did, or what a theory says that it does, on one clock."""

import dataclasses
import enum
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdp.core.checks import require_host

if TYPE_CHECKING:
    import xarray


class Status(enum.IntEnum):
    """How a run, or the solution of a theory's equations, ended."""

    OK = 0
    DIVERGED = 1  # a recorded risk is not finite
    SOLVER_STOPPED = 2  # the differential equation's solver gave up before the end
    INVALID = 3  # traced parameters left their range (an increasing schedule, rho <= 0)


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
        parameters: the released iterates, or None when they were not asked for.
        label: who says so, for tables and legends.
    """

    time: Float[Array, " records"]
    risk: Float[Array, "*batch records"]
    final_risk: Float[Array, "*batch"]
    status: Int[Array, "*batch"]
    observables: dict[str, Float[Array, "*batch records"]]
    std: Float[Array, "*batch records"] | None = None
    parameters: Float[Array, "*batch dim"] | None = None
    label: str = eqx.field(static=True, default="")

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
        released iterates, "parameter"; under `vmap`, where each trajectory has a clock of its own,
        "record" with the times as a coordinate. The label is an attribute.

        Raises:
            ModuleNotFoundError: xarray is not installed; names the extra.
            TypeError: the trajectory is traced.
        """
        from jaxdp.core.labelled import dataset_of

        return dataset_of(self)


def void_unless(valid: Bool[Array, ""], trajectory: Trajectory) -> Trajectory:
    """The trajectory, or NaN risks and `Status.INVALID` where its description is not valid."""
    return dataclasses.replace(
        trajectory,
        risk=jnp.where(valid, trajectory.risk, jnp.nan),
        final_risk=jnp.where(valid, trajectory.final_risk, jnp.nan),
        status=jnp.where(valid, trajectory.status, int(Status.INVALID)),
    )
