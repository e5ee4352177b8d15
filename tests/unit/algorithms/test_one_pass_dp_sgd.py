"""The algorithm's own laws: noise by equation (2), the step, calibration, privacy of batches."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxdp

SCHEDULES = [
    jaxdp.Constant(3.0),
    jaxdp.Polynomial(3.0, 0.5),
    jaxdp.Polynomial(3.0, 0.1),
    jaxdp.Hyperbolic(20.0, 0.05),
    jaxdp.PiecewiseLinear([0.0, 0.3, 0.300001, 1.0], [3.0, 2.0, 0.5, 0.0]),
    lambda t: 3.0 * jnp.sqrt(1 - t),
    lambda t: jnp.exp(-80 * t),
    lambda t: jnp.where(t < 0.5, 2.0, 0.5),
]


@eqx.filter_jit
def _rates_and_noise(algorithm):
    steps = jnp.arange(1, algorithm.num_steps + 1)
    return algorithm.step_size(steps), algorithm.noise_std(steps, 9)


# Source: AC (2).
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("num_steps", [130, 1_000_000])
def test_every_sample_is_protected_by_exactly_rho(schedule, num_steps):
    # AC Proposition 2: eta_k / sqrt(sum of sigma_j^2 from k on) = rho at every k with eta_k > 0,
    # in float32 and compiled, as simulations have it.
    batch_size = 4 if num_steps == 130 else 1
    algorithm = jaxdp.OnePassDPSGD(schedule, 0.7, 1.3, num_steps, batch_size=batch_size)
    step_sizes, noise = (np.asarray(v, np.float64) for v in _rates_and_noise(algorithm))
    assert np.all(np.isfinite(noise))
    sigma = noise * batch_size / (2 * 0.7 * np.sqrt(9))
    left = np.sqrt(np.cumsum(sigma[::-1] ** 2)[::-1])
    used = step_sizes > 0
    assert np.array_equal(used, left > 0)
    np.testing.assert_allclose(step_sizes[used] / left[used], 1.3, rtol=5e-6)


def test_noise_does_not_depend_on_the_data_or_the_cap():
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(100.0), 1.0, 1.0, 10)
    assert algorithm.noise_std(jnp.asarray(10), 4) == pytest.approx(2 * 2 * 10.0, rel=1e-6)


# Source: AC Algorithm 1, Assumption 2.
def test_update_reads_like_the_box():
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 0.5, 1.0, 10)
    theta, x, y, noise = (np.asarray(v, np.float32) for v in ([1, -1], [2, 1], 4.0, [0.1, 0.2]))
    g = x * (x @ theta - y)
    update = algorithm.step(theta, None, g, jnp.asarray(5.0), jnp.asarray(0.7), noise)
    clip_norm = 0.5 * np.sqrt(2)
    expected = theta - min(0.7, 2 / 5) * g * clip_norm / np.linalg.norm(g) + noise
    np.testing.assert_allclose(update.parameters, expected, rtol=1e-6)
    assert bool(update.clipped)
    assert bool(update.capped)


# Source: AC (12) to (15).
@settings(max_examples=40)
@given(seed=st.integers(0, 2**31 - 1), step_size=st.floats(0.01, 5.0), scale=st.floats(0.1, 3.0))
def test_batched_steps_do_not_expand_and_one_record_moves_them_by_the_sensitivity(
    seed, step_size, scale
):
    # What the privacy proof rests on, for batches at any step size.
    rng, dim, batch = np.random.default_rng(seed), 3, 4
    problem = jaxdp.LinearRegression.isotropic(dim, label_noise=0.1)
    inputs = rng.normal(size=(batch, dim)) * np.exp(rng.normal(size=(batch, 1)))
    labels = rng.normal(size=batch) * 3

    def step(theta, inputs, labels):
        theta = jnp.asarray(theta)
        samples = jaxdp.problems.Samples(jnp.asarray(inputs), jnp.asarray(labels))
        slopes = problem.gradient(theta, samples), problem.smoothness(samples)
        moved = _BATCHED.step(theta, None, *slopes, jnp.asarray(step_size), jnp.zeros(dim))
        return np.asarray(moved.parameters, np.float64)

    first, second = (scale * rng.normal(size=dim) for _ in range(2))
    moved = np.linalg.norm(step(first, inputs, labels) - step(second, inputs, labels))
    assert moved <= np.linalg.norm(first - second) * (1 + 1e-5) + 1e-5
    changed = inputs.copy(), labels.copy()
    changed[0][0], changed[1][0] = rng.normal(size=dim) * 5, 20.0
    distance = np.linalg.norm(step(first, inputs, labels) - step(first, *changed))
    sensitivity = 2 * step_size * 0.6 * np.sqrt(dim) / batch
    assert distance <= sensitivity * (1 + 1e-5) + 1e-5


_BATCHED = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 0.6, 1.0, 10, batch_size=4)


def _calibrated(epsilon, delta, schedule=SCHEDULES[1]):
    return jaxdp.OnePassDPSGD.calibrated(
        epsilon, delta, learning_rate=schedule, clip_scale=1.0, num_steps=10
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-12), (0.1, 1e-6), (8.0, 1e-3)])
def test_calibration_meets_its_target_and_wastes_nothing(epsilon, delta):
    achieved = jaxdp.account(_calibrated(epsilon, delta), delta=delta).epsilon
    assert epsilon * (1 - 1e-5) < achieved <= epsilon


def test_traced_calibration_stays_within_its_budget():
    rho = jax.jit(lambda epsilon, delta: _calibrated(epsilon, delta).rho)
    for epsilon in (1e-3, 0.1, 1.0, 20.0):
        for delta in (1e-10, 1e-5):
            algorithm = jaxdp.OnePassDPSGD(SCHEDULES[1], 1.0, float(rho(epsilon, delta)), 10)
            achieved = jaxdp.account(algorithm, delta=delta).epsilon
            assert 0.99 * epsilon < achieved <= epsilon


def test_a_budget_buys_the_same_rho_whatever_the_schedule():
    rhos = {float(_calibrated(1.0, 1e-5, schedule).rho) for schedule in SCHEDULES}
    assert len(rhos) == 1
    # Zero-concentrated DP alone would allow 7 % less.
    assert rhos.pop() > 1.05 * (2 * jaxdp.privacy.epsilon_to_zcdp(1.0, 1e-5)) ** 0.5


def test_half_precision_does_not_reach_the_noise():
    # 1/3 in bfloat16 is off by a thousandth, and so would be the noise that is derived from it.
    half = [jnp.asarray(value, jnp.bfloat16) for value in (3.0, 0.5, 0.7, 1 / 3)]
    peak, power, scale, rho = half
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, power), scale, rho, 100)
    cost = jaxdp.account(algorithm, delta=1e-5)
    step_sizes, noise = (np.asarray(v, np.float64) for v in _rates_and_noise(algorithm))
    shift = 2 * float(algorithm.clip.norm(9)) * step_sizes[0]
    assert shift / np.sqrt(np.sum(noise**2)) == pytest.approx(cost.mu, rel=5e-6)
