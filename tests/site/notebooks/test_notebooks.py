"""Notebooks: in step with the repository's address, committed without outputs, and they run."""

import base64
import importlib.metadata
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile

import numpy as np
import pytest
from helpers import module_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

executed = module_of(ROOT / "notebooks" / "executed.py")
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def _cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def _address(root, *arguments):
    return subprocess.run(
        [sys.executable, str(root / "notebooks" / "address.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_every_file_bears_the_address_of_pyproject():
    assert NOTEBOOKS
    checked = _address(ROOT, "--check")
    assert checked.returncode == 0, checked.stderr


STAMPED = ("README.md", "CITATION.cff", "docs/index.md", ".github/ISSUE_TEMPLATE/config.yml")


def test_a_new_address_is_noticed_and_stamped_everywhere(tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    for name in STAMPED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    new = "https://github.com/somebody/elsewhere"
    (tmp_path / "pyproject.toml").write_text(f'[project.urls]\nRepository = "{new}"\n')

    noticed = _address(tmp_path, "--check")
    assert noticed.returncode == 1
    for name in (*STAMPED, *(path.name for path in NOTEBOOKS)):
        assert name in noticed.stderr

    assert _address(tmp_path).returncode == 0
    assert _address(tmp_path, "--check").returncode == 0
    for path in NOTEBOOKS:
        stamped = (tmp_path / "notebooks" / path.name).read_text(encoding="utf-8")
        assert f"github/somebody/elsewhere/blob/main/notebooks/{path.name}" in stamped
        assert f"git+{new}" in stamped
    for name in ("README.md", "docs/index.md"):
        assert f"git clone {new}\n" in (tmp_path / name).read_text(encoding="utf-8")


@each_notebook
def test_notebook_is_committed_without_outputs(path):
    for cell in _cells(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


def _install_cell(path):
    (cell,) = [cell for cell in _cells(path) if cell["id"] == "install"]
    return compile("".join(cell["source"]), str(path), "exec")


# That all notebooks have the same cell, `address.py --check` says.
def test_install_cell_does_nothing_where_jaxdp_is_importable(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError(f"ran {arguments}")

    monkeypatch.setattr(subprocess, "run", refuse)
    exec(_install_cell(NOTEBOOKS[0]), {})


def _distribution(folder, name, version):
    """A distribution of this name and version, without any code, as pip would have left it."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "INSTALLER").write_text("pip\n")
    record = "".join(f"{info.name}/{file},,\n" for file in ("METADATA", "INSTALLER", "RECORD"))
    (info / "RECORD").write_text(record)


def _wheel(folder, name, version, needed=()):
    """A wheel of this name and version, without any code."""
    info = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {one}" for one in needed]
    wheel = "Wheel-Version: 1.0\nGenerator: none\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {"METADATA": "\n".join(metadata) + "\n", "WHEEL": wheel, "RECORD": ""}
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(f"{info}/{file}", text)
    return path


@pytest.mark.parametrize(
    "present", ["0.9.0", *(pytest.param(one, marks=pytest.mark.slow) for one in ("0.1.0", None))]
)
def test_install_cell_leaves_a_jax_for_an_accelerator_alone_whatever_its_version(present, tmp_path):
    # pip itself, which finds these wheels alone, in an environment of its own.
    pip = pytest.importorskip("pip")
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    wheels.mkdir()
    for name in ("jax", "jaxlib"):
        _wheel(wheels, name, "10.0")
        if present:
            _distribution(site, name, f"{present}+cuda12")
    ours = _wheel(wheels, "jaxdp_lab", "0.1.0", ("jax>=0.8.3", "jaxlib>=0.8.3"))
    site.mkdir(exist_ok=True)
    (site / "pip").symlink_to(pathlib.Path(pip.__file__).parent)
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    packages.rmdir()
    packages.symlink_to(site)
    cell = "".join(next(c["source"] for c in _cells(NOTEBOOKS[0]) if c["id"] == "install"))
    cell = re.sub(r"jaxdp-lab\[notebooks\] @ git\+[^\"]+", f"jaxdp-lab @ {ours.as_uri()}", cell)
    environment = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    environment.pop("PYTHONPATH", None)
    ran = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", "-c", cell],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=120,
    )
    found = {each.name: each.version for each in importlib.metadata.distributions(path=[str(site)])}
    here = f"jax=={present}+cuda12 and jaxlib=={present}+cuda12"
    if present == "0.1.0":
        assert ran.returncode == 1
        assert f"no jaxdp beside {here}; where jax is too old" in ran.stderr
        assert "depends on jax>=0.8.3" in ran.stderr
    else:
        said = f"{here} as before" if present else "jax with it, for CPUs alone"
        assert (ran.returncode, ran.stdout) == (0, f"jaxdp was installed; {said}\n"), ran.stderr
        assert found["jaxdp_lab"] == "0.1.0"
    kept = f"{present}+cuda12" if present else "10.0"
    assert found["jax"] == found["jaxlib"] == kept


def test_the_extra_that_the_install_cell_names_has_what_the_notebooks_import():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = " ".join(extras["optional-dependencies"]["notebooks"])
    # Figures, sweeps, Poisson batches, sliders.
    for needed in ("plots", "sweeps", "privacy", "ipywidgets"):
        assert needed in named


@each_notebook
def test_notebook_begins_with_badge_aims_installation_and_device(path):
    cells = _cells(path)
    assert [cell["id"] for cell in cells[:4]] == ["badge", "intro", "install", "device"]
    badge, intro, _, device = ("".join(cell["source"]) for cell in cells[:4])
    assert f"/blob/main/notebooks/{path.name})" in badge
    assert intro.count("\n- ", intro.index("**At the end you will know**")) >= 3
    assert device.endswith('print(f"jax {jax.__version__} on {jax.devices()}")')


@each_notebook
def test_notebook_has_a_slider_and_one_exercise_with_its_answer_folded(path):
    cells = {cell["id"]: "".join(cell["source"]) for cell in _cells(path)}
    assert "show_sliders(" in cells["sliders"]
    assert cells["exercise"].startswith("## Exercise")
    assert cells["answer"].startswith("<details>\n<summary>Answer</summary>\n\n")
    assert cells["answer"].rstrip().endswith("\n\n</details>")
    code, printed = _answer(path)
    compile(code, str(path), "exec")
    assert printed
    assert max(map(len, code.splitlines())) <= 100


def _answer(path):
    """The code of the exercise's answer, and what it says that this prints."""
    (text,) = ["".join(cell["source"]) for cell in _cells(path) if cell["id"] == "answer"]
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (printed,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return code, printed


def _assert_same_text(found, wanted):
    """The same words, and numbers that differ by rounding alone."""
    number = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
    assert number.sub("#", found).split() == number.sub("#", wanted).split()
    found, wanted = (np.array(number.findall(text), float) for text in (found, wanted))
    np.testing.assert_allclose(found, wanted, rtol=0.02, atol=2e-3)


def test_a_wrong_word_or_number_of_an_answer_is_noticed():
    _assert_same_text("risk 0.1234 in 20 steps", "risk  0.1240 in 20 steps\n")
    for wrong in ("risk 0.13 in 20 steps", "loss 0.1234 in 20 steps", "risk 0.1234 in steps"):
        with pytest.raises(AssertionError):
            _assert_same_text(wrong, "risk 0.1240 in 20 steps")


# In a process of its own, because Jupyter leaves sockets to the garbage collector.
_EXECUTE = '''
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
import executed
path, answer, out = map(pathlib.Path, sys.argv[2:])
source = json.loads(path.read_text(encoding="utf-8"))
watch = "import accelerator_programs\\nprograms = accelerator_programs.watched()"
watch = {"cell_type": "code", "id": "watch", "metadata": {}, "source": watch}
source["cells"].insert(0, {**watch, "outputs": [], "execution_count": None})
out.write_text(executed.stored(source), encoding="utf-8")
code = answer.read_text(encoding="utf-8") + """
import json, resource
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = used.ru_utime + used.ru_stime - programs.seconds
print(json.dumps([seconds, programs.names, programs.faults]))
"""
found = executed.executed(out, code)
out.write_text(executed.stored(executed.tidied(found, source)), encoding="utf-8")
'''


def _draws(cell):
    """Whether a cell promises a picture."""
    source = "".join(cell["source"])
    return cell["cell_type"] == "code" and bool(re.search(r"plt\.show\(|\bplot_\w+\(", source))


def _images(cell):
    """The pictures that a cell shows, as arrays in [0, 1]."""
    from matplotlib.image import imread

    outputs = [output.get("data", {}) for output in cell.get("outputs", [])]
    shown = [output["image/png"] for output in outputs if "image/png" in output]
    return [imread(io.BytesIO(base64.b64decode(image)), format="png") for image in shown]


def _assert_shows_its_pictures(cells, name):
    drawing = [cell for cell in cells if _draws(cell)]
    assert drawing
    for cell in drawing:
        # Once, though a picture may be open in pyplot and returned as well.
        (image,) = _images(cell)
        assert image[..., :3].std() > 0.02, f"{name}: {cell['id']} shows an empty picture"
    for cell in cells:
        assert _draws(cell) or not _images(cell), f"{name}: {cell['id']}"


# They take 68 to 102 seconds of a processor each with an empty cache of programs.
NIGHTLY = {"06_everyday_dp_sgd", "07_plan", "09_private_training", "10_forecast"}
_BY_TIER = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.nightly] if path.stem in NIGHTLY else [])
    for path in NOTEBOOKS
]


@pytest.mark.long_runs
@pytest.mark.slow
@pytest.mark.parametrize("path", _BY_TIER)
def test_notebook_and_its_answer_run_from_top_to_bottom(path, tmp_path):
    code, printed = _answer(path)
    (tmp_path / "answer.py").write_text(code, encoding="utf-8")
    places = [ROOT / "notebooks", path, tmp_path / "answer.py", tmp_path / path.name]
    # A callback, which raises what Equinox finds wrong, can be lowered for the device that is here.
    environment = {"PYTHONPATH": str(pathlib.Path(__file__).parent), "EQX_ON_ERROR": "nan"}
    ran = subprocess.run(
        [sys.executable, "-c", _EXECUTE, *map(str, places)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr
    *cells, answer = _cells(tmp_path / path.name)
    _assert_shows_its_pictures(cells, path.name)
    # A copy is small, and holds nothing that changes from run to run.
    text = (tmp_path / path.name).read_text(encoding="utf-8")
    assert len(text) < 600_000
    assert "widget-view" not in text
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-", text)
    said = "".join("".join(each["text"]) for each in answer["outputs"])
    *said, last = said.splitlines(keepends=True)
    _assert_same_text("".join(said), printed)
    seconds, programs, faults = json.loads(last)
    # Two minutes of two cores, however busy the machine is with other work.
    assert seconds < 2 * 120
    assert programs
    assert faults == []


def test_sliders_leave_their_picture_and_progress_bars_leave_nothing():
    picture = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": ["figure"]}}
    state = {
        "sliders": {"model_name": "VBoxModel", "state": {"children": ["IPY_MODEL_shown"]}},
        "shown": {"model_name": "OutputModel", "state": {"outputs": [picture]}},
        "bar": {"model_name": "HBoxModel", "state": {"children": ["IPY_MODEL_text"]}},
        "text": {"model_name": "HTMLModel", "state": {}},
    }
    views = [
        {
            "output_type": "display_data",
            "metadata": {},
            "data": {executed._WIDGET: {"model_id": name}},
        }
        for name in ("sliders", "bar", "taken back")
    ]
    lines = [
        {"output_type": "stream", "name": "stderr", "text": text}
        for text in ("train: 50%|##5  | 00:01<00:01", "predict: running, 00:03", "a warning")
    ]
    cell = {"cell_type": "code", "metadata": {}, "outputs": views + lines}
    notebook = {"cells": [cell], "metadata": {"widgets": {executed._STATE: {"state": state}}}}
    note, *others = executed.tidied(notebook, {"metadata": {}})["cells"][0]["outputs"]
    assert note["data"]["text/plain"] == [executed._NOTE]
    assert others == [picture, lines[-1]]


def test_a_changed_and_a_missing_copy_are_noticed(tmp_path):
    first, second, third = NOTEBOOKS[:3]
    for path in (first, second):
        shutil.copy(path, tmp_path)
    copy = tmp_path / second.name
    copy.write_text(copy.read_text(encoding="utf-8").replace("import jaxdp", "import jaxdp "))
    assert [executed.is_current(path, tmp_path) for path in (first, second, third)] == [1, 0, 0]
