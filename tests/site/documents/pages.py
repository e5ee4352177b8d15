"""The pages of the documentation as code that runs, and as sentences with numbers."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from entropy import known_environment

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Pages that hold code or say something, not those that are generated from elsewhere.
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
)


def text_of(page: str) -> str:
    """The Markdown of a page, named by its path in the tree."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language; one with a title is a file of its own, not among them."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)


def titled(page: str, title: str) -> str:
    """The Python block with that title."""
    pattern = rf'^```python title="{re.escape(title)}"\n(.*?)^```$'
    (block,) = re.findall(pattern, text_of(page), re.MULTILINE | re.DOTALL)
    return block


def run(code: str, folder: pathlib.Path, bits: tuple[int, str] | None = None) -> str:
    """What the code prints in a process of its own; `bits` are seed and name of its random bits."""
    return _printed([sys.executable, "-c", code], folder, bits)


def run_commands(block: str, folder: pathlib.Path) -> str:
    """What a block of shell commands prints, `jaxdp` being the one that is tested."""
    here = re.sub(r"^jaxdp ", lambda _: f'"{sys.executable}" -m jaxdp ', block, flags=re.MULTILINE)
    return _printed(["bash", "-ec", here], folder)


def _printed(command: list[str], folder: pathlib.Path, bits: tuple[int, str] | None = None) -> str:
    environment = dict(os.environ) if bits is None else known_environment(*bits)
    paths = [str(ROOT), environment.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def claimed(page: str, sentence: str) -> tuple[float, float]:
    """The number at `#` in a sentence of a page, and half a unit of its last digit."""
    pattern = re.escape(sentence).replace(r"\#", r"(\.?\d[\d,]*(?:\.\d+)?)")
    found = re.findall(pattern, text_of(page))
    assert len(found) == 1, f"{sentence!r} is {len(found)} times in {page}"
    number = found[0].replace(",", "")
    return float(number), 0.5 * 10.0 ** -len(number.partition(".")[2])


def assert_as_claimed(page: str, sentence: str, value: float, *, spread: float = 0.0) -> None:
    """The number at `#` is the value to the digits shown, or within five deviations `spread`."""
    number, rounding = claimed(page, sentence)
    assert value == pytest.approx(number, abs=rounding + 5 * spread), sentence
