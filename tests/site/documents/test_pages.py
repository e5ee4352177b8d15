"""Every page's code runs as it stands, and the numbers that its sentences state come out."""

import re
from typing import NamedTuple

import pytest
from pages import PAGES, assert_as_claimed, blocks, run, run_commands, titled

START, SWEEPS = "docs/index.md", "docs/how_to/sweep_on_a_cluster.md"


class Said(NamedTuple):
    """What a page says, beyond that it runs."""

    claims: dict[str, float]  # sentences with `#` for a number, and the number's deviation
    code: dict[int, str]  # what tells the numbers, by the block after which it runs
    shown: tuple[str, ...] = ()  # patterns of what is printed
    commands: str = ""  # a pattern of what the page's commands print


SAID = {
    "docs/how_to/random_features.md": Said(
        {"with a test error of about # at $\\varepsilon = 4$": 0},
        {
            0: """clipped = simulated.observables["clipped_fraction"][:, -1].mean()
assert abs(clipped - 4 / 5) < 0.05, "when four of five gradients are clipped"
tell(simulated.final_risk.mean())"""
        },
        (r"final gap \d\.\d+e-0[3-9]", r"\(4\.0000, 0\.00125\)-DP"),
    ),
    "docs/concepts/everyday_dp_sgd.md": Said(
        # Standard errors of the mean of fifty runs.
        {
            "| predicted | # |": 0,
            "| predicted | 0.488 | # |": 0,
            "| mean of 50 runs | # |": 0.0009,
            "| mean of 50 runs | 0.488 | # |": 0.0015,
            "Its best cell has a predicted loss of #,": 0.0002,
        },
        {
            0: """for found in predicted, simulated:
    tell(found.final_risk.mean(), found.observables["accuracy"][..., -1].mean())""",
            2: "tell(plan.predicted.final_risk)",
        },
        (
            r"loss 0\.\d+, movement 0?\.[12]\d",
            r"\(1\.0000, 1e-05\)-DP; one record, zero-out-one; simul",
        ),
    ),
    "docs/how_to/plan.md": Said(
        {
            "the budget, the clip norm (#)": 0,
            "and the clip scale (#;": 0,
            "at the start and at the end (# and": 0,
            "at the end (75.19 and # in units": 0,
            "is a risk of #, from which single runs": 0,
            "single runs differ by #; without": 0,
            "without privacy it would be #. For": 0,
            # Where risks are equal to four digits, counts are.
            "For a risk of 0.001 it takes # rows": 1,
        },
        {
            0: """rates = plan.algorithm.learning_rate.values
tell(plan.clip_norm, plan.algorithm.clip_scale, rates[0], rates[-1])
""",
            2: "tell(plan.final_risk, predicted.final_std, plan.floor, samples)",
        },
    ),
    "docs/how_to/tune_a_clip.md": Said(
        {
            "The best clip scale is about #, at": 0,
            "at a learning rate of about # and a risk": 0.1,
            "about 20 and a risk of #:": 0,
            "the best of these rates has a risk of #.": 1e-5,
        },
        {
            0: """tell(scales[scale], peaks[peak], risks[scale, peak])
tell(jnp.nanmin(risks[jnp.abs(scales - 1).argmin()]))"""
        },
    ),
    "docs/how_to/tune_privately.md": Said(
        {"each run has a mu of #, where": 0, "one run alone would have #.": 0},
        {0: "tell(mu, jaxdp.privacy.gaussian_mu(1.0, 1e-5))"},
    ),
    "docs/how_to/which_noise.md": Said(
        {
            "predicts a loss of # with bands": 2e-5,
            "with bands and # with independent": 2e-5,
            "Without privacy it would be #.": 2e-5,
        },
        {
            0: """independent, bands = plan.table
tell(bands.risk, independent.risk, plan.floor)
other = jaxdp.plan(problem, epsilon=1.0, delta=1e-5, **cell, noise="correlated")
assert other.algorithm.noise is None and "% more above" in other.about_noise""",
            1: """others, answers = public[2:]
assert abs(((others @ run.model - answers) ** 2).mean() - 0.0945) < 0.006""",
        },
        (r"(?s)certified noise.*hold past noise and are not released",),
    ),
    "docs/how_to/audit_another_library.md": Said(
        {"The audit finds # twice": 0, "refutes the claims of 1 and #.": 0},
        {1: "tell(found, claimed)"},
    ),
    "docs/how_to/calibrate_a_budget.md": Said(
        {"less than 4 together: # at the same delta": 0},
        {2: "tell(jaxdp.account(both, delta=1e-5).epsilon)"},
        (r"(\((2\.0000|1\.999\d), 1e-05\)-DP(.|\n)*?){3}",),
    ),
    "docs/how_to/train_a_network.md": Said(
        {
            "with its assumptions, (#, 1e-05)-DP with certified noise": 0,
            # Noise and batches differ with the bits; of ten runs the deviation was .46.
            "leaves about # % of the labels": 0.5,
        },
        {
            # One training run on another processor; 297 images.
            0: "assert abs(run.records['accuracy'][-1] - 0.8) < 0.08",
            2: """tell(jaxdp.account(run, delta=1e-5).epsilon)
losses = jax.vmap(lambda x, y: loss(model, x, y))(inputs, labels)
tell(100 * losses.mean() / labels.var())
""",
        },
        (r"zero-out-one; simulated noise(.|\n)*zero-out-one; certified noise",),
    ),
    "docs/how_to/confidence_intervals.md": Said(
        {
            "The true coefficient of age is #:": 0,
            "over the rows, here # for a master": 0,
        },
        {
            0: """true = 0.3 * (90 - 17) / 2, 8 * (1 - 0.1)
tell(*true)
intervals = estimator.coef_interval(level=0.999999)
assert all(low < one < high for one, (low, high) in zip(true, intervals[[0, 3]]))
assert np.isinf(intervals[4]).all() and np.isfinite(intervals[:4]).all()"""
        },
        (r"^degree is doctor .* inf +inf ",),
    ),
    "docs/how_to/release_a_function.md": Said(
        {
            # Over twelve fits the error's deviation was .056, of twenty runs .008 of the variance.
            "the error is about #, of which 10 is noise": 0.06,
            "without the inputs it would be #.": 0,
            "Here its error is about #, at a variance of 0.50": 0.004,
            "error is about 0.04, at a variance of # and": 0,
        },
        {
            2: "tell(error, table['price'].std())",
            3: "tell(jnp.mean((release(inputs) - signal) ** 2), signal.var())",
            4: "assert 0 < jnp.mean((release(inputs) - signal) ** 2) < signal.var() / 3",
        },
        (r"^privacy: \(1\.0000, 1e-06\)-DP",),
        r"\(1\.0000, 1e-06\)-DP",
    ),
    "docs/how_to/attack.md": Said(
        {
            "$10^{-5}$, where 0 is a copy and # a guess": 0,
            "the second line shows it: #, predicted": 0,
            "the second line shows it: 0.24, predicted #, at an": 0,
        },
        {
            0: "assert max(report.errors) < 0.003; print(attacks.leak_report(target, found))",
            1: """others = jaxdp.problems.sphere_inputs(num_samples, dim, key=jax.random.key(9))
tell(attacks.reconstruction_error(inputs, others), attack(private.parameters[0]), predicted)
leaked = attack(attacks.minimum_norm_parameters(inputs, labels, weights, jax.nn.relu))
assert 3e-6 < leaked < 3e-5, "the first error is about 1e-5"
""",
        },
        (r"^5 of 5 training rows were found \[", r"explain all but (1\.\d|2\.0)e-05 of the param"),
    ),
    "docs/how_to/audit.md": Said(
        {"the audit finds at least #. With": 0, "With half the noise it finds # of 2": 0}, {}
    ),
    "docs/how_to/read_a_table.md": Said({}, {}, (), r"target: y; inputs: x0, x1"),
}
# The front page and the start page have tests of their own, and so have sweeps.
OTHERS = {*PAGES} - {"README.md", START, SWEEPS}


def slow_page(test):
    """A test of a page: its programs run longer than they compile."""
    return pytest.mark.slow(pytest.mark.long_runs(test))


@slow_page
@pytest.mark.parametrize("page", sorted(page for page in OTHERS if blocks(page, "python")))
def test_a_page_runs_as_it_stands_and_its_numbers_come_out(page, tmp_path, request):
    said = SAID.get(page, Said({}, {}))
    code = ["def tell(*values): print('told', *map(float, values))"]
    for index, block in enumerate(blocks(page, "python")):
        code += [block, said.code.get(index, "")]
    bits = request.config.getoption("seed_offset"), request.node.nodeid
    out = run("\n".join(code), tmp_path, bits)
    told = " ".join(re.findall(r"^(?:told|noise .*: mu is at least) (.*)$", out, re.MULTILINE))
    for (sentence, spread), value in zip(said.claims.items(), told.split(), strict=True):
        assert_as_claimed(page, sentence, float(value), spread=spread)
    for pattern in said.shown:
        assert re.search(pattern, out, re.MULTILINE), pattern
    # Printed comparisons agree.
    for sigmas in re.findall(r"final gap \S+ \((\S+) standard errors\)", out):
        assert float(sigmas) < 6
    if said.commands:
        (commands,) = blocks(page, "bash")
        assert re.search(said.commands, run_commands(commands, tmp_path))


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


def _words(text):
    """Lines without their numbers, which differ in their last digits between processors."""
    return [re.sub(r"\d+\.\d+(e[+-]?\d+)?", "#", line).split() for line in text.splitlines()]


@pytest.mark.parametrize("page", [START, "README.md"])
def test_the_front_page_shows_what_it_prints(printed, page):
    out, _ = printed
    (shown,), (code, *_) = blocks(page, "text"), blocks(page, "python")
    assert code == blocks(START, "python")[0]
    left = iter(_words(out))
    # In the order in which they are printed; the README leaves lines out.
    assert all(words in left for words in _words(shown))
    rows = {row[0]: row for row in _rows(out)}
    assert len(rows) == 7
    for expected in _rows(shown):
        for number, value in zip(expected[1:5], rows[expected[0]][1:5], strict=True):
            if number != "-":
                assert float(value) == pytest.approx(float(number), abs=1e-4)


def test_the_start_page_tells_what_a_smaller_rho_costs(printed):
    out, after = printed
    risk, epsilon = map(float, after.split())
    (ode,) = (float(row[3]) for row in _rows(out) if row[0] == "final")
    first = re.findall(r"privacy: \((\S+),", out)
    assert_as_claimed(START, "the same schedule rises from # to", ode)
    assert_as_claimed(START, "rises from 0.097 to #, and epsilon", risk)
    assert_as_claimed(START, "epsilon falls from # to", float(first[0]))
    assert_as_claimed(START, "epsilon falls from 4.38 to #.", epsilon)


@slow_page
def test_a_sweep_runs_as_it_stands_and_resumes(tmp_path):
    after = """
print(float(abs(dataset.simulated / dataset.predicted - 1).median()))
print(float(dataset.predicted.min()), dataset.predicted.size)"""
    # The same script, run a second time.
    (tmp_path / "grid.py").write_text("\n".join(blocks(SWEEPS, "python")) + after)
    code = "import runpy; runpy.run_path('grid.py', run_name='__main__')"
    first, second = (run(code, tmp_path) for _ in range(2))
    assert first == second
    gap, least, size = map(float, first.split()[-3:])
    # Of 144 cells a factor of 1.36 apart in each direction, near the optimum, .06135.
    assert gap < 0.03
    assert 0.0613 < least < 0.063
    assert len(list((tmp_path / "grid").glob("shard-*.npz"))) >= 6
    assert_as_claimed(
        SWEEPS, "\n# cells of ten runs of 10,000 steps in a thousand dimensions", size
    )


@slow_page
def test_the_same_sweep_by_dask_runs_as_it_stands_after_the_first(tmp_path):
    """With fewer cells; the module is made as the page says, of the block above."""
    whole = "\n".join(blocks(SWEEPS, "python"))
    small = re.sub(r"geomspace\((.*), 12\)", r"geomspace(\1, 2)", whole)
    (tmp_path / "grid.py").write_text(small.split("dataset = ")[0])
    run(small, tmp_path)
    (tmp_path / "by_dask.py").write_text(titled(SWEEPS, "by_dask.py"))
    run("import runpy; runpy.run_path('by_dask.py', run_name='__main__')", tmp_path)
    assert len({path.parent for path in tmp_path.glob("*/shard-*.npz")}) == 2
