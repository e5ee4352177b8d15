"""The wheel, installed beside its core dependencies alone: the front page and the doctor run."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
# What pip says where no package index can be reached.
_OFFLINE = ("Could not find a version", "NewConnectionError", "Max retries", "No matching distrib")

_FRONT_PAGE = """
import importlib.util, jax, jaxdp

for module in ("matplotlib", "pandas", "xarray", "sklearn", "dp_accounting", "dask", "panel"):
    assert importlib.util.find_spec(module) is None, f"{module} is a core dependency now"

problem = jaxdp.LinearRegression.isotropic(dim=1000, label_noise=0.3)
algorithm = jaxdp.OnePassDPSGD(
    jaxdp.Polynomial(3.0, power=0.5), clip_scale=1.0, rho=1.0, num_steps=10_000
)
simulated = jaxdp.simulate(problem, algorithm, num_runs=10, key=jax.random.key(0))
predicted = jaxdp.predict(problem, algorithm)
cost = jaxdp.account(algorithm, delta=1e-5)
comparison = jaxdp.compare(simulated, predicted)
print(problem, algorithm, simulated, predicted, comparison, cost)
assert comparison.final_gap < 0.01, comparison
assert "<table>" in comparison._repr_html_()
assert "jaxdp-lab[plots]" in comparison._repr_html_()
"""


def _run(*command, folder, **options):
    # What the first of them compiles of Python's files, the others read.
    left_out = "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        timeout=1500,
        **options,
    )


def _installed(*command, folder):
    done = _run(*command, folder=folder)
    if done.returncode and any(words in done.stderr for words in _OFFLINE):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The folder with the programs of a new environment that the wheel was installed into."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip"]
    build = ["wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist"]
    _installed(*pip, *build, ROOT, folder=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    # The pip of this environment installs into that one, and only what is imported is compiled.
    _installed(sys.executable, "-m", "venv", "--without-pip", folder / "new", folder=folder)
    programs = folder / "new" / "bin"
    into = ["--python", programs / "python", "install", "--quiet", "--no-compile"]
    _installed(*pip, *into, wheel, folder=folder)
    return programs


@pytest.mark.slow
def test_the_front_page_runs(environment, tmp_path):
    done = _run(environment / "python", "-I", "-c", _FRONT_PAGE, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "initial_risk" in done.stdout


@pytest.mark.slow
def test_the_doctor_finds_the_core_well_and_every_extra_missing(environment, tmp_path):
    done = _run(environment / "jaxdp", "doctor", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("missing") >= 7
    assert 'pip install "jaxdp-lab[all]"' in done.stdout
    version = _run(environment / "jaxdp", "--version", folder=tmp_path)
    assert (version.returncode, version.stderr) == (0, "")
