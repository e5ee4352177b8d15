import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from attack_problems import sphere_rows

from jaxdp.attacks import MomentumDescent, RandomFeaturesTarget
from jaxdp.attacks.optimisers.base import Ending

GENERATOR = np.random.default_rng(1)
DIM, COUNT, FEATURES = 5, 3, 120


WEIGHTS = GENERATOR.standard_normal((FEATURES, DIM)) / np.sqrt(DIM)
TRUTH, START = sphere_rows(GENERATOR, 2, COUNT, DIM)
THETA = np.array([1.0, -0.8, 0.5]) @ np.maximum(TRUTH @ WEIGHTS.T, 0)


@pytest.fixture(scope="module", autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def target():
    return RandomFeaturesTarget(WEIGHTS, jax.nn.relu, THETA)


def _minimise(target, starts, *, optimiser=None, tolerance=1e-7, **more):
    return (optimiser or MomentumDescent()).minimise(
        target, jnp.asarray(starts), key=jr.key(0), tolerance=tolerance, **more
    )


def _literally(guess, num_steps, step_size, momentum):
    """DR Appendix D, the projector written out."""
    velocity, seen = np.zeros_like(guess), []
    for _ in range(num_steps):
        features, slopes = np.maximum(guess @ WEIGHTS.T, 0), guess @ WEIGHTS.T > 0
        coefficients = np.linalg.solve(features @ features.T, features @ THETA)
        outside = THETA - features.T @ coefficients
        seen.append((outside @ outside / (THETA @ THETA), guess))
        gradient = -2 * coefficients[:, None] * ((slopes * outside) @ WEIGHTS) / (THETA @ THETA)
        velocity = momentum * velocity + gradient
        guess = guess - step_size * velocity
        guess = np.sqrt(DIM) * guess / np.linalg.norm(guess, axis=1, keepdims=True)
    return min(seen, key=lambda pair: pair[0])


@pytest.mark.parametrize(("step_size", "momentum"), [(1.0, 0.9), (0.5, 0.0)])
def test_steps_are_those_of_the_paper(target, step_size, momentum):
    optimiser = MomentumDescent(step_size, momentum)
    attempt = _minimise(target, START[None], max_passes=30, optimiser=optimiser)
    loss, guess = _literally(START, 30, step_size, momentum)
    assert attempt.num_passes == 30
    np.testing.assert_allclose(attempt.loss[0], loss, rtol=1e-8)
    np.testing.assert_allclose(attempt.inputs[0], guess, rtol=1e-6, atol=1e-8)
    other, _ = _literally(START, 30, 1.05 * step_size, momentum)
    assert abs(attempt.loss[0] / other - 1) > 1e-4


def test_it_stops_at_the_tolerance_and_not_before(target):
    near, optimiser = TRUTH + 0.1 * START, MomentumDescent(1.0)
    attempt = _minimise(target, near[None], max_passes=5000, optimiser=optimiser)
    assert attempt.status[0] == Ending.CONVERGED
    assert 1e-8 < attempt.loss[0] <= 1e-7
    fewer = attempt.num_passes - 1
    again = _minimise(target, near[None], max_passes=fewer, optimiser=optimiser)
    assert again.status[0] == Ending.OUT_OF_PASSES
    assert again.loss[0] > 1e-7


def test_starts_side_by_side_end_as_they_would_alone(target):
    starts = np.stack([START, TRUTH + 0.3 * START])
    both = _minimise(target, starts, max_passes=50, tolerance=1e-12)
    assert both.num_passes == 100
    for start, inputs, loss in zip(starts, both.inputs, both.loss, strict=True):
        alone = _minimise(target, start[None], max_passes=50, tolerance=1e-12)
        np.testing.assert_allclose(inputs, alone.inputs[0], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(loss, alone.loss[0], rtol=1e-7)


def test_a_start_that_is_stopped_for_anothers_sake_is_not_out_of_passes(target):
    starts = np.stack([START, TRUTH])
    both = _minimise(target, starts, max_passes=50)
    assert list(both.status) == [Ending.OVERTAKEN, Ending.CONVERGED]
    assert both.num_passes == 2
    spent = _minimise(target, starts, max_passes=50, tolerance=1e-40)
    assert list(spent.status) == [Ending.OUT_OF_PASSES] * 2


def test_known_rows_stay_and_a_start_that_is_no_number_ends_diverged(target):
    attempt = _minimise(target, START[None], max_passes=20, num_known=2)
    np.testing.assert_array_equal(attempt.inputs[0, :2], START[:2])
    assert np.abs(attempt.inputs[0, 2] - START[2]).max() > 1e-3
    broken = _minimise(target, START[None] * np.nan, max_passes=20)
    assert broken.status[0] == Ending.DIVERGED
