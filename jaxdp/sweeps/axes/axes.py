"""The axes of a sweep: which values each takes, and how its cells are numbered.

The values of tuples are looped over: one choice of a value from each is a *combination*, which
has a program of its own. The values of arrays are vmapped: one choice from each is a *cell* of the
combination, numbered in the axes' order, the last fastest.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, Key

from jaxdp.core.checks import require_key, require_kind
from jaxdp.core.keys import numbered_key
from jaxdp.sweeps.axes.axis_values import checked_array, device_type, require_distinct
from jaxdp.sweeps.axes.labels import labels_of


@dataclasses.dataclass(frozen=True)
class Axes:
    """The named axes of a sweep.

    Attributes:
        looped: the axes given as tuples.
        mapped: the axes given as arrays, in the precision that was given.
        names: all axes, in the order given.
    """

    looped: Mapping[str, tuple]
    mapped: Mapping[str, np.ndarray]
    names: tuple[str, ...]

    @property
    def num_combinations(self) -> int:
        """How many programs there are."""
        return math.prod(len(values) for values in self.looped.values())

    @property
    def num_cells(self) -> int:
        """How many cells one combination has."""
        return math.prod(len(values) for values in self.mapped.values())

    def length(self, name: str) -> int:
        """How many values an axis has."""
        return len(self.looped[name]) if name in self.looped else len(self.mapped[name])

    def looped_values(self, combination: int) -> dict[str, Any]:
        """The looped values of a combination."""
        places = self._looped_places(combination)
        return {name: values[places[name]] for name, values in self.looped.items()}

    def mapped_types(self) -> dict[str, jax.ShapeDtypeStruct]:
        """What the function sees of the mapped axes."""
        return {
            name: jax.ShapeDtypeStruct((), device_type(values.dtype))
            for name, values in self.mapped.items()
        }

    def mapped_values(self, cells: np.ndarray) -> dict[str, np.ndarray]:
        """The mapped values of some cells."""
        places = self._mapped_places(cells)
        return {
            name: values[places[name]].astype(device_type(values.dtype))
            for name, values in self.mapped.items()
        }

    def indices(self, combination: int, cells: np.ndarray) -> Int[np.ndarray, "cells axes"]:
        """Each cell's index along every axis, in the axes' order."""
        places = self._mapped_places(cells) | {
            name: np.full(len(cells), place)
            for name, place in self._looped_places(combination).items()
        }
        columns = [places[name] for name in self.names]
        return np.stack(columns, axis=-1).astype(np.int32)

    def coordinates(self) -> dict[str, np.ndarray]:
        """The values by which the result is labelled."""
        return {
            name: self.mapped[name] if name in self.mapped else labels_of(self.looped[name])
            for name in self.names
        }

    def _looped_places(self, combination: int) -> dict[str, int]:
        shape = [len(values) for values in self.looped.values()]
        places = np.unravel_index(combination, shape) if shape else ()
        return {name: int(place) for name, place in zip(self.looped, places, strict=True)}

    def _mapped_places(self, cells: np.ndarray) -> dict[str, np.ndarray]:
        shape = [len(values) for values in self.mapped.values()]
        places = np.unravel_index(cells, shape) if shape else ()
        return dict(zip(self.mapped, places, strict=True))


def as_axes(axes: Any) -> Axes:
    """The axes that a user gave.

    Raises:
        TypeError: an axis is neither a tuple nor a one-dimensional array of numbers.
        ValueError: an axis is empty, is named "key", has a value twice, or has values that its type
            on the device cannot hold or cannot tell apart.
    """
    require_kind("axes", axes, Mapping, "a dict of names to values")
    for name in axes:
        require_kind("each name in axes", name, str, "a string")
    if not axes:
        raise ValueError("expected at least one axis, got none")
    if "key" in axes:
        raise ValueError('expected axes of other names than "key", which every cell is given')
    looped, mapped = {}, {}
    for name, values in axes.items():
        if isinstance(values, tuple):
            looped[name] = values
            require_distinct(name, values)
        elif isinstance(values, (np.ndarray, jax.Array)):
            mapped[name] = checked_array(name, values)
        else:
            raise TypeError(
                f"expected axis {name} to be an array (vmapped) or a tuple (looped, one "
                f"compilation per value), got {type(values).__name__}"
            )
        if len(values) == 0:
            raise ValueError(f"expected axis {name} to have values, got none")
    return Axes(looped, mapped, tuple(axes))


def cell_key(key: Key[Array, ""], *indices: Any) -> Key[Array, ""]:
    """The key of the cell at these indices along the axes, in the axes' order.

    It does not depend on how long the axes are, on shards or on devices.

    Args:
        key: of the sweep, a `jax.random.key`.
        *indices: of the cell, one for each axis.

    Returns:
        The key that `jaxdp.sweep` gives to the function in this cell.

    Raises:
        TypeError: `key` is no `jax.random.key`, or an index is not a whole number.
        ValueError: an index is negative; those from the end are not known here.

    Example:
        >>> import jax
        >>> from jaxdp.sweeps import cell_key
        >>> key = cell_key(jax.random.key(0), 2, 5)
        >>> key.shape, bool(key == cell_key(jax.random.key(0), 5, 2))
        ((), False)
    """
    require_key(key)
    for place, index in enumerate(indices):
        _require_index(f"index {place}", index)
        key = numbered_key(key, index)
    return key


def is_x64() -> bool:
    """Whether JAX keeps float64 here, in this thread."""
    return device_type(np.dtype(np.float64)) == np.float64


def _require_index(name: str, index: Any) -> None:
    is_array = isinstance(index, (np.ndarray, jax.Array)) and index.shape == ()
    dtype = getattr(index, "dtype", np.dtype(object))
    is_whole = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
    if not (is_whole or (is_array and jnp.issubdtype(dtype, jnp.integer))):
        raise TypeError(
            f"expected {name} to be a whole number, got {type(index).__name__}: {index}"
        )
    if not isinstance(index, Tracer) and index < 0:
        raise ValueError(f"expected {name} >= 0, got {index}")
