"""The simulator against AC Algorithm 1 as its box reads, and its contracts."""

import functools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from one_pass_numpy import algorithm_1

import jaxdp

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
        least=(0.3, 0.0),
    ),
    "constant schedule, capped steps": dict(
        spectrum=np.repeat([1.6, 0.4], 6),
        rate=lambda t: 20.0 + 0 * t,
        schedule=jaxdp.Constant(20.0),
        clip_scale=0.3,
        rho=2.0,
        n=120,
        least=(0.3, 0.3),
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
    assert np.all([clipped.mean(), capped.mean()] >= np.asarray(c.get("least", 0)))
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


PROBLEM = jaxdp.LinearRegression.isotropic(20, label_noise=0.3)


def _algorithm(num_steps=230, schedule=SQUARE_ROOT, rho=1.0, **more):
    return jaxdp.OnePassDPSGD(schedule, 1.0, rho, num_steps, **more)


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
def test_batches_of_different_sizes_see_the_same_samples():
    # A tiny rate keeps the parameters at 0, where an average of all samples is the same.
    def moved(num_steps, batch_size):
        schedule = jaxdp.Constant(1e-3)
        algorithm = jaxdp.OnePassDPSGD(schedule, 1.0, jnp.inf, num_steps, batch_size=batch_size)
        runs = simulate_iterates(PROBLEM, algorithm, key=jr.key(0), keep_parameters=True)
        return runs.parameters[0]

    np.testing.assert_allclose(moved(60, 1), moved(12, 5), rtol=1e-2, atol=1e-6)
