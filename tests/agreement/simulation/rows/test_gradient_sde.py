"""The two diffusions: against closed forms, and as limits of DP-GD."""

import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close

import jaxdp


def _exact_mean_risk(problem, algorithm, is_clipped=None):
    """The exact one of PF (6.1), or of (3.5) where these rows alone are clipped, and always."""
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
        wrong = algorithm(noise_scale=0.55), algorithm(rate=0.25), algorithm(clip_norm=4.0)
        rejects = [_exact_mean_risk(problem, each, held) for each in wrong]
        rejects.append(_exact_mean_risk(problem, algorithm(), is_clipped if held is None else None))
        assert_mean_close(risks, _exact_mean_risk(problem, algorithm(), held), rejects=rejects)
        halfway = _exact_mean_risk(problem, algorithm().replace(num_steps=2), held)
        assert_mean_close(runs.risk[:, 1], halfway)
