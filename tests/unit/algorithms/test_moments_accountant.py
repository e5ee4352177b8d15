"""The proof of PF Proposition 3.2, step by step: sensitivity, moments, composition, tail."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import jaxdp

NUM_TRAIN, RATE, CLIP, SIGMA = 12, 0.3, 1.7, 0.9
ALGORITHM = jaxdp.DPGD(RATE, CLIP, 5, SIGMA)
SENSITIVITY = 2 * RATE * CLIP / NUM_TRAIN  # (B.8)
STEP_NOISE = math.sqrt(RATE) * 2 * CLIP / NUM_TRAIN * SIGMA  # of Algorithm 1
ORDERS = np.asarray([0.3, 1.0, 4.0, 11.0])


def _update(parameters, features, labels, *, is_clipped=True):
    """(B.7): one step without its noise, for rows of parameters and as many data sets."""
    slopes = 2 * (np.einsum("sif,sf->si", features, parameters) - labels)
    lengths = np.linalg.norm(features, axis=2)
    if is_clipped:
        slopes = np.asarray(ALGORITHM.clipped_slopes(jnp.asarray(slopes), jnp.asarray(lengths))[0])
    total = np.einsum("si,sif->sf", slopes, features)
    return np.asarray(ALGORITHM.move(parameters, None, total, 0.0, NUM_TRAIN)[0])


def _neighbours(num_pairs, seed):
    """Parameters, and data sets that differ in their first record."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((2, num_pairs, NUM_TRAIN, 4)) * 3
    labels = rng.standard_normal((2, num_pairs, NUM_TRAIN)) * 5
    features[1, :, 1:], labels[1, :, 1:] = features[0, :, 1:], labels[0, :, 1:]
    return rng.standard_normal((num_pairs, 4)), features, labels


def _moved(parameters, features, labels, **options):
    first, second = (
        _update(parameters, *one, **options) for one in zip(features, labels, strict=True)
    )
    return np.linalg.norm(first - second, axis=1)


def test_replacing_a_record_moves_a_step_by_at_most_the_sensitivity_which_is_reached():
    # Source: PF Lemma B.1, (B.7), (B.8) and (B.9).
    parameters, features, labels = _neighbours(500, seed=0)
    moved = _moved(parameters, features, labels)
    assert moved.max() <= SENSITIVITY * (1 + 1e-5)
    assert _moved(parameters, features, labels, is_clipped=False).max() > 3 * SENSITIVITY
    # The same features with labels far away on both sides: two gradients of norm C, opposite.
    features[1], labels[0, :, 0], labels[1, :, 0] = features[0], 1e4, -1e4
    assert _moved(parameters, features, labels) == pytest.approx(SENSITIVITY, rel=1e-5)


def test_the_clipped_step_is_a_descent_on_a_smooth_loss_with_bounded_gradients():
    # Source: PF Proposition 3.3 (B.23) and Proposition B.3, (B.24) and (B.25).
    rng = np.random.default_rng(1)
    features, labels = rng.standard_normal((NUM_TRAIN, 4)), 3 * rng.standard_normal(NUM_TRAIN)
    lengths = np.linalg.norm(features, axis=1)
    limits = CLIP / lengths

    def loss(parameters):
        """The mean of the integrals of slopes that are cut at C/|phi|."""
        residual = parameters @ features.T - labels
        linear = limits * (np.abs(residual) - limits / 4)
        return np.where(np.abs(2 * residual) < limits, residual**2, linear).mean(axis=-1)

    points = rng.standard_normal((300, 4))
    rows = np.broadcast_to(features, (300, NUM_TRAIN, 4))
    taken = (points - _update(points, rows, np.broadcast_to(labels, (300, NUM_TRAIN)))) / RATE
    width = 1e-5
    slopes = [
        (loss(points + width * axis) - loss(points - width * axis)) / (2 * width)
        for axis in np.eye(4)
    ]
    np.testing.assert_allclose(taken, np.stack(slopes, axis=1), atol=3e-5)
    lengths_taken = np.linalg.norm(taken, axis=1)
    assert 0.3 * CLIP < lengths_taken.max() <= CLIP
    apart = np.linalg.norm(points[1:] - points[:-1], axis=1)
    ratio = np.linalg.norm(taken[1:] - taken[:-1], axis=1) / apart
    smoothness = 2 * np.mean(lengths**2)  # 2 is the Lipschitz constant of the slope 2 r
    assert 0.05 * smoothness < ratio.max() <= smoothness


def _log_moment(order, shift, noise):
    """(B.3) of N(0, noise^2) against N(shift, noise^2), by the trapezoidal rule."""
    grid = np.linspace(-40, 40, 20_001) * noise - order * shift
    own = norm.logpdf(grid, scale=noise)
    loss = own - norm.logpdf(grid, loc=shift, scale=noise)
    logs = own + order * loss
    largest = logs.max()
    return largest + np.log(np.sum(np.exp(logs - largest)) * (grid[1] - grid[0]))


def test_the_log_moment_of_a_step_is_the_lemmas():
    # Source: PF Lemma B.2, (B.10), with (B.2), (B.3), (B.4), (B.14) and (B.15).
    per_step = float(jaxdp.account(ALGORITHM, delta=1e-5).mu) ** 2 / ALGORITHM.num_steps
    for order in ORDERS:
        worst = _log_moment(order, SENSITIVITY, STEP_NOISE)
        claim = RATE / (2 * SIGMA**2) * (order + order**2)
        assert worst == pytest.approx(claim, rel=1e-6)
        # What jaxdp accounts for a step has the same moments.
        assert per_step / 2 * (order + order**2) == pytest.approx(claim, rel=1e-5)
        assert _log_moment(order, SENSITIVITY / 2, STEP_NOISE) < claim
        # A third more movement, as of gradients of norm 4C/3, is more than is claimed.
        assert _log_moment(order, 4 / 3 * SENSITIVITY, STEP_NOISE) > 1.5 * claim


def test_log_moments_of_adaptive_steps_add_up():
    # Source: PF Theorem 2 (composability, (B.5)), for a second step that looks at the first.
    grid = np.linspace(-12, 12, 4001) * STEP_NOISE
    own = norm.logpdf(grid, scale=STEP_NOISE)
    first = own - norm.logpdf(grid, loc=SENSITIVITY, scale=STEP_NOISE)
    for order in (0.3, 1.0, 2.0):
        claim = _log_moment(order, SENSITIVITY, STEP_NOISE)

        def of_both(shifts, order=order):
            # Given the first output the second is a Gaussian shifted by shifts.
            second = (order + order**2) * shifts**2 / (2 * STEP_NOISE**2)
            return np.log(np.trapezoid(np.exp(own + order * first + second), grid))

        adaptive = of_both(SENSITIVITY * np.abs(np.sin(grid / STEP_NOISE)))
        assert claim < adaptive < 2 * claim
        assert of_both(np.full_like(grid, SENSITIVITY)) == pytest.approx(2 * claim, rel=1e-5)
        # A second step that moves further than its moment says breaks the sum.
        assert of_both(np.full_like(grid, 1.5 * SENSITIVITY)) > 2 * claim


def _exact_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def _tail_bound(half_square, epsilon):
    """inf over orders of exp(a (l + l^2) - l epsilon)."""
    order = max((epsilon - half_square) / (2 * half_square), 0.0)
    return math.exp(half_square * (order + order**2) - order * epsilon)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
def test_the_tail_bound_is_above_the_exact_delta(epsilon):
    # Source: PF Theorem 2 (tail bound, (B.6)).
    for mu in (0.2, 0.6, 1.0, 2.0):
        assert _exact_delta(mu, epsilon) <= _tail_bound(mu**2 / 2, epsilon)
    # With half of the moment it would promise less than is lost.
    assert _tail_bound(0.6**2 / 4, 4.0) < _exact_delta(0.6, 4.0)


@pytest.mark.parametrize(
    ("epsilon", "least"), [(0.5, 7.9241), (1.0, 4.0232), (4.0, 1.0895), (8.0, 0.5928)]
)
def test_the_published_noise_follows_from_the_moments_and_half_of_it_would(epsilon, least):
    # Source: PF Proposition 3.2, (B.17) to (B.22).
    delta, num_steps = 1 / 2000, 50
    scale = float(
        jaxdp.algorithms.PublishedCalibration().noise_scale(
            epsilon, delta, learning_rate=1 / num_steps, num_steps=num_steps
        )
    )
    half_square = 1 / (2 * scale**2)  # eta T / 2 sigma^2, (B.18)
    assert half_square == pytest.approx(epsilon**2 / (16 * math.log(1 / delta)), rel=1e-6)
    order = 4 * math.log(1 / delta) / epsilon
    chosen = math.exp(half_square * (order + order**2) - order * epsilon)
    assert _tail_bound(half_square, epsilon) <= chosen <= delta
    # (B.20) gives up half of epsilon: the least noise of the same bound is a root of a quadratic.
    logarithm = math.log(1 / delta)
    best = 1 / math.sqrt(2 * (math.sqrt(logarithm + epsilon) - math.sqrt(logarithm)) ** 2)
    assert best == pytest.approx(least, rel=1e-4)
    assert _tail_bound(1 / (2 * best**2), epsilon) == pytest.approx(delta, rel=1e-6)
    assert _tail_bound(1 / (2 * (0.99 * best) ** 2), epsilon) > delta
