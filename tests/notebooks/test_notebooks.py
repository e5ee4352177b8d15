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
    assert command[-1].startswith("jaxdp-lab[plots,sweeps] @ git+https://")


# In a process of its own, because Jupyter leaves sockets to the garbage collector. The kernel is
# this very interpreter, whatever kernels the user has registered.
_EXECUTE = """
import pathlib, sys
import nbformat
from ipykernel.kernelspec import write_kernel_spec
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

source, folder = map(pathlib.Path, sys.argv[1:])
write_kernel_spec(folder / "kernels" / "this")
specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")])
manager = AsyncKernelManager(kernel_name="this", kernel_spec_manager=specs)
notebook = nbformat.read(source, as_version=4)
nbformat.validate(notebook)
where = {"metadata": {"path": str(folder)}}
NotebookClient(notebook, km=manager, timeout=300, resources=where).execute()
nbformat.write(notebook, folder / source.name)
"""


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


@pytest.mark.slow
@each_notebook
def test_notebook_runs_from_top_to_bottom(path, tmp_path):
    environment = dict(os.environ)
    paths = [str(ROOT), environment.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    environment.pop("MPLBACKEND", None)
    ran = subprocess.run(
        [sys.executable, "-c", _EXECUTE, str(path), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    executed = _cells(tmp_path / path.name)
    drawing = [cell for cell in executed if _draws(cell)]
    assert drawing
    for cell in drawing:
        # Once, though a picture may be open in pyplot and returned as well.
        (image,) = _images(cell)
        assert image[..., :3].std() > 0.02, f"{path.name}: {cell['id']} shows an empty picture"
    for cell in executed:
        assert _draws(cell) or not _images(cell), f"{path.name}: {cell['id']}"
