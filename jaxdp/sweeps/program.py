"""One combination's program: the function traced once, vmapped over cells, on all local devices."""

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Key

from jaxdp.sweeps.axes.axes import Axes, cell_key
from jaxdp.sweeps.results import Variable, variables_of

# Temporaries beyond this are slower than smaller shards, on a CPU.
_CPU_BYTES = 512 * 2**20
# Share of a device's free memory that a shard may take.
_MEMORY_SHARE = 0.5
# A sweep is cut into about this many shards, so that a stop loses little ...
_SHARDS = 16
# ... unless they would leave a device idle.
_FEWEST_CELLS = {"cpu": 64}
_FEWEST_CELLS_OF_OTHERS = 8192


class Program:
    """The function at one combination of the looped values, for any number of cells.

    Args:
        function: called once, with traced values.
        axes: of the sweep.
        combination: which of the looped values.
        key: of the sweep.

    Attributes:
        variables: what it returns.
    """

    variables: tuple[Variable, ...]

    def __init__(self, function: Callable, axes: Axes, combination: int, key: Key[Array, ""]):
        def cell(key, mapped):
            result = function(key=key, **axes.looped_values(combination), **mapped)
            self.variables, values = variables_of(result, axes.names)
            return values

        self._axes, self._combination, self._key = axes, combination, key
        self._devices = jax.local_devices()
        try:
            jaxpr = jax.make_jaxpr(cell)(key, axes.mapped_types())
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
            traced = ", ".join(("key", *axes.mapped))
            error.add_note(
                f"a sweep traces its function: {traced} have no values then; use jax.numpy, or "
                "make an axis a tuple, whose values are Python's own"
            )
            raise
        self._cell = jaxpr_as_fun(jaxpr)
        self._compiled: dict[int, Any] = {}
        self._lock = threading.Lock()

    def fitting_size(self) -> int:
        """Cells of a shard: as many as fit the devices' memory, and not the whole sweep at once.

        Read from the compiled program's own account of its memory.
        """
        cells, count = self._axes.num_cells, len(self._devices)
        fewest = _FEWEST_CELLS.get(self._devices[0].platform, _FEWEST_CELLS_OF_OTHERS)
        size = min(cells, max(-(-cells // _SHARDS), count * fewest))
        budget = _budget(self._devices[0])
        while True:
            needed = self._bytes(size)
            if needed <= budget or size <= count:
                return size
            size = min(size // 2, int(0.9 * size * budget / needed))
            size = max(count, size // count * count)

    def run(self, start: int, stop: int, size: int) -> dict[str, np.ndarray]:
        """The variables of cells start to stop, by a program for `size` of them.

        Raises:
            MemoryError: they do not fit; names `shard_size` and the value to try.
        """
        # A last shard repeats its last cell, so that one program does them all.
        cells = np.minimum(np.arange(start, start + _whole(size, len(self._devices))), stop - 1)
        indices = self._axes.indices(self._combination, cells)
        mapped = self._axes.mapped_values(cells)
        try:
            found = self._program(size)(self._key, indices, mapped)
            arrays = [np.asarray(values)[: stop - start] for values in jax.block_until_ready(found)]
        except jax.errors.JaxRuntimeError as error:
            _explain_memory(error, size, self._devices)
            raise
        names = [variable.name for variable in self.variables]
        return dict(zip(names, arrays, strict=True))

    def _bytes(self, size: int) -> int:
        """Memory that a program takes on each device."""
        try:
            memory = self._program(size).memory_analysis()
        except jax.errors.JaxRuntimeError as error:
            _explain_memory(error, size, self._devices)
            raise
        if memory is None:
            return 0
        return (
            memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
        )

    def _program(self, size: int) -> Any:
        """The compiled program for this many cells, rounded up to the number of devices."""
        size = _whole(size, len(self._devices))
        with self._lock:
            if size not in self._compiled:
                # One at a time: a program may hold large constants.
                self._compiled = {size: self._compile(size)}
            return self._compiled[size]

    def _compile(self, size: int) -> Any:
        indices = jax.ShapeDtypeStruct((size, len(self._axes.names)), jnp.int32)
        mapped = {
            name: jax.ShapeDtypeStruct((size,), kind.dtype)
            for name, kind in self._axes.mapped_types().items()
        }
        placed = jax.jit(self._on_devices(self._cells))
        return placed.lower(self._key, indices, mapped).compile()

    def _cells(self, key, indices, mapped):
        keys = jax.vmap(lambda row: cell_key(key, *row))(indices)
        leaves = jax.tree.leaves(mapped)
        return jax.vmap(self._cell)(keys, *leaves)

    def _on_devices(self, function: Callable) -> Callable:
        """The function with its cells shared among the local devices."""
        if len(self._devices) == 1:
            return function
        mesh = jax.make_mesh(
            (len(self._devices),), ("cells",), axis_types=(AxisType.Auto,), devices=self._devices
        )
        along = PartitionSpec("cells")
        # Adaptive solvers do not pass the check.
        return jax.shard_map(
            function,
            mesh=mesh,
            in_specs=(PartitionSpec(), along, along),
            out_specs=along,
            check_vma=False,
        )


def _whole(size: int, count: int) -> int:
    return -(-size // count) * count


def _budget(device: Any) -> float:
    """Bytes that a shard may take on a device."""
    stats = device.memory_stats()
    if stats and "bytes_limit" in stats:
        return _MEMORY_SHARE * (stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return min(_CPU_BYTES, _MEMORY_SHARE * _free_memory() / jax.local_device_count())


@functools.cache
def _free_memory() -> float:
    """Bytes of the host's memory that nobody uses; infinite where it does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return float("inf")


def _explain_memory(error: Exception, size: int, devices: list[Any]) -> None:
    """Raise what to do when an error says that memory ran out."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        return
    kind = devices[0].device_kind
    if size <= len(devices):
        advice = "one cell a device is too much already: let a cell compute less"
    else:
        advice = f"try shard_size={size // 2}"
    first_line = str(error).partition("\n")[0]
    message = f"out of memory on {kind} with shard_size={size}; {advice} ({first_line})"
    raise MemoryError(message) from error
