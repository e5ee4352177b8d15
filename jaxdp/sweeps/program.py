"""Programs of a sweep, and the dataset of their results.

A program is the function, traced for one combination of looped values and vmapped over cells.
"""

import dataclasses
import functools
import platform
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Key

from jaxdp.core.checks import require_kind
from jaxdp.core.digests import UnreadableError, digest, name_of
from jaxdp.core.numerics.precision import x64
from jaxdp.core.packages import version_of
from jaxdp.core.trajectory import Trajectory, Variable, variables_of_trajectory
from jaxdp.sweeps.axes import Axes, cell_key

if TYPE_CHECKING:
    import xarray

# A shard has a share of the cells, so that an interruption loses little. The fewest cells on each
# device keep it busy; the most of them fit into its memory for usual functions.
_SHARE = 16
_FEWEST, _MOST = {"cpu": 64, "others": 8192}, {"cpu": 4096, "others": 65536}


@dataclasses.dataclass(frozen=True)
class Shard:
    """Results of the cells `start` to `stop` of a combination, along a leading axis."""

    combination: int
    start: int
    stop: int
    arrays: Mapping[str, np.ndarray]
    variables: tuple[Variable, ...]
    provenance: Mapping[str, str]

    def forms(self) -> dict[str, str]:
        """Type and shape of each variable in one cell."""
        return {name: f"{array.dtype}{array.shape[1:]}" for name, array in self.arrays.items()}


@dataclasses.dataclass(frozen=True)
class Work:
    """Everything that a process needs to compute any shard of a sweep; it can be pickled.

    Work with an equal `token` is the same, so that each process traces a program once. `digests`
    has one digest for each program if a store requires them. `has_x64` is the setting of the
    process in which the sweep began.
    """

    token: str
    function: Callable = dataclasses.field(compare=False)
    axes: Axes = dataclasses.field(compare=False)
    key_data: np.ndarray = dataclasses.field(compare=False)
    key_kind: str = dataclasses.field(compare=False)
    has_x64: bool = dataclasses.field(compare=False)
    digests: tuple[str, ...] | None = dataclasses.field(default=None, compare=False)

    @staticmethod
    def of(function: Callable, axes: Axes, key: Key[Array, ""]) -> "Work":
        """Make the work of a new sweep."""
        has_x64 = bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]
        data, kind = np.asarray(jr.key_data(key)), str(jr.key_impl(key))
        return Work(uuid.uuid4().hex, function, axes, data, kind, has_x64)

    @property
    def key(self) -> str:
        """Kind and words of the key, as a text."""
        return " ".join(map(str, (self.key_kind, *self.key_data.ravel())))

    def with_digests(self) -> "Work":
        """Trace all programs, and return this work with their digests."""
        numbers = range(self.axes.num_combinations)
        found = tuple(program_of(self, number).digest() for number in numbers)
        return dataclasses.replace(self, digests=found)


@functools.lru_cache(maxsize=64)
def program_of(work: Work, combination: int) -> "CellProgram":
    """Trace a combination's program, once in each process; ValueError if its digest is wrong."""
    key = jr.wrap_key_data(jnp.asarray(work.key_data), impl=work.key_kind)
    program = CellProgram(work.function, work.axes, combination, key)
    if work.digests is not None and program.digest() != work.digests[combination]:
        raise ValueError(
            "expected the function to be the same program wherever it is traced, but combination "
            f"{combination} is another program here; start all processes from the same sources, or "
            "give version="
        )
    return program


def compute(work: Work, combination: int, start: int, stop: int, size: int) -> Shard:
    """Compute cells `start` to `stop` of a combination, with a program for `size` cells."""
    with x64(work.has_x64):
        program = program_of(work, combination)
        arrays = program.run(start, stop, size)
    return Shard(combination, start, stop, arrays, program.variables, versions_and_devices())


def versions_and_devices() -> dict[str, str]:
    """Versions and devices that numbers in this process come from, without host and paths."""
    devices = jax.local_devices()
    return {
        "jaxdp": version_of("jaxdp-lab"),
        "jax": jax.__version__,
        "jaxlib": version_of("jaxlib"),
        "python": platform.python_version(),
        "device": f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})",
    }


def default_size(axes: Axes) -> int:
    """Default number of cells in a shard: a share of all, within limits for the devices."""
    devices = jax.local_devices()
    kind = devices[0].platform if devices[0].platform in _FEWEST else "others"
    share = -(-axes.num_cells // _SHARE)
    return min(max(share, len(devices) * _FEWEST[kind]), len(devices) * _MOST[kind])


class CellProgram:
    """The function at one combination of looped values, for any number of cells.

    `variables` describes the results of the function.
    """

    variables: tuple[Variable, ...]

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
            # JAX's error for an unknown shape has no class of its own.
            is_jaxs = isinstance(error, jax.errors.JAXTypeError) or "concrete value" in str(error)
            if not is_jaxs:
                raise
            raise TypeError(
                f"expected {self._name} to be traceable by JAX: the values of axes given as arrays "
                f"({', '.join(axes.mapped) or 'none'}) and the key are traced, so int(), float(), "
                "if, range() and NumPy take none of them. Give an axis as a tuple, such as "
                '{"num_steps": (10, 100)}, to loop over its values instead'
            ) from error
        self._cell = jaxpr_as_fun(traced)
        self._compiled = jax.jit(self._on_devices(self._cells))

    def digest(self) -> str:
        """Return a digest of the operations and the results' names; ValueError if there is none."""
        # Two cells, because an operation may have a vmap rule of its own.
        indices = jax.ShapeDtypeStruct((2, len(self._axes.names)), jnp.int32)
        mapped = self._axes.mapped_types(2)
        try:
            return digest((jax.make_jaxpr(self._cells)(self._key, indices, mapped), self.variables))
        except UnreadableError as error:
            raise ValueError(
                "expected a function whose whole program a store can identify, but "
                f"{self._name} has {error} in it; give version=, a name that changes whenever the "
                "function does"
            ) from error

    def run(self, start: int, stop: int, size: int) -> dict[str, np.ndarray]:
        """Compute the variables of cells `start` to `stop`, with a program for `size` cells."""
        # Padded with the last cell, so that all shards and devices share one program.
        whole = -(-size // len(self._devices)) * len(self._devices)
        cells = np.minimum(np.arange(start, start + whole), stop - 1)
        indices = self._axes.indices(self._combination, cells)
        found = self._compiled(self._key, indices, self._axes.mapped_values(cells))
        return {
            variable.name: np.asarray(values)[: stop - start]
            for variable, values in zip(self.variables, found, strict=True)
        }

    def _cells(self, key, indices, mapped):
        keys = jax.vmap(lambda row: cell_key(key, *row))(indices)
        return jax.vmap(self._cell)(keys, *jax.tree.leaves(mapped))

    def _on_devices(self, function: Callable) -> Callable:
        """Shard a function of cells over the local devices."""
        if len(self._devices) == 1:
            return function
        mesh = jax.make_mesh(
            (len(self._devices),), ("cells",), axis_types=(AxisType.Auto,), devices=self._devices
        )
        along = PartitionSpec("cells")
        # Adaptive solvers fail the check.
        specs = {"in_specs": (PartitionSpec(), along, along), "out_specs": along}
        return jax.shard_map(function, mesh=mesh, check_vma=False, **specs)


def as_dataset(axes: Axes, shards: Sequence[Shard], attrs: Mapping[str, str]) -> "xarray.Dataset":
    """Join shards of equal forms into a dataset; for a cell in two shards the later one counts.

    If cells are missing, their values are NaN, and all numbers are floats.
    """
    import xarray

    coordinates = axes.coordinates()
    # A shard's cells are numbered with the looped axes first.
    lengths = {name: len(values) for name, values in {**axes.looped, **axes.mapped}.items()}
    done = np.zeros((axes.num_combinations, axes.num_cells), bool)
    for shard in shards:
        done[shard.combination, shard.start : shard.stop] = True
    variables = {}
    for variable in shards[0].variables:
        first = shards[0].arrays[variable.name]
        flat = np.zeros((*done.shape, *first.shape[1:]), first.dtype)
        for shard in shards:
            flat[shard.combination, shard.start : shard.stop] = shard.arrays[variable.name]
        if not done.all():
            flat = flat.astype(float)
            flat[~done] = np.nan
        whole = flat.reshape(*lengths.values(), *first.shape[1:])
        made = xarray.Variable((*lengths, *variable.dims), whole, dict(variable.attrs))
        variables[variable.name] = made.transpose(*coordinates, *variable.dims)
    labelled = {
        name: xarray.Variable((name,), values, {"units": "1"} if values.dtype.kind in "iuf" else {})
        for name, values in coordinates.items()
    }
    # The time of a Trajectory is a coordinate if all cells share it.
    if any(v.name == "time" and v.dims == ("record",) for v in shards[0].variables):
        first = variables["time"].isel(dict.fromkeys(coordinates, 0))
        if (variables["time"] == first).all():
            labelled["time"] = first
            del variables["time"]
    facts = {"units": "dimensionless unless a variable says otherwise", **attrs}
    # Machines may differ: all values of a fact, separated by semicolons.
    for fact in shards[0].provenance:
        facts[fact] = "; ".join(sorted({str(shard.provenance.get(fact)) for shard in shards}))
    return xarray.Dataset(variables, labelled, facts)


def variables_of(
    result: Any, axis_names: Sequence[str]
) -> tuple[tuple[Variable, ...], list[Array]]:
    """Descriptions and values of the variables that the function returned for one cell."""
    if isinstance(result, Trajectory):
        found = variables_of_trajectory(result)
    elif isinstance(result, dict):
        arrays = {name: _as_array(name, value) for name, value in result.items()}
        found = [
            (Variable(name, tuple(f"{name}_dim_{axis}" for axis in range(array.ndim))), array)
            for name, array in arrays.items()
        ]
    else:
        raise TypeError(
            "expected the function to return a dict of arrays, such as {'risk': ...}, or a "
            f"Trajectory, got {type(result).__name__}"
        )
    dims = {dim for variable, _ in found for dim in variable.dims}
    names = [*(variable.name for variable, _ in found), *dims, *axis_names]
    if not found or len({*names}) < len(names):
        raise ValueError(
            "expected the function to return at least one array, with names that differ, also from "
            f"those of axes and of dimensions, got {', '.join(names)}"
        )
    variables = tuple(variable for variable, _ in found)
    return variables, [_as_array(variable.name, value) for variable, value in found]


def _as_array(name: str, value: Any) -> Array:
    require_kind("each name that the function returns", name, str, "a string")
    is_no_array = isinstance(value, (Trajectory, dict, list, tuple, str, bytes))
    try:
        array = None if is_no_array else jnp.asarray(value)
    except (TypeError, ValueError):
        array = None
    if array is None or jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        raise TypeError(
            f"expected {name} to be an array of numbers, got {type(value).__name__}; return each "
            "array under a name of its own"
        )
    is_narrow = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize < 4
    return array.astype(jnp.float32) if is_narrow else array
