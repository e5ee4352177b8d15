"""Every page's code runs as it stands, and the numbers that its sentences state come out."""

import re

import pytest
from pages import (
    PAGES,
    assert_as_claimed,
    blocks,
    code_of,
    run,
    run_commands,
    text_of,
    titled,
)

from experiments.benchmarks.private_kernel_ridge import noise_ratio

# The pages of the tests below; all others run in the first.
TESTED = {
    "README.md",
    "docs/index.md",
    "docs/how_to/plan.md",
    "docs/how_to/tune_a_clip.md",
    "docs/how_to/calibrate_a_budget.md",
    "docs/how_to/train_a_network.md",
    "docs/how_to/release_a_function.md",
    "docs/how_to/attack.md",
    "docs/how_to/audit.md",
    "docs/how_to/read_a_table.md",
    "docs/how_to/sweep_on_a_cluster.md",
    "docs/how_to/random_features.md",
    "docs/concepts/everyday_dp_sgd.md",
}
OTHERS = [page for page in PAGES if page not in TESTED and blocks(page, "python")]


def slow_page(test):
    """A test of a page: its programs run longer than they compile."""
    return pytest.mark.slow(pytest.mark.long_runs(test))


@pytest.fixture
def bits(request):
    """A seed and a name for the noise that a process draws."""
    return request.config.getoption("seed_offset"), request.node.nodeid


def _number(pattern, text):
    """The number that the pattern's only group has in a text, where it is found first."""
    found = re.search(pattern, text)
    assert found is not None, pattern
    return float(found[1])


def _sigmas(text):
    """How many standard errors a printed comparison ends apart."""
    return _number(r"final gap \S+ \((\S+) standard errors\)", text)


@slow_page
@pytest.mark.parametrize("page", OTHERS)
def test_a_page_runs_as_it_stands(page, tmp_path, bits):
    run(code_of(page), tmp_path, bits)


START = "docs/index.md"


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the front page prints, and what the start page prints after it."""
    front, *others = blocks(START, "python")
    code = "\n".join([front, "print('=====')", *others])
    out, _, after = run(code, tmp_path_factory.mktemp("start")).partition("=====\n")
    return out, after


def _rows(text):
    """The table's rows: time, simulated, standard error, ODE, gap, sigmas."""
    return [line.split() for line in text.splitlines() if re.match(r"\d\.\d{3} |final ", line)]


def test_front_page_runs_as_it_stands_and_prints_the_table(printed):
    out, _ = printed
    assert out.split()[:6] == ["time", "simulated", "s.e.", "ODE", "gap", "sigmas"]
    times = [row[0] for row in _rows(out)]
    assert times == ["0.000", "0.100", "0.250", "0.500", "0.750", "1.000", "final"]
    assert "(4.3772, 1e-05)-DP" in out


def _words(line):
    """A line without its numbers, which differ in their last digits between processors."""
    return re.sub(r"\d+\.\d+(e[+-]?\d+)?", "#", line).split()


def _assert_numbers_agree(shown, out):
    """Row for row, the printed one being that of the same time."""
    rows = {row[0]: row for row in _rows(out)}
    for expected in _rows(shown):
        for column in (1, 2, 3, 4):
            if expected[column] != "-":
                value = float(rows[expected[0]][column])
                assert value == pytest.approx(float(expected[column]), abs=1e-4)


def test_the_start_page_shows_what_the_front_page_prints(printed):
    out, _ = printed
    (shown,) = blocks(START, "text")
    lines = [[_words(line) for line in text.strip().splitlines()] for text in (shown, out)]
    assert lines[0] == lines[1]
    _assert_numbers_agree(shown, out)


def test_readme_shows_the_same_code_and_lines_of_the_same_output(printed):
    out, _ = printed
    assert blocks("README.md", "python") == blocks(START, "python")[:1]
    (shown,) = blocks("README.md", "text")
    left = iter([_words(line) for line in out.splitlines()])
    # In the order in which they are printed.
    assert all(_words(line) in left for line in shown.splitlines())
    _assert_numbers_agree(shown, out)


def test_the_start_page_tells_what_a_smaller_rho_costs(printed):
    out, after = printed
    risk, epsilon = map(float, after.split())
    (ode,) = (float(row[3]) for row in _rows(out) if row[0] == "final")
    assert_as_claimed(START, "the same schedule rises from # to", ode)
    assert_as_claimed(START, "rises from .097 to #, and epsilon", risk)
    assert_as_claimed(START, "epsilon falls from # to", _number(r"privacy: \((\S+),", out))
    assert_as_claimed(START, "epsilon falls from 4.38 to #.", epsilon)


@slow_page
def test_random_features_run_as_they_stand_and_agree(tmp_path):
    page = "docs/how_to/random_features.md"
    after = """
clipped = simulated.observables["clipped_fraction"][:, -1].mean()
print(simulated.final_risk.mean(), clipped)
"""
    out = run(code_of(page) + after, tmp_path)
    assert _number(r"final gap ([^\s(]+)", out) < 0.01
    assert "(4.0000, 0.00125)-DP" in out
    error, clipped = map(float, out.split()[-2:])
    assert_as_claimed(page, "with a test error of about # at $\\varepsilon = 4$", error)
    assert "when four of five gradients are clipped" in text_of(page)
    assert clipped == pytest.approx(4 / 5, abs=0.05)


@slow_page
def test_everyday_dp_sgd_is_predicted_and_planned_as_it_stands(tmp_path):
    page = "docs/concepts/everyday_dp_sgd.md"
    between = """
print(*(float(found.final_risk.mean()) for found in (simulated, predicted)))
print(*(float(found.observables["accuracy"][..., -1].mean()) for found in (simulated, predicted)))
"""
    compare, network, plan = blocks(page, "python")
    after = "print(float(plan.predicted.final_risk), plan.algorithm.num_steps)\n"
    out, told = run(compare + between + plan + after + network, tmp_path).split("movement ")
    # Within the limits of what a tangent tells: movement .8 and gap .3.
    movement, gap = map(float, told.split(", kernel gap "))
    assert 0.05 < movement < 0.3
    assert gap < 0.1
    assert "(1.0000, 1e-05)-DP; zero-out-one; simulated noise" in out
    assert _sigmas(out) < 6
    before, _, planned = out.partition("Settings were chosen")
    *_, risks, accuracies = before.strip().splitlines()
    (simulated, risk), (right, accuracy) = (map(float, x.split()) for x in (risks, accuracies))
    assert_as_claimed(page, "a test loss of # and an accuracy of", risk)
    assert_as_claimed(page, "an accuracy of # at $\\varepsilon = 1$", accuracy)
    # Standard errors of the mean of fifty runs.
    assert_as_claimed(page, "where the runs have # and", simulated, spread=0.0009)
    assert_as_claimed(page, "where the runs have .488 and #.", right, spread=0.0015)
    best, steps = map(float, planned.split()[-2:])
    assert_as_claimed(page, "Its best cell has a predicted loss of #,", best, spread=0.0002)
    assert steps in (25, 100)
    assert "not private" in planned


@slow_page
def test_a_stream_is_planned_as_it_stands(tmp_path):
    page = "docs/how_to/plan.md"
    first, second, inverse = blocks(page, "python")
    between = "print(float(plan.algorithm.clip_scale), plan.algorithm.learning_rate.values)\n"
    out = run(first + between + second + "print('=====')\n" + inverse, tmp_path)
    before, _, numbers = out.partition("=====\n")
    assert "at epsilon 2, delta 1e-05 (rho = " in before
    for sentence, pattern in {
        "the budget, the clip norm (#)": r"clip norm ([^\s,]+)",
        "and the clip scale (#;": r"clip scale ([^\s,]+)",
        "at the start and at the end (# and": r"learning rate (\S+) to ",
        "at the end (75.19 and # in units": r"learning rate \S+ to ([^\s,]+)",
    }.items():
        assert_as_claimed(page, sentence, _number(pattern, before))
    assert _sigmas(before) < 5
    assert "(2.0000, 1e-05)-DP" in before
    risk, spread, floor, samples = map(float, numbers.split())
    assert_as_claimed(page, "is a risk of #, from which single runs", risk)
    assert_as_claimed(page, "single runs differ by #; without", spread)
    assert_as_claimed(page, "without privacy it would be #. For", floor)
    # Where risks are equal to four digits, counts are.
    assert_as_claimed(page, "For a risk of .001 it takes # rows", samples, spread=1.0)


@slow_page
def test_a_clip_is_tuned_as_it_stands(tmp_path):
    page = "docs/how_to/tune_a_clip.md"
    after = (
        "print(jnp.nanmin(risks[jnp.abs(scales - 1).argmin()]), jax.grad(final_risk)(0.15, 20.0))"
    )
    best, peak, least, at_one, slope = map(float, run(code_of(page) + after, tmp_path).split())
    assert_as_claimed(page, "The best clip scale is about #, at", best)
    assert_as_claimed(page, "at a learning rate of about # and a risk", peak, spread=0.1)
    assert_as_claimed(page, "about 20 and a risk of #:", least)
    assert_as_claimed(page, "the best of these rates has a risk of #.", at_one, spread=1e-5)
    assert abs(slope) < 0.02


@slow_page
def test_budgets_are_calibrated_as_it_stands(tmp_path):
    page = "docs/how_to/calibrate_a_budget.md"
    out = run(code_of(page), tmp_path)
    epsilons = [float(each) for each in re.findall(r"^privacy: \((\S+), 1e-05\)-DP", out, re.M)]
    assert epsilons[:3] == pytest.approx([2, 2, 2], abs=1e-3)
    assert [*re.findall(r"DP.*?; (replace-one|zero-out-one);", out)][:3] == [
        "replace-one",
        "replace-one",
        "zero-out-one",
    ]
    assert_as_claimed(page, "less than 4 together: # at the same delta", epsilons[3])


@slow_page
def test_networks_are_trained_as_it_stands_and_learn(tmp_path, bits):
    page = "docs/how_to/train_a_network.md"
    after = """
losses = jax.vmap(lambda x, y: loss(model, x, y))(inputs, labels)
print(float(losses.mean() / labels.var()))
"""
    watch, draw, release, part = blocks(page, "python")
    line = "print('=====')"
    out = run("\n".join([watch, draw, line, release, after, line, part]), tmp_path, bits)
    watched, released, forms = out.split("=====\n")
    assert re.findall(r"(\S+) +product of norms", forms) == ["layers[0].up", "layers[0].down"]
    assert "fall back" not in forms
    accuracies = [float(each) for each in re.findall(r"accuracy (\S+)%", watched)]
    assert len(accuracies) == 7
    assert "about four of five test images are recognised" in text_of(page)
    # One training run on another processor; 297 images.
    assert accuracies[-1] == pytest.approx(80, abs=8)
    assert "(3.0000, 1e-05)-DP; zero-out-one; simulated noise" in watched
    assert (tmp_path / "accuracy.png").stat().st_size > 1000
    *cost, ratio = released.strip().splitlines()
    assert "zero-out-one; certified noise" in cost[0]
    epsilon = _number(r"^privacy: \((\S+), 1e-05\)-DP", cost[0])
    assert_as_claimed(page, "with its assumptions, (#, 1e-05)-DP with certified noise", epsilon)
    assert "neighbours: zero-out-one" in cost[1]
    # Noise and batches differ with the bits; of ten runs the mean was 7.3, the deviation .46.
    assert_as_claimed(page, "leaves about # % of the labels", 100 * float(ratio), spread=0.5)


@slow_page
def test_functions_are_released_as_it_stands_by_estimator_and_command(tmp_path, bits):
    page = "docs/how_to/release_a_function.md"
    made, fitted, loaded, full, own = blocks(page, "python")
    after = """
error = jnp.mean((release(inputs) - signal) ** 2)
print(float(error), float(signal.var()), release.cost.epsilon)
"""
    between = "print(table['price'].std())\nprint('=====')"
    parts = [made, fitted, loaded, between, full, after, "print('=====')", own]
    houses, out, nystrom = run("\n".join(parts), tmp_path, bits).split("=====\n")
    assert houses.startswith("privacy: (1.0000, 1e-06)-DP")
    *_, error, without = map(float, houses.split()[-2:])
    # Over twelve fits the error's mean was 10.72, its deviation .056.
    assert_as_claimed(page, "the error is about #, of which 10 is noise", error, spread=0.06)
    assert_as_claimed(page, "without the inputs it would be #.", without)

    (commands,) = blocks(page, "bash")
    assert "(1.0000, 1e-06)-DP" in run_commands(commands, tmp_path)
    predicted = (tmp_path / "predicted.csv").read_text().split()
    assert predicted[0] == "prediction"
    assert len(predicted) == 20_001

    assert out.startswith("privacy: (1.0000, 1e-06)-DP")
    error, variance, epsilon = map(float, out.split()[-3:])
    # Its noise differs with the bits; of twenty runs the deviation was .008 of the variance.
    assert_as_claimed(page, "Here its error is about #, at a variance of .50", error, spread=0.004)
    assert_as_claimed(page, "error is about .04, at a variance of # and", variance)
    assert epsilon == pytest.approx(1, rel=1e-6)
    assert nystrom.startswith("privacy: (1.0000, 1e-06)-DP")
    assert 0 < float(nystrom.split()[-1]) < variance / 3


def test_the_published_calibration_takes_as_much_more_noise_as_the_page_says():
    page = "docs/how_to/release_a_function.md"
    # At the delta of the benchmark's table.
    ratios = {count: noise_ratio(count, 1000**-1.1) for count in (10, 100, 1000)}
    on_c, on_u = ratios[100]
    assert_as_claimed(page, "takes # times the noise on $C$", on_c)
    assert_as_claimed(page, "and # times that on $u$ at", on_u)
    values = [value for pair in ratios.values() for value in pair]
    assert_as_claimed(page, "(# to 17.5 times over", min(values))
    assert_as_claimed(page, "(3.9 to # times over", max(values))
    with pytest.raises(AssertionError):
        assert_as_claimed(page, "takes # times the noise on $C$", 1.05 * on_c)


@slow_page
def test_rows_are_found_as_it_stands_and_blurred_by_privacy_as_predicted(tmp_path):
    page = "docs/how_to/attack.md"
    network, features, membership = blocks(page, "python")
    after = """
others = jaxdp.problems.sphere_inputs(num_samples, dim, key=jax.random.key(9))
print(attacks.reconstruction_error(inputs, others))
"""
    between = """
others = jaxdp.problems.sphere_inputs(num_samples, dim, key=jax.random.key(9))
print(attacks.reconstruction_error(inputs, others), "=====")
"""
    without = "print(attacks.leak_report(target, found), '=====')\n"
    out = run(network + between + without + features + after, tmp_path)
    first, told, out = out.split("=====\n")
    assert first.startswith("5 of 5 training rows were found [")
    rest = _number(r"^rows that explain all but (\S+) of the parameters were found", told)
    assert "rows that explain all but 1.5e-05 of the parameters were found" in text_of(page)
    assert rest == pytest.approx(1.5e-5, abs=5e-6)
    *errors, guess = map(float, re.findall(r"\d+\.\d*(?:e-\d+)?", first))
    assert "with errors of about .001, where 0 is a copy" in text_of(page)
    assert len(errors) == 5
    assert max(errors) < 0.003
    assert guess > 0.8

    leaked, private, predicted, guess = map(float, out.split())
    assert "the first error is about $10^{-5}$, where 0 is a copy" in text_of(page)
    assert 3e-6 < leaked < 3e-5
    assert_as_claimed(page, "$10^{-5}$, where 0 is a copy and # a guess", guess)
    assert_as_claimed(page, "the second line shows it: #, predicted", private)
    assert_as_claimed(page, "the second line shows it: .24, predicted #, at an", predicted)

    imports = "import jax, jax.numpy as jnp, jaxdp\nfrom jaxdp import attacks\n"
    *told, mean = run(imports + membership, tmp_path).splitlines()
    area, bound = (float(line.split()[1]) for line in told if "auc  " in line or "bound " in line)
    assert 0.5 < float(mean) < area <= bound


@slow_page
def test_a_guarantee_is_tested_as_it_stands(tmp_path):
    page = "docs/how_to/audit.md"
    right, wrong = map(float, re.findall(r"at least (\S+)", run(code_of(page), tmp_path)))
    assert_as_claimed(page, "the audit finds at least #. With", right)
    assert_as_claimed(page, "With half the noise it finds # of 2", wrong)


@slow_page
def test_a_table_is_read_as_it_stands(tmp_path):
    page = "docs/how_to/read_a_table.md"
    out = run(code_of(page), tmp_path)
    assert "differ by a few standard errors of twenty runs" in text_of(page)
    assert _sigmas(out) < 5
    (commands,) = blocks(page, "bash")
    (command,) = commands.splitlines()
    assert "target: y; inputs: x0, x1" in run_commands(command, tmp_path)


SWEEPS = "docs/how_to/sweep_on_a_cluster.md"


@slow_page
def test_a_sweep_runs_as_it_stands_and_resumes(tmp_path):
    after = """
print(float(abs(dataset.simulated / dataset.predicted - 1).median()))
print(float(dataset.predicted.min()), dataset.predicted.size)
"""
    # The same script, run a second time.
    (tmp_path / "grid.py").write_text(code_of(SWEEPS) + after)
    code = "import runpy; runpy.run_path('grid.py', run_name='__main__')"
    first, second = (run(code, tmp_path) for _ in range(2))
    assert first == second
    gap, least, size = map(float, first.split()[-3:])
    assert gap < 0.03
    # Of 144 cells a factor of 1.36 apart in each direction, near the optimum, .06135.
    assert 0.0613 < least < 0.063
    assert len(list((tmp_path / "grid").glob("shard-*.npz"))) >= 6
    sentence = "\n# cells of ten runs of 10,000 steps in a thousand dimensions"
    assert_as_claimed(SWEEPS, sentence, size)


@slow_page
def test_the_same_sweep_by_dask_runs_as_it_stands_after_the_first(tmp_path):
    """With fewer cells; the module is made as the page says, of the block above."""
    small = re.sub(r"geomspace\((.*), 12\)", r"geomspace(\1, 2)", code_of(SWEEPS))
    module, _ = small.split("dataset = ")
    (tmp_path / "grid.py").write_text(module)
    (tmp_path / "alone.py").write_text(small)
    run("import runpy; runpy.run_path('alone.py', run_name='__main__')", tmp_path)
    (tmp_path / "by_dask.py").write_text(titled(SWEEPS, "by_dask.py"))
    run("import runpy; runpy.run_path('by_dask.py', run_name='__main__')", tmp_path)
    stores = [path for path in tmp_path.iterdir() if list(path.glob("shard-*.npz"))]
    assert len(stores) == 2
