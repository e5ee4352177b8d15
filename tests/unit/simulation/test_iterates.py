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


# The schedule as a function, the schedule, clip scale, rho, steps, batch size; the least shares of
# clipped and capped samples.
CONFIGURATIONS = {
    "square root schedule, heavy clipping": (
        lambda t: 3 * np.sqrt(1 - t),
        *(SQUARE_ROOT, 0.4, 1.0, 120, 1, (0.3, 0.0)),
    ),
    "constant schedule, capped steps": (
        lambda t: 20.0 + 0 * t,
        *(jaxdp.Constant(20.0), 0.3, 2.0, 120, 1, (0.3, 0.3)),
    ),
    "batches of four": (
        lambda t: 6 * np.sqrt(1 - t),
        *(jaxdp.Polynomial(6.0, power=0.5), 0.6, 0.7, 60, 4, (0.0, 0.0)),
    ),
}


# Source: AC Algorithm 1.
@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_agrees_with_algorithm_1_as_printed(name):
    rate, schedule, clip_scale, rho, num_steps, batch_size, least = CONFIGURATIONS[name]
    spectrum, target = np.repeat([1.6, 0.4], 6), np.linspace(0.1, 0.5, 12)
    described = {"spectrum": spectrum, "target": target, "label_noise": 0.3, "rate": rate}
    described |= {"n": num_steps, "records": 10, "batch_size": batch_size}
    # Runs cost less in NumPy than where programs are compiled cheaply.
    path, final, clipped, capped = algorithm_1(
        np.random.default_rng(7), 3000, clip_scale=clip_scale, rho=rho, **described
    )
    assert np.all([clipped.mean(), capped.mean()] >= np.asarray(least))
    problem = jaxdp.LinearRegression(spectrum, target, 0.3)

    def simulate(factor_of_clip=1.0, factor_of_rho=1.0):
        scales = clip_scale * factor_of_clip, rho * factor_of_rho
        algorithm = jaxdp.OnePassDPSGD(schedule, *scales, num_steps, batch_size=batch_size)
        return simulate_iterates(problem, algorithm, key=jr.key(11), num_runs=1000, records=10)

    def assert_same_means(simulated):
        parts = simulated.observables
        for ours, theirs in [
            (simulated.risk[:, 1:], path[:, 1:]),
            (simulated.final_risk, final),
            (parts["clipped_fraction"][:, -1], clipped),
            (parts["capped_fraction"][:, -1], capped),
        ]:
            ours = np.asarray(ours, np.float64)
            error = np.sqrt(ours.var(0, ddof=1) / len(ours) + theirs.var(0, ddof=1) / len(theirs))
            assert np.all(np.abs(ours.mean(0) - theirs.mean(0)) <= 5 * error + 1e-6)

    simulated = simulate()
    assert_same_means(simulated)
    np.testing.assert_allclose(simulated.risk[:, 0], path[0, 0], rtol=1e-5)
    # The same check sees noise off by a third and a clip norm off by a third.
    for factors in ((1.0, 4 / 3), (4 / 3, 4 / 3)):
        with pytest.raises(AssertionError):
            assert_same_means(simulate(*factors))


PROBLEM = jaxdp.LinearRegression.isotropic(20, label_noise=0.3)


@pytest.mark.slow
def test_progress_changes_nothing_where_a_block_does_not_fill_its_draws():
    # Blocks of five ranges of two steps; a draw of seven steps holds three of them.
    how = {"key": jr.key(0), "simulator": jaxdp.Iterates(chunk_size=7)}
    given = PROBLEM, jaxdp.OnePassDPSGD(SQUARE_ROOT, 1.0, 1.0, 200)
    runs = [jaxdp.simulate(*given, **how, progress=each) for each in (None, lambda share: None)]
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
