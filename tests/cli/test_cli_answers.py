"""Which errors end a command with one line, and which keep their traceback."""

import ast
import pathlib
import re

import pytest

import jaxdp
from jaxdp import cli
from jaxdp.cli.entry import is_answer
from jaxdp.core import checks
from jaxdp.core.errors import NotCoveredError


def _caught(function, *arguments) -> Exception:
    try:
        function(*arguments)
    except Exception as error:
        return error
    raise AssertionError("expected an error")


def _in_jaxdp(statement: str):
    """A function that Python runs as one of the toolkit's own."""
    scope = {**vars(checks), "NotCoveredError": NotCoveredError}
    exec(f"def planted(*arguments, **named):\n    {statement}", scope)
    return scope["planted"]


def _full_device():
    raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 10 bytes.")


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (checks.require_positive, ("rho", -1.0)),
        (_in_jaxdp("raise NotCoveredError('not this')"), ()),
        (open, ("/nowhere/at/all",)),
        (_in_jaxdp("raise MemoryError"), ()),
        (_full_device, ()),
    ],
)
def test_what_a_check_or_the_machine_says_is_an_answer(function, arguments):
    assert is_answer(_caught(function, *arguments))


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        ("1,5,2\n2,5,3\n3,5,4\n" * 4, "leave out columns with --drop-constant"),
        ("1,2,3\n4,5,7\n", "add rows, or leave out columns with --drop"),
        ("1,x,3\n4,y,7\n", "turn into numbers, or leave out columns with --drop 1"),
    ],
)
def test_advice_about_a_table_names_the_options_of_the_command(capsys, tmp_path, rows, advice):
    (tmp_path / "table.csv").write_text("a,b,y\n" + rows)
    options = ["--data", str(tmp_path / "table.csv"), "--out", str(tmp_path)]
    assert cli.main(["compare", *options]) == 2
    assert capsys.readouterr().err.endswith(f"; {advice}\n")


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


DEFECTS = {
    "None + 1": TypeError,
    "require_count('num_steps', 2.5)": TypeError,
    "int('many')": ValueError,
    "np.ones(2) + np.ones(3)": ValueError,
    "jnp.ones(2) + jnp.ones(3)": TypeError,
    "{}['missing']": KeyError,
    "assert False": AssertionError,
}


@pytest.mark.parametrize(("statement", "kind"), DEFECTS.items())
def test_a_defect_of_the_toolkit_keeps_its_traceback(monkeypatch, tmp_path, statement, kind):
    monkeypatch.setattr("jaxdp.account", _in_jaxdp(statement))
    with pytest.raises(kind):
        cli.main(["compare", "--out", str(tmp_path)])


def test_the_same_place_ends_with_one_line_where_a_check_stands(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("jaxdp.account", _in_jaxdp("require_positive('rho', -1.0)"))
    assert cli.main(["compare", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "jaxdp: expected finite rho > 0, got -1.0\n"
