"""`jaxdp explore` ends with one line where it cannot serve, and needs its extra by name."""

import pathlib
import re
import socket
import sys

import pytest
from helpers import run_cli

import jaxdp.explorer


def test_a_port_that_is_taken_is_named(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, err = run_cli(capsys, "explore", "--no-browser", "--port", port)
    assert status == 2
    assert f"expected a free port at 127.0.0.1, got {port}" in err


def test_without_panel_one_line_names_the_extra(capsys, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("jaxdp.explorer.views")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "panel", None)
    status, out, err = run_cli(capsys, "explore", "--no-browser")
    assert (status, out) == (2, "")
    assert "the extra 'explore'" in err
    assert err.count("\n") == 1
    with pytest.raises(ModuleNotFoundError, match=r"jaxdp\.explorer needs panel"):
        jaxdp.explorer.page()


def test_only_the_widgets_need_panel():
    room = pathlib.Path(jaxdp.explorer.__file__).parent
    files = [path for path in room.rglob("*.py") if path.parent.name != "views"]
    assert len(files) > 5
    for path in files:
        assert not re.search(r"^\s*(import|from) (panel|bokeh)", path.read_text(), re.M), path
