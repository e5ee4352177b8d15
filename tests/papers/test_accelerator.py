"""`python -m experiments.accelerator`: what its parts leave, and what becomes of one that fails."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from matplotlib.image import imread

from experiments.accelerator import __main__ as accelerator

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The processes of two parts: the first ends at once, the second as its name says.
_PARTS = """
import json, pathlib, sys, time
part = sys.argv[1]
if part == "facts":
    sys.exit()
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
row = {"what": "the row", "value": 1.0, "unit": "x", "is_wrong": part == "wrong"}
facts = dict.fromkeys(("device", "device_gigabytes", "cores", "jax", "jaxlib"), "1")
facts |= {"products": "full", "date": "today", "code": "none"}
(out / f"{part}.json").write_text(json.dumps({**facts, "rows": [row]}))
if part == "late":
    time.sleep(60)
sys.exit(part == "broken")
"""
# A part that has one row, and then nothing more to give.
_ROWS = """
import sys, types
from experiments.accelerator.parts import Row
def rows(setting):
    yield Row("the row", 1.0, "x")
    raise MemoryError("too little memory\\nand a page about it")
sys.modules["experiments.accelerator.grids"] = types.SimpleNamespace(rows=rows)
"""
_MAIN = """
import sys
from experiments.accelerator.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def _run(code, *words, seconds=300):
    """The command in a process of its own, which runs this code before it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code + _MAIN, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=seconds,
    )


def _assert_written(out, part):
    """A part's numbers and picture are there, and on the page."""
    found = json.loads((out / f"{part}.json").read_text())
    assert "cpu" in found["device"]
    assert found["rows"]
    assert not any(row["is_wrong"] for row in found["rows"])
    assert imread(out / f"{part}.png")[..., :3].std() > 0.01
    page = (out / "accelerator.md").read_text()
    assert f"![{accelerator.PARTS[part][0]}]({part}.png)" in page
    for row in found["rows"]:
        assert row["what"] in page


@pytest.mark.slow
def test_a_part_leaves_its_numbers_its_picture_and_the_page(tmp_path):
    ran = _run("", "--smoke", "--only", "grids", "--out", tmp_path)
    assert ran.returncode == 0, ran.stderr
    first, *_ = ran.stdout.splitlines()
    assert "cpu" in first
    assert "jaxlib" in first
    assert "products" in first
    _assert_written(tmp_path, "grids")
    page = (tmp_path / "accelerator.md").read_text()
    assert page.count("Not run yet.") == len(accelerator.PARTS) - 1


@pytest.mark.nightly
def test_all_parts_leave_theirs(tmp_path):
    ran = _run("", "--smoke", "--seconds", "3000", "--out", tmp_path, seconds=1500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for part in accelerator.PARTS:
        _assert_written(tmp_path, part)


@pytest.mark.parametrize("how", ["broken", "late", "wrong"])
def test_what_fails_is_one_line_and_the_rest_goes_on(how, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(accelerator, "PARTS", {how: ("One", 0.01), "well": ("Other", 0.99)})
    monkeypatch.setattr(accelerator, "_GRACE", 0.0)
    monkeypatch.setattr(accelerator, "_command", lambda part: [sys.executable, "-c", _PARTS, part])
    (tmp_path / f"{how}.png").write_bytes(b"of an earlier run")
    assert accelerator.main(["--seconds", "200", "--out", str(tmp_path)]) == 1
    out, err = capfd.readouterr()
    reason = {
        "broken": "its process ended with 1",
        "late": "ended after 2 s",
        "wrong": "wrong: the row",
    }
    assert f"{how}: {reason[how]}\n" in out
    assert "well: done\n" in out
    assert err.splitlines()[-1] == f"{how} failed: {reason[how]}"
    page = (tmp_path / "accelerator.md").read_text()
    # Its rows until then are kept, and no picture of others stands beside them.
    assert page.count("the row") == 2
    assert ".png" not in page


def test_a_part_that_raises_says_so_in_one_line_and_keeps_its_rows(tmp_path):
    ran = _run(_ROWS, "--part", "grids", "--out", tmp_path)
    assert ran.returncode == 1
    assert ran.stderr == "  MemoryError: too little memory\n"
    (row,) = json.loads((tmp_path / "grids.json").read_text())["rows"]
    assert row["what"] == "the row"
