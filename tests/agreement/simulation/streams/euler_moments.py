"""Exact moments of a path of AC (3) by Euler and Maruyama's rule, in NumPy.

Without clipping a step's sampling noise is linear in the risk, and the recursions are closed; with
clipping they hold for the first step, which starts at a known risk.
"""

import itertools

import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, reference_moments

import jaxdp

# With fewer samples than dimensions squared the noise is a good part of every risk.
NUM_STEPS, DIM, SAMPLES, RUNS = 4, 8, 20, 1000
PEAK, KNEE, RATIO = 3.0, 0.5, 0.5
# Beyond every residual.
UNCLIPPED = 1e3


def moments(spectrum, target, *, label_noise, clip_scale, noise_ratio=RATIO, peak=PEAK):
    """Mean risks at the records and at the release, and the first two moments of theta - theta*."""
    rates = peak / (1 + np.arange(NUM_STEPS + 1) / NUM_STEPS / KNEE)
    step, gamma = 1 / NUM_STEPS, DIM / SAMPLES
    private = (2 * noise_ratio * gamma) ** 2 / DIM
    mean, square = -target, target**2
    risks = [spectrum @ square / 2]
    for rate, following in itertools.pairwise(rates):
        residual = spectrum @ square + label_noise**2
        mu, nu = reference_moments(clip_scale / np.sqrt(residual))
        kept = 1 - rate * step * mu * spectrum
        sampled = rate**2 * step * nu * residual * gamma / DIM * spectrum
        mean = kept * mean
        square = kept**2 * square + sampled + private * (rate**2 - following**2)
        risks.append(spectrum @ square / 2)
    square = square + private * rates[-1] ** 2
    return np.array(risks), spectrum @ square / 2, mean, square


def assert_paths_have_eulers_moments(problem, spectrum, target, label_noise):
    """Paths of the diffusion have these moments, and none of a wrong noise or rate."""
    given = {"label_noise": label_noise, "clip_scale": UNCLIPPED}
    paths, clipped = (_paths(problem, clip_scale) for clip_scale in (UNCLIPPED, 0.5))
    errors = np.asarray(paths.parameters, float) - target

    def assert_agrees(**changes):
        risks, final_risk, mean, square = moments(spectrum, target, **(given | changes))
        assert_mean_close(paths.risk[:, 1:], risks[1:])
        assert_mean_close(paths.final_risk, final_risk)
        assert_mean_close(errors, mean)
        assert_mean_close(errors**2, square)

    def assert_first_step_agrees(**changes):
        risks, *_ = moments(spectrum, target, **(given | {"clip_scale": 0.5} | changes))
        assert_mean_close(clipped.risk[:, 1], risks[1])

    np.testing.assert_allclose(paths.risk[:, 0], spectrum @ target**2 / 2, rtol=1e-6)
    assert_agrees()
    assert_first_step_agrees()
    wrong = ({"noise_ratio": 0.75 * RATIO}, {"peak": 0.8 * PEAK}, {"label_noise": 2 * label_noise})
    for changes in wrong:
        with pytest.raises(AssertionError):
            assert_agrees(**changes)
    for changes in (*wrong[:2], {"clip_scale": UNCLIPPED}):
        with pytest.raises(AssertionError):
            assert_first_step_agrees(**changes)


def _paths(problem, clip_scale):
    algorithm = jaxdp.OnePassDPSGD(
        jaxdp.Hyperbolic(PEAK, KNEE), clip_scale, clip_scale / RATIO, SAMPLES
    )
    return jaxdp.simulate(
        problem,
        algorithm,
        simulator=jaxdp.HomogenizedSDE(num_steps=NUM_STEPS),
        num_runs=RUNS,
        records=NUM_STEPS,
        keep_parameters=True,
        key=jr.key(0),
    ).check()
