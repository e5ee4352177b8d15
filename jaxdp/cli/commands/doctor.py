"""`jaxdp doctor`: installed packages, devices and a self-test.

The self-test computes two known numbers: the front page's predicted risk, solved in float64
elsewhere, and the epsilon of a Gaussian mechanism. If one is wrong, an installed package, a driver
or a device is at fault.
"""

import argparse
import contextlib
import importlib.metadata
import platform
import re
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxdp
from jaxdp.cli.output import as_json
from jaxdp.core.packages import version_of

_CORE = ("jax", "jaxlib", "equinox", "diffrax", "lineax", "optax", "chex", "jaxtyping")
_CORE += ("numpy", "scipy")
_OPTIONAL = ("matplotlib", "pandas", "scikit-learn", "dp-accounting", "xarray", "h5netcdf")
_OPTIONAL += ("panel", "bokeh", "dask", "ipywidgets")
# The front page's problem and algorithm; tests/unit/cli/test_cli_doctor.py solves it with SciPy.
PREDICTED_RISK = 0.0972088555
# Epsilon of 1-GDP at delta = 1e-5: the root of Phi(1/2 - e) - exp(e) Phi(-1/2 - e) = delta.
GAUSSIAN_EPSILON = 4.3771780957
_RISK_TOLERANCE, _EPSILON_TOLERANCE = 2e-4, 1e-6
# First and last version of jaxlib with a fault on CPUs, and the fault: see docs/known_faults.md.
_FAULTS = (
    ("0.10.0", "0.10.2", "vmapped decompositions can lock up a program of yours"),
    ("0.10.2", "0.12.0.1", "sums of products with a constant matrix can be wrong"),
    ("0.10.2", "0.10.2", "sums of products of repeated arrays can be wrong"),
)


class Answer(NamedTuple):
    """One number of the self-test, with its relative tolerance."""

    name: str
    expected: float
    found: float
    tolerance: float

    @property
    def is_right(self) -> bool:
        """Return True if the number agrees to the tolerance."""
        return abs(self.found - self.expected) <= self.tolerance * self.expected


def doctor(options: argparse.Namespace) -> int:
    """Print the report; return 1 if a number of the self-test is wrong, else 0."""
    packages = _versions(_CORE)
    found: dict[str, Any] = {
        "jaxdp": version_of(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "devices": {str(each): each.device_kind for each in jax.devices()},
        "precision": {
            "default float": str(jnp.zeros(1).dtype),
            "matmul precision": jax.config.values["jax_default_matmul_precision"] or "the device's",
        },
        "compilation_cache": jax.config.values["jax_compilation_cache_dir"] or "none",
        "known_faults": known_faults(packages["jaxlib"]),
        "optional": _versions(_OPTIONAL),
    }
    start = time.monotonic()
    answers = _answers()
    found["self_test_seconds"] = round(time.monotonic() - start, 1)
    is_well = all(answer.is_right for answer in answers)
    if options.json:
        tests = [{**answer._asdict(), "is_right": answer.is_right} for answer in answers]
        print(as_json(found | {"self_test": tests, "is_well": is_well}))
        return 0 if is_well else 1
    for title, value in found.items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for name, text in rows:
            print(f"{title.replace('_', ' '):18} {name:22} {text or 'missing'}")
    for each in answers:
        verdict = "right" if each.is_right else f"WRONG: {each.expected:.8g} is known"
        print(f"{each.name:41} {each.found:.8g} {verdict}")
    if None in found["optional"].values():
        print('pip install "jaxdp-lab[all]" installs every missing package')
    wrong = "a number is wrong: the results of this machine are not to be trusted"
    print("all is well" if is_well else wrong)
    return 0 if is_well else 1


def _versions(names: tuple[str, ...]) -> dict[str, str | None]:
    """Return the installed version of each package, None if it is missing."""
    found: dict[str, str | None] = dict.fromkeys(names)
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def known_faults(jaxlib: str | None) -> dict[str, str]:
    """Return the known faults of a version of jaxlib, by the versions that have them."""

    def number(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", version)[:3])

    return {
        first if first == last else f"{first} to {last}": fault
        for first, last, fault in _FAULTS
        if number(first) <= number(jaxlib or "0") <= number(last)
    }


def _answers() -> list[Answer]:
    problem = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3)
    schedule = jaxdp.Polynomial(3.0, power=0.5)
    algorithm = jaxdp.OnePassDPSGD(schedule, clip_scale=1.0, rho=1.0, num_steps=10_000)
    risk = float(jaxdp.predict(problem, algorithm, records=1).final_risk)
    epsilon = float(jaxdp.account(algorithm, delta=1e-5).epsilon)
    return [
        Answer("predicted risk of the front page", PREDICTED_RISK, risk, _RISK_TOLERANCE),
        Answer("epsilon of 1-GDP at 1e-5", GAUSSIAN_EPSILON, epsilon, _EPSILON_TOLERANCE),
    ]
