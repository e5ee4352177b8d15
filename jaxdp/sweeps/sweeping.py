"""The verb `sweep`: every cell of a grid, in shards."""

import contextlib
import dataclasses
import importlib
import inspect
import os
import pickle
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import jax.random as jr
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Key

from jaxdp.core.checks import require_count, require_key, require_kind
from jaxdp.core.display.terminals import is_terminal
from jaxdp.core.extras import require_extra
from jaxdp.core.progress import Bar, hidden
from jaxdp.sweeps import execution
from jaxdp.sweeps.axes import as_axes
from jaxdp.sweeps.execution import Work, stop_on_interrupt
from jaxdp.sweeps.provenance import name_of
from jaxdp.sweeps.results import Place, Shard, as_dataset, require_alike
from jaxdp.sweeps.store import Store, identity_of, with_kept_values

if TYPE_CHECKING:
    import xarray


def sweep(
    function: Callable[..., Any],
    axes: Mapping[str, Any],
    *,
    key: Key[Array, ""],
    store: str | os.PathLike | None = None,
    executor: Any = None,
    shard_size: int | None = None,
    version: str | None = None,
    quiet: bool = False,
) -> "xarray.Dataset":
    """Call a function at every point of a grid, compiled, on all local devices.

    The function is traced once for each choice of looped values and vmapped over the rest, in
    shards that fit the devices' memory. With a store finished shards outlive a stop: call it again
    with the same arguments, or from several machines at once, and it computes what is missing.
    Cells are computed twice where processes meet, a file is damaged, or shards have another size.

    Args:
        function: called as `function(key=..., **{axis: value})`; returns a dict of arrays or a
            Trajectory. The function must be traceable by JAX.
        axes: name to values. An array's values are vmapped; a tuple's are looped, with one
            trace for each.
        key: a `jax.random.key`; the key of cell (i, j, ...) is `jaxdp.sweeps.cell_key(key, i, j,
            ...)`, whatever the shards and devices are.
        store: a folder for finished shards, made when absent. The folder belongs to one program for
            each choice of looped values (what JAX traces of the function, with its constants; or
            one `version`), one set of axes, one key, one version of JAX, jaxlib and jaxdp, and one
            setting of x64, of the precision of products and of random bits. An edit that changes
            nothing that is computed makes no other sweep, and neither do values of an axis that
            another processor rounded otherwise: the values in the folder are taken then.
        executor: anything with `submit(function, *arguments)` that gives an object with
            `result()`; each task computes one shard on its process's devices. What it gets must
            be picklable by the executor's means.
        shard_size: cells of a shard; None sizes it by the compiled program's memory, so that a
            sweep has about sixteen shards.
        version: a name that you change whenever the function does, or anything that it reaches:
            in the store it stands for the programs, and a finished sweep is not traced again.
            Required where a program calls the host.
        quiet: whether the progress bar is left out.

    Returns:
        A dataset with the axes as coordinates; its attributes say how it was made.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, or the store is another sweep's.
        MemoryError: a device ran out of memory; names the `shard_size` to try.
        OSError: the store cannot be written; finished shards are whole.
        ModuleNotFoundError: xarray is not installed.
        KeyboardInterrupt: Ctrl-C, after the shard in flight, or at once by a second; says how to
            go on.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> def final(rho, key):
        ...     algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, rho, 1000)
        ...     return {"risk": jaxdp.predict(problem, algorithm, records=1).final_risk}
        >>> axes = {"rho": jax.numpy.asarray([0.5, 2.0])}
        >>> table = jaxdp.sweep(final, axes, key=jax.random.key(0))
        >>> table.risk.dims
        ('rho',)
    """
    # Before anything is computed that would be put into one.
    with require_extra("xarray", "sweeps", "jaxdp.sweep"):
        importlib.import_module("xarray")
    _require_options(function, store, executor, version, quiet)
    checked = as_axes(axes)
    _require_signature(function, checked.names)
    require_key(key)
    if isinstance(key, Tracer):
        raise TypeError(
            "expected a concrete key, got a traced one; a sweep compiles by itself: call it "
            "outside jit, vmap and grad"
        )
    if store is not None:
        checked = with_kept_values(store, checked)
    size = None
    if shard_size is not None:
        # A larger one would only repeat its last cell.
        size = min(require_count("shard_size", shard_size), checked.num_cells)
    key_data, kind, name = np.asarray(jr.key_data(key)), str(jr.key_impl(key)), name_of(function)
    work, kept = Work(function, checked, key_data, kind), None
    described = checked.described(by_program=store is None or version is None)
    coordinates = checked.coordinates()
    try:
        if store is not None:
            if version is None:
                numbers = range(checked.num_combinations)
                digests = tuple(work.program(number).digest() for number in numbers)
                work = dataclasses.replace(work, digests=digests)
            identity = identity_of(described, key, version, work.digests or ())
            kept = Store(store, identity, name, coordinates)
        with hidden() if quiet else contextlib.nullcontext():
            shards = _Sweep(work, kept, executor, size, quiet).run()
    finally:
        work.forget()
    facts = {"function": name, "key": f"{kind} {' '.join(map(str, key_data.ravel()))}"}
    return as_dataset(described, coordinates, shards.values(), facts)


class _Sweep:
    """One call of `sweep`: what is done, and what is still to do."""

    def __init__(self, work: Work, store: Store | None, executor: Any, size, quiet: bool):
        self.work, self.store, self.executor = work, store, executor
        self.size, self.quiet = size, quiet
        self.shards: dict[Place, Shard] = {}
        # For each combination, the cells that are done.
        self.done = np.zeros((work.axes.num_combinations, work.axes.num_cells), bool)

    def run(self) -> dict[Place, Shard]:
        """Compute all that the store does not have."""
        with stop_on_interrupt() as stop:
            try:
                self._take_from_store()
                self._complete(stop)
            except KeyboardInterrupt:
                if not stop.is_set():
                    raise
            if stop.is_set():
                raise KeyboardInterrupt(self._how_to_resume())
        return self.shards

    def _complete(self, stop: threading.Event) -> None:
        """Compute what is not done, until `stop` is set."""
        bar = None
        if is_terminal(sys.stderr) and not self.quiet:
            name = name_of(self.work.function).partition("(")[0].rpartition(".")[2]
            bar = Bar(name, begun=self.done.mean())
        with hidden(), contextlib.closing(bar) if bar else contextlib.nullcontext():
            while not (self.done.all() or stop.is_set()):
                for shard in self._computed(stop):
                    if self.store is not None:
                        self.store.write(shard)
                    self._add(shard)
                    if bar:
                        bar.advance(self.done.mean())

    def _computed(self, stop: threading.Event) -> Iterator[Shard]:
        """The shards that are not done, until `stop` is set."""
        order = np.flatnonzero(~self.done.all(axis=1)).tolist()
        if self.executor is not None:
            if isinstance(self.executor, ProcessPoolExecutor):
                _require_sendable(self.work.function)
            try:
                sizes = execution.sizes_by(self.executor, self.work, order, self.size)
            except Exception:
                # In a terminal Ctrl-C ends an executor's processes too, where they still import.
                if stop.is_set():
                    return
                raise
            tasks = [
                (place, size)
                for combination, size in zip(order, sizes, strict=True)
                for place in self._missing(combination, size)
            ]
            yield from execution.computed_by(self.executor, self.work, tasks, stop)
            return
        if self.store is not None:
            # Processes that share a store go different ways.
            random.SystemRandom().shuffle(order)
        for combination in order:
            size = self.size or execution.fitting_size(self.work, combination)
            places = self._missing(combination, size)
            if self.store is not None:
                random.SystemRandom().shuffle(places)
            for place in places:
                self._take_from_store()
                if not self.done[combination, place.start : place.stop].all():
                    yield execution.compute(self.work, place, size)
                if stop.is_set():
                    return
            # The next one has a program of its own.
            self.work.forget(combination)

    def _missing(self, combination: int, size: int) -> list[Place]:
        """Places of the cells that are not done, cut at multiples of the shards' size."""
        cells = len(self.done[combination])
        places = []
        for first in range(0, cells, size):
            missing = np.flatnonzero(~self.done[combination, first : first + size]) + first
            if len(missing):
                places.append(Place(combination, int(missing[0]), int(missing[-1]) + 1))
        return places

    def _take_from_store(self) -> None:
        """Read the shards that have come to the store."""
        if self.store is None:
            return
        for place in sorted(self.store.places() - self.shards.keys()):
            shard = self.store.read(place)
            if shard is not None:
                self._add(shard)

    def _add(self, shard: Shard) -> None:
        """Take a shard in; it must be like the others."""
        place = shard.place
        if self.shards:
            looped = self.work.axes.looped_values(place.combination)
            require_alike(next(iter(self.shards.values())), shard, looped)
        self.shards[place] = shard
        self.done[place.combination, place.start : place.stop] = True

    def _how_to_resume(self) -> str:
        share = f"{int(self.done.sum())} of {self.done.size} cells are done"
        if self.store is None:
            return f"stopped; {share} and lost: give a store to keep them next time"
        again = "call the sweep again with the same arguments to go on"
        return f"stopped; {share} and kept in {self.store.folder}: {again}"


def _require_sendable(function: Callable) -> None:
    """Raise TypeError unless other processes can be sent the function."""
    try:
        pickle.dumps(function)
    except Exception as error:
        # What pickling may raise has no common name.
        raise TypeError(
            "expected a function that can be sent to other processes, as one at the top of a "
            f"module can, got {name_of(function)}: {error}"
        ) from None


def _require_signature(function: Callable, names: tuple[str, ...]) -> None:
    """Raise TypeError unless the function can be called with a key and every axis by name."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Written in C, it says nothing of its arguments.
        return
    try:
        signature.bind(**dict.fromkeys(("key", *names)))
    except TypeError as error:
        raise TypeError(
            f"expected a function of key and the axes by name, {', '.join(('key', *names))}, got "
            f"{name_of(function)} with the arguments {signature}: {error}"
        ) from None


def _require_options(function: Any, store: Any, executor: Any, version: Any, quiet: Any) -> None:
    if not callable(function):
        require_kind("function", function, types.FunctionType, "a function of key and the axes")
    for name, value, kind, expected in (
        ("store", store, (str, os.PathLike), "the path of a folder, or None"),
        ("version", version, str, "a string, or None"),
    ):
        if value is not None:
            require_kind(name, value, kind, expected)
            if not os.fspath(value):
                raise ValueError(f"expected {name} to be {expected}, got an empty one")
    if executor is not None and (isinstance(executor, type) or not hasattr(executor, "submit")):
        raise TypeError(f"expected executor to have submit(function, *arguments), got {executor}")
    require_kind("quiet", quiet, (bool, np.bool_), "True or False")
