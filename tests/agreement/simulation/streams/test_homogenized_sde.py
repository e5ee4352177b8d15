"""The diffusion against Euler's rule in closed form, its mean equation, and runs of the chain."""

import functools
import itertools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, assert_runs_close, reference_moments

import jaxdp

DIM = 200


@functools.cache
def _problem():
    return jaxdp.LinearRegression(
        jnp.repeat(jnp.asarray([1.6, 0.4]), DIM // 2),
        jnp.repeat(jnp.asarray([0.08, 0.03]), DIM // 2),
        0.3,
    )


SDE = jaxdp.HomogenizedSDE(num_steps=1000)


def _algorithm(rho=1.0, peak=3.0):
    return jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, 0.5), 1.0, rho, 10 * DIM)


# With fewer samples than dimensions squared the noise is a good part of every risk.
NUM_STEPS, FEW, SAMPLES, RUNS = 4, 8, 20, 1000
PEAK, KNEE, RATIO = 3.0, 0.5, 0.5
# Beyond every residual.
UNCLIPPED = 1e3


def _moments(spectrum, target, *, label_noise, clip_scale, noise_ratio=RATIO, peak=PEAK):
    """Mean risks at the records and at the release, and the first two moments of theta - theta*."""
    rates = peak / (1 + np.arange(NUM_STEPS + 1) / NUM_STEPS / KNEE)
    step, gamma = 1 / NUM_STEPS, FEW / SAMPLES
    private = (2 * noise_ratio * gamma) ** 2 / FEW
    mean, square = -target, target**2
    risks = [spectrum @ square / 2]
    for rate, following in itertools.pairwise(rates):
        residual = spectrum @ square + label_noise**2
        mu, nu = reference_moments(clip_scale / np.sqrt(residual))
        kept = 1 - rate * step * mu * spectrum
        sampled = rate**2 * step * nu * residual * gamma / FEW * spectrum
        mean = kept * mean
        square = kept**2 * square + sampled + private * (rate**2 - following**2)
        risks.append(spectrum @ square / 2)
    square = square + private * rates[-1] ** 2
    return np.array(risks), spectrum @ square / 2, mean, square


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


# Source: AC (3), (19), (20).
def test_a_few_steps_have_the_moments_of_eulers_rule():
    spectrum, target = np.repeat([1.6, 0.4], FEW // 2), np.linspace(-0.6, 0.8, FEW)
    problem, label_noise = jaxdp.LinearRegression(spectrum, target, 0.5), 0.5
    given = {"label_noise": label_noise, "clip_scale": UNCLIPPED}
    paths, clipped = (_paths(problem, clip_scale) for clip_scale in (UNCLIPPED, 0.5))
    errors = np.asarray(paths.parameters, float) - target

    def assert_agrees(**changes):
        risks, final_risk, mean, square = _moments(spectrum, target, **(given | changes))
        assert_mean_close(paths.risk[:, 1:], risks[1:])
        assert_mean_close(paths.final_risk, final_risk)
        assert_mean_close(errors, mean)
        assert_mean_close(errors**2, square)

    def assert_first_step_agrees(**changes):
        risks, *_ = _moments(spectrum, target, **(given | {"clip_scale": 0.5} | changes))
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


# Source: AC Theorem 4, (3), (63).
@pytest.mark.long_runs
@pytest.mark.slow
def test_means_are_those_of_the_coupled_equations():
    algorithms = _algorithm(), _algorithm(rho=0.75), _algorithm(peak=4.0)
    options = {"key": jr.key(0), "num_runs": 400, "simulator": SDE}
    paths = jaxdp.simulate(_problem(), algorithms[0], **options)
    predicted, *wrong = (jaxdp.predict(_problem(), algorithm) for algorithm in algorithms)
    # Euler's bias is of relative order eta^2 / num_steps, the mean's of order 1/d.
    fractions = {"clipped_fraction": 0.0}
    bias = 0.15 / DIM + 0.002
    assert_runs_close(paths, predicted, bias=bias, observables=fractions, rejects=wrong)


@functools.cache
def _risks(dim, rho, simulator, seed):
    """Risks on the way of 120 runs, or paths."""
    problem = jaxdp.LinearRegression.isotropic(dim, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 1.0, rho, 10 * dim)
    options = {"key": jr.key(seed), "num_runs": 120, "simulator": simulator}
    return np.asarray(jaxdp.simulate(problem, algorithm, **options).risk)


REDUCED, FEW_STEPS = jaxdp.Reduced(), jaxdp.HomogenizedSDE(num_steps=500)


def _largest_gaps(dim, rho=1.0):
    """sqrt(n) times the largest gap on the way between a run and an independent path; 120 pairs."""
    gaps = _risks(dim, 1.0, REDUCED, 1) - _risks(dim, rho, FEW_STEPS, 2)
    return np.sqrt(10 * dim) * np.abs(gaps).max(axis=1)


# Source: AC Theorem 4, (4).
@pytest.mark.long_runs
@pytest.mark.slow
def test_the_largest_gap_of_two_paths_falls_as_one_over_the_root_of_the_samples():
    def growth(rho):
        """Of the scaled gaps from the first dimension to the last, and its standard error."""
        gaps = [_largest_gaps(dim, rho) for dim in (25, 400)]
        error = np.sqrt(sum(np.var(each, ddof=1) / len(each) for each in gaps))
        return gaps[1].mean() - gaps[0].mean(), error, gaps[0].mean()

    more, error, first = growth(rho=1.0)
    assert abs(more) < 4 * error
    # Paths themselves are seen, and not their means alone, whose gap is far smaller.
    assert 1.5 < first < 2.0
    # Between laws that differ the gap does not fall, and grows when it is scaled.
    more, error, _ = growth(rho=0.7)
    assert more > 5 * error
