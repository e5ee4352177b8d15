"""The joint release of (C, w u): its sensitivity, its noise, its arithmetic."""

import math
from fractions import Fraction

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from jaxdp.kernels.joint_release import (
    JointNoise,
    exact_sums,
    grid_bits,
    joint_sensitivity,
    noise_of,
    noisy_sums,
    num_normals,
    unit_labels,
    unit_rows,
    unit_sensitivity,
)
from jaxdp.privacy import audit_mu

BALANCES = (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 8.0)


def _distance(first, second, label, other, weight):
    """Of the statistics (C, w u) of two records."""
    matrices = np.outer(first, first) - np.outer(second, second)
    vectors = label * first - other * second
    return math.sqrt((matrices**2).sum() + weight**2 * (vectors**2).sum())


def worst_pair(balance):
    """Features and labels that attain the sensitivity for B = T = 1, in two dimensions."""
    cosine = min(balance / 2, 1)
    return np.array([1.0, 0.0]), np.array([cosine, math.sqrt(1 - cosine**2)]), 1.0, -1.0


@pytest.mark.parametrize("balance", BALANCES)
def test_the_sensitivity_is_attained_by_the_stated_pair(balance):
    first, second, label, other = worst_pair(balance)
    found = _distance(first, second, label, other, math.sqrt(balance))
    assert found == pytest.approx(unit_sensitivity(balance), rel=2e-12)


@settings(max_examples=300, deadline=None)
@given(
    numbers=st.lists(st.floats(-1, 1), min_size=8, max_size=8),
    balance=st.floats(0.01, 10),
    bounds=st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)),
)
def test_no_pair_of_records_exceeds_the_sensitivity(numbers, balance, bounds):
    bound, label_bound = bounds
    first, second = (bound * np.asarray(part) for part in (numbers[:3], numbers[3:6]))
    first, second = (z * min(1, bound / max(np.linalg.norm(z), 1e-9)) for z in (first, second))
    weight = math.sqrt(balance) * bound / label_bound
    label, other = (label_bound * y for y in numbers[6:])
    found = _distance(first, second, label, other, weight)
    largest = joint_sensitivity(input_bound=bound, label_bound=label_bound, weight=weight)
    assert found <= largest * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("balance", BALANCES)
def test_brute_force_finds_the_sensitivity(balance):
    def negative(numbers):
        first, second = numbers[:4], numbers[4:8]
        first, second = (z / max(1, np.linalg.norm(z)) for z in (first, second))
        label, other = np.clip(numbers[8:], -1, 1)
        return -_distance(first, second, label, other, math.sqrt(balance))

    generator = np.random.default_rng(0)
    best = min(
        minimize(negative, generator.normal(size=10), method="L-BFGS-B").fun for _ in range(20)
    )
    # At a = 2 the top is flat to fourth order: a search ends where differences drown in rounding.
    assert 1 - 1e-7 <= -best / unit_sensitivity(balance) <= 1


def test_known_sensitivities():
    # (B, T, w, Delta), from an independent computation.
    for bound, label_bound, weight, expected in (
        (1, 1.5, 0.4, 1.6687720036002525),
        (1, 2, 0.8, 3.2),
        (1.3, 1, 1.1, 3.2456201256462536),
        (1, 0.7, 3.0, 4.2),
    ):
        found = joint_sensitivity(input_bound=bound, label_bound=label_bound, weight=weight)
        assert found == pytest.approx(expected, rel=1e-11)
        assert found >= expected * (1 - 1e-15)


@pytest.mark.parametrize("wrong", [{"input_bound": 0.0}, {"label_bound": -1.0}, {"weight": -1.0}])
def test_bounds_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="expected finite"):
        joint_sensitivity(**({"input_bound": 1.0, "label_bound": 1.0, "weight": 1.0} | wrong))


_EACH_BALANCE = [
    pytest.param(0.5, marks=pytest.mark.slow),
    1.0,
    pytest.param(3.0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("balance", _EACH_BALANCE)
def test_the_audited_release_keeps_its_mu_and_half_the_noise_does_not(balance):
    mu, weight = 1.0, math.sqrt(balance)
    noise = JointNoise.calibrated(mu, balance)
    records = worst_pair(balance)
    first, second, label, other = records
    # The release of normals that are all zero but one: the noise as a linear map.
    parts = [noise_of(row, 2, noise) for row in np.eye(num_normals(2))]
    change = np.outer(first, first) - np.outer(second, second), label * first - other * second
    # The score is the projection on the difference, each coordinate in units of its own noise: no
    # other has more power.
    loads = jnp.asarray([(c * change[0]).sum() + weight**2 * u @ change[1] for c, u in parts])
    centres = [
        (np.outer(z, z) * change[0]).sum() + weight**2 * y * z @ change[1]
        for z, y in ((first, label), (second, other))
    ]

    def mechanism(data, key):
        centre, scale = data
        return centre + scale * jr.normal(key, loads.shape) @ loads

    found = []
    for scale in (1.0, 0.5):
        pair = [(jnp.asarray(centre), jnp.asarray(scale)) for centre in centres]
        found.append(audit_mu(mechanism, *pair, num_trials=40_000, key=jr.key(3)))
    assert 0.9 * mu <= found[0] <= mu
    assert found[1] > 1.5 * mu


def test_noise_has_the_stated_standard_deviations_and_is_symmetric():
    size, noise = 4, JointNoise(2.0, 0.5)
    normals = np.random.default_rng(0).standard_normal((4000, num_normals(size)))
    drawn = [noise_of(row, size, noise) for row in normals]
    matrices, vectors = (np.stack(part) for part in zip(*drawn, strict=True))
    assert np.array_equal(matrices, matrices.transpose(0, 2, 1))
    variances = np.full((size, size), 2.0) + 2 * np.eye(size)
    assert_mean_close(matrices**2, variances)
    assert_mean_close(vectors**2, 0.25)
    with pytest.raises(AssertionError):
        assert_mean_close(matrices**2, 4.0)


def test_calibrated_noise_is_the_sensitivity_over_mu():
    # epsilon = .5 and 2 at delta = 1e-5 and 1e-6: from an independent computation.
    for mu, expected in (
        (0.14221055866926102, 14.916756979298533),
        (0.4483347403951922, 4.7315547),
    ):
        noise = JointNoise.calibrated(mu, 1.0)
        assert noise.covariance == pytest.approx(expected, rel=1e-7)
        assert noise.correlation == noise.covariance
    both = JointNoise.calibrated(1.0, 2.0)
    # At a = 2, u alone would have 2 and C alone sqrt 2.
    assert both == pytest.approx((2 * math.sqrt(2), 2.0), rel=1e-9)


def test_sums_are_exact_in_any_order_and_in_any_blocks():
    generator = np.random.default_rng(1)
    features = generator.normal(size=(300, 5)).astype(np.float32) * 0.3
    labels = generator.normal(size=300)
    settings = {"num_outputs": 5, "feature_bound": 1.0, "label_bound": 1.5, "bits": 21}
    whole = exact_sums([features], labels, **settings)
    order = generator.permutation(300)
    for blocks in (np.split(features[order], 7 * np.arange(1, 42)), [features[order]]):
        found = exact_sums(blocks, labels[order], **settings)
        assert np.array_equal(found.covariance, whole.covariance)
        assert np.array_equal(found.correlation, whole.correlation)
    rows = unit_rows(features, 1.0, 21).astype(object).astype(int).astype(object)
    targets = unit_labels(labels, 1.5, 21).astype(int).astype(object)
    assert np.array_equal(rows.T @ rows, whole.covariance)
    assert np.array_equal(targets @ rows, whole.correlation)


@settings(max_examples=200, deadline=None)
@given(row=st.lists(st.floats(-(2.0**100), 2.0**100), min_size=4, max_size=4))
def test_no_row_is_longer_than_the_bound_in_exact_arithmetic(row):
    bound = 0.7
    units = unit_rows(np.asarray([row]), bound, 21)[0]
    assert all(value == int(value) for value in units)
    assert sum(Fraction(value) ** 2 for value in units) <= 4**21
    true = np.asarray(row)
    true = true * min(1, bound / max(np.linalg.norm(true), 1e-300))
    np.testing.assert_allclose(units * bound / 2**21, true, atol=bound / 2**21)


def test_labels_are_clipped_and_no_label_is_longer_than_the_bound():
    labels = np.asarray([-9.0, -1.5, -1e-9, 0.2, 1.5, np.nextafter(1.5, 2), 1e308])
    units = unit_labels(labels, 1.5, 21)
    assert units.tolist() == [-(2.0**21), -(2.0**21), 0, 279620, 2.0**21, 2.0**21, 2.0**21]


def test_a_row_that_is_not_finite_adds_nothing():
    rows = np.asarray([[1.0, 0.0], [np.nan, 1.0], [np.inf, 0.0]])
    assert unit_rows(rows, 2.0, 21).tolist() == [[2.0**20, 0], [0, 0], [0, 0]]


def test_the_released_last_bits_hold_nothing_of_the_data():
    """Sum and noise lie on one grid: the release less a neighbour's sum could be noise too."""
    bits, noise = 21, JointNoise(3.0, 3.0)
    features = np.random.default_rng(2).uniform(size=(2, 10, 3))
    normals = np.random.default_rng(3).standard_normal(num_normals(3))
    for table in features:
        sums = exact_sums(
            [table], np.ones(10), num_outputs=3, feature_bound=1, label_bound=1, bits=bits
        )
        for released in noisy_sums(sums, normals, noise, bits):
            steps = released * 4.0**bits
            assert np.array_equal(steps, np.rint(steps))


def test_the_grid_is_as_fine_as_sums_allow():
    assert grid_bits(100_000, 10.0) == 21
    assert grid_bits(10**9, 10.0) == 16
    assert grid_bits(1000, 1e9) == 14
    with pytest.raises(ValueError, match="64-bit sums"):
        grid_bits(1000, 1e15)
    # Sums of as many records, all at the bound, and the largest noise are held.
    for records, std in ((100_000, 10.0), (2**20, 1e6), (10, 1e9)):
        assert (records + 10 * std) * 4 ** grid_bits(records, std) < 2**63
