"""Which errors end a command with one line, and which keep their traceback."""

import pytest

from jaxdp import cli
from jaxdp.cli.answers import is_answer
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
