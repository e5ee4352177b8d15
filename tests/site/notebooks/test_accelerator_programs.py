"""What the notebooks compile can be compiled for a TPU and a GPU, and what cannot is noticed."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
pytestmark = pytest.mark.slow

# What needs float64, which a TPU has not: float64 there is two float32 numbers.
_WIDE = """
import numpy as np
from jaxdp.attacks import RandomFeaturesTarget, reconstruct, span_residual
from jaxdp.core.numerics.precision import x64
from jaxdp.kernels import Gaussian
from jaxdp.kernels.evaluation import host_gram
draw = np.random.default_rng(0).normal
host_gram(Gaussian(1.0), draw(size=(5, 2)), draw(size=(5, 2)))
target = RandomFeaturesTarget(draw(size=(40, 3)), jax.nn.relu, draw(size=40))
span_residual(draw(size=(2, 3)), draw(size=(2, 3)), target)
reconstruct(target, 2, key=jax.random.key(0), max_passes=2)
jaxdp.OnePassDPSGD(lambda time: 2 + jnp.cos(time), clip_scale=1.0, rho=1.0, num_steps=5)
jaxdp.problems.hermite_coefficients(jnp.tanh, 3)
"""
_WRONG = {
    "schur": "jax.jit(jax.lax.linalg.schur)(jnp.eye(3))",
    "eig": "jnp.linalg.eig(jnp.eye(3))",
    "wide": "with x64():\n    jax.jit(lambda wide: wide + 1)(jnp.ones(3))",
    # As a sweep compiles.
    "lowered": "jax.jit(jax.lax.linalg.schur).lower(jnp.eye(2))",
}
_RUN = """
import json, sys
import accelerator_programs
programs = accelerator_programs.watched()
import jax, jax.numpy as jnp
names, found, given = {}, {}, {}
for name, source in json.load(sys.stdin).items():
    first, clean = len(programs.names), len(programs.faults)
    exec(compile(source, name, "exec"), given)
    found[name] = programs.names[first:], programs.faults[clean:]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    """Of each piece of code: names of its programs, and what is wrong with them."""
    cells = json.loads((ROOT / "notebooks" / "01_quickstart.ipynb").read_text("utf-8"))["cells"]
    code = {cell["id"]: "".join(cell["source"]) for cell in cells}
    device = code["device"].replace(
        "%matplotlib inline", "import matplotlib; matplotlib.use('agg')"
    )
    pieces = {"device": device, "front-page": code["front-page"], "float64": _WIDE, **_WRONG}
    paths = os.pathsep.join([str(HERE), str(ROOT)])
    # A callback is lowered for the device that is here, whatever is asked for.
    environment = os.environ | {"PYTHONPATH": paths, "EQX_ON_ERROR": "nan"}
    ran = subprocess.run(
        [sys.executable, "-c", _RUN],
        input=json.dumps(pieces),
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_the_front_page_can_be_compiled_for_a_tpu_and_a_gpu(found):
    names, faults = found["front-page"]
    assert {"advance", "_solve"} <= set(names)
    assert faults == []


def test_what_needs_float64_is_computed_on_the_host_of_a_tpu(found):
    names, faults = found["float64"]
    assert names
    assert faults == []


@pytest.mark.parametrize("name", _WRONG)
def test_what_an_accelerator_lacks_is_noticed(found, name):
    _, faults = found[name]
    assert faults
    assert all(("float64" if name == "wide" else "not found for platform") in one for one in faults)
