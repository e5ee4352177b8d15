"""The concentration of features that DR's theorems rest on, in NumPy: nothing of jaxdp.

Where a lemma says O(f), the quantity over f must not grow as d doubles twice and p with it. A
supremum over the sphere is that over many rows: what is seen is a lower bound of it.
"""

import numpy as np
import pytest
from attack_problems import sphere_rows

DIMS = (16, 32, 64)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
LINEAR = float(np.sum(_WEIGHTS * np.tanh(_NODES) * _NODES))
REST = float(np.sum(_WEIGHTS * np.tanh(_NODES) ** 2)) - LINEAR**2


def _drawn(dim, seed, count=40):
    """Rows and weights, p = 4 d^2."""
    rng = np.random.default_rng(seed)
    return rng, sphere_rows(rng, count, dim), rng.standard_normal((4 * dim**2, dim)) / np.sqrt(dim)


def _features(rows, weights):
    """Features, and those without their linear part."""
    before = rows @ weights.T
    return np.tanh(before), np.tanh(before) - LINEAR * before


def _grows(ratios, power=0.0):
    """Whether a ratio, times that power of d, is larger at more than d."""
    ratios = np.asarray(ratios) * np.asarray(DIMS) ** power
    return ratios.max() > 1.25 * ratios[0]


# Source: DR Lemma B.1, (18) to (22).
def test_inner_products_of_features_concentrate():
    own, others, linear = [], [], []
    for dim in DIMS:
        _, rows, weights = _drawn(dim, 0)
        full, rest = _features(rows, weights)
        width, products = len(weights), rest @ full.T
        own.append(np.abs(np.diag(products) - REST * width).max() / np.sqrt(width))
        # (19): what is expected of two rows is a cube of their correlation.
        apart = np.abs(products - np.diag(np.diag(products))).max()
        others.append(apart / (np.sqrt(width) + width * np.log(dim) ** 3 / dim**1.5))
        # (21) and (22): the linear parts drop out.
        dropped = np.abs(rest @ (full - rest).T).max()
        linear.append(dropped / (np.sqrt(width * dim) * np.log(dim)))
    for ratios, power in ((own, 0.75), (others, 2.0), (linear, 1.0)):
        assert not _grows(ratios)
        assert _grows(ratios, power)
    # mu~^2 is the sum of squares from order 3 on: with the linear part it is another number.
    _, rows, weights = _drawn(64, 1)
    full, rest = _features(rows, weights)
    assert np.abs(np.sum(full**2, axis=1) - REST * len(weights)).min() > 1000
    assert np.abs(np.sum(full * rest, axis=1) - REST * len(weights)).max() < 100


# Source: DR Lemma C.1, (85), (86).
def test_norms_of_weights_and_of_features_have_their_orders():
    found = []
    for dim in DIMS:
        _, rows, weights = _drawn(dim, 2)
        width = len(weights)
        full, rest = _features(rows, weights)
        lengths = np.linalg.norm(weights, axis=1)
        found.append(
            [
                np.linalg.norm(weights, 2) / np.sqrt(width / dim),
                np.sum(lengths**2) / width,
                np.sum(lengths**3) / width,
                np.linalg.norm(full, axis=1).max() / np.sqrt(width),
                np.linalg.norm(rest, axis=1).max() / np.sqrt(width),
                np.sqrt(width) / np.linalg.norm(rest, axis=1).min(),
            ]
        )
    for ratios in np.transpose(found):
        assert not _grows(ratios)
        assert _grows(ratios, 0.5)


def _displaced(dim, seed, share):
    """A row, two rows near it and far less than sqrt d apart, another row, and the weights."""
    rng, rows, weights = _drawn(dim, seed, count=2)
    first, second = share * rng.standard_normal((2, dim))
    return rows[0], first, second, rows[1], weights


# Source: DR Lemmas C.3, C.4 and C.7.
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_displacement_moves_features_along_their_derivative(seed):
    second_order, linear, other = [], [], []
    for dim, share in zip(DIMS, (0.2, 0.1, 0.05), strict=True):
        row, first, second, another, weights = _displaced(dim, seed, share)
        width, moved = len(weights), weights @ (second - first)
        delta = np.linalg.norm(second - first) / np.sqrt(dim)
        start, end = weights @ (row + first), weights @ (row + second)
        slopes = 1 - np.tanh(start) ** 2
        gap = np.tanh(end) - np.tanh(start)
        order = width * delta**3 + dim * np.log(dim) ** 2 * delta**2
        second_order.append(abs(moved @ (gap - slopes * moved)) / order)
        linear.append(abs(moved @ (slopes * moved) / (width * delta**2) - LINEAR))
        rest = np.tanh(weights @ another) - LINEAR * weights @ another
        # C.7, with |a_2| = 1/delta, the most that C.6 allows.
        other.append(abs(rest @ gap) / (width * delta))
    # C.3: O of its order, with a constant below one; without the derivative it is another order.
    assert max(second_order) < 1
    assert moved @ gap > 2 * order
    # C.4: the limit is mu_1 = E phi', in small o; of phi'(row) along the row it is not.
    assert linear[-1] < 0.1
    assert LINEAR > 0.5
    # C.7: small o of p.
    assert other[-1] < 0.05
