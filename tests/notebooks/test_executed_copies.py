"""Executed copies of the notebooks: in step with them, small, with pictures where sliders were."""

import base64
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys

import pytest
from helpers import module_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
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


def _code_cell(*outputs):
    return {
        "cell_type": "code",
        "id": "a",
        "metadata": {"execution": {"iopub.status.busy": "2001-01-01"}, "tags": ["x"]},
        "source": ["show_sliders(draw, x=[1])"],
        "outputs": list(outputs),
        "execution_count": 1,
    }


def test_sliders_are_replaced_by_the_picture_within_them():
    drawn = {"output_type": "stream", "name": "stdout", "text": ["a picture"]}
    models = {
        "box": {
            "model_name": "VBoxModel",
            "state": {"children": ["IPY_MODEL_slider", "IPY_MODEL_out"]},
        },
        "slider": {"model_name": "SelectionSliderModel", "state": {}},
        "out": {"model_name": "OutputModel", "state": {"outputs": [drawn]}},
    }
    view = {
        "output_type": "display_data",
        "metadata": {},
        "data": {TOOL._WIDGET: {"model_id": "box"}},
    }
    progress = {"output_type": "stream", "name": "stderr", "text": ["\r50%", "\r90%"]}
    bar = {**progress, "text": ["train:  60 % |##  | 0:03, 0:02 left, epsilon 2.28 after step 60"]}
    waits = [{**progress, "text": [text]} for text in ("plan: compiling, 0:09", "        ")]
    warning = {"output_type": "stream", "name": "stderr", "text": ["UserWarning: beware"]}
    notebook = {
        "cells": [_code_cell(progress, bar, *waits, view, warning)],
        "metadata": {"widgets": {TOOL._STATE: {"state": models}}, "language_info": {"version": 3}},
    }
    source = {"metadata": {"kernelspec": {}}}
    found = TOOL.tidied(notebook, source)
    (cell,) = found["cells"]
    told, *shown = cell["outputs"]
    assert shown == [drawn, warning]
    assert "sliders" in "".join(told["data"]["text/markdown"])
    assert cell["metadata"] == {"tags": ["x"]}
    assert found["metadata"] == source["metadata"]


def test_identifiers_are_numbered_and_pictures_say_how_large_they_are():
    name = "0123abcd-0123-0123-0123-0123456789ab"
    text = TOOL._stable({"output_type": "x", "data": f"{name} {name}"})
    assert text["data"] == "id-0 id-0"
    header = struct.pack(">8sI4sII", b"\x89PNG\r\n\x1a\n", 13, b"IHDR", 75, 150)
    png = base64.b64encode(header).decode()
    output = {"output_type": "display_data", "data": {"image/png": png}, "metadata": {}}
    sized = TOOL._sized(output)["metadata"]["image/png"]
    assert sized == {"width": round(7500 / TOOL.DPI), "height": round(15000 / TOOL.DPI)}
