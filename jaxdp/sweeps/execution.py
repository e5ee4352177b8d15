"""Computation of shards, in this process or by an executor, and Ctrl-C meanwhile."""

import concurrent.futures
import contextlib
import dataclasses
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from jaxdp.core.files.interrupts import is_ending, set_aside
from jaxdp.core.numerics.precision import x64
from jaxdp.sweeps.axes import Axes
from jaxdp.sweeps.program import Program
from jaxdp.sweeps.provenance import versions_and_devices
from jaxdp.sweeps.results import Place, Shard

_PROGRAMS_KEPT = 64
_SHORTEST_WAIT, _LONGEST_WAIT = 0.01, 0.5
_BROKEN = (
    "A process of the executor ended before it answered. Where this is a script: new processes "
    'import it, so that what it runs has to stand under `if __name__ == "__main__":`. Else it was '
    "killed, for want of memory perhaps."
)

# Programs by sweep and combination, the latest last; those of other sweeps are let go in time.
_programs: dict[tuple[str, int], Program] = {}
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Work:
    """All that a process needs to compute any shard of a sweep.

    The key is kept as numbers that can be sent anywhere. `digests` are those of each combination's
    program, where a store is for these alone; `token` tells this sweep from others in a process
    that computes several; `has_x64` is set as where the sweep began, which may differ elsewhere.
    """

    function: Callable
    axes: Axes
    key_data: np.ndarray
    key_kind: str
    digests: tuple[str, ...] | None = None
    token: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)
    has_x64: bool = dataclasses.field(
        default_factory=lambda: bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]
    )

    def program(self, combination: int) -> Program:
        """The combination's program, traced once in each process.

        ValueError where it is not the one that a store is for, as in a process with other sources.
        """
        with _lock:
            name = (self.token, combination)
            program = _programs.pop(name, None)
            if program is None:
                key = jr.wrap_key_data(jnp.asarray(self.key_data), impl=self.key_kind)
                program = Program(self.function, self.axes, combination, key)
                if self.digests is not None and program.digest() != self.digests[combination]:
                    raise ValueError(
                        "expected the function to be the same program wherever it is traced, but "
                        f"combination {combination} has become another one; start all processes "
                        "from the same sources, or give version= to decide that yourself"
                    )
            _programs[name] = program
            while len(_programs) > _PROGRAMS_KEPT:
                del _programs[next(iter(_programs))]
            return program

    def forget(self, combination: int | None = None) -> None:
        """Let go of a combination's program in this process, or of all."""
        with _lock:
            for name in list(_programs):
                if name[0] == self.token and combination in (None, name[1]):
                    del _programs[name]


def fitting_size(work: Work, combination: int) -> int:
    """How many cells a shard of this combination should have, on this process's devices."""
    with x64(work.has_x64):
        return work.program(combination).fitting_size()


def compute(work: Work, place: Place, size: int) -> Shard:
    """Compute a shard with a program for `size` cells; Ctrl-C is noticed meanwhile.

    Signals reach Python between its own instructions, and a compiled program may run for hours
    without one; so the program has a thread of its own, which is left behind on an interrupt.
    """
    with x64(work.has_x64):
        program = work.program(place.combination)
    outcome = concurrent.futures.Future()

    def call():
        try:
            with x64(work.has_x64):
                outcome.set_result(program.run(place.start, place.stop, size))
        except BaseException as error:
            outcome.set_exception(error)

    if threading.current_thread() is threading.main_thread():
        threading.Thread(target=call, daemon=True).start()
    else:
        call()
    return Shard(place, outcome.result(), program.variables, versions_and_devices())


def sizes_by(executor: Any, work: Work, combinations: Sequence[int], size: int | None) -> list[int]:
    """The sizes of each combination's shards, on the devices of the executor's processes."""
    if size is not None:
        return [size] * len(combinations)
    try:
        futures = [executor.submit(_elsewhere, fitting_size, work, each) for each in combinations]
        return [future.result() for future in futures]
    except BrokenExecutor as error:
        error.add_note(_BROKEN)
        raise


def computed_by(
    executor: Any, work: Work, tasks: Sequence[tuple[Place, int]], stop: threading.Event
) -> Iterator[Shard]:
    """Hand shards, each with its program's size, to an executor; yield them as they are finished.

    An error is raised after all that is finished. When `stop` is set, what has not begun is
    cancelled, and errors are dropped: Ctrl-C reaches an executor's processes too.
    """
    waiting: dict[Place, Any] = {}
    failed: tuple[Place, Exception] | None = None
    has_stopped, pause = False, _SHORTEST_WAIT

    def cancel():
        for place, future in list(waiting.items()):
            if hasattr(future, "cancel") and future.cancel() is True:
                del waiting[place]

    try:
        for place, size in tasks:
            try:
                waiting[place] = executor.submit(_elsewhere, compute, work, place, size)
            except Exception as error:
                failed = place, error
                break
        while waiting:
            if stop.is_set() and not has_stopped:
                has_stopped = True
                cancel()
            # A future that cannot tell whether it is done is waited for.
            finished = [p for p, f in waiting.items() if not hasattr(f, "done") or f.done()]
            if not finished:
                if failed is not None:
                    break
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
        cancel()
    if failed is not None and not stop.is_set():
        place, error = failed
        error.add_note(
            f"while cells {place.start} to {place.stop} of combination {place.combination} were "
            f"computed by {type(executor).__name__}"
        )
        if isinstance(error, BrokenExecutor):
            error.add_note(_BROKEN)
        raise error


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C sets the event that is yielded; a second one interrupts at once."""
    stop = threading.Event()

    def handle(number, frame, bring_back):
        stop.set()
        bring_back()
        # The signal may have come amid another write to the same stream, or to a closed one.
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            print("\nstopping after this shard; Ctrl-C again stops at once", file=sys.stderr)

    with _handling(handle):
        yield stop


def _elsewhere(function: Callable, *arguments: Any) -> Any:
    """Call a function for the process that submitted it: that one decides what Ctrl-C does."""
    with _handling(lambda *ignored: None):
        return function(*arguments)


@contextlib.contextmanager
def _handling(handle: Callable) -> Iterator[None]:
    """Handle Ctrl-C where it would end this process: in its main thread, unless the user does."""
    is_main = threading.current_thread() is threading.main_thread()
    if not (is_main and is_ending(signal.getsignal(signal.SIGINT))):
        yield
        return
    bring_back = set_aside()
    signal.signal(signal.SIGINT, lambda number, frame: handle(number, frame, bring_back))
    try:
        yield
    finally:
        bring_back()
