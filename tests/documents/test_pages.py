"""The README's front page runs as it stands and prints what it says."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from entropy import known_environment

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _block(language: str, section: str = "The front page", number: int = 0) -> str:
    (text,) = re.findall(rf"^## {section}.*?\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[number]


def _run(code: str, folder: pathlib.Path, bits: tuple[int, str] | None = None) -> str:
    """What the code prints in a process of its own, with the stream of that seed and name."""
    environment = dict(os.environ) if bits is None else known_environment(*bits)
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


def _claimed(sentence: str) -> tuple[float, float]:
    """The number at `#` in a sentence of the README, and half a unit of its last digit."""
    pattern = re.escape(sentence).replace(r"\#", r"(\.?\d[\d,]*(?:\.\d+)?)")
    found = re.findall(pattern, README)
    assert len(found) == 1, f"{sentence!r} is in the README {len(found)} times"
    number = found[0].replace(",", "")
    return float(number), 0.5 * 10.0 ** -len(number.partition(".")[2])


def _assert_as_claimed(sentence: str, value: float, *, spread: float = 0.0) -> None:
    """The README's number is the value, to the digits shown.

    Args:
        spread: standard deviation of what differs with the bits; five are allowed.
    """
    number, rounding = _claimed(sentence)
    assert value == pytest.approx(number, abs=rounding + 5 * spread), sentence


@pytest.fixture
def bits(request):
    """A seed and a name for the noise that a process draws."""
    return request.config.getoption("seed_offset"), request.node.nodeid


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
        for column in (1, 2, 3, 4):
            if expected[column] != "-":
                assert float(row[column]) == pytest.approx(float(expected[column]), abs=1e-4)


@pytest.mark.slow
def test_random_features_run_as_they_stand_and_agree(tmp_path):
    after = """
clipped = simulated.observables["clipped_fraction"][:, -1].mean()
print(simulated.final_risk.mean(), clipped)
"""
    out = _run(_block("python", "Random features") + after, tmp_path)
    gap = re.search(r"final gap (\S+)", out)
    assert gap is not None
    assert float(gap[1].rstrip("(").split()[0]) < 0.01
    assert "(4.0000, 0.00125)-DP" in out
    error, clipped = map(float, out.split()[-2:])
    _assert_as_claimed("with a test error of about # at $\\varepsilon = 4$", error)
    assert "when four of five gradients are clipped" in README
    assert clipped == pytest.approx(4 / 5, abs=0.05)


@pytest.mark.slow
def test_everyday_dp_sgd_is_predicted_and_planned_as_it_stands(tmp_path):
    after = """
print(*(float(found.final_risk.mean()) for found in (simulated, predicted)))
print(*(float(found.observables["accuracy"][..., -1].mean()) for found in (simulated, predicted)))
"""
    plan = _block("python", "Everyday DP-SGD", 1)
    after += plan + "print(float(plan.predicted.final_risk), plan.algorithm.num_steps)"
    out = _run(_block("python", "Everyday DP-SGD") + after, tmp_path)
    assert "(1.0000, 1e-05)-DP; zero-out-one; simulated noise" in out
    gap = re.search(r"final gap \S+ \((\S+) standard errors\)", out)
    assert gap is not None
    assert float(gap[1]) < 6
    before, _, planned = out.partition("Plan for epsilon = 1")
    *_, risks, accuracies = before.strip().splitlines()
    (simulated, risk), (right, accuracy) = (map(float, x.split()) for x in (risks, accuracies))
    _assert_as_claimed("a test loss of # and an accuracy of", risk)
    _assert_as_claimed("an accuracy of # at $\\varepsilon = 1$", accuracy)
    # Standard errors of the mean of fifty runs.
    _assert_as_claimed("where the runs have # and", simulated, spread=0.0009)
    _assert_as_claimed("where the runs have .488 and #.", right, spread=0.0015)
    best, steps = map(float, planned.split()[-2:])
    _assert_as_claimed("Its best cell has a predicted loss of #,", best, spread=0.0002)
    assert steps in (25, 100)
    assert "not private" in planned


@pytest.mark.slow
def test_a_stream_is_planned_as_it_stands(tmp_path):
    out = _run(_block("python", "Plan before you run"), tmp_path)
    risk, spread, floor, samples = map(float, out.split())
    _assert_as_claimed("is a risk of #, from which single runs", risk)
    _assert_as_claimed("single runs differ by #; without", spread)
    _assert_as_claimed("without privacy it would be #. For", floor)
    # Where risks are equal to four digits, counts are.
    _assert_as_claimed("For a risk of .001 it takes # rows", samples, spread=1.0)


@pytest.mark.slow
def test_private_training_runs_as_it_stands_and_learns(tmp_path, bits):
    after = """
losses = jax.vmap(lambda x, y: loss(model, x, y))(inputs, labels)
print(float(losses.mean() / labels.var()))
"""
    out = _run(_block("python", "Private training") + after, tmp_path, bits)
    *cost, ratio = out.strip().splitlines()
    assert "zero-out-one; certified noise" in cost[0]
    epsilon = re.match(r"privacy: \((\S+), 1e-05\)-DP", cost[0])
    assert epsilon is not None
    _assert_as_claimed(
        "with its assumptions, (#, 1e-05)-DP with certified noise", float(epsilon[1])
    )
    assert "neighbours: zero-out-one" in cost[1]
    # Noise and batches differ with the bits; of ten runs the mean was 7.3, the deviation .46.
    _assert_as_claimed("leaves about # % of the labels", 100 * float(ratio), spread=0.5)


@pytest.mark.slow
def test_a_sweep_runs_as_it_stands_and_resumes(tmp_path):
    after = """
print(float(abs(dataset.simulated / dataset.predicted - 1).median()))
print(float(dataset.predicted.min()), dataset.predicted.size)
"""
    # The same script, run a second time.
    (tmp_path / "grid.py").write_text(_block("python", "Sweeps") + after)
    code = "import runpy; runpy.run_path('grid.py', run_name='__main__')"
    first, second = (_run(code, tmp_path) for _ in range(2))
    assert first == second
    gap, least, size = map(float, first.split()[-3:])
    assert gap < 0.03
    # Of 144 cells a factor of 1.36 apart in each direction, near the optimum, .06135.
    assert 0.0613 < least < 0.063
    assert len(list((tmp_path / "grid").glob("shard-*.npz"))) >= 6
    _assert_as_claimed("\n# cells of ten runs of 10,000 steps in a thousand dimensions", size)


@pytest.mark.slow
def test_the_same_sweep_by_dask_runs_as_it_stands_after_the_first(tmp_path):
    """With fewer cells; the module is made as the README says, of the block above."""
    small = re.sub(r"geomspace\((.*), 12\)", r"geomspace(\1, 2)", _block("python", "Sweeps"))
    module, _ = small.split("dataset = ")
    (tmp_path / "grid.py").write_text(module)
    (tmp_path / "alone.py").write_text(small)
    _run("import runpy; runpy.run_path('alone.py', run_name='__main__')", tmp_path)
    (tmp_path / "by_dask.py").write_text(_block("python", "Sweeps", 1))
    _run("import runpy; runpy.run_path('by_dask.py', run_name='__main__')", tmp_path)
    stores = [path for path in tmp_path.iterdir() if list(path.glob("shard-*.npz"))]
    assert len(stores) == 2


@pytest.mark.slow
def test_a_private_function_is_learnt_as_it_stands_and_comes_back_from_its_file(tmp_path, bits):
    after = """
error = jnp.mean((release(inputs) - signal) ** 2)
print(float(error), float(signal.var()), release.cost.epsilon)
"""
    out = _run(_block("python", "Private kernel learning") + after, tmp_path, bits)
    assert out.startswith("privacy: (1.0000, 1e-06)-DP")
    error, variance, epsilon = map(float, out.split()[-3:])
    # Its noise differs with the bits; of twenty runs the deviation was .008 of the variance.
    _assert_as_claimed("Here its error is about #, at a variance of .50", error, spread=0.004)
    _assert_as_claimed("error is about .04, at a variance of # and", variance)
    assert epsilon == pytest.approx(1, rel=1e-6)


@pytest.mark.slow
def test_rows_are_found_as_it_stands_and_blurred_by_privacy_as_predicted(tmp_path):
    after = """
others = jaxdp.problems.sphere_inputs(num_samples, dim, key=jax.random.key(9))
print(attacks.reconstruction_error(inputs, others))
"""
    out = _run(_block("python", "What leaks") + after, tmp_path)
    leaked, private, predicted, guess = map(float, out.split())
    assert "the first error is about $10^{-5}$, where 0 is a copy" in README
    assert 3e-6 < leaked < 3e-5
    _assert_as_claimed("where 0 is a copy and # a guess", guess)
    _assert_as_claimed("the second line shows it: #, predicted", private)
    _assert_as_claimed("the second line shows it: .24, predicted #, at an", predicted)
