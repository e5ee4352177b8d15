"""What DR's proofs take from Gaussian weights, as expectations that are sampled in NumPy alone.

The lemmas bound fluctuations by orders; their centres are closed forms, and those are checked.
"""

import math

import numpy as np
import pytest
from helpers import assert_mean_close
from scipy.integrate import quad
from scipy.special import gamma

tanh = np.tanh


def slope(z):
    return 1 / np.cosh(z) ** 2


def curve(z):
    return -2 * np.tanh(z) * slope(z)


def _moment(function):
    """E f(g) by adaptive quadrature."""
    return quad(lambda z: function(z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi), -12, 12)[0]


MU_1 = _moment(slope)
MU_3 = _moment(lambda z: tanh(z) * (z**3 - 3 * z)) / math.sqrt(6)


def _weights(rng, width, dim):
    return rng.standard_normal((width, dim)) / math.sqrt(dim)


def _normals(rng, correlations, count=400_000):
    """Standard normals of these correlations, in triples."""
    return np.linalg.cholesky(correlations) @ rng.standard_normal((3, count))


# Source: DR Lemma C.1, (85).
def test_weights_have_the_norms_of_lemma_c1():
    rng, dim, width = np.random.default_rng(0), 10, 400
    drawn = [_weights(rng, width, dim) for _ in range(200)]
    assert_mean_close([np.sum(one**2) / width for one in drawn], 1.0)
    third = (2 / dim) ** 1.5 * gamma((dim + 3) / 2) / gamma(dim / 2)
    found = [np.mean(np.linalg.norm(one, axis=1) ** 3) for one in drawn]
    assert_mean_close(found, third)
    with pytest.raises(AssertionError):
        assert_mean_close(found, 1.0)
    # At most in the mean, and to a tenth (Gordon).
    operator = np.array([np.linalg.norm(one, 2) for one in drawn]) / (math.sqrt(width / dim) + 1)
    assert 0.9 < operator.mean() < 1


# Source: DR (14): the least eigenvalue of the features' Gram matrix is of order p.
def test_least_eigenvalue_is_the_power_beyond_the_linear_part():
    rng, dim, width, found = np.random.default_rng(1), 20, 3000, []
    power = _moment(lambda z: tanh(z) ** 2) - MU_1**2
    for _ in range(8):
        rows = rng.standard_normal((2 * dim, dim))
        rows *= math.sqrt(dim) / np.linalg.norm(rows, axis=1, keepdims=True)
        features = tanh(rows @ _weights(rng, width, dim).T)
        found.append(np.linalg.eigvalsh(features @ features.T / width)[0])
    # More rows than dimensions, so that the linear part has no share in the least one.
    assert 0.5 * power < np.mean(found) < power


# Source: DR Lemma C.4, (111), through (117): E phi'(x) xi^2 = mu_1 + sqrt(2) mu_2(phi') c^2.
@pytest.mark.parametrize("cosine", [0.0, 0.6])
def test_second_moment_along_a_step_has_its_hermite_expansion(cosine):
    rng = np.random.default_rng(2)
    first, rest = rng.standard_normal((2, 400_000))
    along = cosine * first + math.sqrt(1 - cosine**2) * rest
    found = slope(first) * along**2
    # mu_2 of the slope is sqrt(3) mu_3.
    expected = MU_1 + math.sqrt(6) * MU_3 * cosine**2
    assert_mean_close(found, expected)
    with pytest.raises(AssertionError):
        assert_mean_close(found, 1.05 * expected)
    if cosine:
        with pytest.raises(AssertionError):
            assert_mean_close(found, MU_1)


# Source: DR Lemma C.7, (150): the generalised Stein identity.
def test_three_normals_obey_steins_identity():
    one_two, one_step, two_step = 0.8, 0.7, 0.4
    correlations = np.array(
        [[1, one_two, one_step], [one_two, 1, two_step], [one_step, two_step, 1]]
    )
    first, second, step = _normals(np.random.default_rng(3), correlations)
    tilde, tilde_slope = tanh(second) - MU_1 * second, slope(second) - MU_1
    gap = tilde * slope(first) * step
    gap -= two_step * tilde_slope * slope(first) + one_step * tilde * curve(first)
    assert_mean_close(gap, 0.0)
    # Neither of the two terms may be left out.
    for term in (one_step * tilde * curve(first), two_step * tilde_slope * slope(first)):
        with pytest.raises(AssertionError):
            assert_mean_close(gap + term, 0.0)


# Source: DR Lemma C.3, (94): the remainder of the expansion is of third order in the distance.
def test_remainder_of_the_expansion_is_of_third_order():
    rng, dim, width = np.random.default_rng(4), 20, 20_000
    row = rng.standard_normal(dim)
    row *= math.sqrt(dim) / np.linalg.norm(row)
    weights, step = _weights(rng, width, dim), rng.standard_normal(dim)
    here = weights @ row
    sizes, steepest = [], 4 / 3**1.5
    for delta in (0.1, 0.01):
        moved = weights @ (delta * math.sqrt(dim) * step / np.linalg.norm(step))
        left = moved @ (tanh(here + moved) - tanh(here) - slope(here) * moved)
        assert abs(left) <= steepest / 2 * np.sum(np.abs(moved) ** 3)
        sizes.append(abs(left) / (width * delta**2))
    assert sizes[1] < 0.2 * sizes[0]


# Source: DR (9), (10), (78) and (158), with the erratum a_1 + a_2.
def test_expansion_of_two_duplicates_is_an_identity_with_the_sum_of_coefficients():
    rng, dim, width = np.random.default_rng(5), 6, 50
    weights, row, other = _weights(rng, width, dim), *rng.standard_normal((2, dim))
    first, second = row + 0.1 * rng.standard_normal((2, dim))
    one, two = 2.5, -1.9
    combined = one * tanh(weights @ first) + two * tanh(weights @ second)
    here, there, moved = (weights @ vector for vector in (first, second, second - first))
    tangent = slope(here) * moved
    expanded = (one + two) * tanh(here) + two * tangent
    expanded += two * (tanh(there) - tanh(here) - tangent)
    np.testing.assert_allclose(expanded, combined, atol=1e-12)
    tilde = tanh(weights @ other) - MU_1 * weights @ other
    parts = tilde @ tanh(here), two * tilde @ (tanh(there) - tanh(here))
    assert (one + two) * parts[0] + parts[1] == pytest.approx(tilde @ combined)
    # As printed in (10).
    assert 2 * two * parts[0] + parts[1] != pytest.approx(tilde @ combined, rel=0.1)
