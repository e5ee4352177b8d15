"""A few numbers of a figure's smoke version, by which a change of the code is seen.

A result is of today's code if its smoke version still gives the numbers that it gave when the
result was made. Each variable of the smoke version is put into four numbers: mean, root mean
square, a mean with weights that change from entry to entry (the order counts), and the mean
logarithm of the non-zero entries (small ones count as much as large ones). All but the last are
compared relative to the root mean square.

Two processors round differently, and an attack of a thousand steps magnifies the difference. So the
smoke version is run again for the saved fingerprint, by processes that round differently; if they
disagree on a variable only its shape is kept. The same holds for seconds and bytes, which change
from run to run. Numbers of other versions of JAX or of NumPy are not compared at all.
"""

import functools
import hashlib
import importlib.metadata
import json
import math
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from experiments import registry

RTOL = 1e-5
# Processes that round differently agree to this, so that one more agrees to RTOL.
_AGREEMENT = RTOL / 10
# Relative: configured numbers this near to each other are one, rounded by two processors.
_SAME = 1e-9
# Units of measurements of the machine, which the code does not compute.
_MEASURED = ("s", "B")
_PACKAGES = ("jax", "jaxlib", "numpy", "scipy")


def _has_avx512() -> bool:
    """Whether OpenBLAS for AVX-512 runs here; elsewhere it would end a process."""
    about = pathlib.Path("/proc/cpuinfo")
    return about.exists() and " avx512f " in about.read_text()


# The processor's own instructions; older ones on one thread in programs that are not optimised; and
# LAPACK as other processors run it, which decides whether some searches stall.
_ROUNDINGS: tuple[dict[str, str], ...] = (
    {},
    {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    },
    {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "OPENBLAS_CORETYPE": "Nehalem"},
    *[{"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "OPENBLAS_CORETYPE": "SkylakeX"}] * _has_avx512(),
)

Fingerprint = dict[str, Any]


def fingerprint(dataset: xarray.Dataset) -> Fingerprint:
    """The numbers of a smoke version, its configuration, and the packages that computed them.

    Args:
        dataset: a smoke version's dataset, as `save` returned it.
    """
    return {
        "config": json.loads(dataset.attrs["config"]),
        "packages": versions(),
        "variables": {
            str(name): _numbers(variable.values)
            for name, variable in dataset.variables.items()
            if variable.attrs.get("units") not in _MEASURED
        },
    }


def fingerprint_of(name: str) -> Fingerprint | None:
    """The fingerprint of a figure with today's code; None for a benchmark, which measures time.

    It belongs to the code, not to a device: the smoke version runs on the CPU.

    Args:
        name: name in the registry; other figures have no fingerprint.
    """
    if name not in [one.name for one in registry.FIGURES]:
        return None
    return functools.reduce(agreed, (_of_a_process(name, each) for each in _ROUNDINGS))


def agreed(one: Fingerprint, other: Fingerprint) -> Fingerprint:
    """The first fingerprint without the variables that rounding moves, as the second one shows."""
    variables = {
        name: _kept(numbers, other["variables"].get(name, {}))
        for name, numbers in one["variables"].items()
    }
    return one | {"variables": variables}


def _kept(numbers: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The shape alone of a variable that rounding moves; a tiny entry moves the logarithm alone."""
    apart = _apart(numbers, other, _AGREEMENT)
    left_out = {*numbers} - {"shape", "finite"} if {*apart} - {"log"} else {*apart}
    return {key: value for key, value in numbers.items() if key not in left_out}


def versions() -> dict[str, str]:
    """The packages that decide how numbers are rounded."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def alike(one: Any, other: Any) -> bool:
    """Whether two values that JSON holds are equal, numbers that are not whole to rounding.

    Processors round the last digit of a power differently, and with it a configuration's numbers.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float) and not math.isnan(one):
        # The neighbours of infinity and of zero are no share of them.
        largest, least = sys.float_info.max, sys.float_info.min
        one, other = (min(max(each, -largest), largest) for each in (one, other))
        return math.isclose(one, other, rel_tol=_SAME, abs_tol=least)
    return one == other or (one != one and other != other)


def differences(stored: Fingerprint, found: Fingerprint) -> list[str]:
    """Differences larger than rounding explains, a line each.

    Args:
        stored: fingerprint saved with a result; numbers that it leaves out are not compared.
        found: fingerprint of today's code.
    """
    before, now = stored["variables"], found["variables"]
    lines = [f"{name}: only one of the two has it" for name in sorted(set(before) ^ set(now))]
    if not alike(stored["config"], found["config"]):
        lines.append("the smoke version's configuration")
    for name in sorted(set(before) & set(now)):
        for key in _apart(before[name], now[name], RTOL):
            lines.append(f"{name}: {key} {before[name][key]}, now {now[name].get(key)}")
    return lines


def _apart(one: Mapping[str, Any], other: Mapping[str, Any], rtol: float) -> list[str]:
    """The entries of a variable's numbers that differ by more than the tolerance."""
    # A mean that is zero up to rounding is small against the numbers that it averages.
    size = max(one.get("square", 0.0), other.get("square", 0.0))
    tolerances = {"mean": rtol * size, "square": rtol * size, "wave": rtol * size, "log": rtol}
    return [
        key
        for key, value in one.items()
        if value != other.get(key)
        and not (key in tolerances and abs(value - other.get(key, math.inf)) <= tolerances[key])
    ]


def _of_a_process(name: str, rounding: dict[str, str]) -> Fingerprint:
    """The fingerprint that a process of the CPU with these variables of its environment prints."""
    words = [sys.executable, "-m", "experiments.smoke", name]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"} | rounding
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


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
