"""The quantities of DR's proof of Theorem 1, where its hypothesis holds and where it is empty."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import sphere_rows
from helpers import assert_mean_close
from scipy.integrate import quad

from experiments.statements.data_reconstruction.assumption_2 import mixed_parity
from experiments.statements.data_reconstruction.span_lemmas import (
    coefficient_gaps,
    nonlinear_power,
    nonlinear_products,
    norm_gaps,
    overlap_power_gaps,
    span_coefficients,
    stated_orders,
)


def _host(z):
    """`mixed_parity` in NumPy."""
    even = np.cos(z) - np.exp(1.5) / 4 * np.cos(2 * z) - 0.75 * np.exp(-0.5)
    return np.tanh(z) + even / 4


def _moment(function):
    """E f(g) by adaptive quadrature."""
    return quad(lambda z: function(z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi), -12, 12)[0]


LINEAR = _moment(lambda z: z * _host(z))
POWER = _moment(lambda z: _host(z) ** 2) - LINEAR**2


def test_power_beyond_the_quadratic_part():
    assert nonlinear_power(mixed_parity) == pytest.approx(POWER, rel=1e-8)
    assert nonlinear_power(lambda z: z) == pytest.approx(0, abs=1e-12)


# Source: DR Lemma B.1, (18) and (19): concentration at mu~^2, and at next to nothing.
def test_products_of_nonlinear_parts_are_concentrated():
    rng, dim, width = np.random.default_rng(0), 12, 500
    same, apart, alike = [], [], []
    for _ in range(60):
        rows = math.sqrt(dim) * np.linalg.qr(rng.standard_normal((dim, 3)))[0].T
        weights = rng.standard_normal((width, dim)) / math.sqrt(dim)
        both = nonlinear_products(rows, rows, weights, mixed_parity)
        full = nonlinear_products(rows, rows, weights, mixed_parity, with_linear_part=True)
        tilde = _host(rows @ weights.T) - LINEAR * rows @ weights.T
        np.testing.assert_allclose(both, tilde @ tilde.T / width, atol=1e-8)
        same.append(full[0, 0])
        apart.append(both[0, 1])
        alike.append((full - both)[0, 1])
    assert_mean_close(same, POWER)
    assert_mean_close(apart, 0.0)
    # (21): the linear part of the second factor adds mean zero and a variance of order 1/p.
    assert_mean_close(alike, 0.0)
    assert_mean_close(np.square(alike), POWER * LINEAR**2 / width)
    # Of independent orthogonal rows: the variance (mu~^2)^2 / p.
    assert_mean_close(np.square(apart), POWER**2 / width)
    for samples, wrong in ((same, 1.1 * POWER), (np.square(apart), 4 * POWER**2 / width)):
        with pytest.raises(AssertionError):
            assert_mean_close(samples, wrong)


# Source: DR Lemma B.2, (37); Lemma B.3, (41); (6).
def test_gaps_vanish_at_the_training_rows_and_not_where_features_are_few():
    rng, dim, count = np.random.default_rng(1), 10, 4
    # Orthogonal rows, whose features' products have the mean zero that random rows' only tend to.
    rows = math.sqrt(dim) * np.linalg.qr(rng.standard_normal((dim, count)))[0].T

    def gaps(found, width):
        weights = rng.standard_normal((width, dim)) / math.sqrt(dim)
        residual = span_coefficients(rows, found, weights, mixed_parity).residuals.max()
        assert residual < 1e-20
        arguments = rows, found, weights, mixed_parity
        return coefficient_gaps(*arguments).max(), norm_gaps(*arguments).max()

    # The rows themselves, in another order: what is left is a fluctuation of order 1/sqrt(p).
    few, many = gaps(rows[::-1], 500), gaps(rows[::-1], 50_000)
    assert many[0] < 0.3 * few[0]
    assert many[0] < 10 * POWER / math.sqrt(50_000)
    assert max(few[1], many[1]) < 1e-9
    # With p = n any rows meet the hypothesis; then neither half of (6) holds.
    coefficient, norm = gaps(sphere_rows(rng, count, dim), count)
    assert coefficient > 0.3
    assert norm > 0.3


def test_coefficients_of_mixed_features_are_found():
    rng = np.random.default_rng(2)
    rows, weights = sphere_rows(rng, 3, 6), rng.standard_normal((90, 6)) / math.sqrt(6)
    found = span_coefficients(rows, np.vstack([rows[1], -rows[1]]), weights, jnp.tanh)
    # Odd: the negated row is spanned, by minus one.
    np.testing.assert_allclose(found.values, [[0, 1, 0], [0, -1, 0]], atol=1e-9)
    found = span_coefficients(rows, -rows[:1], weights, mixed_parity)
    assert found.residuals[0] > 0.1


# Source: DR Lemma B.4, (49) and (50); (7).
def test_powers_of_overlaps_are_no_longer_than_those_of_the_largest():
    rng, powers = np.random.default_rng(3), [2, 3, 6]
    worst = []
    for dim in (20, 80, 320):
        rows = sphere_rows(rng, dim // 4, dim)
        # Near a row, between two, and anywhere.
        guesses = np.vstack([rows[0] + 0.3 * sphere_rows(rng, 1, dim)[0], rows[0] + rows[1]])
        guesses = np.vstack([guesses, rng.standard_normal((3, dim))])
        guesses *= math.sqrt(dim) / np.linalg.norm(guesses, axis=1, keepdims=True)
        gaps = overlap_power_gaps(rows, guesses, powers)
        overlaps = guesses @ rows.T / dim
        largest = np.abs(overlaps).max(axis=1)
        for column, power in enumerate(powers):
            expected = np.linalg.norm(overlaps**power, axis=1) - largest ** (power - 1)
            np.testing.assert_allclose(gaps[:, column], expected, atol=1e-12)
            stretch = np.linalg.norm(rows, 2) / math.sqrt(dim)
            assert np.all(gaps[:, column] <= largest ** (power - 1) * (stretch - 1) + 1e-12)
        worst.append(gaps.max())
    assert worst[-1] < stated_orders(320, 80, 10**6).powers
    # For rows that are not independent it is false: equal rows add up.
    same = np.repeat(sphere_rows(rng, 1, 320), 16, axis=0)
    assert overlap_power_gaps(same, same[:1], [2]).item() == pytest.approx(3)


# Source: DR Lemmas B.2 to B.4, whose orders these are.
def test_stated_orders_are_those_printed():
    d, n, p = 400.0, 9.0, 1e7
    log = math.log(d)
    bracket = math.sqrt(p * d) * log + math.sqrt(p * n) * log + p * math.sqrt(n) * log**3 / d**1.5
    found = stated_orders(400, 9, 10**7)
    assert found.coefficients == pytest.approx(2 * bracket / p)
    assert found.norm == pytest.approx(math.sqrt(d * n / p) * log + log**3 / math.sqrt(d))
    assert found.powers == pytest.approx(400**-0.1)
