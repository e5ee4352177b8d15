"""`jaxdp doctor`: what is installed, what JAX runs on, and whether known numbers come out.

The self-test asks for two numbers that are known without this machine: the front page's predicted
risk, solved in float64 elsewhere, and the epsilon of a Gaussian mechanism. A wrong one means that
an installed package, a driver or a device computes something else.
"""

import argparse
import importlib.metadata
import os
import pathlib
import platform
import re
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp.cli.output import as_json
from jaxdp.core.display.explanations import Explanation, Row, as_text
from jaxdp.core.version import installed_version

_CORE = ("jax", "jaxlib", "equinox", "diffrax", "lineax", "optax", "chex", "jaxtyping")
_CORE += ("numpy", "scipy")
_DISTRIBUTION = "jaxdp-lab"
# `LinearRegression.isotropic(1000, label_noise=0.3)` under the front page's algorithm, in float64;
# tests/unit/cli/test_cli_doctor.py solves the equation again with SciPy.
PREDICTED_RISK = 0.0972088555
# Of 1-GDP at delta = 1e-5: the root of Phi(1/2 - e) - exp(e) Phi(-1/2 - e) = delta.
GAUSSIAN_EPSILON = 4.3771780957
_RISK_TOLERANCE, _EPSILON_TOLERANCE = 2e-4, 1e-6
# Of docs/known_faults.md: the first and the last version of jaxlib with a fault on CPUs, and which.
_FAULTS = (
    ("0.10.0", "0.10.2", "vmapped decompositions can lock up a program of yours"),
    ("0.10.2", "0.11.2", "sums of products with a constant matrix can be wrong"),
)
_FAULTS_PAGE = "programs that show them, and what helps: docs/known_faults.md in the repository"
# Products of this many numbers show the precision of the device's multiplication.
_LENGTH = 256


class Answer(NamedTuple):
    """One number of the self-test: what is known, what came, and how far off it may be."""

    name: str
    expected: float
    found: float
    tolerance: float

    @property
    def is_right(self) -> bool:
        """Whether it came out to the relative tolerance."""
        return abs(self.found - self.expected) <= self.tolerance * self.expected


def doctor(options: argparse.Namespace) -> int:
    """Print what was found; 1 where a number of the self-test is wrong, else 0."""
    packages, optional = _versions(_CORE), _optional()
    found: dict[str, Any] = {
        "jaxdp": installed_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "devices": [{"name": str(each), "kind": each.device_kind} for each in jax.devices()],
        "precision": _precision(),
        "compilation_cache": _cache(),
        "known_faults": known_faults(packages["jaxlib"]),
        "optional": optional,
    }
    start = time.monotonic()
    answers = _answers()
    seconds = time.monotonic() - start
    is_well = all(answer.is_right for answer in answers)
    if options.json:
        tests = [{**answer._asdict(), "is_right": answer.is_right} for answer in answers]
        found |= {"self_test": tests, "self_test_seconds": seconds, "is_well": is_well}
        print(as_json(found))
        return 0 if is_well else 1
    versions = {name: found[name] for name in ("jaxdp", "python")} | packages
    devices = {each["name"]: each["kind"] for each in found["devices"]}
    tables = [
        Explanation("Versions", _rows(versions)),
        Explanation("Devices", _rows(devices)),
        Explanation("Precision", _rows(found["precision"])),
        Explanation("Compilation cache", _rows(found["compilation_cache"])),
        Explanation("Optional packages", tuple(map(_optional_row, optional)), _advice(optional)),
        Explanation(
            "Known faults of jaxlib on CPUs", _rows(found["known_faults"]), (_FAULTS_PAGE,)
        ),
        Explanation(f"Self-test, {seconds:.1f} s", tuple(map(_answer_row, answers))),
    ]
    print(*(as_text(table) for table in tables if table.rows), sep="\n")
    wrong = "a number is wrong: the results of this machine are not to be trusted"
    print("all is well" if is_well else wrong)
    return 0 if is_well else 1


def _versions(names: Iterable[str]) -> dict[str, str | None]:
    """The installed version of each package, None of one that is missing."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _optional() -> list[dict[str, Any]]:
    """The packages that extras bring, as the installed distribution says."""
    try:
        required = importlib.metadata.requires(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        required = []
    extras: dict[str, list[str]] = {}
    for line in required:
        match = re.match(r"([\w.-]+).*;.*extra\s*==\s*['\"]([\w-]+)['\"]", line)
        if match and match[1] != _DISTRIBUTION:
            extras.setdefault(match[1], []).append(match[2])
    versions = _versions(extras)
    return [{"package": name, "version": versions[name], "extras": extras[name]} for name in extras]


def known_faults(jaxlib: str | None) -> dict[str, str]:
    """The faults of a version of jaxlib that docs/known_faults.md describes, by their versions."""

    def number(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", version)[:3])

    return {
        first if first == last else f"{first} to {last}": fault
        for first, last, fault in _FAULTS
        if number(first) <= number(jaxlib or "0") <= number(last)
    }


def _precision() -> dict[str, Any]:
    """The width of numbers, and how exactly the device multiplies matrices by default."""
    default = jnp.asarray(np.random.default_rng(0).normal(size=(_LENGTH, _LENGTH)))
    exact = np.asarray(default, np.float64) @ np.asarray(default, np.float64)
    error = np.abs(np.asarray(default @ default, np.float64) - exact).max() / np.abs(exact).max()
    return {
        "default float": str(default.dtype),
        "64-bit numbers": "on" if jax.config.values["jax_enable_x64"] else "off",
        "matmul precision": jax.config.values["jax_default_matmul_precision"] or "the device's",
        "matmul error": f"{error:.0e}",
    }


def _cache() -> dict[str, Any]:
    """Where compiled programs are kept."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    if not folder:
        return {"folder": None}
    path = pathlib.Path(folder)
    sizes = [entry.stat().st_size for entry in os.scandir(path)] if path.is_dir() else []
    return {"folder": str(folder), "programs": len(sizes), "megabytes": round(sum(sizes) / 1e6, 1)}


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


def _rows(found: dict[str, Any]) -> tuple[Row, ...]:
    return tuple(Row(k, "none" if v is None else str(v)) for k, v in found.items())


def _advice(optional: list[dict[str, Any]]) -> tuple[str, ...]:
    """How to get what is missing; nothing where nothing is."""
    missing = [each["extras"][0] for each in optional if each["version"] is None]
    extras = ",".join(dict.fromkeys(missing))
    line = f'pip install "{_DISTRIBUTION}[{extras}]" brings what is missing'
    return (line,) if missing else ()


def _optional_row(found: dict[str, Any]) -> Row:
    extras, more = ", ".join(found["extras"]), "s" * (len(found["extras"]) > 1)
    return Row(found["package"], found["version"] or "missing", f"of the extra{more} {extras}")


def _answer_row(answer: Answer) -> Row:
    verdict = "right" if answer.is_right else "WRONG"
    return Row(answer.name, f"{answer.found:.8g}", f"{verdict}: {answer.expected:.8g} is known")
