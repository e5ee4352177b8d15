"""Membership inference: the strongest test attains the trade-off curve that theory predicts."""

import math

import jax
import numpy as np
import pytest
from attack_problems import sphere_rows
from dp_gd_numpy import logistic_slope, twice_the_residual
from helpers import assert_mean_close, assert_std_close

import jaxdp
from jaxdp.attacks import attained_tradeoff, membership_scores
from jaxdp.privacy import gaussian_tradeoff
from jaxdp.theory import membership_mu

RELU = jax.nn.relu
COUNT, DIM, FEATURES, RUNS = 3, 4, 40, 4000
RATES = np.array([0.02, 0.1, 0.4])


def _runs(generator, rows, labels, weights, algorithm, slope=twice_the_residual):
    """All iterates of many runs of PF's Algorithm 1, in NumPy; (runs, T + 1, p)."""
    rate, clip = float(algorithm.learning_rate), float(algorithm.clip_norm)
    std = math.sqrt(rate) * 2 * clip * float(algorithm.noise_scale) / len(rows)
    features = np.maximum(rows @ weights.T, 0)
    norms = np.linalg.norm(features, axis=1)
    iterates = [np.zeros((RUNS, len(weights)))]
    for _ in range(int(algorithm.num_steps)):
        slopes = np.clip(slope(iterates[-1] @ features.T, labels), -clip / norms, clip / norms)
        noise = std * generator.standard_normal(iterates[-1].shape)
        iterates.append(iterates[-1] - rate / len(rows) * slopes @ features + noise)
    return np.stack(iterates, axis=1)


def _case(*, mu, num_steps=1, clip=1.0, rate=1e-3, loss=None, slope=twice_the_residual, label=-0.5):
    """Scores of runs with the last record and of runs with another; the mu predicted, the claim."""
    generator = np.random.default_rng(5)
    rows, other = sphere_rows(generator, COUNT, DIM), sphere_rows(generator, 1, DIM)
    labels = np.array([1.0, -1.0, 1.0])
    weights = generator.standard_normal((FEATURES, DIM)) / math.sqrt(DIM)
    algorithm = jaxdp.DPGD(rate, clip, num_steps, math.sqrt(rate * num_steps) / mu)
    known = {} if loss is None else {"loss": loss}
    problem = jaxdp.RandomFeatures.from_arrays(rows, labels, rows, labels, weights, RELU, **known)
    predicted = membership_mu(problem, algorithm, other[0], label)
    candidates = np.vstack([rows[-1:], other]), np.array([1.0, label])
    given = weights, RELU, algorithm, rows[:-1], labels[:-1], *candidates
    swapped = np.vstack([rows[:-1], other]), np.append(labels[:-1], label)
    scores = []
    for data in ((rows, labels), swapped):
        runs = _runs(generator, *data, weights, algorithm, slope)
        scores.append(membership_scores(runs, *given, num_samples=COUNT, loss=loss))
    return scores, predicted, float(algorithm.mu)


def _assert_curve(scores, mu):
    curve = attained_tradeoff(*scores, RATES)
    gaps = np.abs(curve.false_negatives - gaussian_tradeoff(mu, RATES))
    assert np.all(gaps <= 4 * curve.standard_errors)


def _assert_scores(scores, mu, bias=0.0):
    """A Gaussian test has means of plus and minus mu^2/2, and the standard deviation mu."""
    for sign, found in zip((1, -1), scores, strict=True):
        assert_mean_close(found, sign * mu**2 / 2, bias=bias * mu**2)
        assert_std_close(found, mu, bias=bias)


# One step, and several that clip both records throughout.
@pytest.mark.parametrize(("num_steps", "rate"), [(1, 1e-3), (4, 1e-5)])
def test_predicted_trade_off_is_attained(num_steps, rate):
    scores, mu, worst = _case(mu=2.5, num_steps=num_steps, rate=rate)
    assert 1 < mu < worst
    _assert_scores(scores, mu)
    _assert_curve(scores, mu)
    for wrong in (0.75 * mu, 4 / 3 * mu):
        with pytest.raises(AssertionError):
            _assert_scores(scores, wrong)
        with pytest.raises(AssertionError):
            _assert_curve(scores, wrong)
    # Nobody is below what the algorithm promises.
    curve = attained_tradeoff(*scores, RATES)
    promised = gaussian_tradeoff(worst, RATES)
    assert np.all(curve.false_negatives >= promised - 4 * curve.standard_errors)


def test_prediction_of_unclipped_steps_is_right_where_noise_moves_them_little():
    scores, mu, worst = _case(mu=40.0, num_steps=6, clip=60.0, rate=2e-3)
    assert 1 < mu < worst / 5
    _assert_scores(scores, mu, bias=0.03)
    with pytest.raises(AssertionError):
        _assert_scores(scores, 1.15 * mu, bias=0.03)


def test_the_test_is_of_the_loss_that_training_used():
    given = {"mu": 40.0, "clip": 60.0, "slope": logistic_slope, "label": -1.0}
    scores, mu, _ = _case(loss=jaxdp.losses.Logistic(), **given)
    _assert_scores(scores, mu)
    others, squared, _ = _case(**given)
    for wrong, predicted in ((others, mu), (scores, squared)):
        with pytest.raises(AssertionError):
            _assert_scores(wrong, predicted)


def test_attained_curve_counts_both_errors():
    generator = np.random.default_rng(0)
    gaps = []
    for _ in range(300):
        members, others = generator.normal(size=(2, 200))
        curve = attained_tradeoff(1.5 * members + 1.125, 1.5 * others - 1.125, [0.1])
        gaps.append((curve.false_negatives - gaussian_tradeoff(1.5, 0.1)) / curve.standard_errors)
    # Standardised, and the standard errors are right to a few per cent.
    assert abs(np.mean(gaps)) < 0.4
    assert np.std(gaps) == pytest.approx(1, abs=0.2)
