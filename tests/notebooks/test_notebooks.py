"""Notebooks: in step with the repository's address, committed without outputs, and they run."""

import base64
import importlib.metadata
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

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


def test_there_is_a_notebook():
    assert NOTEBOOKS


def test_every_file_bears_the_address_of_pyproject():
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
def test_notebook_starts_with_its_badge(path):
    first = _cells(path)[0]
    assert first["id"] == "badge"
    assert f"/blob/main/notebooks/{path.name})" in "".join(first["source"])


@each_notebook
def test_notebook_is_committed_without_outputs(path):
    for cell in _cells(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


def _install_cell(path):
    (cell,) = [cell for cell in _cells(path) if cell["id"] == "install"]
    return compile("".join(cell["source"]), str(path), "exec")


@each_notebook
def test_install_cell_does_nothing_where_jaxdp_is_importable(path, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError(f"ran {arguments}")

    monkeypatch.setattr(subprocess, "run", refuse)
    exec(_install_cell(path), {})


@each_notebook
def test_install_cell_pins_jax_and_jaxlib_as_they_are(path, monkeypatch):
    calls = []

    def record(command, *, check):
        constraints = command[command.index("--constraint") + 1]
        calls.append((command, pathlib.Path(constraints).read_text().split(), check))

    monkeypatch.setattr(subprocess, "run", record)
    monkeypatch.setitem(sys.modules, "jaxdp", None)  # makes `import jaxdp` fail
    exec(_install_cell(path), {})

    ((command, pins, check),) = calls
    assert check
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert pins == [f"{name}=={importlib.metadata.version(name)}" for name in ("jax", "jaxlib")]
    assert not {"--upgrade", "-U", "--force-reinstall", "--ignore-installed"} & set(command)
    assert command[-1].startswith("jaxdp-lab[notebooks] @ git+https://")


def test_the_extra_that_the_install_cell_names_has_what_the_notebooks_import():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = " ".join(extras["optional-dependencies"]["notebooks"])
    # Figures, sweeps, Poisson batches, sliders.
    for needed in ("plots", "sweeps", "privacy", "ipywidgets"):
        assert needed in named


@each_notebook
def test_notebook_says_at_the_top_what_one_will_know_at_the_end(path):
    cells = _cells(path)
    assert [cell["id"] for cell in cells[:4]] == ["badge", "intro", "install", "device"]
    intro = "".join(cells[1]["source"])
    assert intro.count("\n- ", intro.index("**At the end you will know**")) >= 3


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
code = answer.read_text(encoding="utf-8") + """
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""
found = executed.executed(path, code)
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


@pytest.mark.optimised
@pytest.mark.slow
@each_notebook
def test_notebook_and_its_answer_run_from_top_to_bottom(path, tmp_path):
    code, printed = _answer(path)
    (tmp_path / "answer.py").write_text(code, encoding="utf-8")
    places = [ROOT / "notebooks", path, tmp_path / "answer.py", tmp_path / path.name]
    ran = subprocess.run(
        [sys.executable, "-c", _EXECUTE, *map(str, places)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr
    *cells, answer = _cells(tmp_path / path.name)
    _assert_shows_its_pictures(cells, path.name)
    said = "".join("".join(each["text"]) for each in answer["outputs"])
    *said, seconds = said.splitlines(keepends=True)
    _assert_same_text("".join(said), printed)
    # Two minutes of two cores, however busy the machine is with other work.
    assert float(seconds) < 2 * 120
