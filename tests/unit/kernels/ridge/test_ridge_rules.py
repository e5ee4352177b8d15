"""Rules for the ridge: what they give, and that they look at released statistics alone."""

import math

import numpy as np
import pytest
from helpers import assert_mean_close

from jaxdp.kernels import SelectedRidge, Theorem11Rule
from jaxdp.kernels.release.joint_release import JointNoise, noise_of, num_normals
from jaxdp.kernels.ridge.rules import NoisyStatistics, ridge_path, split_noise

SIZE = 40


def _statistics(std, seed=0, decay=2.0):
    """Noisy ones of a covariance with a power-law spectrum, and the exact ones."""
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.normal(size=(SIZE, SIZE)))[0]
    values = np.arange(1, SIZE + 1.0) ** -decay
    values /= values.sum()
    exact = rotation @ np.diag(values) @ rotation.T
    vector = exact @ rotation[:, :5].sum(axis=1)
    noise = JointNoise(std, std)
    added = noise_of(generator.standard_normal(num_normals(SIZE)), SIZE, noise)
    released = NoisyStatistics(exact + added[0], vector + added[1], noise, 1000, 1.0)
    return released, exact, vector


def _risk(coefficients, exact, vector):
    return coefficients @ exact @ coefficients - 2 * vector @ coefficients


def test_the_noise_norm_is_the_spectral_norm_of_the_noise():
    size, noise = 300, JointNoise(0.7, 1.0)
    drawn = noise_of(np.random.default_rng(0).standard_normal(num_normals(size)), size, noise)[0]
    empty = NoisyStatistics(drawn, np.zeros(size), noise, 10, 1.0)
    norm = np.abs(np.linalg.eigvalsh(drawn)).max()
    # The edge of the semicircle is met up to M^(-2/3).
    assert norm == pytest.approx(empty.noise_norm, rel=2 * size ** (-2 / 3))


# Source: PK Theorem 11.
def test_theorem_11_gives_the_printed_powers():
    rule = Theorem11Rule(0.5, 0.0)
    assert rule.ridge(1000, 1.0) == pytest.approx(1e-3)
    assert rule.ridge(1000, 0.1) == pytest.approx(1e-2)
    assert rule.num_projections(1000, 1.0) == 1
    # r = 1, gamma = 1/2: n^(-2/5) and (n eps)^(-4/9); n^(3/5) and (n eps)^(2/3).
    rule = Theorem11Rule(1.0, 0.5, constant=2.0)
    assert rule.ridge(10**5, 1.0) == pytest.approx(2 * 10**-2.0)
    assert rule.ridge(10**5, 1e-2) == pytest.approx(2 * 10 ** (-3 * 4 / 9))
    assert rule.num_projections(10**5, 1.0) == 1000
    assert rule.num_projections(10**5, 1e-2) == 100
    assert rule.num_projections(10**5, 1e-2, constant=0.5) == 50
    # Where epsilon = n^(-gamma / (4 r + 2 gamma)) both regimes meet.
    epsilon = (10**5) ** (-0.5 / 5)
    assert (10**5 * epsilon) ** (-4 / 9) == pytest.approx((10**5) ** (-2 / 5))


def test_the_ridge_path_solves_with_the_nearest_positive_matrix():
    statistics = _statistics(0.05)[0]
    ridges = np.array([0.01, 0.1, 1.0])
    values, vectors = np.linalg.eigh(statistics.covariance)
    assert values[0] < -0.05
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    found = ridge_path(statistics.covariance, statistics.correlation, ridges)
    for row, ridge in zip(found, ridges, strict=True):
        expected = np.linalg.solve(positive + ridge * np.eye(SIZE), statistics.correlation)
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-12)
    # Without the projection the smallest ridges would meet a resonance.
    assert np.linalg.norm(found, axis=1).tolist() == sorted(
        np.linalg.norm(found, axis=1), reverse=True
    )


def test_split_noises_are_independent_and_the_judge_is_unbiased():
    """Over noises and splits, the judge's risk of what was fitted to its partner is the true."""
    gaps, naive = [], []
    for seed in range(150):
        released, exact, vector = _statistics(0.03, seed)
        generator = np.random.default_rng([7, seed])
        fitted, judge = split_noise(released, generator)
        coefficients = ridge_path(fitted[0], fitted[1], np.array([0.1]))[0]
        true = _risk(coefficients, exact, vector)
        gaps.append(_risk(coefficients, *judge) - true)
        naive.append(_risk(coefficients, *fitted) - true)
    assert_mean_close(gaps, 0.0)
    with pytest.raises(AssertionError):
        assert_mean_close(naive, 0.0)


def test_the_selected_ridge_is_near_the_best_and_follows_the_noise():
    losses = {}
    for std in (0.001, 0.01):
        excess = []
        for seed in range(6):
            released, exact, vector = _statistics(std, seed)
            chosen = SelectedRidge().choose(released, public_seed=seed)
            grid = released.noise_norm * 2.0 ** np.linspace(-3, 3, 25)
            smallest = released.noise_norm / 16
            paths = ridge_path(
                released.covariance, released.correlation, np.append(grid, [chosen, smallest])
            )
            risks = np.array([_risk(row, exact, vector) for row in paths])
            least = risks[:-1].min()
            excess.append((risks[-2:] - least) / abs(least))
        losses[std], wrong = np.mean(excess, axis=0)
    assert losses[0.001] < 0.05
    assert losses[0.01] < 0.3
    # The smallest ridge that it looks at is a choice that this would notice.
    assert wrong > 0.3


def test_what_is_selected_for_the_noisier_copy_is_made_smaller_for_the_whole():
    statistics = _statistics(0.003)[0]
    # A half of the noise's variance is added to the copy: all ridges of its grid, and no other, are
    # smaller by the root of 3/2.
    chosen = SelectedRidge().choose(statistics, public_seed=0) / statistics.noise_norm
    power = 2 * math.log2(chosen * math.sqrt(1.5))
    assert power == pytest.approx(round(power), abs=1e-9)
    assert 2 * math.log2(chosen) != pytest.approx(round(2 * math.log2(chosen)), abs=0.1)
