"""The simulator against AC Algorithm 1 as its box reads, and its contracts."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close
from one_pass_numpy import algorithm_1

import jaxdp
from jaxdp.core.keys import purpose_key, run_keys
from jaxdp.simulation.streams import one_pass

SQUARE_ROOT = jaxdp.Polynomial(3.0, power=0.5)
# By name, where another simulator is the default.
simulate_iterates = functools.partial(jaxdp.simulate, simulator=jaxdp.Iterates())


CONFIGURATIONS = {
    "square root schedule, heavy clipping": dict(
        spectrum=np.repeat([1.6, 0.4], 6),
        rate=lambda t: 3 * np.sqrt(1 - t),
        schedule=SQUARE_ROOT,
        clip_scale=0.4,
        rho=1.0,
        n=120,
    ),
    "constant schedule, capped steps": dict(
        spectrum=np.repeat([1.6, 0.4], 6),
        rate=lambda t: 20.0 + 0 * t,
        schedule=jaxdp.Constant(20.0),
        clip_scale=0.3,
        rho=2.0,
        n=120,
    ),
    "hyperbolic schedule, unequal spectrum": dict(
        spectrum=np.array([5.0] + [7 / 11] * 11),
        rate=lambda t: 8 / (1 + t / 0.3),
        schedule=jaxdp.Hyperbolic(8.0, knee=0.3),
        clip_scale=1.0,
        rho=1.0,
        n=105,
    ),
    "batches of four": dict(
        spectrum=np.repeat([1.6, 0.4], 6),
        rate=lambda t: 6 * np.sqrt(1 - t),
        schedule=jaxdp.Polynomial(6.0, power=0.5),
        clip_scale=0.6,
        rho=0.7,
        n=60,
        batch_size=4,
    ),
}


# Source: AC Algorithm 1.
@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_agrees_with_algorithm_1_as_printed(name):
    c = CONFIGURATIONS[name]
    target = np.linspace(0.1, 0.5, 12)
    rng = np.random.default_rng(7)
    fixed = dict(
        spectrum=c["spectrum"],
        target=target,
        label_noise=0.3,
        rate=c["rate"],
        n=c["n"],
        records=10,
        batch_size=c.get("batch_size", 1),
    )
    # Runs cost less in NumPy than where programs are compiled cheaply.
    path, final, clipped, capped = algorithm_1(
        rng, 3000, clip_scale=c["clip_scale"], rho=c["rho"], **fixed
    )
    problem = jaxdp.LinearRegression(c["spectrum"], target, 0.3)

    def simulate(**change):
        settings = {
            "clip_scale": c["clip_scale"],
            "rho": c["rho"],
            "batch_size": c.get("batch_size", 1),
            **change,
        }
        algorithm = jaxdp.OnePassDPSGD(c["schedule"], num_steps=c["n"], **settings)
        return simulate_iterates(problem, algorithm, key=jr.key(11), num_runs=1000, records=10)

    def assert_same_means(simulated):
        for ours, theirs in [
            (simulated.risk[:, 1:], path[:, 1:]),
            (simulated.final_risk, final),
            (simulated.observables["clipped_fraction"][:, -1], clipped),
            (simulated.observables["capped_fraction"][:, -1], capped),
        ]:
            ours = np.asarray(ours, np.float64)
            error = np.sqrt(ours.var(0, ddof=1) / len(ours) + theirs.var(0, ddof=1) / len(theirs))
            assert np.all(np.abs(ours.mean(0) - theirs.mean(0)) <= 5 * error + 1e-6)

    simulated = simulate()
    assert_same_means(simulated)
    np.testing.assert_allclose(simulated.risk[:, 0], path[0, 0], rtol=1e-5)
    # The same check sees noise off by a third and a clip norm off by a third.
    with pytest.raises(AssertionError):
        assert_same_means(simulate(rho=c["rho"] * 4 / 3))
    with pytest.raises(AssertionError):
        assert_same_means(simulate(clip_scale=c["clip_scale"] * 4 / 3, rho=c["rho"] * 4 / 3))


def test_configurations_clip_and_cap():
    for name, least_clipped, least_capped in [
        ("square root schedule, heavy clipping", 0.3, 0.0),
        ("constant schedule, capped steps", 0.3, 0.3),
    ]:
        c = CONFIGURATIONS[name]
        _, _, clipped, capped = algorithm_1(
            np.random.default_rng(0),
            1,
            spectrum=c["spectrum"],
            target=np.linspace(0.1, 0.5, 12),
            label_noise=0.3,
            rate=c["rate"],
            clip_scale=c["clip_scale"],
            rho=c["rho"],
            n=c["n"],
            records=10,
        )
        assert clipped >= least_clipped
        assert capped >= least_capped


PROBLEM = jaxdp.LinearRegression.isotropic(20, label_noise=0.3)


def _algorithm(num_steps=230, schedule=SQUARE_ROOT, rho=1.0, **more):
    return jaxdp.OnePassDPSGD(schedule, 1.0, rho, num_steps, **more)


@pytest.mark.slow
def test_values_do_not_depend_on_the_chunk():
    runs = [
        simulate_iterates(
            PROBLEM,
            _algorithm(),
            key=jr.key(0),
            num_runs=3,
            records=10,
            simulator=jaxdp.Iterates(chunk_size=size),
        ).risk
        for size in (1, 5, None)
    ]
    np.testing.assert_allclose(runs[0], runs[1], rtol=2e-5)
    np.testing.assert_allclose(runs[0], runs[2], rtol=2e-5)


@pytest.mark.slow
def test_a_run_is_the_same_alone_as_in_a_batch():
    many = simulate_iterates(PROBLEM, _algorithm(), key=jr.key(0), num_runs=5)
    alone = simulate_iterates(PROBLEM, _algorithm(), key=jr.key(0), num_runs=1)
    np.testing.assert_allclose(alone.risk[0], many.risk[0], rtol=2e-5)
    np.testing.assert_allclose(alone.final_risk[0], many.final_risk[0], rtol=2e-5)
    assert not np.allclose(many.risk[0, 1:], many.risk[1, 1:], rtol=1e-3)


@pytest.mark.slow
def test_progress_reports_and_changes_nothing():
    shares = []
    quiet = simulate_iterates(PROBLEM, _algorithm(), key=jr.key(0), num_runs=2)
    loud = simulate_iterates(
        PROBLEM, _algorithm(), key=jr.key(0), num_runs=2, progress=shares.append
    )
    np.testing.assert_allclose(loud.risk, quiet.risk, rtol=2e-5)
    for name, values in quiet.observables.items():
        np.testing.assert_allclose(loud.observables[name], values, rtol=1e-6)
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_progress_changes_nothing_where_a_block_does_not_fill_its_draws():
    # Blocks of five ranges of two steps; a draw of seven steps holds three of them.
    runs = [
        simulate_iterates(
            PROBLEM,
            _algorithm(num_steps=200),
            key=jr.key(0),
            simulator=jaxdp.Iterates(chunk_size=7),
            progress=progress,
        )
        for progress in (None, lambda share: None)
    ]
    np.testing.assert_allclose(runs[1].risk, runs[0].risk, rtol=2e-5)
    fractions = [each.observables["clipped_fraction"] for each in runs]
    np.testing.assert_allclose(fractions[1], fractions[0], rtol=1e-6)


@pytest.mark.slow
def test_two_noise_levels_see_the_same_data():
    def path(rho):
        return simulate_iterates(PROBLEM, _algorithm(rho=rho), key=jr.key(0)).risk

    # Without noise the paths agree with a nearly noiseless one, not with another key's.
    np.testing.assert_allclose(path(1e6), path(jnp.inf), rtol=1e-3)


# Source: AC Proposition 5.
@pytest.mark.long_runs
@pytest.mark.slow
def test_the_last_noise_comes_after_the_last_record():
    noisy = simulate_iterates(
        PROBLEM, _algorithm(schedule=jaxdp.Constant(3.0)), key=jr.key(0), num_runs=4000
    )
    silent = simulate_iterates(
        PROBLEM, _algorithm(schedule=jaxdp.Constant(3.0), rho=jnp.inf), key=jr.key(0), num_runs=4000
    )
    np.testing.assert_allclose(noisy.risk, silent.risk, rtol=1e-5)
    np.testing.assert_allclose(silent.final_risk, silent.risk[:, -1], rtol=1e-6)
    # AC Proposition 5 with gamma = 20/230: the jump's mean is 2 (c eta gamma / rho)^2.
    jump = noisy.final_risk - noisy.risk[:, -1]
    assert_mean_close(jump, 2 * (3 * 20 / 230) ** 2)
    with pytest.raises(AssertionError):
        assert_mean_close(jump, 2 * (3 * 20 / 230) ** 2 * 1.1)


@pytest.mark.parametrize(
    "num_steps", [*(pytest.param(length, marks=pytest.mark.slow) for length in (1, 7, 100)), 130]
)
def test_every_length_has_its_records(num_steps):
    # A rate that does not end at 0, so that every update changes the risk.
    algorithm = _algorithm(num_steps, schedule=jaxdp.Constant(3.0))
    runs = simulate_iterates(PROBLEM, algorithm, key=jr.key(0), num_runs=2)
    expected = [j * num_steps // 100 / num_steps for j in range(101)]
    np.testing.assert_allclose(runs.time, expected, rtol=1e-6)
    assert runs.risk.shape == (2, 101)
    steps = np.round(np.asarray(runs.time) * num_steps).astype(int)
    changes = np.any(np.diff(np.asarray(runs.risk), axis=1) != 0, axis=0)
    np.testing.assert_array_equal(changes, np.diff(steps) > 0)


@pytest.mark.slow
def test_batches_average_and_use_each_sample_once():
    # One step from zero on a batch: theta_1 = eta mean_i clip(y_i x_i) exactly.
    algorithm = _algorithm(1, schedule=jaxdp.Constant(0.05), rho=jnp.inf, batch_size=64)
    runs = simulate_iterates(PROBLEM, algorithm, key=jr.key(0), keep_parameters=True)
    key = purpose_key(run_keys(jr.key(0), 1)[0], "sampling")
    samples = jax.vmap(lambda index: PROBLEM.draw(None, key, index))(jnp.arange(64))
    gradients = -np.asarray(samples.inputs) * np.asarray(samples.labels)[:, None]
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped = gradients * np.minimum(1, np.sqrt(20) / norms)
    np.testing.assert_allclose(runs.parameters[0], -0.05 * clipped.mean(0), rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_batches_of_different_sizes_see_the_same_samples():
    # A tiny rate keeps the parameters at 0, where an average of all samples is the same.
    def moved(num_steps, batch_size):
        schedule = jaxdp.Constant(1e-3)
        algorithm = jaxdp.OnePassDPSGD(schedule, 1.0, jnp.inf, num_steps, batch_size=batch_size)
        runs = simulate_iterates(PROBLEM, algorithm, key=jr.key(0), keep_parameters=True)
        return runs.parameters[0]

    np.testing.assert_allclose(moved(60, 1), moved(12, 5), rtol=1e-2, atol=1e-6)


def test_compiles_once_for_new_hyper_parameters():
    simulate_iterates(PROBLEM, _algorithm(), key=jr.key(0), num_runs=3)
    before = one_pass._advance._cached._cache_size()
    simulate_iterates(PROBLEM, _algorithm(rho=2.0), key=jr.key(1), num_runs=3)
    simulate_iterates(
        PROBLEM, _algorithm(schedule=jaxdp.Polynomial(2.0, power=1.0)), key=jr.key(1), num_runs=3
    )
    assert one_pass._advance._cached._cache_size() == before


@pytest.mark.slow
def test_works_under_vmap_over_every_hyper_parameter():
    def final(peak, clip_scale, rho, label_noise):
        problem = jaxdp.LinearRegression.isotropic(20, label_noise=label_noise)
        algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, 0.5), clip_scale, rho, 60)
        return simulate_iterates(problem, algorithm, key=jr.key(0), num_runs=2).final_risk

    values = (
        jnp.asarray([2.0, 3.0]),
        jnp.asarray([0.5, 1.0]),
        jnp.asarray([1.0, 2.0]),
        jnp.asarray([0.1, 0.3]),
    )
    together = jax.jit(jax.vmap(final))(*values)
    alone = final(*(value[1] for value in values))
    np.testing.assert_allclose(together[1], alone, rtol=1e-4)


@pytest.mark.slow
def test_a_traced_increasing_schedule_ends_with_a_status_not_with_less_noise():
    def status(slope):
        schedule = jaxdp.PiecewiseLinear([0.0, 1.0], jnp.stack([1.0, 1.0 + slope]))
        algorithm = jaxdp.OnePassDPSGD(schedule, 1.0, 1.0, 60)
        return simulate_iterates(PROBLEM, algorithm, key=jr.key(0)).status[0]

    statuses = jax.jit(jax.vmap(status))(jnp.asarray([-0.5, 0.5]))
    assert statuses.tolist() == [jaxdp.Status.OK, jaxdp.Status.INVALID]


@pytest.mark.parametrize(
    "simulator",
    [
        pytest.param(jaxdp.Iterates(), marks=pytest.mark.slow),
        jaxdp.HomogenizedSDE(num_steps=50),
    ],
)
def test_traced_parameters_out_of_range_are_void(simulator):
    def status(clip_scale, label_noise, scale):
        problem = jaxdp.LinearRegression(scale * jnp.ones(4), jnp.ones(4), label_noise)
        algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), clip_scale, 1.0, 60)
        runs = simulate_iterates(problem, algorithm, key=jr.key(0), simulator=simulator)
        return runs.status[0], runs.final_risk[0]

    clips, noises = jnp.asarray([1.0, -1.0, 1.0, 1.0]), jnp.asarray([0.1, 0.1, -0.1, 0.1])
    scales = jnp.asarray([1.0, 1.0, 1.0, 2.0])
    statuses, risks = jax.jit(jax.vmap(status))(clips, noises, scales)
    assert statuses.tolist() == [jaxdp.Status.OK, *[jaxdp.Status.INVALID] * 3]
    assert np.isfinite(risks).tolist() == [True, False, False, False]


@pytest.mark.slow
def test_simulators_can_share_a_key():
    algorithm = jaxdp.OnePassDPSGD(SQUARE_ROOT, 1.0, 0.15, 500)
    finals = [
        simulate_iterates(
            PROBLEM,
            algorithm,
            key=jr.key(0),
            num_runs=300,
            simulator=simulator,
            keep_parameters=True,
        ).parameters
        for simulator in (jaxdp.Iterates(), jaxdp.HomogenizedSDE(num_steps=500))
    ]
    first, second = (np.asarray(v, np.float64) - np.mean(v, axis=0) for v in finals)
    correlation = np.sum(first * second) / np.sqrt(np.sum(first**2) * np.sum(second**2))
    # 6000 pairs: a standard error of .013.
    assert abs(correlation) < 5 * 0.013


@pytest.mark.slow
def test_a_plain_callable_simulates_like_its_schedule():
    # 130 steps: compiled as a product, 130/130 is not 1.
    num_steps = 130
    plain = _algorithm(num_steps, schedule=lambda t: 3 * jnp.sqrt(1 - t))
    expected = simulate_iterates(PROBLEM, _algorithm(num_steps), key=jr.key(0)).risk
    found = simulate_iterates(PROBLEM, plain, key=jr.key(0)).check().risk
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.slow
def test_diverged_runs_are_data():
    problem = jaxdp.LinearRegression(jnp.ones(20), jnp.full(20, 1e30), 0.1)
    runs = simulate_iterates(problem, _algorithm(), key=jr.key(0), num_runs=2)
    assert runs.status.tolist() == [jaxdp.Status.DIVERGED] * 2
    with pytest.raises(RuntimeError, match="of 2 runs 2 diverged"):
        runs.check()


@pytest.mark.slow
def test_float64_is_kept():
    with jax.enable_x64():
        problem = jaxdp.LinearRegression.isotropic(5, label_noise=0.3)
        runs = simulate_iterates(problem, _algorithm(50), key=jr.key(0))
        assert runs.risk.dtype == jnp.float64


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"num_runs": 0}, ValueError, "num_runs >= 1, got 0"),
        ({"num_runs": 2.0}, TypeError, "num_runs to be a Python int"),
        ({"records": 0}, ValueError, "records >= 1, got 0"),
        ({"simulator": "iterates"}, TypeError, "expected simulator to be one such as"),
        ({"key": 0}, TypeError, "expected key to be a jax.random.key"),
        ({"key": jr.split(jr.key(0))}, ValueError, "expected one key"),
    ],
)
def test_wrong_calls_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        simulate_iterates(PROBLEM, _algorithm(), **{"key": jr.key(0), **change})


def test_a_traced_length_is_refused():
    with pytest.raises(TypeError, match="num_steps to be a Python int"):
        simulate_iterates(PROBLEM, _algorithm(jnp.asarray(100)), key=jr.key(0))


def test_what_is_no_problem_is_named():
    with pytest.raises(TypeError, match=r"expected problem to be a problem, .* got str"):
        simulate_iterates("problem", _algorithm(), key=jr.key(0))
