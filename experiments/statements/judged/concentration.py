"""PK's bounds with high probability and explicit constants, on random draws.

Inputs are uniform on POINTS places of an interval and the kernel is Gaussian, so that expectations
are sums. Each statement's left side is drawn many times and compared with the printed bound: that
is exceeded no more often than the statement allows (here never), and the bound over `room` is.
"""

from collections.abc import Iterator

import numpy as np
from scipy.stats import binom

from experiments.statements.judged.sides import Side, at_least, at_most, between

POINTS, SAMPLES, DRAWS, CHANCE, RIDGE = 60, 400, 400, 0.1, 0.05
LOG = np.log(2 / CHANCE)
PLACES = np.linspace(0, 1, POINTS)
KERNEL = np.exp(-((PLACES[:, None] - PLACES) ** 2) / (2 * 0.2**2))


def _power(matrix, power, ridge=RIDGE):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values + ridge, 1e-300) ** power) @ vectors.T


def _paths(num_paths):
    """h_M at every place: rows, with the root of M taken off."""
    factor = np.linalg.cholesky(KERNEL + 1e-9 * np.eye(POINTS))
    draws = np.random.default_rng(1).standard_normal((POINTS, num_paths))
    return factor @ draws / np.sqrt(num_paths)


FEATURES = _paths(6)
COVARIANCE = FEATURES.T @ FEATURES / POINTS
HALF = _power(COVARIANCE, -0.5)
# What the proofs use of the event E_g: no row is longer than H.
LONGEST = np.linalg.norm(FEATURES, axis=1).max()
WHITE = FEATURES @ HALF
DIMENSION = np.sum(WHITE**2) / POINTS


def _samples(rng, draws=DRAWS, num_samples=SAMPLES):
    """How often each place and label is in each draw, over the number of samples."""
    chances = np.full((2, POINTS), 0.5 / POINTS) * (1 + np.outer((1, -1), np.sin(6 * PLACES)))
    counts = rng.multinomial(num_samples, chances.ravel(), draws) / num_samples
    return counts.reshape(draws, 2, POINTS), chances


def _exceeded(values, bound, room):
    """The share of draws above the bound, and above a room-th of it."""
    yield at_most("share above the bound", np.mean(values > bound), CHANCE)
    yield at_least(f"share above the bound/{room:g}", np.mean(values > bound / room), CHANCE)


def _rng():
    return np.random.default_rng(0)


def sums_of_vectors() -> Iterator[Side]:
    """A sum of independent vectors is as short as Bernstein's inequality says.

    Source: PK Proposition 39.
    """
    counts, _ = _samples(_rng())
    centred = WHITE - WHITE.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1)
    # E |z|^p <= max |z|^(p - 2) E |z|^2, and p! / 2 >= 3^(p - 2).
    bound = 2 * lengths.max() / 3 * LOG / SAMPLES + np.sqrt(2 * np.mean(lengths**2) * LOG / SAMPLES)
    yield from _exceeded(np.linalg.norm(counts.sum(axis=1) @ centred, axis=1), bound, 2)


def label_sums() -> Iterator[Side]:
    """The labels' deviation is bounded, under Bernstein moments of the label and not of its noise.

    Source: PK Lemma 35, Assumption 2.
    """
    # Labels of size one, whose moments about 0 are one: sigma = 1, B = 1/3.
    counts, chances = _samples(_rng())
    sums = (counts[:, 0] - counts[:, 1] - chances[0] + chances[1]) @ WHITE
    first = 2 * LONGEST / 3 * LOG / (SAMPLES * np.sqrt(RIDGE))
    rest = np.sqrt(8 * DIMENSION * LOG / SAMPLES)
    yield from _exceeded(np.linalg.norm(sums, axis=1), first + rest, 5)
    # Labels without noise: sigma and B as small as one likes.
    counts, _ = _samples(_rng())
    sums = (counts.sum(axis=1) - 1 / POINTS) * np.sin(6 * PLACES) @ WHITE
    yield at_least("deviation without noise", np.linalg.norm(sums, axis=1), 1e-3)
    yield at_most("bound with moments of a noise of 1e-4", 1e-4 * (3 * first + rest), 1e-3)


def _covariances(counts):
    return np.einsum("dx,xi,xj->dij", counts.sum(axis=1), FEATURES, FEATURES) - COVARIANCE


def covariance_weighted_once() -> Iterator[Side]:
    """The empirical covariance is close, with the square of the longest row in the first term.

    Source: PK Lemma 36.
    """
    gaps = HALF @ _covariances(_samples(_rng())[0])
    first = 4 * LONGEST**2 * LOG / (SAMPLES * np.sqrt(RIDGE))
    bound = first + np.sqrt(8 * LONGEST**2 * DIMENSION * LOG / SAMPLES)
    yield from _exceeded(np.linalg.norm(gaps, axis=(1, 2)), bound, 10)
    # One sample; a row of length 100 in one of a thousand places, else 0.
    length, chance, ridge = 100.0, 1e-3, 10.0
    weighted = np.sqrt(chance * length**2 + ridge)
    gap = length**2 * (1 - chance) / weighted
    log = np.log(2 / (0.9 * chance))
    rest = np.sqrt(8 * length**2 * chance * length**2 / weighted**2 * log)
    # The gap has a chance of a thousandth, and the printed bound at less than that is below it.
    yield at_least("a rare gap, printed", gap, 4 * length * log / np.sqrt(ridge) + rest)
    yield at_most("a rare gap", gap, 4 * length**2 * log / np.sqrt(ridge) + rest)


def covariance_weighted_twice() -> Iterator[Side]:
    """The largest eigenvalue of a sum of matrices is as small as Bernstein's inequality says.

    Source: PK Proposition 41.
    """
    gaps = HALF @ _covariances(_samples(_rng())[0]) @ HALF
    each = WHITE[:, :, None] * WHITE[:, None] - HALF @ COVARIANCE @ HALF
    second = np.mean(each @ each, axis=0)
    norm = np.linalg.norm(second, 2)
    log = np.log(2 * np.trace(second) / (norm * CHANCE))
    most = np.linalg.eigvalsh(each).max()
    bound = 2 * most * log / (3 * SAMPLES) + np.sqrt(2 * norm * log / SAMPLES)
    yield from _exceeded(np.linalg.eigvalsh(gaps).max(axis=1), bound, 2.5)


def close_covariances() -> Iterator[Side]:
    """With enough samples the covariances are a quarter apart, and their inverses comparable.

    Source: PK Lemma 34.
    """
    num_samples = int(np.ceil(40 * LONGEST**2 / RIDGE * np.log(12 * DIMENSION / CHANCE)))
    gaps = HALF @ _covariances(_samples(_rng(), num_samples=num_samples)[0]) @ HALF
    yield from _exceeded(np.linalg.norm(gaps, 2, axis=(1, 2)), 0.25, 12)
    half, root, found = _power(COVARIANCE, 0.5), np.linalg.cholesky(COVARIANCE).T, []
    for gap in _covariances(_samples(_rng(), 100, 150)[0]):
        if np.linalg.norm(HALF @ gap @ HALF, 2) <= 0.25:
            found.append(np.linalg.norm(root @ _power(COVARIANCE + gap, -1) @ half, 2))
    yield at_least("draws of 150 samples that are as close", len(found), 50)
    yield from between("largest norm of their inverses", max(found), 1.1, 4 / 3)


# Logistic loss over its largest value in a ball, in [0, 1] as PK's losses are.
PAIR = _paths(2)
RADIUS, REACH = 4.0, np.linalg.norm(PAIR, axis=1).max()
LARGEST = np.logaddexp(0, RADIUS * REACH)
SIGNS = np.asarray([[-1.0], [1.0]])
CIRCLE = np.linspace(0, 2 * np.pi, 40, endpoint=False)
BALL = np.concatenate(
    [r * np.stack([np.cos(CIRCLE), np.sin(CIRCLE)], axis=1) for r in RADIUS * np.linspace(0, 1, 11)]
)


def _losses(points):
    """Loss and its slope at every point of the ball, label and place."""
    margins = SIGNS * (points @ PAIR.T)[:, None]
    return np.logaddexp(0, margins) / LARGEST, SIGNS / (1 + np.exp(-margins)) / LARGEST


def regularised_minimisers() -> Iterator[Side]:
    """The empirical minimiser is near that of the risk with probability at least 1 - t.

    Source: PK Lemma 48, (13).
    """

    def minimise(weights):
        point = np.zeros(2)
        for _ in range(30):
            _, slopes = _losses(point[None])
            curvature = np.abs(slopes[0]) * (1 - LARGEST * np.abs(slopes[0]))
            hessian = PAIR.T @ ((weights * curvature).sum(axis=0)[:, None] * PAIR)
            gradient = (weights * slopes[0]).sum(axis=0) @ PAIR + RIDGE * point
            point = point - np.linalg.solve(hessian + RIDGE * np.eye(2), gradient)
        return point, np.linalg.norm(gradient)

    counts, chances = _samples(_rng(), 150)
    found = [minimise(each) for each in (chances, *counts)]
    yield at_most("gradient at the minimisers", max(size for _, size in found), 1e-9)
    steep = REACH / LARGEST
    bound = 4 * steep * LOG / (SAMPLES * RIDGE)
    bound += 2 * steep / RIDGE * np.sqrt(2 * LOG / SAMPLES)
    points = np.asarray([point for point, _ in found])
    yield from _exceeded(np.linalg.norm(points[1:] - points[0], axis=1), bound, 20)


def _deviations(rng):
    """E - E_n at every point of the ball, by draw."""
    counts, chances = _samples(rng)
    return np.einsum("bsx,dsx->db", _losses(BALL)[0], chances - counts)


def uniform_deviation() -> Iterator[Side]:
    """The risk is close to the empirical risk on the whole ball.

    Source: PK Lemma 49.
    """
    root = np.sqrt(2 * np.log(4 / CHANCE) / SAMPLES)
    bound = RADIUS * REACH / LARGEST / np.sqrt(SAMPLES) + root
    yield from _exceeded(np.abs(_deviations(_rng())).max(axis=1), bound, 8)


def _complexity(rng, values):
    """E sup (1/n) sum of sigma_i f(x_i) over the class; values by function, label and place."""
    counts, _ = _samples(rng)
    signed = 2 * rng.binomial(np.rint(counts * SAMPLES).astype(int), 0.5) / SAMPLES - counts
    return np.einsum("bsx,dsx->db", values, signed).max(axis=1).mean()


def twice_the_complexity() -> Iterator[Side]:
    """Twice the Rademacher complexity with 1/n bounds the deviation; once, as in (23), does not.

    Source: PK Proposition 52.
    """
    rng, losses = _rng(), _losses(BALL)[0]
    bound = 2 * _complexity(rng, losses - losses[:1]) + np.sqrt(8 * LOG / SAMPLES)
    yield from _exceeded(_deviations(rng).max(axis=1), bound, 15)
    # All sets of a continuum: f = 0 on the sample and 1 elsewhere, so that the deviation is 1.
    num_samples = 1000
    signs = _rng().choice((-1, 1), (400, num_samples))
    complexity = np.mean(np.sum(signs > 0, axis=1)) / num_samples
    rest = np.sqrt(8 * LOG / num_samples)
    yield from between("complexity of all sets", complexity, 0.49, 0.51)
    yield at_most("bound by once the complexity", complexity + rest, 1)
    yield at_least("bound by twice the complexity", 2 * complexity + rest, 1)


def deviation_of_linear_functions() -> Iterator[Side]:
    """The deviation of bounded functions is as small as Talagrand's inequality says.

    Source: PK Proposition 67.
    """
    rng = _rng()
    counts, chances = _samples(rng)
    gaps = (counts - chances).sum(axis=1) @ PAIR
    linear = np.broadcast_to((BALL @ PAIR.T)[:, None], (len(BALL), 2, POINTS))
    most = RADIUS * np.linalg.norm(PAIR - PAIR.mean(axis=0), axis=1).max()
    variance = RADIUS**2 * np.linalg.norm(np.cov(PAIR.T, bias=True), 2)
    bound = 4 * _complexity(rng, linear) + 4 * most * LOG / (3 * SAMPLES)
    bound += np.sqrt(2 * variance * LOG / SAMPLES)
    yield from _exceeded(RADIUS * np.linalg.norm(gaps, axis=1), bound, 5)


def slopes_of_the_deviation() -> Iterator[Side]:
    """The deviation's slope in the weighted norm is bounded, which no two functions' gap exceeds.

    Source: PK Lemmas 56 and 68.
    """
    counts, chances = _samples(_rng())
    white = PAIR @ _power(PAIR.T @ PAIR / POINTS, -0.5)
    # Far out slopes are those of the hinge.
    points = np.concatenate([BALL, 5 * BALL, 50 * BALL])
    slopes = np.einsum("bsx,dsx,xi->dbi", _losses(points)[1], chances - counts, white)
    log, steep = np.log(2 * np.e * np.log(SAMPLES) / CHANCE), np.e / LARGEST
    bound = 4 * np.sqrt(np.sum(white**2) / POINTS / SAMPLES) + np.sqrt(2 * log / SAMPLES)
    bound += 8 * REACH * log / (3 * SAMPLES * np.sqrt(RIDGE))
    yield from _exceeded(np.linalg.norm(slopes, axis=2).max(axis=1), steep * bound, 20)


def random_fourier_features() -> Iterator[Side]:
    """Random Fourier features come as close to the kernel as stated.

    Source: PK Lemmas 74 and 75.
    """
    operator, half = KERNEL / POINTS, _power(KERNEL / POINTS, -0.5)
    dimension = np.trace(operator @ half @ half)

    def features(frequencies, phases):
        waves = np.cos(PLACES[:, None] * frequencies + 2 * np.pi * phases)
        return np.sqrt(2 / POINTS) * waves

    # The largest leverage over a grid, at most the supremum: it makes the bounds smaller.
    grid = np.meshgrid(np.linspace(0, 60, 121), np.linspace(0, 1, 17))
    leverage = np.max(np.sum((half @ features(*map(np.ravel, grid))) ** 2, axis=0))
    for num_features in (50, 200, 800):
        rng = np.random.default_rng(num_features)
        shape = 300, 1, num_features
        draws = features(rng.normal(scale=5, size=shape), rng.uniform(size=shape))
        moments = np.einsum("dxm,dym->dxy", draws, draws, optimize=True) / num_features
        gaps = half @ (moments - operator)
        once = np.sqrt(np.linalg.eigvalsh(gaps.swapaxes(1, 2) @ gaps)[:, -1])
        twice = np.abs(np.linalg.eigvalsh(gaps @ half)[:, [0, -1]]).max(axis=1)
        first = np.sqrt(4 * dimension * LOG / num_features)
        first += 4 * np.sqrt(leverage * LOG) / num_features
        log = np.log(8 / (RIDGE * CHANCE))
        second = 2 * (1 + leverage) * log / (3 * num_features)
        second += np.sqrt(2 * leverage * log / num_features)
        for words, values, bound in (("once", once, first), ("twice", twice, second)):
            words = f"weighted {words}, {num_features} features"
            yield at_most(f"largest gap {words}", values.max(), bound)
            share = np.mean(values > bound / 10)
            yield at_least(f"share above a tenth of the bound, {words}", share, CHANCE)


def rarely_large_features() -> Iterator[Side]:
    """The logarithm of Lemma 74 stands outside of the root for features that are rarely large.

    Source: PK Lemma 74.
    """
    # The same feature with chance q, else none, at t = 2 exp(-1000).
    chance, num_features, ridge, log = 1e-4, 10_000, 1e-8, 1000.0
    hits = np.arange(1, 400)
    gaps = (hits / num_features - chance) / np.sqrt(chance + ridge)
    leverage, dimension = 1 / (chance + ridge), chance / (chance + ridge)
    first = np.sqrt(4 * dimension * log / num_features)
    printed = first + 4 * np.sqrt(leverage * log) / num_features
    right = first + 4 * np.sqrt(leverage) * log / num_features
    log_chances = log + binom.logpmf(hits, num_features, chance)
    beyond = np.append(log_chances[gaps > right], -np.inf)
    yield Side("ln chance/t, root outside", beyond.max(), high=np.log(2) - np.log(400))
    yield Side("ln chance/t, as printed", log_chances[gaps > printed].max(), low=np.log(2))


STATEMENTS = (
    sums_of_vectors,
    label_sums,
    covariance_weighted_once,
    covariance_weighted_twice,
    close_covariances,
    regularised_minimisers,
    uniform_deviation,
    twice_the_complexity,
    deviation_of_linear_functions,
    slopes_of_the_deviation,
    random_fourier_features,
    rarely_large_features,
)
