"""Axes of a sweep: their values, and the numbering of cells."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, Key

from jaxdp.core.checks import require_count, require_key, require_kind
from jaxdp.core.digests import label
from jaxdp.core.keys import numbered_key


@dataclasses.dataclass(frozen=True)
class Axes:
    """Named axes, looped if given as tuples and vmapped if given as arrays.

    One value from each looped axis makes a *combination*, which has a program of its own. One value
    from each mapped axis makes a *cell* of the combination. Both are numbered in the order of
    `names`, the last axis fastest.
    """

    looped: Mapping[str, tuple]
    mapped: Mapping[str, np.ndarray]
    names: tuple[str, ...]

    @property
    def num_combinations(self) -> int:
        """Number of programs."""
        return math.prod(map(len, self.looped.values()))

    @property
    def num_cells(self) -> int:
        """Number of cells in a combination."""
        return math.prod(map(len, self.mapped.values()))

    def looped_values(self, combination: int) -> dict[str, Any]:
        """Values of a combination by axis."""
        places = _places(self.looped, combination)
        return {name: values[places[name]] for name, values in self.looped.items()}

    def mapped_types(self, *shape: int) -> dict[str, jax.ShapeDtypeStruct]:
        """Types of the mapped values in the program, for one cell or for cells of a shape."""
        return {
            name: jax.ShapeDtypeStruct(shape, _device_type(values.dtype))
            for name, values in self.mapped.items()
        }

    def mapped_values(self, cells: np.ndarray) -> dict[str, np.ndarray]:
        """Mapped values of some cells by axis."""
        places = _places(self.mapped, cells)
        return {
            name: values[places[name]].astype(_device_type(values.dtype))
            for name, values in self.mapped.items()
        }

    def indices(self, combination: int, cells: np.ndarray) -> Int[np.ndarray, "cells axes"]:
        """Indices of cells along every axis, in the order of the axes."""
        places = _places(self.looped, combination) | _places(self.mapped, cells)
        columns = [np.broadcast_to(places[name], len(cells)) for name in self.names]
        return np.stack(columns, axis=-1).astype(np.int32)

    def coordinates(self) -> dict[str, np.ndarray]:
        """Coordinates of the result."""
        return {
            name: self.mapped[name] if name in self.mapped else _labels(self.looped[name])
            for name in self.names
        }


def as_axes(axes: Any) -> Axes:
    """Check the axes that a user gave."""
    require_kind("axes", axes, Mapping, "a dict of names to values")
    for name in axes:
        require_kind("each name in axes", name, str, "a string")
    if not axes or "key" in axes:
        raise ValueError(
            'expected at least one axis, and none called "key", the argument for random keys, got '
            f"{list(axes)}"
        )
    looped, mapped = {}, {}
    for name, values in axes.items():
        if isinstance(values, tuple):
            looped[name] = values
            if is_plain(values) and len({*values}) < len(values):
                raise ValueError(f"expected values of axis {name} that differ, got {values}")
        elif isinstance(values, (np.ndarray, jax.Array)):
            mapped[name] = _checked_array(name, values)
        else:
            raise TypeError(
                f"expected axis {name} to be an array (vmapped) or a tuple (looped, one "
                f"compilation per value), got {type(values).__name__}"
            )
        if len(values) == 0:
            raise ValueError(f"expected axis {name} to have values, got none")
    return Axes(looped, mapped, tuple(axes))


def cell_key(key: Key[Array, ""], *indices: Any) -> Key[Array, ""]:
    """The key that `jaxdp.sweep` gives to the function in one cell.

    It does not depend on the lengths of the axes, on shards or on devices.

    Args:
        key: the sweep's `jax.random.key`.
        *indices: index of the cell along each axis, in the order of the sweep's `axes`.

    Returns:
        A `jax.random.key`.

    Raises:
        TypeError: `key` is not a `jax.random.key`, or an index is not a whole number.
        ValueError: an index is negative.

    Example:
        >>> import jax
        >>> from jaxdp.sweeps import cell_key
        >>> key = cell_key(jax.random.key(0), 2, 5)
        >>> key.shape, bool(key == cell_key(jax.random.key(0), 5, 2))
        ((), False)
    """
    require_key(key)
    for place, index in enumerate(indices):
        # A JAX array may be traced.
        if not isinstance(index, jax.Array):
            require_count(f"index {place}", index, least=0)
        key = numbered_key(key, index)
    return key


def _device_type(dtype: Any) -> np.dtype:
    """The type that JAX converts a type to, which depends on jax_enable_x64."""
    return jax.dtypes.canonicalize_dtype(dtype)


def _places(axes: Mapping[str, Any], number: Any) -> dict[str, Any]:
    """Indices along each axis, from the number of a combination or the numbers of cells."""
    shape = [len(values) for values in axes.values()]
    return dict(zip(axes, np.unravel_index(number, shape) if shape else (), strict=True))


def is_plain(values: Sequence[Any]) -> bool:
    """Return True if looped values are numbers or texts, which are their own coordinates."""
    kinds = {type(value) for value in values}
    return kinds == {bool} or kinds == {str} or kinds <= {int, float, np.float64, np.int64}


def _labels(values: Sequence[Any]) -> np.ndarray:
    if is_plain(values):
        return np.asarray(values)
    names = [label(value) for value in values]
    # Different objects may have the same label.
    return np.asarray([f"{n} [{i}]" if names.count(n) > 1 else n for i, n in enumerate(names)])


def _checked_array(name: str, values: Any) -> np.ndarray:
    """The values of a vmapped axis, in their own precision."""
    # The type of JAX's keys has no kind.
    is_number = getattr(values.dtype, "kind", None) in tuple("biuf")
    if isinstance(values, (Tracer, np.ma.MaskedArray)) or not is_number:
        raise TypeError(
            f"expected axis {name} to be an array of concrete real numbers, got "
            f"{type(values).__name__} of {values.dtype}; use a tuple for other values, and call a "
            "sweep outside jit, vmap and grad"
        )
    array = np.asarray(values)
    if array.ndim != 1 or np.isnan(array).any():
        got = f"{int(np.isnan(array).sum())} NaN" if array.ndim == 1 else array.shape
        raise ValueError(f"expected axis {name} of shape (values,) without NaN, got {got}")
    with np.errstate(over="ignore"):
        held = array.astype(_device_type(array.dtype))
    is_exact = array.dtype.kind in "biu"
    is_lost = held != array if is_exact else np.isfinite(array) & ~np.isfinite(held)
    if is_lost.any():
        raise ValueError(
            f"expected values of axis {name} that {held.dtype} can hold, got "
            f"{array[is_lost][0]}; enable jax_enable_x64 or use a tuple"
        )
    found, counts = np.unique(held, return_counts=True)
    if (counts > 1).any():
        twice = found[counts > 1][0]
        raise ValueError(
            f"expected values of axis {name} that differ in {held.dtype}, got {twice} twice"
        )
    return array
