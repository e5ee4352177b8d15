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

from jaxdp.core.digests import UnreadableError, digest
from jaxdp.sweeps.axes import Axes, cell_key
from jaxdp.sweeps.provenance import name_of
from jaxdp.sweeps.results import Variable, variables_of

# Temporaries beyond this are slower than smaller shards, on a CPU.
_CPU_BYTES = 512 * 2**20
# Share of a device's free memory that a shard may take.
_MEMORY_SHARE = 0.5
# A sweep is cut into about this many shards, so that a stop loses little ...
_SHARDS = 16
# ... unless they would leave a device idle: cells that keep a CPU busy, and any other device.
_FEWEST_CELLS = {"cpu": 64}
_FEWEST_CELLS_OF_OTHERS = 8192


class Program:
    """The function at one combination of the looped values, traced once for any number of cells."""

    variables: tuple[Variable, ...]  # what the function returns

    def __init__(self, function: Callable, axes: Axes, combination: int, key: Key[Array, ""]):
        def cell(key, mapped):
            result = function(key=key, **axes.looped_values(combination), **mapped)
            self.variables, values = variables_of(result, axes.names)
            return values

        self._axes, self._combination, self._key = axes, combination, key
        self._name, self._devices = name_of(function), jax.local_devices()
        try:
            traced = jax.make_jaxpr(cell)(key, axes.mapped_types())
        except TypeError as error:
            # JAX's own words for a shape that is not known.
            if not isinstance(error, jax.errors.JAXTypeError) and "concrete value" not in str(
                error
            ):
                raise
            raise TypeError(
                f"expected {self._name} to be traceable by JAX: the values of axes given as arrays "
                f"({', '.join(axes.mapped) or 'none'}) and the key are no numbers to Python, so "
                "int(), float(), if, range() and NumPy take none of them. Give an axis as a tuple, "
                'such as {"num_steps": (10, 100)}, to loop over its values instead'
            ) from error
        self._cell = jaxpr_as_fun(traced)
        self._compiled: dict[int, Any] = {}
        self._lock = threading.Lock()

    def digest(self) -> str:
        """A digest of what is computed, and under which names; ValueError if it calls the host.

        The digest is that of two cells, because what is vmapped may have a rule of its own for
        that.
        """
        try:
            program = jax.make_jaxpr(self._cells)(self._key, *self._inputs(2))
            return digest((program, self.variables))
        except UnreadableError as error:
            raise ValueError(
                "expected a function whose whole program a store can tell from others, but "
                f"{self._name} has {error} in it; give version=, a name that changes whenever the "
                "function does"
            ) from error

    def fitting_size(self) -> int:
        """Cells of a shard that fit the devices' memory, by the compiled program's account."""
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
        """The variables of cells start to stop, by a program for `size` of them."""
        # A last shard repeats its last cell, so that one program does them all.
        cells = np.minimum(np.arange(start, start + self._whole(size)), stop - 1)
        indices = self._axes.indices(self._combination, cells)
        mapped = self._axes.mapped_values(cells)
        program = self._program(size)
        found = self._within_memory(
            size, lambda: jax.block_until_ready(program(self._key, indices, mapped))
        )
        arrays = [np.asarray(values)[: stop - start] for values in found]
        return {v.name: array for v, array in zip(self.variables, arrays, strict=True)}

    def _bytes(self, size: int) -> int:
        """Memory that a program takes on each device."""
        memory = self._program(size).memory_analysis()
        if memory is None:
            return 0
        return (
            memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
        )

    def _program(self, size: int) -> Any:
        """The compiled program for this many cells, rounded up to the number of devices."""
        with self._lock:
            if size not in self._compiled:
                placed = jax.jit(self._on_devices(self._cells))
                lowered = placed.lower(self._key, *self._inputs(self._whole(size)))
                # One at a time: a program may hold large constants.
                self._compiled = {size: self._within_memory(size, lowered.compile)}
            return self._compiled[size]

    def _inputs(self, size: int) -> tuple[Any, Any]:
        """Types of the indices and of the mapped values of this many cells."""
        indices = jax.ShapeDtypeStruct((size, len(self._axes.names)), jnp.int32)
        types = self._axes.mapped_types().items()
        return indices, {name: jax.ShapeDtypeStruct((size,), kind.dtype) for name, kind in types}

    def _cells(self, key, indices, mapped):
        keys = jax.vmap(lambda row: cell_key(key, *row))(indices)
        return jax.vmap(self._cell)(keys, *jax.tree.leaves(mapped))

    def _on_devices(self, function: Callable) -> Callable:
        """The function with its cells shared among the local devices."""
        if len(self._devices) == 1:
            return function
        mesh = jax.make_mesh(
            (len(self._devices),), ("cells",), axis_types=(AxisType.Auto,), devices=self._devices
        )
        along = PartitionSpec("cells")
        # Adaptive solvers do not pass the check.
        specs = {"in_specs": (PartitionSpec(), along, along), "out_specs": along}
        return jax.shard_map(function, mesh=mesh, check_vma=False, **specs)

    def _whole(self, size: int) -> int:
        return -(-size // len(self._devices)) * len(self._devices)

    def _within_memory(self, size: int, call: Callable[[], Any]) -> Any:
        """The result of a call; where memory runs out, the error says what to do."""
        try:
            return call()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            advice = f"try shard_size={size // 2}"
            if size <= len(self._devices):
                advice = "one cell a device is too much already: let a cell compute less"
            raise MemoryError(
                f"out of memory on {self._devices[0].device_kind} with shard_size={size}; {advice} "
                f"({str(error).partition(chr(10))[0]})"
            ) from error


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
