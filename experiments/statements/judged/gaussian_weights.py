"""Gaussian weights as DR's proofs use them, and the concentration of tanh features.

The proofs bound fluctuations by orders; their centres are closed forms, and those are compared.
If a lemma says O(f), the quantity over f does not grow as d doubles twice and p = 4 d^2 with it.
A supremum over the sphere is taken over many rows, which gives a lower bound of it.
"""

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import gamma

from experiments.statements.judged.sides import (
    Side,
    at_least,
    at_most,
    between,
    gaussian_mean,
    mean,
    order,
    sphere_rows,
)

DIMS = (16, 32, 64)
tanh = np.tanh


def slope(z):
    return 1 / np.cosh(z) ** 2


def curve(z):
    return -2 * np.tanh(z) * slope(z)


MU_1 = gaussian_mean(slope)
MU_3 = gaussian_mean(lambda z: tanh(z) * (z**3 - 3 * z)) / math.sqrt(6)
REST = gaussian_mean(lambda z: tanh(z) ** 2) - MU_1**2


def _weights(rng, width, dim):
    return rng.standard_normal((width, dim)) / math.sqrt(dim)


def _drawn(dim, seed, count=40):
    rng = np.random.default_rng(seed)
    return rng, sphere_rows(rng, count, dim), _weights(rng, 4 * dim**2, dim)


def _features(rows, weights):
    """Features, and those without their linear part."""
    before = rows @ weights.T
    return tanh(before), tanh(before) - MU_1 * before


def norms_of_weights() -> Iterator[Side]:
    """Weights have the norms of Lemma C.1.

    Source: DR Lemma C.1, (85).
    """
    rng, dim, width = np.random.default_rng(0), 10, 400
    drawn = [_weights(rng, width, dim) for _ in range(200)]
    yield from mean("|V|_F^2/p", [np.sum(one**2) / width for one in drawn], 1.0)
    third = (2 / dim) ** 1.5 * gamma((dim + 3) / 2) / gamma(dim / 2)
    cubes = [np.mean(np.linalg.norm(one, axis=1) ** 3) for one in drawn]
    yield from mean("mean of |v|^3", cubes, third, wrong=(1.0,))
    # At most in the mean, and to a tenth (Gordon).
    operator = np.array([np.linalg.norm(one, 2) for one in drawn]) / (math.sqrt(width / dim) + 1)
    yield from between("|V| over sqrt(p/d) + 1", operator.mean(), 0.9, 1)


def least_eigenvalue() -> Iterator[Side]:
    """The least eigenvalue of the features' Gram matrix is of order p.

    Source: DR (14).
    """
    rng, dim, width, found = np.random.default_rng(1), 20, 3000, []
    for _ in range(8):
        full, _ = _features(sphere_rows(rng, 2 * dim, dim), _weights(rng, width, dim))
        found.append(np.linalg.eigvalsh(full @ full.T / width)[0])
    # More rows than dimensions, so that the linear part has no share in the least one.
    yield from between("least eigenvalue over p", np.mean(found), REST / 2, REST)


def second_moment_along_a_step() -> Iterator[Side]:
    """E phi'(x) xi^2 = mu_1 + sqrt(2) mu_2(phi') c^2.

    Source: DR Lemma C.4, (111), through (117).
    """
    for cosine in (0.0, 0.6):
        first, rest = np.random.default_rng(2).standard_normal((2, 400_000))
        along = cosine * first + math.sqrt(1 - cosine**2) * rest
        # mu_2 of the slope is sqrt(3) mu_3.
        expected = MU_1 + math.sqrt(6) * MU_3 * cosine**2
        wrong = (1.05 * expected, *([MU_1] if cosine else []))
        yield from mean(f"moment at c = {cosine}", slope(first) * along**2, expected, wrong)


def stein_identity() -> Iterator[Side]:
    """Three normals obey the generalised identity of Stein; neither of its terms may be left out.

    Source: DR Lemma C.7, (150).
    """
    one_two, one_step, two_step = 0.8, 0.7, 0.4
    correlations = [[1, one_two, one_step], [one_two, 1, two_step], [one_step, two_step, 1]]
    draws = np.random.default_rng(3).standard_normal((3, 400_000))
    first, second, step = np.linalg.cholesky(correlations) @ draws
    tilde, tilde_slope = tanh(second) - MU_1 * second, slope(second) - MU_1
    terms = two_step * tilde_slope * slope(first), one_step * tilde * curve(first)
    gap = tilde * slope(first) * step - sum(terms)
    wrong = tuple(-float(term.mean()) for term in terms)
    yield from mean("left side less the right one", gap, 0.0, wrong)


def remainder_of_the_expansion() -> Iterator[Side]:
    """The remainder of the expansion is of third order in the distance.

    Source: DR Lemma C.3, (94).
    """
    rng, dim, width = np.random.default_rng(4), 20, 20_000
    (row,) = sphere_rows(rng, 1, dim)
    weights, step = _weights(rng, width, dim), rng.standard_normal(dim)
    here, sizes, steepest = weights @ row, [], 4 / 3**1.5
    for delta in (0.1, 0.01):
        moved = weights @ (delta * math.sqrt(dim) * step / np.linalg.norm(step))
        left = abs(moved @ (tanh(here + moved) - tanh(here) - slope(here) * moved))
        yield at_most(f"at {delta}", left, steepest / 2 * np.sum(np.abs(moved) ** 3))
        sizes.append(left / (width * delta**2))
    yield at_most("remainder at a tenth of the distance", sizes[1], 0.2 * sizes[0])


def duplicates_add_their_coefficients() -> Iterator[Side]:
    """The expansion of two duplicates is an identity with a_1 + a_2, which (10) misprints.

    Source: DR (9), (10), (78) and (158).
    """
    rng, dim, width = np.random.default_rng(5), 6, 50
    weights, row, other = _weights(rng, width, dim), *rng.standard_normal((2, dim))
    first, second = row + 0.1 * rng.standard_normal((2, dim))
    one, two = 2.5, -1.9
    combined = one * tanh(weights @ first) + two * tanh(weights @ second)
    here, there, moved = (weights @ vector for vector in (first, second, second - first))
    tangent = slope(here) * moved
    expanded = (one + two) * tanh(here) + two * tangent
    expanded += two * (tanh(there) - tanh(here) - tangent)
    yield at_most("gap of (9)", np.abs(expanded - combined).max(), 1e-12)
    tilde = tanh(weights @ other) - MU_1 * weights @ other
    parts, total = (tilde @ tanh(here), two * tilde @ (tanh(there) - tanh(here))), tilde @ combined
    yield at_most("gap of (10)", abs((one + two) * parts[0] + parts[1] - total), 1e-6 * abs(total))
    printed = abs(2 * two * parts[0] + parts[1] - total)
    yield at_least("gap of (10) as printed", printed, 0.1 * abs(total))


def inner_products_of_features() -> Iterator[Side]:
    """Inner products of features concentrate around those of mu~.

    Source: DR Lemma B.1, (18) to (22).
    """
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
    yield from order("a row with itself", own, DIMS, 0.75)
    yield from order("two rows", others, DIMS, 2.0)
    yield from order("the linear part", linear, DIMS, 1.0)
    # mu~^2 is the sum of squares from order 3 on: with the linear part it is another number.
    _, rows, weights = _drawn(64, 1)
    full, rest = _features(rows, weights)
    centre = REST * len(weights)
    yield at_least("gap with the linear part", np.abs(np.sum(full**2, axis=1) - centre), 1000)
    yield at_most("gap without", np.abs(np.sum(full * rest, axis=1) - centre), 100)


def norms_of_features() -> Iterator[Side]:
    """Norms of weights and of features have their orders.

    Source: DR Lemma C.1, (85), (86).
    """
    found = []
    for dim in DIMS:
        _, rows, weights = _drawn(dim, 2)
        full, rest = _features(rows, weights)
        width, lengths = len(weights), np.linalg.norm(weights, axis=1)
        of_full, of_rest = (np.linalg.norm(one, axis=1) / np.sqrt(width) for one in (full, rest))
        operator = np.linalg.norm(weights, 2) / np.sqrt(width / dim)
        powers = [np.sum(lengths**power) / width for power in (2, 3)]
        found.append([operator, *powers, of_full.max(), of_rest.max(), 1 / of_rest.min()])
    yield from order("norms", found, DIMS, 0.5)


def displacements() -> Iterator[Side]:
    """A displacement far less than sqrt d moves features along their derivative.

    Source: DR Lemmas C.3, C.4 and C.7.
    """
    for seed in (0, 1, 2):
        cubic, straight, linear, other = [], [], [], []
        for dim, share in zip(DIMS, (0.2, 0.1, 0.05), strict=True):
            rng, (row, another), weights = _drawn(dim, seed, count=2)
            first, second = share * rng.standard_normal((2, dim))
            width, moved = len(weights), weights @ (second - first)
            delta = np.linalg.norm(second - first) / np.sqrt(dim)
            start, end = weights @ (row + first), weights @ (row + second)
            gap, slopes = tanh(end) - tanh(start), slope(start)
            limit = width * delta**3 + dim * np.log(dim) ** 2 * delta**2
            cubic.append(abs(moved @ (gap - slopes * moved)) / limit)
            straight.append(moved @ gap / limit)
            linear.append(abs(moved @ (slopes * moved) / (width * delta**2) - MU_1))
            rest = tanh(weights @ another) - MU_1 * weights @ another
            # With |a_2| = 1/delta, the most that C.6 allows.
            other.append(abs(rest @ gap) / (width * delta))
        # O of its order, with a constant below one; without the derivative it is another order.
        yield at_most(f"C.3, draw {seed}", cubic, 1)
        yield at_least(f"C.3 without the derivative, draw {seed}", straight[-1], 2)
        # The limit is mu_1 = E phi', in small o; of phi'(row) along the row it is not.
        yield at_most(f"C.4 at d = 64, draw {seed}", linear[-1], 0.1)
        yield at_most(f"C.7 at d = 64, draw {seed}", other[-1], 0.05)
    yield at_least("mu_1", MU_1, 0.5)


STATEMENTS = (
    norms_of_weights,
    least_eigenvalue,
    second_moment_along_a_step,
    stein_identity,
    remainder_of_the_expansion,
    duplicates_add_their_coefficients,
    inner_products_of_features,
    norms_of_features,
    displacements,
)
