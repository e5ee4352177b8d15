"""Every optional package that is missing is named, with the command that brings it."""

import json
import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

from jaxdp.core.packages import require_extra

ROOT = pathlib.Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Module and package, where the names differ.
PACKAGES = {"sklearn": "scikit-learn", "dp_accounting": "dp-accounting"}
OPTIONAL = {"xarray", "h5py", "h5netcdf", "matplotlib", "pandas", "panel", *PACKAGES}

# Each call's missing package and extra; in one process, since importing jaxdp takes seconds.
CALLS = {
    "jaxdp.sweep(print, {}, key=jax.random.key(0))": ("xarray", "sweeps"),
    "jaxdp.estimators": ("sklearn", "data"),
    "jaxdp.explorer.page()": ("panel", "explore"),
    "from jaxdp.estimators import DPKernelRidge": ("sklearn", "data"),
    "jaxdp.plots.plot_images(np.zeros((1, 2, 2)))": ("matplotlib", "plots"),
    "jaxdp.plots.plot_comparison(runs, run)": ("matplotlib", "plots"),
    "run.plot()": ("matplotlib", "plots"),
    "run.to_xarray()": ("xarray", "sweeps"),
    "run.to_pandas()": ("pandas", "data"),
    "from jaxdp.data.datasets import read_table; read_table('t.csv', None)": ("pandas", "data"),
    "import optax; jaxdp.account(jaxdp.PrivateOptimiser(optax.sgd(.1), clip_norm=1., num_steps=9,"
    "noise_multiplier=1., sampler=jaxdp.privacy.PoissonSampler(100, .1)), delta=1e-5)": (
        "dp_accounting",
        "privacy",
    ),
}
_COMMANDS = {
    "compare --out o": ("matplotlib", "plots"),
    "plan --num-samples 100 --out o": ("matplotlib", "plots"),
    "compare --data t.csv --target y --out o": ("pandas", "data"),
    "account dp-sgd --noise-multiplier 1 --num-steps 9 --num-records 99 --sampling-rate .1": (
        "dp_accounting",
        "privacy",
    ),
    "sweep --out o": ("h5netcdf", "sweeps"),
    "explore --no-browser": ("panel", "explore"),
    "fit t.csv --epsilon 1 --delta 1e-5 --label-bound 1 --input-range 0:1 --out m.npz": (
        "sklearn",
        "data",
    ),
}
_BLOCKED = f"""
import json, sys
sys.modules.update(dict.fromkeys({OPTIONAL}))
import jax, numpy as np
import jaxdp
from jaxdp import cli
ones = np.ones((2, 3))
runs = jaxdp.Trajectory(ones[0], ones, ones[:, 0], np.zeros(2, int), {{}})
run = jaxdp.Trajectory(ones[0], ones[0], ones[0, 0], np.zeros((), int), {{}})
open("t.csv", "w").write("a,y\\n1,2\\n3,4\\n")
said = {{}}
for call in {list(CALLS)}:
    try:
        exec(call)
    except ModuleNotFoundError as error:
        said[call] = str(error)
for command in {list(_COMMANDS)}:
    print("\\n" + command, file=sys.stderr)
    assert cli.main(command.split()) == 2
print(json.dumps(said))
"""


def _is_named(message, module, extra):
    package = PACKAGES.get(module, module)
    return (
        f"{package} (the extra '{extra}')" in message
        and f'pip install -e ".[{extra}]" in a clone' in message
        and f'pip install "jaxdp-lab[{extra}]"' in message
    )


@pytest.mark.slow
def test_without_any_optional_package_each_is_named_with_a_command_that_brings_it(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", _BLOCKED],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    for call, missing in CALLS.items():
        assert _is_named(said.get(call, ""), *missing), call
    lines = iter(ran.stderr.strip().splitlines())
    for command, missing in _COMMANDS.items():
        assert command in lines
        assert _is_named(next(lines), *missing), command


def test_an_extra_that_is_named_brings_the_package():
    for module, extra in {*CALLS.values(), *_COMMANDS.values()}:
        brought = PROJECT["optional-dependencies"][extra]
        assert any(each.startswith(PACKAGES.get(module, module)) for each in brought)
    assert PROJECT["name"] == "jaxdp-lab"


def test_no_other_missing_module_is_taken_for_the_extra():
    with pytest.raises(ModuleNotFoundError) as raised, require_extra("matplotlib", "plots", "it"):
        import nowhere_to_be_found  # noqa: F401  # pyright: ignore[reportMissingImports]
    assert raised.value.name == "nowhere_to_be_found"
    with pytest.raises(KeyError), require_extra("matplotlib", "plots", "it"):
        raise KeyError
