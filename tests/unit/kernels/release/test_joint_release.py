"""The joint release of (C, w u): its sensitivity, its noise, its arithmetic."""

import math
from fractions import Fraction

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import FALSE_ALARM, assert_variance
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import binom, chisquare

from jaxdp.kernels.release.joint_release import (
    JointNoise,
    Sums,
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
from jaxdp.privacy import SecretNoise, audit, gaussian_mu
from jaxdp.privacy.secret.secret_noise import grid_unit

BALANCES = (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 8.0)


def _distance(first, second, label, other, weight):
    """The distance of the statistics (C, w u) of two records."""
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


@settings(max_examples=300)
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
        options = {"num_trials": 80_000, "confidence": 1 - FALSE_ALARM, "key": jr.key(3)}
        found.append(audit(mechanism, *pair, measure="mu", **options))
    assert 0.9 * mu <= found[0] <= mu
    assert found[1] > 1.5 * mu


def test_noise_has_the_stated_standard_deviations_and_is_symmetric():
    size, noise = 4, JointNoise(2.0, 0.5)
    normals = np.random.default_rng(0).standard_normal((4000, num_normals(size)))
    drawn = [noise_of(row, size, noise) for row in normals]
    matrices, vectors = (np.stack(part) for part in zip(*drawn, strict=True))
    assert np.array_equal(matrices, matrices.transpose(0, 2, 1))
    variances = np.full((size, size), 2.0) + 2 * np.eye(size)
    assert_variance(matrices, variances)
    assert_variance(vectors, 0.25)
    with pytest.raises(AssertionError):
        assert_variance(matrices, 4.0)


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


@settings(max_examples=200)
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


# Low bits. Who knows all records but one knows the sums but for that one record.


def _neighbours(size, bits):
    """Sums of many records, and the same with one record of them replaced by the worst other."""
    generator = np.random.default_rng(5)
    first, other = np.linalg.qr(generator.normal(size=(size, 2)))[0].T
    others = generator.normal(size=(size, size))
    found = []
    for record, label in ((first, 1.0), ((first + math.sqrt(3) * other) / 2, -1.0)):
        rows = unit_rows(np.concatenate([others, record[None]]), 1.0, bits)
        labels = unit_labels(np.append(np.ones(size), label), 1.0, bits)
        products = (rows.T @ rows).astype(np.int64), (labels @ rows).astype(np.int64)
        found.append(Sums(*products))
    return found


def _coordinates(sums, noise, bits):
    """The sums as one vector, the standard deviations of their noise, and how to unfold both."""
    size = len(sums.correlation)
    rows, columns = np.triu_indices(size)
    spread = np.where(rows == columns, noise.covariance, noise.covariance / math.sqrt(2))
    std = np.append(spread, np.full(size, noise.correlation)) * 4.0**bits
    return np.append(sums.covariance[rows, columns], sums.correlation), std, (rows, columns)


def _released_in_full(sums, source, noise, bits):
    """What was released once: float64 normals on the finest grid."""
    exact, std, places = _coordinates(sums, noise, bits)
    noisy = exact + np.rint(source.normals(len(exact), "C and u") * std).astype(np.int64)
    covariance = np.zeros((len(sums.correlation),) * 2)
    covariance[places] = noisy[: len(places[0])] / 4.0**bits
    return covariance, noisy[len(places[0]) :] / 4.0**bits


def _log_likelihood(released, sums, noise, bits, is_coarse):
    """The sums' log-likelihood, by counting the words whose float64 normal gives the release."""
    centre, std, places = _coordinates(sums, noise, bits)
    shift = np.maximum(np.frexp(std)[1] - 30, 0) if is_coarse else np.zeros(len(std), np.int64)
    high = centre >> shift
    offset = (centre - (high << shift)) * 0.5**shift
    seen = np.append(released[0][places], released[1]) * 4.0**bits
    sign = np.where(seen >= centre, 1, -1)
    guess = 2.0**64 * ndtr(-np.abs(seen - centre) / std)
    counts = []
    for is_past in (np.greater, np.greater_equal):
        # The first word that gives a number nearer to the centre, by bisection.
        low = np.minimum(guess - 2.0**22, 2.0**62.9).astype(np.int64)
        low, top = np.maximum(low, 0), low + 2**23
        for _ in range(24):
            middle = low + (top - low) // 2
            added = sign * -ndtri((middle + 0.5) * 2.0**-64) * std * 0.5**shift
            # As the release is read: in float64.
            total = ((high + np.rint(offset + added).astype(np.int64)) << shift).astype(np.float64)
            is_beyond = is_past(sign * (total - seen), 0)
            low, top = np.where(is_beyond, middle, low), np.where(is_beyond, top, middle)
        counts.append(top)
    return np.log(np.maximum(counts[1] - counts[0], 1e-9)).sum()


def _right_guesses(release, epsilon, size, trials, *, is_coarse):
    """How often the likelihood over words names the data, and how often mu-GDP lets it, at most."""
    mu, bits = gaussian_mu(epsilon, 1e-5), 21
    noise = JointNoise.calibrated(mu, 1.0)
    bits = grid_bits(size + 1, noise.covariance)
    pair = _neighbours(size, bits)
    right = 0
    for trial in range(trials):
        true = trial % 2
        source = SecretNoise(2**200 + trial)
        found = tuple(release(pair[true], source, noise, bits))
        scores = [_log_likelihood(found, sums, noise, bits, is_coarse) for sums in pair]
        right += (scores[1] > scores[0]) == true
    return right, binom.isf(FALSE_ALARM, trials, ndtr(mu / 2))


@pytest.mark.parametrize(
    ("epsilon", "size", "trials"),
    [
        (0.01, 30, 40),
        pytest.param(0.01, 100, 60, marks=pytest.mark.slow),
        pytest.param(0.1, 200, 100, marks=pytest.mark.slow),
    ],
)
def test_the_words_of_the_generator_do_not_betray_a_record(epsilon, size, trials):
    found, allowed = _right_guesses(noisy_sums, epsilon, size, trials, is_coarse=True)
    assert found <= allowed
    once, _ = _right_guesses(_released_in_full, epsilon, size, trials, is_coarse=False)
    assert once > allowed


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_every_residue_of_the_release_is_as_likely_as_any_other(epsilon):
    """On its grid, whatever the data are; `test_secret_noise` has what fails this test."""
    noise = JointNoise.calibrated(gaussian_mu(epsilon, 1e-5), 1.0)
    bits, size = grid_bits(2000, noise.covariance), 100
    unit = grid_unit(noise.covariance / math.sqrt(2) * 4.0**bits) / 4.0**bits
    for sums in _neighbours(size, bits):
        covariance, _ = noisy_sums(sums, SecretNoise(2**200), noise, bits)
        np.testing.assert_array_equal(covariance, covariance.T)
        steps = covariance[np.triu_indices(size, 1)] / unit
        np.testing.assert_array_equal(steps, np.rint(steps))
        for modulus in (2, 3, 8):
            found = np.bincount(np.mod(steps, modulus).astype(int), minlength=modulus)
            assert chisquare(found).pvalue > FALSE_ALARM


@pytest.mark.parametrize("bound", [1e-310, 1e-200, 1e300])
def test_bounds_whose_squares_float64_does_not_hold_are_refused(bound):
    # A row of zeros would become one of NaN, and one with squares of zero stay longer than 1e-200.
    with pytest.raises(ValueError, match=r"bound in \[2\^-500, 2\^500\]"):
        unit_rows(np.array([[0.0, 0.0], [3e-170, 0.0]]), bound, 16)


def test_the_grid_is_as_fine_as_sums_allow():
    assert grid_bits(100_000, 10.0) == 21
    assert grid_bits(10**9, 10.0) == 16
    assert grid_bits(1000, 1e9) == 14
    with pytest.raises(ValueError, match="64-bit sums"):
        grid_bits(1000, 1e15)
    # Sums of as many records, all at the bound, and the largest noise are held.
    for records, std in ((100_000, 10.0), (2**20, 1e6), (10, 1e9)):
        assert (records + 10 * std) * 4 ** grid_bits(records, std) < 2**63
