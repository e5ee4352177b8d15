"""A few numbers of a figure's smoke version, by which a change of the code is seen.

A result is of today's code if its smoke version still gives the numbers that it gave when the
result was made. Each variable of the smoke version is put into four numbers: mean, root mean
square, a mean with weights that change from entry to entry (the order counts), and the mean
logarithm of what is not zero (small entries count as much as large ones). All but the last are
compared relative to the root mean square.

Two processors round differently, and an attack of a thousand steps makes much of it. So a number is
compared to `RTOL` only where it does not change by that when rounding does: other instructions,
another number of threads, other optimisations of the compiler. How far it changes is measured by
`python -m experiments.rounding` and lies in `rounding.json`. Other versions of JAX or of NumPy are
not compared at all, nor is what a figure says in seconds or in bytes: how long something took and
how much memory a process had are other numbers each time.
"""

import hashlib
import importlib.metadata
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

RTOL = 1e-6
ROUNDING = pathlib.Path(__file__).parents[1] / "rounding.json"
# Units of what is measured of the machine, not computed by the code.
_MEASURED = ("s", "B")
_PACKAGES = ("jax", "jaxlib", "numpy", "scipy")
_STATISTICS = ("mean", "square", "wave", "log")

Fingerprint = dict[str, Any]
# By variable and by statistic; None for what says nothing.
Rounding = Mapping[str, Mapping[str, float | None] | None]


def fingerprint(dataset: xarray.Dataset) -> Fingerprint:
    """The numbers of a smoke version, its configuration, and the packages that computed them.

    Args:
        dataset: what `save` returned of a smoke version.
    """
    units = {str(name): one.attrs.get("units") for name, one in dataset.variables.items()}
    return {
        "config": json.loads(dataset.attrs["config"]),
        "packages": versions(),
        "measured": sorted(name for name, unit in units.items() if unit in _MEASURED),
        "variables": {
            name: _numbers(dataset.variables[name].values)
            for name, unit in units.items()
            if unit not in _MEASURED
        },
    }


def versions() -> dict[str, str]:
    """The packages that decide how numbers are rounded."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def differences(
    stored: Fingerprint,
    found: Fingerprint,
    rounding: Rounding | None = None,
) -> list[str]:
    """What differs by more than rounding explains, a line each.

    Args:
        stored: with a result.
        found: with today's code.
        rounding: by how much numbers change with rounding, by variable and statistic, where that
            is more than `RTOL`.
    """
    rounding = rounding or {}
    # A result may be older than the unit of what it measured.
    now = found["variables"]
    before = {
        name: one for name, one in stored["variables"].items() if name not in found["measured"]
    }
    lines = [f"{name}: only one of the two has it" for name in sorted(set(before) ^ set(now))]
    if stored["config"] != found["config"]:
        lines.append("the smoke version's configuration")
    for name in sorted(before.keys() & now.keys()):
        bounds = rounding.get(name, {})
        if bounds is None:
            continue
        one, other = before[name], now[name]
        if not alike(one, other):
            lines.append(f"{name}: {_exact(one)}, now {_exact(other)}")
            continue
        for statistic, distance in distances(one, other).items():
            bound = bounds.get(statistic, RTOL)
            if bound is not None and not distance <= bound:
                lines.append(
                    f"{name}: {statistic} {one[statistic]:.9g}, now {other[statistic]:.9g}, "
                    f"{distance:.1e} apart, where {bound:.0e} is rounding"
                )
    return lines


def alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two variables have the same shape, as many finite numbers, and the same words."""
    return _exact(one) == _exact(other)


def distances(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float]:
    """How far apart the numbers of two variables that are `alike` are, relative to their size.

    Args:
        one: of `Fingerprint["variables"]`.
        other: of another fingerprint's.
    """
    if "words" in one:
        return {}
    size = max(one["square"], other["square"])
    scales = dict.fromkeys(_STATISTICS, size) | {"log": 1.0}
    gaps = {name: abs(one[name] - other[name]) for name in _STATISTICS}
    return {name: gap / scales[name] if gap else 0.0 for name, gap in gaps.items()}


def _exact(variable: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in variable.items() if key not in _STATISTICS}


def _numbers(values: np.ndarray) -> dict[str, Any]:
    """Shape and statistics of an array; of one of words a hash."""
    shape = {"shape": list(values.shape)}
    if values.dtype.kind not in "fiub":
        words = hashlib.sha256("\0".join(map(str, values.ravel())).encode()).hexdigest()
        return shape | {"words": words[:12]}
    flat = values.ravel().astype(np.float64)
    finite = flat[np.isfinite(flat)]
    sizes = np.abs(finite[finite != 0])
    weights = np.cos(np.arange(1.0, 1 + finite.size))
    count = max(finite.size, 1)
    return shape | {
        "finite": int(finite.size),
        "mean": float(finite.sum() / count),
        "square": math.sqrt(float(finite @ finite) / count),
        "wave": float(weights @ finite / count),
        "log": float(np.log(sizes).mean()) if sizes.size else 0.0,
    }
