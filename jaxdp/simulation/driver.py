"""The loop of all simulators, from record to record, with progress, to the Trajectory."""

import abc
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from jaxdp.algorithms.base import AbstractOnePassAlgorithm
from jaxdp.core.trajectory import Trajectory, record_steps, trajectory_of
from jaxdp.simulation.base import Progress

_PROGRESS_BLOCKS = 20
# Numbers per draw over all runs, which no draw depends on: on a CPU two megabytes of float32, which
# fit the cache; elsewhere 64 MB, which take an H100 a tenth of a millisecond, a hundred launches.
_CHUNK_NUMBERS = {"cpu": 500_000}
_CHUNK_NUMBERS_OF_OTHERS = 16_000_000
_CHUNK_STEPS = 64  # the most of a chunk of `even_chunks`

Steps = np.ndarray | Int[Array, " counts"]
"""Numbers of steps: NumPy integers, or a traced array if the run's length is traced."""


class Reading(eqx.Module):
    """The numbers read from all runs, one column a record."""

    risk: Float[Array, "runs records"]  # the problem's own risk
    sums: dict[str, Shaped[Array, "runs records"]]  # counts over the steps, for observables
    # By name, the observables that are not made of counts.
    values: dict[str, Float[Array, "runs records"]] = eqx.field(default_factory=dict)


class AbstractRuns(eqx.Module):
    """Independent runs of one algorithm on one problem, which advance together."""

    @property
    @abc.abstractmethod
    def is_valid(self) -> Bool[Array, ""]:
        """Whether traced parameters of problem and algorithm are in their ranges."""

    @abc.abstractmethod
    def begin(self) -> tuple[Any, Reading]:
        """The state before the first step, and its one reading."""

    @abc.abstractmethod
    def advance(self, state: Any, starts: Steps, ends: Steps) -> tuple[Any, Reading]:
        """The state after ranges (start, end] of steps, and a reading at each range's end."""

    @abc.abstractmethod
    def finish(
        self, state: Any
    ) -> tuple[Float[Array, " runs"] | None, Float[Array, "runs dim *outputs"] | None]:
        """The released iterates' risks (None: those last recorded), and the iterates."""

    @abc.abstractmethod
    def time(self, steps: Steps) -> Float[Any, " counts"]:
        """The time after so many steps."""

    @abc.abstractmethod
    def observables(
        self, reading: Reading, steps: Int[Array, " records"]
    ) -> dict[str, Float[Array, "runs records"]]:
        """The observables at all records, from their readings and numbers of steps."""


class AbstractPassRuns(AbstractRuns):
    """Runs of an algorithm that uses each sample once, with counts of clipped and capped ones."""

    algorithm: eqx.AbstractVar[AbstractOnePassAlgorithm]

    def time(self, steps):
        return steps / self.algorithm.num_steps

    def observables(self, reading, steps):
        used = jnp.maximum(steps, 1).astype(reading.risk.dtype) * self.algorithm.batch_size
        shares = {f"{name}_fraction": count / used[None] for name, count in reading.sums.items()}
        return shares | reading.values


class Ranges(NamedTuple):
    """The steps of a run, cut at its records."""

    steps: Steps  # numbers of steps at the records, each once if they are known
    slots: np.ndarray  # the index in `steps` of each record
    block: int  # number of ranges between two returns to the host

    @property
    def longest(self) -> int:
        """The most steps in a range, for a known length only."""
        return int(np.diff(self.steps).max())

    def blocks(self) -> Iterator[tuple[Steps, Steps]]:
        for first in range(0, len(self.steps) - 1, self.block):
            bounds = self.steps[first : first + self.block + 1]
            yield bounds[:-1], bounds[1:]


def ranges_of(num_steps: int | Int[Array, ""], records: int, progress: Progress | None) -> Ranges:
    """The ranges of a run of so many steps; without a listener all of them are one block."""
    steps, slots = record_steps(num_steps, records), np.arange(records + 1)
    if isinstance(steps, np.ndarray):
        steps, slots = np.unique(steps, return_inverse=True)
    count = len(steps) - 1
    return Ranges(steps, slots, count if progress is None else -(-count // _PROGRESS_BLOCKS))


def even_chunks(longest: int, numbers_per_step: int) -> tuple[int, int]:
    """The number of chunks of a range, and the steps of each."""
    return _cut(longest, max(1, min(_CHUNK_STEPS, _numbers_of_a_draw() // numbers_per_step)))


def _numbers_of_a_draw() -> int:
    return _CHUNK_NUMBERS.get(jax.default_backend(), _CHUNK_NUMBERS_OF_OTHERS)


def _cut(longest: int, target: int) -> tuple[int, int]:
    """Number and size of pieces of at most the target, cut evenly so that little is padded."""
    count = -(-longest // target)
    return count, -(-longest // count)


class Chunks(NamedTuple):
    """The cutting of steps: `records` ranges are drawn at once, or one in `per_record` parts."""

    rows: int  # draws in a block of ranges
    records: int
    steps: int
    per_record: int

    @classmethod
    def of(cls, ranges: Ranges, numbers_per_step: int, chunk_size: int | None) -> "Chunks":
        longest, block = ranges.longest, ranges.block
        target = chunk_size or max(1, _numbers_of_a_draw() // numbers_per_step)
        if target < longest:
            per_record, steps = _cut(longest, target)
            return cls(rows=block, records=1, steps=steps, per_record=per_record)
        _, records = _cut(block, min(block, target // longest))
        return cls(rows=-(-block // records), records=records, steps=longest, per_record=1)


def drive(
    runs: AbstractRuns, ranges: Ranges, *, keep_parameters: bool, progress: Progress | None
) -> Trajectory:
    """All steps of the runs, recorded where the ranges end, in the memory of state and records."""
    state, first = runs.begin()
    readings = [first]
    for starts, ends in ranges.blocks():
        state, reading = runs.advance(state, starts, ends)
        readings.append(reading)
        if progress is not None:
            jax.block_until_ready(state)
            progress(float(ends[-1]) / float(ranges.steps[-1]))
    final_risk, parameters = runs.finish(state)
    time = runs.time(ranges.steps[ranges.slots])
    kept = parameters if keep_parameters else None
    return _assembled(runs, readings, ranges.steps, ranges.slots, time, final_risk, kept)


def announced(trajectory: Trajectory, progress: Progress | None) -> Trajectory:
    """The trajectory, after the listener was called with 1."""
    if progress is not None:
        jax.block_until_ready(trajectory.risk)
        progress(1.0)
    return trajectory


@eqx.filter_jit
def _assembled(runs, readings, steps, slots, time, final_risk, parameters) -> Trajectory:
    reading = jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *readings)
    observables = runs.observables(reading, steps)
    risk, observables = jax.tree.map(lambda v: v[:, slots], (reading.risk, observables))
    return trajectory_of(
        runs.is_valid,
        time=jnp.asarray(time).astype(risk.dtype),
        risk=risk,
        final_risk=risk[:, -1] if final_risk is None else final_risk,
        observables=observables,
        parameters=parameters,
        label="simulated",
    )


def average_so_far(
    values: Float[Array, "runs counts"], times: Float[Array, " counts"]
) -> Float[Array, "runs counts"]:
    """The average of each run's values up to each time, by the trapezoid rule; 0 at time 0."""
    areas = jnp.diff(times)[None] * (values[:, 1:] + values[:, :-1]) / 2
    area = jnp.concatenate([jnp.zeros_like(values[:, :1]), jnp.cumsum(areas, axis=1)], axis=1)
    return area / jnp.where(times > 0, times, 1)[None]
