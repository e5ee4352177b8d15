"""Labelled arrays, whose axes a figure says once, and averages over independent runs."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray
from jaxtyping import ArrayLike

Axes = Mapping[str, Any]
Dims = str | tuple[str, ...]


def dataset(
    axes: Axes,
    variables: Mapping[Dims, Mapping[str, Any]],
    facts: Mapping[str, Any] | None = None,
) -> xarray.Dataset:
    """Variables on named axes.

    Args:
        axes: the values along each axis that has any.
        variables: for each tuple of axes (`()` for numbers), the variables on it: values by name.
        facts: attributes of the dataset (`attrs`).
    """
    values = {name: (dims, one) for dims, group in variables.items() for name, one in group.items()}
    return xarray.Dataset(values, _listed(axes), facts)


def empty(
    axes: Axes, variables: Mapping[Dims, Iterable[str]], facts: Mapping[str, Any] | None = None
) -> xarray.Dataset:
    """A dataset of NaN in float64, for measurements to be filled in.

    Args:
        axes: the values along every axis, or their number if they need no names.
        variables: for each tuple of axes, the names of the variables on it.
        facts: attributes of the dataset (`attrs`).
    """
    sizes = {name: one if isinstance(one, int) else len(one) for name, one in axes.items()}
    blank = {
        dims: {name: np.full([sizes[axis] for axis in _tuple(dims)], np.nan) for name in names}
        for dims, names in variables.items()
    }
    named = {name: one for name, one in axes.items() if not isinstance(one, int)}
    return dataset(named, blank, facts)


def in_units(dataset: xarray.Dataset, **units: str) -> xarray.Dataset:
    """The dataset, with the units of variables and axes that have one in their `attrs`."""
    for name, unit in units.items():
        dataset[name].attrs["units"] = unit
    return dataset


def over_runs(runs: ArrayLike) -> dict[str, np.ndarray]:
    """Mean, standard deviation and standard error of the mean along the leading axis (ddof 1)."""
    values = np.asarray(runs, np.float64)
    std = values.std(axis=0, ddof=1)
    return {"mean": values.mean(axis=0), "std": std, "standard_error": std / len(values) ** 0.5}


def standard_error(values: xarray.DataArray, axis: str) -> xarray.DataArray:
    """Standard error of the mean along an axis of independent runs (ddof 1); NaN marks no run."""
    return values.std(axis, ddof=1) / values.count(axis) ** 0.5


def _tuple(dims: Dims) -> tuple[str, ...]:
    return (dims,) if isinstance(dims, str) else dims


def _listed(axes: Axes) -> dict[str, Any]:
    """Values as lists or arrays: a tuple would be read as dimensions and values."""
    return {name: one if isinstance(one, np.ndarray) else list(one) for name, one in axes.items()}
