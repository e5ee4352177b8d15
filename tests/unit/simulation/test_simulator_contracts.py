"""What every simulator keeps to, whatever it simulates: runs, records, batches, types, noise."""

import functools

import canonical
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import FALSE_ALARM, assert_mean_close, programs_compiled, quick_and_slow
from scipy.stats import ks_2samp

import jaxdp

SLOW = pytest.mark.slow
POINT = (3.0, 0.5, 1.0, 0.3)
SDE = jaxdp.HomogenizedSDE(num_steps=60)


def _stream(peak=3.0, clip_scale=0.5, rho=1.0, label_noise=0.3):
    # Two blocks of eigenvalues.
    spectrum, target = np.repeat([1.6, 0.4], 6), np.linspace(0.1, 0.5, 12)
    problem = jaxdp.LinearRegression(spectrum, target, label_noise)
    return problem, jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, 0.5), clip_scale, rho, 60)


def _labels(peak=3.0, clip_scale=0.5, rho=1.0, signal=0.3):
    problem = jaxdp.LogisticRegression(12, signal=6 * signal)
    rate = jaxdp.Polynomial(10 * peak, 0.5)
    return problem, jaxdp.OnePassDPSGD(rate, 0.6 * clip_scale, rho, 60)


RANDOM = np.random.default_rng(5)
INPUTS, WEIGHTS = RANDOM.normal(size=(50, 6)), RANDOM.normal(size=(12, 6)) / 6**0.5
ALL, SIGNS = np.tanh(INPUTS @ WEIGHTS.T), np.sign(INPUTS[:, 0])
ROWS = ALL[:30], SIGNS[:30], ALL[30:], SIGNS[30:]


def _rows(duration=3.0, clip=0.5, noise=1.0, _=None):
    problem = jaxdp.FixedFeatures.from_arrays(*ROWS)
    return problem, jaxdp.DPGD(duration * 6 / 12 / 60, clip * 12**0.5, 60, noise)


CASES = {
    "Reduced": (_stream, jaxdp.Reduced()),
    "Reduced of labels": (_labels, jaxdp.Reduced()),
    "Iterates": (_stream, jaxdp.Iterates()),
    "Iterates of labels": (_labels, jaxdp.Iterates()),
    "HomogenizedSDE": (_stream, SDE),
    "HomogenizedSDE of labels": (_labels, SDE),
    "FunctionSpace": (_rows, jaxdp.FunctionSpace()),
    "Iterates on rows": (_rows, jaxdp.Iterates()),
}


def _run(name, *point, key=0, num_runs=3, records=6, **more):
    make, simulator = CASES[name]
    options = {"key": jr.key(key), "num_runs": num_runs, "records": records}
    return jaxdp.simulate(*make(*point), simulator=simulator, **options | more)


def _assert_same(ours, theirs, **tolerance):
    np.testing.assert_allclose(ours.risk, theirs.risk, **tolerance)
    np.testing.assert_allclose(ours.final_risk, theirs.final_risk, **tolerance)
    for name, values in theirs.observables.items():
        np.testing.assert_allclose(ours.observables[name], values, atol=1e-6, **tolerance)


each_case = pytest.mark.parametrize("name", CASES)


@pytest.mark.parametrize("name", quick_and_slow(CASES, "Reduced", "Iterates", "FunctionSpace"))
def test_new_numbers_compile_nothing(name):
    _run(name)
    assert programs_compiled(functools.partial(_run, name, 2.0, 0.6, 2.0, 0.1, key=1)) == 0


@SLOW
@each_case
def test_a_run_is_the_same_alone_as_in_a_batch_and_another_is_another(name):
    many, alone = _run(name), _run(name, num_runs=1)
    rtol = 1e-4 if "SDE" in name else 2e-5
    np.testing.assert_allclose(alone.risk[0], many.risk[0], rtol=rtol)
    np.testing.assert_allclose(alone.final_risk[0], many.final_risk[0], rtol=rtol)
    assert not np.allclose(many.risk[0, 1:], many.risk[1, 1:], rtol=1e-3)


# Ranges of 10 steps against ranges of 5, of 1 or 2, and of 1 or none.
@SLOW
@pytest.mark.parametrize(
    ("name", "records"),
    [("Reduced", 12), ("Reduced", 66), ("Reduced of labels", 45), ("Iterates", 45)],
)
def test_a_path_is_the_same_however_it_is_recorded(name, records):
    few, many = _run(name), _run(name, records=records)
    ours, theirs = (np.arange(4) * count // 3 for count in (6, records))
    few, many = (
        jax.tree.map(lambda leaf, at=at: leaf[:, at] if leaf.ndim == 2 else leaf, runs)
        for runs, at in ((few, ours), (many, theirs))
    )
    _assert_same(many, few, rtol=2e-5)


@SLOW
@each_case
def test_a_batch_of_cells_gives_what_each_cell_gives(name):
    def final(key, *point):
        make, simulator = CASES[name]
        options = {"key": key, "num_runs": 2, "records": 3, "simulator": simulator}
        return jaxdp.simulate(*make(*point), **options).final_risk

    batch = [jr.split(jr.key(0), 2), *(jnp.asarray([value, 1.5 * value]) for value in POINT)]
    # A batched condition chooses between copies of its keys, which JAX takes for a second use.
    with jax.debug_key_reuse(False):
        together = jax.jit(jax.vmap(final))(*batch)
        for cell in range(2):
            alone = final(*(values[cell] for values in batch))
            rtol = 1e-4 if "SDE" in name else 2e-5
            np.testing.assert_allclose(together[cell], alone, rtol=rtol)


# Two tests share these programs.
MANY = {"num_runs": 4000, "records": 1}


@pytest.mark.parametrize("name", quick_and_slow(CASES, "FunctionSpace"))
def test_traced_numbers_out_of_range_are_void(name):
    # Each number in turn has the other sign; rows have no fourth.
    signs = np.where(np.eye(5, 4, -1), -1.0, 1.0)[: 4 if CASES[name][0] is _rows else 5]

    def status(point):
        runs = _run(name, *point, num_runs=1)
        return runs.status[0], runs.final_risk[0]

    with jax.debug_key_reuse(False):
        statuses, risks = jax.jit(jax.vmap(status))(jnp.asarray(signs * POINT))
    assert statuses.tolist() == [jaxdp.Status.OK, *[jaxdp.Status.INVALID] * (len(signs) - 1)]
    assert np.isfinite(risks).tolist() == [True, *[False] * (len(signs) - 1)]


@SLOW
@each_case
def test_float64_is_kept_and_has_the_law_of_float32(name):
    with jax.enable_x64():
        wide = _run(name, **MANY)
        assert wide.risk.dtype == jnp.float64
        wide = np.asarray(wide.final_risk)
    narrow = np.asarray(_run(name, key=1, **MANY).final_risk)
    assert ks_2samp(wide, narrow).pvalue > FALSE_ALARM


@SLOW
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Reduced", "Iterates"),
        ("HomogenizedSDE", "Iterates"),
        ("FunctionSpace", "Iterates on rows"),
    ],
)
def test_simulators_can_share_a_key(first, second):
    # Much of the risk is noise.
    point = (3.0, 0.5, 30.0 if first == "FunctionSpace" else 0.15)
    finals = [np.asarray(_run(name, *point, **MANY).final_risk) for name in (first, second)]
    # The standard error of a correlation of so many independent pairs.
    assert abs(np.corrcoef(*finals)[0, 1]) < 5 / np.sqrt(4000)
    assert abs(np.corrcoef(finals[0], finals[0] + finals[1])[0, 1]) > 5 / np.sqrt(4000)


# Source: AC Proposition 5.
@pytest.mark.long_runs
@pytest.mark.parametrize(
    ("simulator", "rounding"),
    [(jaxdp.Reduced(), 0), pytest.param(jaxdp.Iterates(), 1e-5, marks=SLOW)],
)
def test_the_last_noise_comes_after_the_last_record(simulator, rounding):
    problem = jaxdp.LinearRegression.isotropic(20, label_noise=0.3)
    how = {"key": jr.key(0), "num_runs": 4000, "records": 6, "simulator": simulator}
    algorithms = (jaxdp.OnePassDPSGD(jaxdp.Constant(3.0), 1.0, rho, 230) for rho in (1.0, jnp.inf))
    noisy, silent = (jaxdp.simulate(problem, one, **how) for one in algorithms)
    np.testing.assert_allclose(noisy.risk, silent.risk, rtol=rounding)
    np.testing.assert_allclose(silent.final_risk, silent.risk[:, -1], rtol=rounding)
    # With gamma = 20/230 the jump's mean is 2 (c eta gamma / rho)^2.
    jump = noisy.final_risk - noisy.risk[:, -1]
    assert_mean_close(jump, 2 * (3 * 20 / 230) ** 2, rejects=[2 * (3 * 20 / 230) ** 2 * 1.1])


@SLOW
@pytest.mark.parametrize("name", ["Reduced", "Iterates"])
def test_noise_levels_see_the_same_data_and_no_noise_is_their_limit(name):
    loud, quiet, silent = (_run(name, 3.0, 0.5, rho) for rho in (1.0, 1e6, jnp.inf))
    np.testing.assert_allclose(quiet.risk, silent.risk, rtol=1e-3)
    assert not np.allclose(loud.risk, silent.risk, rtol=1e-3)
    first = [runs.observables["clipped_fraction"][:, 1] for runs in (loud, silent)]
    np.testing.assert_allclose(first[0], first[1], atol=0.21)


@SLOW
@pytest.mark.parametrize(
    "name", [name for name, (_, simulator) in CASES.items() if simulator.has_parameters]
)
def test_kept_parameters_have_the_final_risk(name):
    problem, _ = CASES[name][0]()
    kept = _run(name, keep_parameters=True)
    assert kept.parameters.shape == (3, 12)
    risks = [problem.risk(None, theta) for theta in kept.parameters if "rows" not in name]
    if "rows" in name:
        predictions = np.asarray(kept.parameters) @ np.asarray(problem.test_features()).T
        risks = np.mean((predictions - np.asarray(problem.test_labels)) ** 2, axis=1)
    np.testing.assert_allclose(risks, kept.final_risk, rtol=1e-5)
    assert _run(name).parameters is None


FEATURES, DESCENT = _rows()
STREAM, PASS = _stream()
TABLE = canonical.table()
UNEQUAL = STREAM.replace(spectrum=np.linspace(0.5, 1.5, 12))


@pytest.mark.parametrize(
    ("simulator", "problem", "algorithm", "reason"),
    [
        (None, FEATURES, PASS, "DPGD or a PrivateOptimiser"),
        (jaxdp.Iterates(), STREAM, DESCENT, "uses each once, such as OnePassDPSGD, got DPGD"),
        (jaxdp.FunctionSpace(), FEATURES, PASS, "DPGD or a PrivateOptimiser"),
        (jaxdp.FunctionSpace(), STREAM, DESCENT, "features on fixed rows"),
        (jaxdp.Reduced(), UNEQUAL, PASS, "distinct eigenvalues, .* got 12 of 12"),
        (jaxdp.Reduced(), STREAM, PASS.replace(batch_size=2), r"use Iterates\(\) for batch_size"),
        (jaxdp.Reduced(), TABLE, PASS, r"LinearRegression\), got TabularRegression; use Iterates"),
        (jaxdp.HomogenizedSDE(), TABLE, PASS, r"HomogenizedSDE: .* use its \.surrogate"),
        (jaxdp.simulation.OrnsteinUhlenbeckSDE(), STREAM, DESCENT, "features on fixed rows"),
    ],
)
def test_what_is_not_covered_is_said_before_any_work(simulator, problem, algorithm, reason):
    with pytest.raises(jaxdp.NotCoveredError, match=reason):
        jaxdp.simulate(problem, algorithm, key=jr.key(0), simulator=simulator)


def test_a_length_that_is_no_python_int_is_refused():
    with pytest.raises(TypeError, match="a Python int, because"):
        jaxdp.simulate(STREAM, PASS.replace(num_steps=jnp.asarray(60)), key=jr.key(0))


@pytest.mark.parametrize(
    ("pair", "simulator"),
    [
        ((STREAM, PASS), jaxdp.Reduced()),
        ((FEATURES, DESCENT), jaxdp.FunctionSpace()),
        ((FEATURES, DESCENT), jaxdp.simulation.ClippedSDE(4)),
    ],
)
def test_simulators_without_parameters_say_so(pair, simulator):
    with pytest.raises(ValueError, match=r"keep_parameters=False: .* use Iterates\(\)"):
        jaxdp.simulate(*pair, key=jr.key(0), simulator=simulator, keep_parameters=True)
