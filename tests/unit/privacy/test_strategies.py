"""Strategies of correlated noise: closed forms, and the matrix that a machine makes of one."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.privacy import independent_strategy, square_root_strategy
from jaxdp.privacy.strategies import check_strategy, noise_mixing

COUNT = 6


def test_independent_noise_is_the_identity():
    np.testing.assert_array_equal(independent_strategy(3), np.eye(3))
    assert independent_strategy(np.int64(2)).dtype == np.float64


@pytest.mark.parametrize("nu", [0.0, 0.3, 1.0])
def test_the_square_root_squares_to_the_decayed_prefix_sums(nu):
    strategy = square_root_strategy(COUNT, nu)
    np.testing.assert_allclose(np.linalg.norm(strategy, axis=0), 1, rtol=1e-14)
    first = strategy[:, 0] / strategy[0, 0]
    root = np.array([[first[i - j] if i >= j else 0.0 for j in range(6)] for i in range(6)])
    sums = np.array([[(1 - nu) ** (i - j) if i >= j else 0.0 for j in range(6)] for i in range(6)])
    np.testing.assert_allclose(root @ root, sums, atol=1e-14)
    # Each column is the Toeplitz one, divided by its norm.
    np.testing.assert_allclose(strategy / np.diag(strategy), root, atol=1e-14)


def test_a_traced_decay_gives_the_same_strategy():
    traced = jax.vmap(lambda nu: square_root_strategy(COUNT, nu))(jnp.asarray([0.0, 0.3]))
    for nu, found in zip((0.0, 0.3), traced, strict=True):
        np.testing.assert_allclose(found, square_root_strategy(COUNT, nu), rtol=2e-6, atol=1e-7)


def _squared_columns_of_inverse(matrix):
    """Squared norms of the columns of a lower triangular matrix's inverse, in exact arithmetic."""
    exact = [[Fraction(float(entry)) for entry in row] for row in matrix]
    count = len(exact)
    columns = []
    for j in range(count):
        column = []
        for i in range(count):
            rest = sum((exact[i][k] * column[k] for k in range(i)), Fraction(0))
            column.append((Fraction(int(i == j)) - rest) / exact[i][i])
        columns.append(sum((entry**2 for entry in column), Fraction(0)))
    return columns


def _random_strategy(seed):
    random = np.random.default_rng(seed)
    matrix = np.tril(random.normal(size=(COUNT, COUNT)))
    np.fill_diagonal(matrix, random.uniform(0.2, 2.0, COUNT))
    return matrix / np.linalg.norm(matrix, axis=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_mixing_as_rounded_keeps_every_column_below_one(dtype):
    strategies = [independent_strategy(COUNT), square_root_strategy(COUNT, 0.0)]
    strategies += [_random_strategy(seed) for seed in range(20)]
    # Of norm 1 up to the rounding of float32, which may be above 1.
    strategies += [_random_strategy(seed).astype(np.float32) for seed in range(20)]
    plain_is_private = True
    for strategy in strategies:
        mixing = noise_mixing(strategy, dtype)
        assert mixing.dtype == dtype
        assert max(_squared_columns_of_inverse(mixing)) <= 1
        # And is larger than the inverse by hardly more than that.
        exact = np.linalg.inv(np.asarray(strategy, np.float64))
        np.testing.assert_allclose(mixing, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())
        plain_is_private &= max(_squared_columns_of_inverse(exact.astype(dtype))) <= 1
    # The inverse that is merely rounded is not enough, and the exact arithmetic sees it.
    assert not plain_is_private


def test_a_traced_mixing_is_not_below_the_concrete_one():
    strategy = square_root_strategy(COUNT, 0.1)
    traced = jax.jit(lambda matrix: noise_mixing(matrix, jnp.float32))(jnp.asarray(strategy))
    np.testing.assert_allclose(traced, noise_mixing(strategy, np.float32), rtol=3e-3)
    assert max(_squared_columns_of_inverse(np.asarray(traced))) < 1


def test_a_nearly_singular_strategy_is_refused():
    matrix = np.tril(np.ones((40, 40)), -1) + 1e-3 * np.eye(40)
    matrix /= np.linalg.norm(matrix, axis=0)
    check_strategy(matrix, 40)
    with pytest.raises(ValueError, match="nearly singular: its smallest diagonal entry is"):
        noise_mixing(matrix, np.float32)
