"""Executes the notebooks, for the tutorials of the documentation.

    python notebooks/executed.py                execute every notebook into results/notebooks
    python notebooks/executed.py 01 05          those whose names begin so
    python notebooks/executed.py --changed      those without an executed copy of the same cells

The notebooks themselves are kept without outputs. A copy leaves out times of execution, the state
of widgets and progress bars.
"""

import argparse
import base64
import json
import os
import pathlib
import re
import struct
import sys
import tempfile
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIES = ROOT / "results" / "notebooks"
# Dots per inch of the pictures, of which 100 are shown on an inch.
DPI = 130

_WIDGET = "application/vnd.jupyter.widget-view+json"
_STATE = "application/vnd.jupyter.widget-state+json"
_NOTE = "Where this notebook runs, sliders stand here; this is the picture that they start with."
_IDENTIFIER = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def executed(path: pathlib.Path, answer: str = "") -> dict:
    """The notebook after running from top to bottom in a kernel of this interpreter.

    Args:
        path: file of the notebook.
        answer: code to run after the last cell, in a cell of its own.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    import nbformat
    from ipykernel.kernelspec import write_kernel_spec
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook: Any = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    if answer:
        notebook.cells.append(nbformat.v4.new_code_cell(answer, id="answer-code"))
    # The kernel knows this checkout, and no picture goes anywhere but into the notebook.
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ.pop("MPLBACKEND", None)
    with tempfile.TemporaryDirectory() as folder:
        # Whatever kernels the user has registered, this one is the running interpreter.
        write_kernel_spec(pathlib.Path(folder, "kernels", "this"))
        specs = KernelSpecManager(kernel_dirs=[str(pathlib.Path(folder, "kernels"))])
        manager = AsyncKernelManager(kernel_name="this", kernel_spec_manager=specs)
        manager.client_factory = _attentive_client()
        work = pathlib.Path(folder, "work")
        work.mkdir()
        # Pictures for screens of high resolution; `tidied` says how large they are to be shown.
        (work / "matplotlibrc").write_text(f"figure.dpi: {DPI}\n")
        where = {"metadata": {"path": str(work)}}
        client = NotebookClient(
            notebook, km=manager, timeout=600, resources=where, coalesce_streams=True
        )
        client.execute(cleanup_kc=True)
    # Through JSON, which makes plain lists and dictionaries.
    return json.loads(nbformat.writes(notebook))


def _attentive_client() -> type:
    """A kernel's client that looks for messages every second, whether or not it is woken.

    A socket of ZeroMQ notifies the event loop once of a message. Now and then that is lost, and a
    client that waits for the notice waits until its time is over, which here is ten minutes.
    """
    import queue

    from jupyter_client.asynchronous import AsyncKernelClient
    from jupyter_client.channels import AsyncZMQSocketChannel
    from traitlets import Type

    class Attentive(AsyncZMQSocketChannel):
        async def get_msg(self, timeout: float | None = None) -> dict:
            deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
            while True:
                left = deadline - time.monotonic()
                try:
                    return await super().get_msg(min(1.0, max(left, 0.0)))
                except queue.Empty:
                    if left <= 1.0:
                        raise

    class Client(AsyncKernelClient):
        shell_channel_class = iopub_channel_class = control_channel_class = Type(Attentive)

    return Client


def tidied(notebook: dict, source: dict) -> dict:
    """An executed notebook as it is stored: sliders are replaced by the picture they start with."""
    state = notebook["metadata"].get("widgets", {}).get(_STATE, {}).get("state", {})
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        if cell["cell_type"] == "code":
            outputs = []
            for output in cell["outputs"]:
                view = output.get("data", {}).get(_WIDGET)
                outputs += [output] if view is None else _still(view["model_id"], state)
            kept = [output for output in outputs if not _is_progress(output)]
            cell["outputs"] = [_sized(_stable(output)) for output in kept]
    return {**notebook, "metadata": source["metadata"]}


def _still(model: str, state: dict) -> list[dict]:
    """A note that a widget is left out, and what it shows; nothing of a progress bar."""
    note = {"text/markdown": [f"*{_NOTE}*"], "text/plain": [_NOTE]}
    told = {"output_type": "display_data", "metadata": {}, "data": note}
    pictures = _pictures(model, state)
    return [told, *pictures] if pictures else []


def _pictures(model: str, state: dict) -> list[dict]:
    """The outputs of the output widgets within a widget; a bar that was removed has no state."""
    widget = state.get(model, {"model_name": "", "state": {}})
    if widget["model_name"] == "OutputModel":
        return widget["state"].get("outputs", [])
    children = widget["state"].get("children", [])
    names = [child.removeprefix("IPY_MODEL_") for child in children]
    return [output for name in names for output in _pictures(name, state)]


def _sized(output: dict) -> dict:
    """A picture with the width and height at which it is shown."""
    drawn = output.get("data", {}).get("image/png")
    if drawn is None:
        return output
    # Width and height stand in the file's first bytes, after eight of signature and eight more.
    sides = struct.unpack(">II", base64.b64decode(drawn)[16:24])
    width, height = (round(side * 100 / DPI) for side in sides)
    return {**output, "metadata": {"image/png": {"width": width, "height": height}}}


def _is_progress(output: dict) -> bool:
    """Whether an output is a line that was written over and over; a warning is kept."""
    is_error_stream = output["output_type"] == "stream" and output["name"] == "stderr"
    text = "".join(output.get("text", ""))
    # The client leaves the last text of a bar that is no widget.
    return is_error_stream and (
        "\r" in text or bool(re.search(r"\d%\|#*\d? *\||: running, [\d:]*\s*$|^\s*$", text))
    )


def _stable(output: dict) -> dict:
    """The output with identifiers that are drawn anew each time replaced by their order."""
    text = json.dumps(output)
    for order, name in enumerate(dict.fromkeys(_IDENTIFIER.findall(text))):
        text = text.replace(name, f"id-{order}")
    return json.loads(text)


def stored(notebook: dict) -> str:
    """The text of a notebook's file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def sources(notebook: dict) -> list[tuple[str, str, str]]:
    """The reader's part of each cell: its kind, its id and its text."""
    return [(cell["cell_type"], cell["id"], "".join(cell["source"])) for cell in notebook["cells"]]


def is_current(notebook: pathlib.Path, copies: pathlib.Path = COPIES) -> bool:
    """True if the folder of copies has one with the cells of the notebook."""
    copy = copies / notebook.name
    if not copy.exists():
        return False
    one, other = (sources(json.loads(path.read_text("utf-8"))) for path in (notebook, copy))
    return one == other


def main(arguments: list[str] | None = None) -> int:
    """Execute; the exit status."""
    parser = argparse.ArgumentParser(description="Execute the notebooks into results/notebooks.")
    parser.add_argument("names", nargs="*", help="beginnings of the notebooks' names (default all)")
    parser.add_argument("--changed", action="store_true", help="skip those with a current copy")
    parser.add_argument("--out", type=pathlib.Path, default=COPIES, help="folder of the copies")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        is_done = given.changed and is_current(path, given.out)
        if not is_done and path.name.startswith(tuple(given.names or [""])):
            begun = time.perf_counter()
            source = json.loads(path.read_text(encoding="utf-8"))
            copy = stored(tidied(executed(path), source))
            (given.out / path.name).write_text(copy, encoding="utf-8")
            seconds = time.perf_counter() - begun
            print(f"{path.name}: {seconds:.0f} s, {len(copy) / 1000:.0f} kB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
