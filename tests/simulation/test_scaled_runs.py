"""Runs on inputs of random scale and with Huber's loss, against Algorithm 1 in NumPy."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import FALSE_ALARM, assert_mean_close
from one_pass_numpy import algorithm_1
from scipy import stats

import jaxdp

SPECTRUM, TARGET = np.repeat([1.6, 0.4], [6, 6]), np.linspace(0.1, 0.5, 12)
VALUES, WEIGHTS = np.array([0.2, 1.0, 3.0]) / 1.08, np.array([0.4, 0.4, 0.2])
WIDTH = 0.4
PROBLEM = jaxdp.LinearRegression(
    SPECTRUM,
    TARGET,
    0.3,
    input_scales=jaxdp.InputScales(VALUES, WEIGHTS),
    loss=jaxdp.losses.Huber(WIDTH),
)
# Some samples are clipped, and some capped.
ALGORITHM = jaxdp.OnePassDPSGD(jaxdp.Hyperbolic(20.0, 0.3), 0.5, 1.0, 60)


def _run(problem, simulator, num_runs, key=0):
    return jaxdp.simulate(
        problem, ALGORITHM, key=jr.key(key), num_runs=num_runs, simulator=simulator, records=6
    )


def _assert_same_means(printed, ours):
    path, final, clipped, capped = printed
    assert_mean_close(path[:, 1:], np.asarray(ours.risk[:, 1:].mean(0)))
    assert_mean_close(final, ours.final_risk.mean())
    assert_mean_close(clipped, ours.observables["clipped_fraction"][:, -1].mean())
    assert_mean_close(capped, ours.observables["capped_fraction"][:, -1].mean())
    assert stats.ks_2samp(path[:, 3], np.asarray(ours.risk[:, 3]))[1] > FALSE_ALARM


def test_reduced_runs_are_algorithm_1_with_scales_and_a_cut_residual():
    rng = np.random.default_rng(3)
    fixed = dict(spectrum=SPECTRUM, target=TARGET, label_noise=0.3, n=60)
    options = dict(rate=lambda t: 20 / (1 + t / 0.3), clip_scale=0.5, rho=1.0, records=6)
    law = dict(scales=tuple(zip(VALUES, WEIGHTS, strict=True)), width=WIDTH)
    printed = algorithm_1(rng, 500, **fixed, **options, **law)
    assert 0.1 < printed[3].mean() < 0.5
    _assert_same_means(printed, _run(PROBLEM, jaxdp.Reduced(), 10_000))
    # The same check sees other scales and another width, which share the compiled functions.
    narrow = jaxdp.InputScales([0.7, 1.0, 1.3], [0.4, 0.2, 0.4])
    for wrong in (
        PROBLEM.replace(input_scales=narrow),
        PROBLEM.replace(loss=jaxdp.losses.Huber(1e6)),
    ):
        with pytest.raises(AssertionError):
            _assert_same_means(printed, _run(wrong, jaxdp.Reduced(), 10_000))


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    [
        PROBLEM,
        PROBLEM.replace(loss=jaxdp.losses.HalfSquared()),
        PROBLEM.replace(input_scales=None),
    ],
    ids=["both", "scales", "Huber"],
)
def test_reduced_runs_have_the_law_of_the_iterates(problem):
    ours = _run(problem, jaxdp.Reduced(), 20_000, key=0)
    theirs = _run(problem, jaxdp.Iterates(), 8000, key=1)
    pairs = [(ours.risk[:, j], theirs.risk[:, j]) for j in (2, 4, 6)]
    pairs.append((ours.final_risk, theirs.final_risk))
    for first, second in pairs:
        assert stats.ks_2samp(np.asarray(first), np.asarray(second))[1] > FALSE_ALARM


@pytest.mark.slow
def test_a_batch_of_scales_and_widths_gives_what_each_gives():
    def final(values, width):
        problem = PROBLEM.replace(
            input_scales=jaxdp.InputScales(values, WEIGHTS), loss=jaxdp.losses.Huber(width)
        )
        return _run(problem, jaxdp.Reduced(), 3).final_risk

    values, widths = jnp.asarray(np.stack([VALUES, np.ones(3)])), jnp.asarray([0.4, 0.8])
    together = jax.jit(jax.vmap(final))(values, widths)
    for cell in range(2):
        np.testing.assert_allclose(together[cell], final(values[cell], widths[cell]), rtol=2e-5)
