"""DP-GD's noise, its two calibrations, and what it costs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import FALSE_ALARM, released_parameters

import jaxdp

PUBLISHED, EXACT = jaxdp.algorithms.PublishedCalibration(), jaxdp.algorithms.ExactCalibration()


BUDGET = {"learning_rate": 1e-3, "clip_norm": 2.0, "num_steps": 1000}  # eta T = 1
DELTA = 1 / 2000


# Source: PF Proposition 3.2.
@pytest.mark.parametrize(
    ("epsilon", "published", "exact"),
    [(0.5, 15.5958, 5.01416), (4.0, 1.94947, 0.865548), (8.0, 0.974737, 0.499742)],
)
def test_noise_scales_are_those_of_an_independent_computation(epsilon, published, exact):
    for calibration, scale in ((PUBLISHED, published), (EXACT, exact)):
        algorithm = jaxdp.DPGD.calibrated(epsilon, DELTA, calibration=calibration, **BUDGET)
        assert float(algorithm.noise_scale) == pytest.approx(scale, rel=3e-6)


def test_account_shows_the_proved_and_the_published_epsilon():
    algorithm = jaxdp.DPGD.calibrated(4.0, DELTA, calibration=PUBLISHED, **BUDGET)
    published = jaxdp.account(algorithm, delta=DELTA)
    assert published.published_epsilon == pytest.approx(4.0, rel=1e-6)
    assert published.epsilon == pytest.approx(1.5081, abs=1e-4)
    assert published.mu == pytest.approx(1 / 1.94947, rel=1e-5)


@pytest.mark.parametrize("rate", [0.1, 0.007, 1 / 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 7.0])
def test_rounding_never_costs_more_than_the_budget(rate, epsilon):
    settings = {"learning_rate": rate, "clip_norm": 1.0, "num_steps": 13}
    for calibration in (EXACT, PUBLISHED):
        algorithm = jaxdp.DPGD.calibrated(epsilon, 1e-5, calibration=calibration, **settings)
        cost = jaxdp.account(algorithm, delta=1e-5)
        shown = cost.epsilon if calibration is EXACT else cost.published_epsilon
        assert epsilon * (1 - 1e-6) < shown <= epsilon
        assert cost.epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [5.637384, 1.1, 0.3])
def test_the_published_calibration_rounds_toward_more_noise(epsilon):
    def scale(epsilon):
        given = {"learning_rate": 0.1, "clip_norm": 1.0, "num_steps": 7}
        return jaxdp.DPGD.calibrated(epsilon, 1e-5, calibration=PUBLISHED, **given).noise_scale

    epsilon = jnp.float32(epsilon)
    needed = math.sqrt(8 * math.log(1e5) * 7 * float(np.float32(0.1))) / float(epsilon)
    assert float(scale(epsilon)) >= needed
    assert float(jax.jit(scale)(epsilon)) >= needed


def test_noise_below_the_smallest_number_is_refused():
    with pytest.raises(ValueError, match="noise that float32 can hold"):
        jaxdp.DPGD(1e-10, 1e-20, 10, 1e-16)
    mu = jax.jit(lambda clip: jaxdp.account(jaxdp.DPGD(1e-10, clip, 10, 1e-16), delta=1e-5).mu)
    assert math.isinf(mu(1e-20))


def test_the_noise_multiplier_is_the_noise_on_the_sum_over_the_clip_norm():
    algorithm, num_samples = jaxdp.DPGD(0.04, 3.0, 5, 0.7), 50
    on_the_sum = float(algorithm.noise_std(num_samples)) * num_samples / 0.04
    assert on_the_sum / 3.0 == pytest.approx(float(algorithm.noise_multiplier), rel=1e-6)
    assert float(algorithm.noise_multiplier) == pytest.approx(2 * 0.7 / 0.2, rel=1e-6)
    assert float(algorithm.diffusion(num_samples)) == pytest.approx(2 * 3 * 0.7 / 50, rel=1e-6)


def test_no_noise_costs_infinitely_much():
    cost = jaxdp.account(jaxdp.DPGD(0.1, jnp.inf, 3, 0.0), delta=1e-5)
    assert cost.epsilon == math.inf
    assert cost.published_epsilon == math.inf


def test_beyond_its_range_the_proposition_states_no_epsilon():
    # 8 log(1/delta) = 61: this noise is too small for the proposition, not for the proof.
    cost = jaxdp.account(jaxdp.DPGD(1e-3, 2.0, 1000, 0.125), delta=DELTA)
    assert cost.published_epsilon == math.inf
    assert cost.epsilon < 61


def test_traced_calibrations_agree_with_concrete_ones():
    for calibration in (EXACT, PUBLISHED):

        def scale(epsilon, num_steps, calibration=calibration):
            given = BUDGET | {"num_steps": num_steps, "calibration": calibration}
            return jaxdp.DPGD.calibrated(epsilon, DELTA, **given).noise_scale

        traced = jax.jit(scale)(4.0, 1000)
        assert float(traced) == pytest.approx(float(scale(4.0, 1000)), rel=1e-4)


def test_a_traced_budget_outside_the_proposition_is_void():
    def run(epsilon):
        algorithm = jaxdp.DPGD.calibrated(epsilon, DELTA, calibration=PUBLISHED, **BUDGET)
        return algorithm.is_valid, jaxdp.account(algorithm, delta=DELTA).mu

    valid, mu = jax.jit(jax.vmap(run))(jnp.asarray([4.0, 62.0, -1.0]))
    assert valid.tolist() == [True, False, False]
    assert np.isinf(mu).tolist() == [False, True, True]


# Source: PF Proposition B.3, (3.3).
def test_clipping_bounds_every_gradient_and_keeps_small_ones():
    algorithm = jaxdp.DPGD(0.1, 1.5, 1, 0.0)
    slopes = jnp.asarray([[0.0, 0.2, -10.0, 6.0]])
    norms = jnp.asarray([2.0, 2.0, 2.0, 0.0])
    slopes, clipped = algorithm.clipped_slopes(slopes, norms)
    assert slopes[0].tolist() == pytest.approx([0.0, 0.2, -0.75, 6.0])
    assert clipped[0].tolist() == [False, False, True, False]


def _mechanism(noise_scale):
    """One record of 20 pulls as hard as clipping lets it, up or down; the others do nothing."""
    algorithm = jaxdp.DPGD(0.01, 2.0, 10, noise_scale)

    def run(label, key):
        inputs = jnp.zeros((20, 1)).at[0, 0].set(0.5)
        labels = jnp.zeros(20).at[0].set(1e6 * label)
        test, weights = (jnp.ones((1, 1)), jnp.zeros(1)), jnp.ones((1, 1))
        problem = jaxdp.RandomFeatures.from_arrays(inputs, labels, *test, weights, lambda x: x)
        return released_parameters(problem, algorithm, key)[0, 0]

    return run


# Source: PF Algorithm 1.
def test_the_worst_case_reaches_the_claim_and_half_the_noise_exceeds_it():
    claim = float(jaxdp.DPGD(0.01, 2.0, 10, 0.15).mu)

    def found(noise_scale):
        settings = {"measure": "mu", "confidence": 1 - FALSE_ALARM, "key": jax.random.key(3)}
        pair = jnp.ones(()), -jnp.ones(())
        mechanism = _mechanism(noise_scale)
        return jaxdp.privacy.audit(mechanism, *pair, num_trials=20_000, **settings)

    assert 0.9 * claim < found(0.15) <= claim
    assert found(0.075) > claim
