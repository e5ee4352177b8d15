"""Two type checkers of users take the front page, and find eleven mistakes in what is like it."""

import json
import shutil
import subprocess
import sys

import pytest
from pages import blocks

WRONG = """
jaxdp.PrivateOptimizer
jaxdp.Polynomal(3.0, power=0.5)
jaxdp.Polynomial(3.0, power="a half")
jaxdp.LinearRegression.isotropic(dim="ten", label_noise=0.3)
jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), clip_scale=1.0, rho=1.0)
jaxdp.DPGD(0.1, clip_norm=1.0, num_steps=10, noise=1.0)
jaxdp.simulate(problem, key=jax.random.key(0))
jaxdp.account(algorithm, delt=1e-5)
jaxdp.losses.Huber(widht=1.0)
jaxdp.losses.Huber(1.0).slop_bound
jaxdp.plan(problem, epsilon=1.0, delt=1e-5)
"""


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_type_checker_takes_the_front_page_and_finds_planted_mistakes(checker, tmp_path):
    pytest.importorskip(checker)
    front = "\n".join(blocks("README.md", "python"))
    path = tmp_path / "front_page.py"
    path.write_text(front + WRONG)
    first = front.count("\n") + 2
    assert _lines(checker, path) == set(range(first, first + WRONG.count("\n") - 1))


def _lines(checker, path) -> set[int]:
    """The lines in which the checker finds errors."""
    if checker == "pyright":
        words = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
        found = subprocess.run([*words, str(path)], stdout=subprocess.PIPE, text=True, cwd="/")
        told = json.loads(found.stdout)["generalDiagnostics"]
        return {1 + one["range"]["start"]["line"] for one in told if one["severity"] == "error"}
    words = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context"]
    words += ["--cache-dir", str(path.parent / "cache"), str(path)]
    found = subprocess.run(words, stdout=subprocess.PIPE, text=True, cwd=path.parent)
    shutil.rmtree(path.parent / "cache", ignore_errors=True)
    lines = [line.split(":") for line in found.stdout.splitlines() if ": error:" in line]
    return {int(number) for name, number, *_ in lines if name == path.name}
