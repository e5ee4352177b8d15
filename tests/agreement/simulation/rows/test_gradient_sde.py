"""The two diffusions: against closed forms, and as limits of DP-GD."""

import functools

import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close

import jaxdp


@functools.cache
def _problem():
    return jaxdp.RandomFeatures.sample(30, 20, 6, 41, key=jr.key(5))


def _exact_mean_risk(problem, algorithm, is_clipped=None):
    """Of PF (6.1), by the matrix exponential of the explicit features: no jaxdp theory.

    Args:
        is_clipped: of PF (3.5), the rows that are clipped all the time, where no other ever is;
            each pulls by a gradient of norm C, so the equation stays linear.
    """
    train, test = (np.asarray(f(), float) for f in (problem.train_features, problem.test_features))
    labels, on_test = (np.asarray(y, float) for y in (problem.train_labels, problem.test_labels))
    n, tau, clip_norm = len(labels), float(algorithm.duration), float(algorithm.clip_norm)
    is_clipped = np.zeros(n, bool) if is_clipped is None else is_clipped
    free, held = train[~is_clipped], train[is_clipped]
    signs = np.sign(labels[is_clipped]) / np.linalg.norm(held, axis=1)
    values, vectors = np.linalg.eigh(free.T @ free)
    rates = 2 * np.maximum(values, 0) / n
    start = vectors.T @ (2 * free.T @ labels[~is_clipped] + clip_norm * held.T @ signs) / n
    decay = np.where(rates > 1e-9, -np.expm1(-rates * tau) / np.maximum(rates, 1e-12), tau)
    mean = vectors @ (decay * start)
    double = np.where(rates > 1e-9, -np.expm1(-2 * rates * tau) / np.maximum(2 * rates, 1e-12), tau)
    strength = (2 * clip_norm * float(algorithm.noise_scale) / n) ** 2
    variance = strength * np.mean((test @ vectors) ** 2 @ double)
    return np.mean((test @ mean - on_test) ** 2) + variance


# Source: PF (3.5), (6.1).
def test_a_few_steps_have_the_exact_mean_risk_with_and_without_clipping():
    random = np.random.default_rng(0)
    # More features than rows: a good part of the noise is in coordinates that training never sees.
    features = random.standard_normal((9, 12))
    # Shorter where labels are small, so that these rows are as sure not to be clipped.
    lengths = np.repeat([0.6, 1.0], (3, 6))
    features *= (lengths / np.linalg.norm(features, axis=1))[:, None]
    labels = np.array([0.1, -0.2, 0.2, 8.0, -9.0, 10.0, 0.0, 0.2, -0.2])
    problem = jaxdp.FixedFeatures.from_arrays(features[:6], labels[:6], features[6:], labels[6:])
    is_clipped = np.abs(labels[:6]) > 1

    def algorithm(rate=0.2, clip_norm=3.0, noise_scale=0.4):
        return jaxdp.DPGD(rate, clip_norm, 4, noise_scale)

    for simulator, held in (
        (jaxdp.simulation.ClippedSDE(4), is_clipped),
        (jaxdp.simulation.OrnsteinUhlenbeckSDE(4), None),
    ):
        runs = jaxdp.simulate(
            problem, algorithm(), key=jr.key(0), num_runs=2000, simulator=simulator, records=2
        )
        risks = runs.check().final_risk
        assert float(runs.time[-1]) == pytest.approx(0.2 * 4)
        if held is not None:
            share = runs.observables["clipped_fraction"][:, -1]
            np.testing.assert_allclose(share, 0.5, rtol=1e-6)
        assert_mean_close(risks, _exact_mean_risk(problem, algorithm(), held))
        halfway = _exact_mean_risk(problem, algorithm().replace(num_steps=2), held)
        assert_mean_close(runs.risk[:, 1], halfway)
        for wrong in (algorithm(noise_scale=0.55), algorithm(rate=0.25), algorithm(clip_norm=4.0)):
            with pytest.raises(AssertionError):
                assert_mean_close(risks, _exact_mean_risk(problem, wrong, held))
        other = is_clipped if held is None else None
        with pytest.raises(AssertionError):
            assert_mean_close(risks, _exact_mean_risk(problem, algorithm(), other))


# Source: PF Proposition B.4, (3.5).
@pytest.mark.long_runs
@pytest.mark.slow
def test_dp_gd_approaches_the_clipped_diffusion_at_order_one():
    num_runs = 50_000

    def mean(num_steps, simulator):
        algorithm = jaxdp.DPGD(0.6 / num_steps, 8.0, num_steps, 0.8)
        runs = jaxdp.simulate(
            _problem(), algorithm, key=jr.key(1), num_runs=num_runs, simulator=simulator, records=1
        )
        assert 0.02 < float(runs.observables["clipped_fraction"][:, -1].mean()) < 0.98
        risks = np.asarray(runs.final_risk, float)
        return risks.mean(), risks.std() / np.sqrt(num_runs)

    # By default it would take 200 steps, of which 27 are enough for the fastest mode.
    limit, limit_error = mean(10, jaxdp.simulation.ClippedSDE(50))
    coarse, fine = (mean(num_steps, jaxdp.FunctionSpace()) for num_steps in (8, 64))
    assert coarse[0] - limit > 20 * np.hypot(coarse[1], limit_error)
    # Order one: an eighth of the step, an eighth of the gap; order 1/2 would leave .35 of it.
    error = np.hypot(fine[1], limit_error)
    gap = (coarse[0] - limit) / 8
    assert abs(fine[0] - limit - gap) < 0.25 * gap + 4 * error
    assert fine[0] - limit < (coarse[0] - limit) / np.sqrt(8) - 4 * error
