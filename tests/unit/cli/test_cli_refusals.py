"""Bad input ends with one line and status 2, a defect of the toolkit with its traceback."""

import ast
import pathlib
import re
import shlex
from unittest import mock

import jax
import numpy as np
import pytest
from cli_tables import written

import jaxdp
from jaxdp import cli
from jaxdp.core.checks import NotCoveredError

SHORT = {
    "BATCHES": "dp-sgd --num-steps 10 --num-records 100 --noise-multiplier 4",
    "BUDGET": "--epsilon 8 --delta 1e-5",
    "RANGE": "--input-range 0:10",
    "REGRESSION": "--epsilon 8 --delta 1e-5 --input-range 0:10 --label-bound 1",
    "CLASSES": "--epsilon 8 --delta 1e-5 --input-range 0:10 --classify --classes",
    "FIT": "fit kinds.csv --epsilon 8 --delta 1e-5 --input-range 0:10 --target kind --classify",
    "MANY": str(10**12),
}
ALWAYS = {
    **{name: ["--out", "out"] for name in ("compare", "plan", "reconstruct")},
    "sweep": ["--out", "out", "--dim", "20"],
    "fit": ["--out", "never.npz"],
    "explore": ["--no-browser"],
}
# A command, and what its line says.
REFUSED = """\
compare --dim two | --dim: invalid int value: 'two'
compare --data nowhere.csv --dim 3 | --dim describes synthetic data
compare --seed -1 | expected 0 <= seed < 2^63, got -1
compare --num-steps 3000000000 | one pass
compare --dim MANY | fewer than 2^31 numbers in all runs
plan --epsilon 2 --rho 1 | not allowed with argument
plan --target-risk .1 | expected with --target-risk a budget
account | the following arguments are required: ALGORITHM
account one-pass | one of the arguments --epsilon --budget --rho is required
account one-pass --budget tpr=0.01@0.05 | expected 0 < at < rate = 0.01, got 0.05
account one-pass --budget auc=0.6 | expected advantage=A, tpr=RATE@FPR
account one-pass --budget tpr=5%@1% | expected advantage=A, tpr=RATE@FPR
fit --epsilon 1 | one of the arguments table --data is required
fit table.csv --epsilon 0 --delta 1e-5 --label-bound 1 --input-bound 1 | epsilon
fit table.csv BUDGET | --label-bound or --classify; and --input-range
fit table.csv REGRESSION --target x | no column 'x'
fit table.csv REGRESSION --drop a,b | no input column besides
fit table.csv BUDGET --label-bound 1 --input-range 3:2 | finite low < high
fit table.csv BUDGET --label-bound 1 --input-range crossed.csv | low < high of column 'b', got 9
fit table.csv REGRESSION --classes 0,1 | expected --classify and --classes A,B together
fit table.csv BUDGET RANGE --additive | --additive needs --columns
fit table.csv CLASSES=0 | expected two --classes
fit table.csv CLASSES=a,b | expected 'a' or 'b' in column 'y', got 60 other labels, the first
fit table.csv CLASSES=a,b --intercept-share .1 | --intercept-share does not go with --classify
fit table.csv REGRESSION --out nowhere/model.npz | in a folder that exists
fit table.csv REGRESSION --num-features MANY | numbers in the sample paths
FIT --classes high,low --epsilon 5e-324 | expected an epsilon that some ridge is enough for
fit kinds.csv REGRESSION --target kind | the target 'kind' holds text
fit holes.csv REGRESSION | missing or infinite values (1 in the first, from data row 5)
fit twice.csv REGRESSION | twice.csv: expected names of columns that differ, got 'a' twice
fit single.csv REGRESSION | with 1 sample(s) (shape=(1, 1)) while a minimum of 2 is required
predict none.npz table.csv | none.npz: no such file
predict text.npz table.csv | text.npz: 
sweep --clip-scale 0,1 | clip_scale > 0, got 0.0
reconstruct --num-features 10 | expected more features than samples, got p = 10 and n = 10
reconstruct model.npz | expected --num-samples
reconstruct model.npz --num-samples 3 --dim 8 | --dim does not go with a model
reconstruct rows.npz --num-samples 3 | rows.npz: expected an .npz file of weights and parameters
explore --store nowhere | expected store to be a folder or a .nc file
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and models, of which many cannot be used."""
    folder = tmp_path_factory.mktemp("refused")
    rng = np.random.default_rng(0)
    inputs = np.round(rng.normal(size=(60, 3)) * [1, 100, 0.01], 5)
    target = np.round(inputs @ [1, 0.01, 100] + 0.3 * rng.normal(size=60), 5)
    kinds, (first, second, third) = np.where(target > 0.5, "high", "low"), inputs.T
    holes = np.where(np.arange(60) == 4, "", first.astype(str))
    tables = {
        "table.csv": ("aby", first, second, target),
        "kinds.csv": (["kind", "a", "b", "c"], kinds, first, second, third),
        "holes.csv": ("aby", holes, second, target),
        "twice.csv": ("aay", first, second, target),
        "single.csv": ("ay", first[:1], target[:1]),
    }
    for name, (names, *columns) in tables.items():
        written(folder / name, names, *columns)
    (folder / "crossed.csv").write_text("a,0,10\nb,9,1\n")
    rows = rng.standard_normal((3, 8))
    weights = rng.standard_normal((240, 8)) / np.sqrt(8)
    parameters = np.linalg.lstsq(np.maximum(rows @ weights.T, 0), [1.0, -1.0, 0.7])[0]
    np.savez(folder / "model.npz", weights=weights, parameters=parameters)
    np.savez(folder / "rows.npz", inputs=3 * rows)
    (folder / "text.npz").write_text("a,b\n1,2\n")
    return folder


@pytest.mark.parametrize("refused", REFUSED.splitlines())
def test_bad_input_ends_with_one_line_and_status_2(folder, run, monkeypatch, refused):
    monkeypatch.chdir(folder)
    typed, _, message = refused.partition(" | ")
    for short, meant in SHORT.items():
        typed = typed.replace(short, meant)
    command, *arguments = shlex.split(typed)
    always = ALWAYS.get(command, [])
    given = [] if always[:1] == ["--out"] and "--out" in arguments else always
    err = run.refused(command, *given, *arguments)
    assert message in err
    assert not (folder / "never.npz").exists()


ANSWERS = [
    ValueError("expected finite rho > 0, got -1.0"),
    NotCoveredError("not this"),
    FileNotFoundError(2, "No such file", "/nowhere"),
    ModuleNotFoundError("needs matplotlib"),
    MemoryError(),
    RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 10 bytes."),
]
# What Python, NumPy and JAX raise where the toolkit is wrong.
DEFECTS = [
    TypeError("unsupported operand"),
    np.linalg.LinAlgError("Singular matrix"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    jax.errors.JaxRuntimeError("INTERNAL"),
    KeyError("missing"),
    AssertionError(),
]


@pytest.mark.parametrize("error", ANSWERS, ids=repr)
def test_what_a_check_or_the_machine_says_is_one_line(monkeypatch, run, tmp_path, error):
    monkeypatch.setattr("jaxdp.account", mock.Mock(side_effect=error))
    err = run.refused("compare", "--out", tmp_path)
    assert str(error) in err


@pytest.mark.parametrize("error", DEFECTS, ids=repr)
def test_a_defect_of_the_toolkit_keeps_its_traceback(monkeypatch, tmp_path, error):
    monkeypatch.setattr("jaxdp.account", mock.Mock(side_effect=error))
    with pytest.raises(type(error)):
        cli.main(["compare", "--out", str(tmp_path)])


def test_the_library_names_no_options_of_the_command_line():
    """Outside jaxdp/cli, no string says --something, but for options of other programs."""
    of_others = ("--xla", "--always", "--dirty", "--abbrev", "--exclude")
    package = pathlib.Path(jaxdp.__file__).parent
    found = []
    for path in package.rglob("*.py"):
        if package / "cli" in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                options = re.findall(r"(?<![\w-])--[a-z][\w-]*", node.value)
                found += [(path.name, each) for each in options if not each.startswith(of_others)]
    assert not found
