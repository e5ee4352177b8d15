"""The README's front page runs as it stands and prints what it says."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _block(language: str, number: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[number]


def _run(code: str, folder: pathlib.Path) -> str:
    environment = dict(os.environ)
    paths = [str(ROOT), environment.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    return _run(_block("python"), tmp_path_factory.mktemp("readme"))


def _rows(text):
    """The table's rows: time, simulated, standard error, ODE, gap, sigmas."""
    return [line.split() for line in text.splitlines()[2:9]]


def test_front_page_runs_as_it_stands_and_prints_the_table(printed):
    assert printed.split()[:6] == ["time", "simulated", "s.e.", "ODE", "gap", "sigmas"]
    times = [row[0] for row in _rows(printed)]
    assert times == ["0.000", "0.100", "0.250", "0.500", "0.750", "1.000", "final"]
    assert "(4.3772, 1e-05)-DP" in printed


def test_readme_shows_what_the_front_page_prints(printed):
    """Word for word; numbers differ in their last digits from one kind of processor to another."""
    shown = _block("text")

    def words(text):
        numbers = re.compile(r"\d+\.\d+(e[+-]?\d+)?")
        return [numbers.sub("#", line).split() for line in text.strip().splitlines()]

    assert words(shown) == words(printed)
    for expected, row in zip(_rows(shown), _rows(printed), strict=True):
        for column in (1, 3):
            assert float(row[column]) == pytest.approx(float(expected[column]), abs=1e-4)


@pytest.mark.slow
def test_random_features_run_as_they_stand_and_agree(tmp_path):
    out = _run(_block("python", 1) + "\nprint(simulated.final_risk.mean())", tmp_path)
    gap = re.search(r"final gap (\S+)", out)
    assert gap is not None
    assert float(gap[1].rstrip("(").split()[0]) < 0.01
    assert "(4.0000, 0.00125)-DP" in out
    assert 0.3 < float(out.split()[-1]) < 0.42


@pytest.mark.slow
def test_private_training_runs_as_it_stands_and_learns(tmp_path):
    after = """
losses = jax.vmap(lambda x, y: loss(model, x, y))(inputs, labels)
print(float(losses.mean() / labels.var()))
"""
    *cost, ratio = _run(_block("python", 2) + after, tmp_path).strip().splitlines()
    assert "zero-out-one; certified noise" in cost[0]
    assert re.match(r"privacy: \((2\.9\d+|3\.0000), 1e-05\)-DP", cost[0])
    assert "neighbours: zero-out-one" in cost[1]
    assert float(ratio) < 0.2


@pytest.mark.slow
def test_a_sweep_runs_as_it_stands_and_resumes(tmp_path):
    after = """
print(float(abs(dataset.simulated / dataset.predicted - 1).median()))
print(float(dataset.predicted.min()))
"""
    # The same script, run a second time.
    (tmp_path / "grid.py").write_text(_block("python", 4) + after)
    code = "import runpy; runpy.run_path('grid.py', run_name='__main__')"
    first, second = (_run(code, tmp_path) for _ in range(2))
    assert first == second
    gap, least = map(float, first.split()[-2:])
    assert gap < 0.03
    # Of 144 cells a factor of 1.36 apart in each direction, near the optimum, .06135.
    assert 0.0613 < least < 0.063
    assert len(list((tmp_path / "grid").glob("shard-*.npz"))) >= 6


@pytest.mark.slow
def test_a_private_function_is_learnt_as_it_stands_and_comes_back_from_its_file(tmp_path):
    after = """
print(float(jnp.mean((release(inputs) - signal) ** 2) / signal.var()), release.cost.epsilon)
"""
    out = _run(_block("python", 3) + after, tmp_path)
    assert out.startswith("privacy: (1.0000, 1e-06)-DP")
    ratio, epsilon = map(float, out.split()[-2:])
    # Its noise is drawn anew; of twenty runs the mean was .078 and the standard deviation .008.
    assert ratio < 0.15
    assert epsilon == pytest.approx(1, rel=1e-6)


@pytest.mark.slow
def test_rows_are_found_as_it_stands_and_blurred_by_privacy_as_predicted(tmp_path):
    leaked, private, predicted = map(float, _run(_block("python", 6), tmp_path).split())
    assert leaked < 1e-3
    # One draw of the noise: of six the mean was .267 and the standard deviation .026.
    assert private == pytest.approx(0.267, abs=0.13)
    assert predicted == pytest.approx(private, rel=0.4)
