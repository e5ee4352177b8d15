"""What the closures of DP-SGD on features share: the records, the warnings and the Trajectory."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.stability import warn_if_unstable as warn_if_beyond_descent
from jaxdp.core.recording import longest_stretch, record_steps
from jaxdp.core.trajectory import Trajectory
from jaxdp.theory.features.modes import KernelModes
from jaxdp.theory.features.stability import Growth, warn_if_unstable
from jaxdp.theory.recorded_steps import recorded
from jaxdp.theory.solver import prediction


def record_numbers(
    algorithm: DPGD | PrivateOptimiser, records: int
) -> tuple[np.ndarray | Int[Array, " records"], int | Int[Array, ""]]:
    """The records as numbers of steps, and the most steps between two of them."""
    steps = algorithm.num_steps
    return record_steps(steps, records), longest_stretch(steps, records)


def recorded_closure(
    step: Callable[[Any, Int[Array, ""]], Any],
    start: PyTree[Array],
    read: Callable[[Any], tuple[Array, dict[str, Array], Any]],
    at_record: np.ndarray | Int[Array, " records"],
    longest: int | Int[Array, ""],
) -> tuple[Float[Array, " records"], dict[str, Float[Array, " records"]], Any]:
    """Risk, observables and what else is read of a closure's moments at the records.

    Args:
        step, start, longest: as for `jaxdp.theory.recorded_steps.recorded`.
        read: from a state to risk, observables and what else is wanted; the observable
            "clipped_fraction" is a sum over the steps, and is divided by their number.
        at_record: after how many steps to read, rising from 0.
    """
    at_record = jnp.asarray(at_record)
    risk, observables, further = recorded(step, start, read, at_record, longest)
    return risk, mean_clipped(observables, at_record), further


def mean_clipped(
    observables: dict[str, Float[Array, " records"]], at_record: Int[Array, " records"]
) -> dict[str, Float[Array, " records"]]:
    """The observables with "clipped_fraction" as a mean over the steps in place of a sum."""
    clipped = observables["clipped_fraction"] / jnp.maximum(at_record, 1)
    return observables | {"clipped_fraction": clipped}


def closure_trajectory(
    modes: KernelModes,
    algorithm: DPGD | PrivateOptimiser,
    at_record: np.ndarray | Int[Array, " records"],
    risk: Float[Array, " records"],
    observables: dict[str, Float[Array, " records"]],
    *,
    label: str,
    unstable: Bool[Array, ""] | bool,
    std: Float[Array, " records"] | None = None,
) -> Trajectory:
    """A closure's prediction as a Trajectory, its time in the algorithm's own unit."""
    algorithm.require_rows(modes.num_train)
    return prediction(
        modes.is_valid & algorithm.is_valid,
        time=algorithm.time(jnp.asarray(at_record), modes.num_train),
        risk=risk,
        final_risk=risk[-1],
        observables=observables,
        std=std,
        label=label,
        unstable=unstable,
    )


def warn_beyond_stability(
    modes: KernelModes, algorithm: DPGD | PrivateOptimiser, grows: Growth, found: Trajectory
) -> None:
    """Warn where a limit of stability is passed."""
    if isinstance(algorithm, DPGD):
        warn_if_beyond_descent(algorithm, modes.stability_limit, stacklevel=6)
    else:
        warn_if_unstable(grows, found.observables["clipped_fraction"][-1])
