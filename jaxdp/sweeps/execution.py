"""Where shards are computed: in this process, or wherever an executor takes them."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from jaxdp.core.numerics.precision import x64
from jaxdp.sweeps.axes.axes import Axes, is_x64
from jaxdp.sweeps.program import Program
from jaxdp.sweeps.progress import interruptible, uninterrupted
from jaxdp.sweeps.provenance import provenance
from jaxdp.sweeps.shards import Place, Shard

_PROGRAMS_KEPT = 64
_SHORTEST_WAIT, _LONGEST_WAIT = 0.01, 0.5

# By sweep and combination, the latest last; what other sweeps left is let go in time.
_programs: dict[tuple[str, int], Program] = {}
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Work:
    """All that a process needs to compute any shard of a sweep.

    Attributes:
        function: what is swept.
        axes: over which values.
        key_data: the sweep's key, as numbers that can be sent anywhere.
        key_kind: which generator they belong to.
        token: tells this sweep from others in a process that computes several.
        has_x64: whether jax_enable_x64 is set where the sweep began; other processes and threads
            may have begun without it.
    """

    function: Callable
    axes: Axes
    key_data: np.ndarray
    key_kind: str
    token: str
    has_x64: bool = dataclasses.field(default_factory=is_x64)

    def program(self, combination: int) -> Program:
        """The combination's program, traced once in each process."""
        with _lock:
            name = (self.token, combination)
            program = _programs.pop(name, None)
            if program is None:
                key = jr.wrap_key_data(jnp.asarray(self.key_data), impl=self.key_kind)
                program = Program(self.function, self.axes, combination, key)
            _programs[name] = program
            while len(_programs) > _PROGRAMS_KEPT:
                del _programs[next(iter(_programs))]
            return program

    def forget(self) -> None:
        """Let go of the programs in this process."""
        with _lock:
            for name in [name for name in _programs if name[0] == self.token]:
                del _programs[name]


def fitting_size(work: Work, combination: int) -> int:
    """How many cells a shard of this combination should have, on this process's devices."""
    with x64(work.has_x64):
        return work.program(combination).fitting_size()


def compute(work: Work, place: Place, size: int) -> Shard:
    """Compute a shard with a program for `size` cells."""
    with x64(work.has_x64):
        program = work.program(place.combination)
    arrays = interruptible(_run, work, program, place, size)
    return Shard(place, arrays, program.variables, provenance(work.function))


def sizes_by(executor: Any, work: Work, combinations: Sequence[int], size: int | None) -> list[int]:
    """The sizes of each combination's shards, on the devices of the executor's processes."""
    if size is not None:
        return [size] * len(combinations)
    futures = [executor.submit(_elsewhere, fitting_size, work, each) for each in combinations]
    return [future.result() for future in futures]


def computed_by(
    executor: Any, work: Work, tasks: Sequence[tuple[Place, int]], stop: threading.Event
) -> Iterator[Shard]:
    """Hand shards, each with its program's size, to an executor; yield them as they are finished.

    When one fails, those that are finished are still yielded before its error is raised. When
    `stop` is set, those that have begun are yielded, the others cancelled, and errors are dropped:
    Ctrl-C reaches an executor's processes too. When the iterator is closed, all are cancelled.
    """
    waiting: dict[Place, Any] = {}
    has_stopped, pause = False, _SHORTEST_WAIT
    try:
        failed = _submit(executor, work, tasks, waiting)
        while waiting:
            if stop.is_set() and not has_stopped:
                has_stopped = True
                _cancel(waiting)
            finished = [place for place, future in waiting.items() if _is_done(future)]
            if not finished and failed is not None:
                break
            if not finished:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_WAIT)
                continue
            pause = _SHORTEST_WAIT
            for place in finished:
                try:
                    shard = waiting.pop(place).result()
                except Exception as error:
                    failed = failed or (place, error)
                else:
                    yield shard
    finally:
        _cancel(waiting)
    if failed is not None and not stop.is_set():
        place, error = failed
        error.add_note(
            f"while cells {place.start} to {place.stop} of combination {place.combination} were "
            f"computed by {type(executor).__name__}; what the others finished is kept in the store "
            "if there is one"
        )
        raise error


def _elsewhere(function: Callable, *arguments: Any) -> Any:
    """Call a function for the process that submitted it: that one decides what Ctrl-C does."""
    with uninterrupted():
        return function(*arguments)


def _run(work: Work, program: Program, place: Place, size: int) -> dict[str, np.ndarray]:
    with x64(work.has_x64):
        return program.run(place.start, place.stop, size)


def _submit(
    executor: Any, work: Work, tasks: Iterable[tuple[Place, int]], waiting: dict[Place, Any]
) -> tuple[Place, Exception] | None:
    """Submit all shards; the first that the executor does not take, and why."""
    for place, size in tasks:
        try:
            waiting[place] = executor.submit(_elsewhere, compute, work, place, size)
        except Exception as error:
            return place, error
    return None


def _cancel(waiting: dict[Place, Any]) -> None:
    """Cancel what can be, and wait for it no more."""
    for place, future in list(waiting.items()):
        if hasattr(future, "cancel") and future.cancel() is True:
            del waiting[place]


def _is_done(future: Any) -> bool:
    """Whether a future's result is there; one that cannot tell is waited for."""
    done = getattr(future, "done", None)
    return True if done is None else bool(done())
