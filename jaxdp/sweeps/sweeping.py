"""The verb `sweep`: every cell of a grid, in shards, and no shard twice.

How a sweep is resumed is told by `sweep` itself: the folder is opened, finished shards are read,
what is missing is computed in a fixed order, and every new shard is written.
"""

import importlib
import inspect
import os
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Key

from jaxdp.core.checks import require_count, require_key, require_kind
from jaxdp.core.extras import require_extra
from jaxdp.core.progress import listening_where_seen
from jaxdp.sweeps.axes import as_axes
from jaxdp.sweeps.dataset import as_dataset, require_alike
from jaxdp.sweeps.program import Shard, Work, compute, default_size, key_in_words, program_of
from jaxdp.sweeps.provenance import name_of, sources_of
from jaxdp.sweeps.store import Store

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
    shards. With a store finished shards outlive a stop: the same call computes what is missing,
    and reads a finished sweep without tracing the function.

    Args:
        function: called as `function(key=..., **{axis: value})`; returns a dict of arrays or a
            Trajectory. The function must be traceable by JAX.
        axes: name to values. An array's values are vmapped; a tuple's are looped, with one
            trace for each.
        key: a `jax.random.key`; the key of cell (i, j, ...) is `jaxdp.sweeps.cell_key(key, i, j,
            ...)`, whatever the shards and devices are.
        store: a folder for finished shards, made when absent. It belongs to one sweep: its axes,
            its key, the traced programs (or the `version`), and the versions and settings of JAX
            and jaxdp. Values of an axis that differ by 1e-9 at most are those of the folder.
        executor: an executor of `concurrent.futures`, or anything whose `submit(function,
            *arguments)` gives an object with `result()`, as those of Dask, loky and submitit do.
            Each task computes one shard on the devices of its process.
        shard_size: cells of a shard; if None, a sixteenth of the cells of one program, within
            limits for the devices.
        version: a name that you change whenever the function does, or anything that it reaches:
            in the store it stands for the programs. Required if a program calls the host.
        quiet: whether the progress bar is left out.

    Returns:
        A dataset with the axes as coordinates; its attributes say how it was made.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, or the store is another sweep's.
        MemoryError: a device ran out of memory; names the `shard_size` to try.
        OSError: the store cannot be written; finished shards are whole.
        ModuleNotFoundError: xarray is not installed.

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
    # First, so that nothing is computed that no dataset can hold.
    with require_extra("xarray", "sweeps", "jaxdp.sweep"):
        importlib.import_module("xarray")
    _require_options(function, store, executor, version, quiet)
    grid, name = as_axes(axes), name_of(function)
    _require_signature(function, grid.names)
    _require_concrete_key(key)
    if shard_size is not None:
        require_count("shard_size", shard_size)

    kept, shards = None, []
    if store is not None:
        kept = Store(store, grid, key_in_words(key), version, name)
        grid, shards = kept.axes, kept.shards()
    done = np.zeros((grid.num_combinations, grid.num_cells), bool)
    for shard in shards:
        done[shard.combination, shard.start : shard.stop] = True
    work = Work.of(function, grid, key)
    with listening_where_seen(False if quiet else None, name.rpartition(".")[2]) as told:
        if kept is not None:
            sources = sources_of(function) if version is None else None
            if not (done.all() and kept.is_known(sources)):
                if version is None:
                    work = work.with_digests()
                    # They tell nothing if the trace has changed them, by a late import perhaps.
                    sources = sources if sources == sources_of(function) else None
                kept.begin(work.digests, sources)
        size = min(shard_size or default_size(grid), grid.num_cells)
        for shard in _computed(work, _missing(done, size), size, executor):
            if shards:
                require_alike(shards[0], shard, grid.looped_values(shard.combination))
            if kept is not None:
                kept.write(shard)
            shards.append(shard)
            done[shard.combination, shard.start : shard.stop] = True
            told(float(done.mean()))
    facts = {"function": name, "key": key_in_words(key)}
    return as_dataset(grid.coordinates(), set(grid.looped), shards, facts)


def _missing(done: np.ndarray, size: int) -> list[tuple[int, int, int]]:
    """Combination, first and last cell of each shard to compute, in order."""
    combinations, cells = done.shape
    return [
        (combination, start, min(start + size, cells))
        for combination in range(combinations)
        for start in range(0, cells, size)
        if not done[combination, start : start + size].all()
    ]


def _computed(
    work: Work, places: list[tuple[int, int, int]], size: int, executor: Any
) -> Iterator[Shard]:
    """The shards of these places, in order; an executor's error is raised after all others."""
    futures, failed = [], None
    try:
        for place in places:
            if executor is None:
                yield compute(work, *place, size)
            else:
                futures.append(executor.submit(compute, work, *place, size))
        for future in futures:
            try:
                shard = future.result()
            except Exception as error:
                failed = failed or error
            else:
                yield shard
    finally:
        # After Ctrl-C, what has not begun does not begin; programs may hold large constants.
        for future in futures:
            if hasattr(future, "cancel"):
                future.cancel()
        program_of.cache_clear()
    if failed is not None:
        raise failed


def _require_concrete_key(key: Any) -> None:
    require_key(key)
    if isinstance(key, Tracer):
        raise TypeError(
            "expected a concrete key, got a traced one; a sweep compiles by itself: call it "
            "outside jit, vmap and grad"
        )


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
