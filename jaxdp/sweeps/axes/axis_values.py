"""Checks of the values of a sweep's axis: concrete, and different from each other on the device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdp.sweeps.axes.labels import label
from jaxdp.sweeps.source.digests import digest
from jaxdp.sweeps.source.outside import UnreadableError


def checked_array(name: str, values: Any) -> np.ndarray:
    """The values of an axis that is vmapped, in the precision that was given.

    Raises:
        TypeError: they are no concrete real numbers.
        ValueError: they are not one-dimensional, or the device cannot hold or tell them apart.
    """
    if isinstance(values, Tracer):
        raise TypeError(
            f"expected axis {name} to have concrete values, got traced ones; a sweep compiles by "
            "itself: call it outside jit, vmap and grad"
        )
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"expected axis {name} to be an array, got a masked one; leave those out")
    if jnp.issubdtype(values.dtype, jax.dtypes.prng_key):
        raise TypeError(
            f"expected axis {name} to be numbers, got keys; each cell has a key of its own, made "
            "from key="
        )
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"expected axis {name} to be real numbers, got {array.dtype}; use a tuple for other "
            "values"
        )
    if array.ndim != 1:
        raise ValueError(f"expected axis {name} of shape (values,), got {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"expected axis {name} without NaN, got {int(np.isnan(array).sum())}")
    with np.errstate(over="ignore"):
        held = array.astype(device_type(array.dtype))
    exact = array.dtype.kind in "biu"
    is_lost = held != array if exact else np.isfinite(array) & ~np.isfinite(held)
    if is_lost.any():
        raise ValueError(
            f"expected values of axis {name} that {held.dtype} can hold, got "
            f"{array[is_lost][0]}; enable jax_enable_x64 or use a tuple"
        )
    _require_apart(name, array, held)
    return array


def _require_apart(name: str, given: np.ndarray, held: np.ndarray) -> None:
    """Raise ValueError where two values are one on the device."""
    order = np.argsort(held, kind="stable")
    equal = np.flatnonzero(held[order][1:] == held[order][:-1])
    if len(equal):
        first, second = sorted(order[equal[0] : equal[0] + 2])
        pair = f"{given[first]} and {given[second]} (number {first} and {second})"
        reason = "" if given[first] == given[second] else f", which are one number in {held.dtype}"
        raise ValueError(f"expected values of axis {name} that differ, got {pair}{reason}")


def require_distinct(name: str, values: tuple) -> None:
    """Raise ValueError where a value of an axis that is looped comes twice."""
    seen: dict[Any, int] = {}
    for place, value in enumerate(values):
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        # 1 and 1.0 have one coordinate; descriptions are equal where all that they hold is.
        try:
            mark = ("number", value) if number else ("other", digest(value))
        except UnreadableError:
            mark = ("one", id(value))
        first = seen.setdefault(mark, place)
        if first != place:
            raise ValueError(
                f"expected values of axis {name} that differ, got {label(value)} as number "
                f"{first} and {place}"
            )


def device_type(dtype: np.dtype) -> np.dtype:
    """The type that JAX gives to an array of this one: that depends on jax_enable_x64."""
    return jax.dtypes.canonicalize_dtype(dtype)
