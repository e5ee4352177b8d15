"""The tab key completes commands, options, choices and files, by `shtab`."""

import shutil
import subprocess

import pytest

from jaxdp.cli.entry import make_parser

shtab = pytest.importorskip("shtab")


def _completed(script, folder, *words):
    """The words that Bash offers for the last one."""
    line = " ".join(f'"{word}"' for word in words)
    ask = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _shtab_jaxdp; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", ask], cwd=folder, capture_output=True, text=True, timeout=30
    )
    return {each.strip() for each in done.stdout.splitlines() if each.strip()}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(tmp_path):
    script = shtab.complete(make_parser(), shell="bash")
    (tmp_path / "table.csv").touch()

    def completed(*words):
        return _completed(script, tmp_path, "jaxdp", *words)

    assert completed("co") == {"compare", "columns"}
    assert completed("compare", "--label") == {"--label-noise"}
    assert completed("account", "dp-") == {"dp-gd", "dp-sgd"}
    assert completed("plan", "--schedule", "const") == {"constant"}
    assert completed("compare", "--data", "tab") == {"table.csv"}
    assert completed("fit", "tab") == {"table.csv"}
