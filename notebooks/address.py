"""The repository's address, which stands in pyproject.toml alone, stamped where readers need it.

    python notebooks/address.py            stamp the notebooks, README.md, docs/index.md and so on
    python notebooks/address.py --check    exit 1, naming the files that are out of step

A notebook's badge and install cells are the cells whose ids are "badge" and "install"; they are
written here, so that every notebook has the same ones.
"""

import argparse
import json
import pathlib
import re
import sys
import tomllib
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent

_INSTALL = """\
# Installs jaxdp if it is missing. jax and jaxlib stay exactly as they are on this machine, because
# pip's builds of them are for CPUs alone.
try:
    import jaxdp
except ImportError:
    import contextlib
    import importlib.metadata
    import pathlib
    import subprocess
    import sys
    import tempfile

    pins = []
    for name in ("jax", "jaxlib"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            pins.append(f"{{name}}=={{importlib.metadata.version(name)}}")
    with tempfile.TemporaryDirectory() as folder:
        constraints = pathlib.Path(folder, "constraints.txt")
        constraints.write_text("\\n".join(pins))
        pip = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install"),
                *("--constraint", str(constraints)),
                "jaxdp-lab[notebooks] @ git+{address}",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    here = " and ".join(pins) or "no jax"
    if pip.returncode:
        said = f"no jaxdp beside {{here}}; where jax is too old, upgrade it for this accelerator"
        raise RuntimeError(f"{{said}}\\n{{pip.stdout[-2000:]}}") from None
    importlib.invalidate_caches()
    print("jaxdp was installed;", f"{{here}} as before" if pins else "jax with it, for CPUs alone")
"""


def repository_address(root: pathlib.Path = ROOT) -> str:
    """The address of the repository, from pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return project["urls"]["Repository"].rstrip("/")


def badge(address: str, name: str) -> str:
    """Markdown of the badge that opens a notebook in Colab."""
    parts = urllib.parse.urlsplit(address)
    owner_and_name = parts.path.strip("/")
    if parts.netloc != "github.com" or owner_and_name.count("/") != 1:
        raise ValueError(f"expected https://github.com/<owner>/<repository>, got {address}")
    colab = "https://colab.research.google.com"
    target = f"{colab}/github/{owner_and_name}/blob/main/notebooks/{name}"
    return f"[![Open in Colab]({colab}/assets/colab-badge.svg)]({target})"


def install_cell(address: str) -> str:
    """Source of the cell that installs jaxdp if it is missing."""
    return _INSTALL.format(address=address).rstrip("\n")


def stamp_notebook(text: str, address: str, name: str) -> str:
    """The notebook with the address in its badge and install cells."""
    notebook = json.loads(text)
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    changed = False
    for identity, source in (("badge", badge(address, name)), ("install", install_cell(address))):
        if identity not in cells:
            raise ValueError(f'{name}: expected a cell with the id "{identity}"')
        if "".join(cells[identity]["source"]) != source:
            cells[identity]["source"] = source.splitlines(keepends=True)
            changed = True
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n" if changed else text


def stamp_page(text: str, address: str, marked: tuple[str, ...]) -> str:
    """A page with the address between its markers, those of the names given."""
    clone = f'git clone {address}\ncd {address.rsplit("/", 1)[1]}\npip install -e ".[all]"'
    blocks = {"badge": badge(address, "01_quickstart.ipynb"), "clone": f"```bash\n{clone}\n```"}
    end = "<!-- address: end -->"
    for name in marked:
        block = blocks[name]
        start = f"<!-- address: {name} -->"
        if text.count(start) != 1 or end not in text.split(start)[1]:
            raise ValueError(f'expected one block from "{start}" to "{end}"')
        before, rest = text.split(start)
        _, after = rest.split(end, 1)
        text = f"{before}{start}\n{block}\n{end}{after}"
    return text


def stamp_line(text: str, start: str, value: str) -> str:
    """A file of YAML with the value in its one line that starts so."""
    text, count = re.subn(
        f"^( *{re.escape(start)}).*$", lambda found: found[1] + value, text, flags=re.MULTILINE
    )
    if count != 1:
        raise ValueError(f"expected one line {start!r}, got {count}")
    return text


def out_of_step(root: pathlib.Path = ROOT) -> dict[pathlib.Path, str]:
    """The files that do not bear the address, each with what it should hold."""
    address = repository_address(root)
    stamps = {
        root / "README.md": lambda text: stamp_page(text, address, ("badge", "clone")),
        root / "docs" / "index.md": lambda text: stamp_page(text, address, ("clone",)),
        root / "CITATION.cff": lambda text: stamp_line(text, "repository-code: ", f'"{address}"'),
        root / ".github" / "ISSUE_TEMPLATE" / "config.yml": lambda text: stamp_line(
            text, "url: ", f"{address}/security/advisories/new"
        ),
    }
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        stamps[path] = lambda text, name=path.name: stamp_notebook(text, address, name)
    found = {path: path.read_text(encoding="utf-8") for path in stamps}
    wanted = {path: stamp(found[path]) for path, stamp in stamps.items()}
    return {path: text for path, text in wanted.items() if text != found[path]}


def main(arguments: list[str] | None = None) -> int:
    """Stamp, or check; the exit status."""
    parser = argparse.ArgumentParser(description="Stamp the repository's address.")
    parser.add_argument("--check", action="store_true", help="change nothing, only look")
    check = parser.parse_args(arguments).check
    stale = out_of_step()
    for path, text in stale.items():
        if check:
            print(f"{path.relative_to(ROOT)} is out of step with pyproject.toml", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"stamped {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
