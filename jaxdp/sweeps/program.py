"""The programs of a sweep, and the dataset of what they compute.

A program is the function traced once for a combination of looped values, and vmapped over cells.
"""

import dataclasses
import functools
import math
import platform
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
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

# A shard is a share of the cells, so that a stop loses little; the fewest cells of each device
# keep it busy, and the most keep within its memory what usual cells need.
_SHARE = 16
_FEWEST, _MOST = {"cpu": 64, "others": 8192}, {"cpu": 4096, "others": 65536}


@dataclasses.dataclass(frozen=True)
class Shard:
    """Cells `start` to `stop` of a combination: their variables along a leading axis."""

    combination: int
    start: int
    stop: int
    arrays: Mapping[str, np.ndarray]
    variables: tuple[Variable, ...]
    provenance: Mapping[str, str]

    def forms(self) -> dict[str, str]:
        """Type and shape of each variable in a cell."""
        return {name: f"{array.dtype}{array.shape[1:]}" for name, array in self.arrays.items()}


@dataclasses.dataclass(frozen=True)
class Work:
    """All that a process needs to compute any shard of a sweep; it can be sent to others.

    Two of one `token` are the same work, so that each process traces a program once. The key is
    kept as numbers; `digests` are those of each combination's program, where a store is for these
    alone; `has_x64` is set as where the sweep began, which may differ in other processes.
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
        """The work of a sweep that begins here."""
        has_x64 = bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]
        data, kind = np.asarray(jr.key_data(key)), str(jr.key_impl(key))
        return Work(uuid.uuid4().hex, function, axes, data, kind, has_x64)

    @property
    def key(self) -> str:
        """Kind and numbers of the key."""
        return " ".join(map(str, (self.key_kind, *self.key_data.ravel())))

    def with_digests(self) -> "Work":
        """This work with the digests of its programs, all of which are traced for that."""
        numbers = range(self.axes.num_combinations)
        found = tuple(program_of(self, number).digest() for number in numbers)
        return dataclasses.replace(self, digests=found)


@functools.lru_cache(maxsize=64)
def program_of(work: Work, combination: int) -> "CellProgram":
    """A combination's program, traced once in each process.

    ValueError if it is not the one that a store is for, as in a process with other sources.
    """
    key = jr.wrap_key_data(jnp.asarray(work.key_data), impl=work.key_kind)
    program = CellProgram(work.function, work.axes, combination, key)
    if work.digests is not None and program.digest() != work.digests[combination]:
        raise ValueError(
            "expected the function to be the same program wherever it is traced, but combination "
            f"{combination} has become another one; start all processes from the same sources, or "
            "give version= to decide that yourself"
        )
    return program


def compute(work: Work, combination: int, start: int, stop: int, size: int) -> Shard:
    """Compute cells `start` to `stop` of a combination, by a program for `size` cells."""
    with x64(work.has_x64):
        program = program_of(work, combination)
        arrays = program.run(start, stop, size)
    return Shard(combination, start, stop, arrays, program.variables, versions_and_devices())


def versions_and_devices() -> dict[str, str]:
    """How numbers are made in this process: versions and devices, but no host and no path."""
    devices = jax.local_devices()
    return {
        "jaxdp": version_of("jaxdp-lab"),
        "jax": jax.__version__,
        "jaxlib": version_of("jaxlib"),
        "python": platform.python_version(),
        "device": f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})",
    }


def default_size(axes: Axes) -> int:
    """Cells of a shard if nobody says: a share of all, within limits for this process's devices."""
    devices = jax.local_devices()
    kind = devices[0].platform if devices[0].platform in _FEWEST else "others"
    share = -(-axes.num_cells // _SHARE)
    return min(max(share, len(devices) * _FEWEST[kind]), len(devices) * _MOST[kind])


class CellProgram:
    """The function at one combination of the looped values, for any number of cells."""

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
        self._compiled = jax.jit(self._on_devices(self._cells))

    def digest(self) -> str:
        """A digest of what is computed, and under which names; ValueError if it calls the host.

        The digest is that of two cells, because an operation may have a vmap rule of its own.
        """
        indices = jax.ShapeDtypeStruct((2, len(self._axes.names)), jnp.int32)
        kinds = self._axes.mapped_types().items()
        mapped = {name: jax.ShapeDtypeStruct((2,), kind.dtype) for name, kind in kinds}
        try:
            return digest((jax.make_jaxpr(self._cells)(self._key, indices, mapped), self.variables))
        except UnreadableError as error:
            raise ValueError(
                "expected a function whose whole program a store can tell from others, but "
                f"{self._name} has {error} in it; give version=, a name that changes whenever the "
                "function does"
            ) from error

    def run(self, start: int, stop: int, size: int) -> dict[str, np.ndarray]:
        """The variables of cells start to stop, by a program for `size` of them."""
        # The last shard, and the last device, repeat a cell, so that one program does them all.
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


def as_dataset(
    coordinates: Mapping[str, np.ndarray],
    looped: Collection[str],
    shards: Sequence[Shard],
    attrs: Mapping[str, str],
) -> "xarray.Dataset":
    """The result of a sweep, from shards that are alike; of several with a cell the last counts.

    `coordinates` has the values of each axis, and `looped` the names of those that were looped. If
    cells are missing, numbers become floats, and the missing ones are NaN.
    """
    import xarray

    # Combinations come first in a shard's numbering, then cells.
    ordered = sorted(coordinates, key=lambda name: name not in looped)
    lengths = {name: len(coordinates[name]) for name in ordered}
    combinations = math.prod(lengths[name] for name in looped)
    cells = math.prod(lengths.values()) // combinations
    done = np.zeros((combinations, cells), bool)
    for shard in shards:
        done[shard.combination, shard.start : shard.stop] = True
    variables = {}
    for variable in shards[0].variables:
        first = shards[0].arrays[variable.name]
        flat = np.zeros((combinations, cells, *first.shape[1:]), first.dtype)
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
    # A Trajectory's clock is a coordinate of its records if all cells share it.
    if any(v.name == "time" and v.dims == ("record",) for v in shards[0].variables):
        first = variables["time"].isel(dict.fromkeys(coordinates, 0))
        if (variables["time"] == first).all():
            labelled["time"] = first
            del variables["time"]
    facts = {"units": "dimensionless unless a variable says otherwise", **attrs}
    # Machines may differ in these: each fact's values, with semicolons between.
    for fact in shards[0].provenance:
        facts[fact] = "; ".join(sorted({str(shard.provenance.get(fact)) for shard in shards}))
    return xarray.Dataset(variables, labelled, facts)


def variables_of(
    result: Any, axis_names: Sequence[str]
) -> tuple[tuple[Variable, ...], list[Array]]:
    """The variables that the function returned for one cell: descriptions and values."""
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
            f"expected {name} to be an array of numbers, got {type(value).__name__}; return the "
            "arrays that it holds under names of their own"
        )
    is_narrow = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize < 4
    return array.astype(jnp.float32) if is_narrow else array
