"""Executed copies of the notebooks: in step with them, small, with pictures where sliders were."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from helpers import module_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
NOTEBOOKS, COPIES = ROOT / "notebooks", ROOT / "docs" / "tutorials"

each_copy = pytest.mark.parametrize(
    "path", sorted(COPIES.glob("*.ipynb")), ids=lambda path: path.stem
)

TOOL = module_of(NOTEBOOKS / "executed.py")


def test_every_notebook_has_a_copy_of_the_same_cells():
    checked = subprocess.run(
        [sys.executable, str(NOTEBOOKS / "executed.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stderr
    assert list(COPIES.glob("*.ipynb"))


def test_a_changed_a_missing_and_a_stray_copy_are_noticed(tmp_path):
    copies = tmp_path / "copies"
    shutil.copytree(COPIES, copies)
    assert TOOL.out_of_step(NOTEBOOKS, copies) == []
    first, second, third = sorted(copies.glob("*.ipynb"))[:3]
    first.write_text(first.read_text(encoding="utf-8").replace("import jaxdp", "import jaxdp "))
    second.unlink()
    shutil.copy(third, copies / "99_stray.ipynb")
    assert TOOL.out_of_step(NOTEBOOKS, copies) == [first.name, second.name, "99_stray.ipynb"]
    assert TOOL.main(["--check", "--out", str(copies)]) == 1


@each_copy
def test_a_copy_is_small_and_holds_nothing_that_changes_by_itself(path):
    text = path.read_text(encoding="utf-8")
    assert len(text) < 600_000
    assert "widget-view" not in text
    assert "iopub" not in text
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-", text)
    assert str(pathlib.Path.home()) not in text
    for cell in json.loads(text)["cells"]:
        for output in cell.get("outputs", []):
            assert output["output_type"] != "error"


@each_copy
def test_a_copy_shows_what_its_cells_draw(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        is_drawing = re.search(r"plt\.show\(|\bplot_\w+\(|show_sliders\(", source)
        shown = [each for each in cell.get("outputs", []) if "image/png" in each.get("data", {})]
        if cell["cell_type"] == "code":
            assert len(shown) == bool(is_drawing), f"{path.name}: {cell['id']}"
