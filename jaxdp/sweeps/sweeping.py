"""The function `sweep`, which computes every cell of a grid once, and resumes after a stop."""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Array, Key

from jaxdp.core.checks import require_count, require_host, require_key, require_kind
from jaxdp.core.digests import name_of
from jaxdp.core.packages import require_extra
from jaxdp.core.progress import listening_where_seen
from jaxdp.sweeps.axes import Axes, as_axes
from jaxdp.sweeps.program import Shard, Work, as_dataset, compute, default_size, program_of
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

    The function is traced once for each combination of looped values, and vmapped over the rest in
    shards. With a store a stopped sweep resumes: the same call computes the missing shards. It
    reads a finished sweep, without tracing if the sources are unchanged or `version` is given.

    Args:
        function: a function that JAX can trace, called as `function(key=..., **{axis: value})`;
            it returns a dict of arrays or a Trajectory.
        axes: values by name; those of an array are vmapped, those of a tuple looped.
        key: a `jax.random.key`. The function gets `jaxdp.sweeps.cell_key(key, i, j, ...)` in cell
            (i, j, ...).
        store: a folder for finished shards, made if absent. It can be resumed only with the same
            traced programs (or `version`), axes, key, library versions and JAX settings.
        executor: an executor of `concurrent.futures`, Dask, loky or submitit, or any object with
            `submit(function, *arguments)` that returns an object with `result()`. A task computes
            one shard on the devices of its process. None computes in this process.
        shard_size: number of cells in a shard; by default a sixteenth of the cells of one program,
            within limits for the devices.
        version: a name that replaces the traced programs in the store. Change it whenever the
            function, or anything that it uses, changes. Required if a program calls the host;
            looped values may then not be functions.
        quiet: whether to hide the progress bar, default False.

    Returns:
        A dataset with the axes as coordinates, and with versions and devices as attributes.

    Raises:
        TypeError, ValueError: an argument is wrong, or the store belongs to another sweep.
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
    with require_extra("xarray", "sweeps", "jaxdp.sweep"):
        importlib.import_module("xarray")
    _require_arguments(function, key, store, executor, shard_size, version)
    require_kind("quiet", quiet, (bool, np.bool_), "True or False")
    grid = as_axes(axes)
    work = Work.of(function, grid, key)
    folder = None if store is None else Store(store, work, version)
    shards = [] if folder is None else folder.shards
    done = np.zeros((grid.num_combinations, grid.num_cells), bool)
    for shard in shards:
        _require_alike(shards[0], shard, grid)
        done[shard.combination, shard.start : shard.stop] = True
    name = name_of(function)
    # A finished sweep whose function is recognised needs no trace. The bar: None shows it on a
    # terminal; False shows none, also within the function.
    with listening_where_seen(False if quiet else None, name.rpartition(".")[2]) as told:
        if folder is not None and not (done.all() and folder.is_known()):
            work = folder.begin(work)
        size = min(shard_size or default_size(grid), grid.num_cells)
        for shard in _computed(work, _missing(done, size), size, executor):
            _require_alike((shards or [shard])[0], shard, grid)
            if folder is not None:
                folder.write(shard)
            shards.append(shard)
            done[shard.combination, shard.start : shard.stop] = True
            told(float(done.mean()))
    return as_dataset(grid, shards, {"function": name, "key": work.key})


def _require_alike(first: Shard, shard: Shard, grid: Axes) -> None:
    if first.forms() != shard.forms():
        raise ValueError(
            "expected the same variables at every value of the looped axes, got "
            f"{first.forms()} first, but {shard.forms()} at "
            f"{grid.looped_values(shard.combination)}"
        )


def _missing(done: np.ndarray, size: int) -> list[tuple[int, int, int]]:
    """Combination, start and stop of each shard to compute."""
    combinations, cells = done.shape
    return [
        (combination, start, min(start + size, cells))
        for combination in range(combinations)
        for start in range(0, cells, size)
        if not done[combination, start : start + size].all()
    ]


def _computed(
    work: Work, bounds: list[tuple[int, int, int]], size: int, executor: Any
) -> Iterator[Shard]:
    """Compute shards in order; the first error of a task is raised after the other shards."""
    futures, failed = [], None
    try:
        for each in bounds:
            if executor is None:
                yield compute(work, *each, size)
            else:
                futures.append(executor.submit(compute, work, *each, size))
        for future in futures:
            try:
                shard = future.result()
            except Exception as error:
                failed = failed or error
            else:
                yield shard
    finally:
        # After Ctrl-C no further task begins. Programs may hold large constants.
        for future in futures:
            if hasattr(future, "cancel"):
                future.cancel()
        program_of.cache_clear()
    if failed is not None:
        raise failed


def _require_arguments(function, key, store, executor, shard_size, version) -> None:
    if not callable(function):
        raise TypeError(f"expected a function of key and the axes, got {type(function).__name__}")
    require_key(key)
    require_host("key", key)
    for name, value, kind in (("store", store, (str, os.PathLike)), ("version", version, str)):
        if value is not None:
            require_kind(name, value, kind, "a text, or None")
            if not os.fspath(value):
                raise ValueError(f"expected {name} not to be empty")
    if shard_size is not None:
        require_count("shard_size", shard_size)
    if executor is not None and (isinstance(executor, type) or not hasattr(executor, "submit")):
        came = executor.__name__ if isinstance(executor, type) else type(executor).__name__
        raise TypeError(f"expected executor to have submit(function, *arguments), got {came}")
