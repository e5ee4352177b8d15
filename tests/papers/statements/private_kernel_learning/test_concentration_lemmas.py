"""PK's bounds with high probability and explicit constants, on random draws: nothing of jaxdp.

Inputs are uniform on POINTS places of an interval and the kernel is Gaussian, so that expectations
are sums. Of each statement the left side is drawn many times and set beside the printed bound: it
is exceeded no more often than the statement allows (here never), and the bound over `room` is.
"""

import numpy as np
import pytest
from scipy.stats import binom

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
# What the proofs use of the event E_g: no row is longer than H.
LONGEST = np.linalg.norm(FEATURES, axis=1).max()
WHITE = FEATURES @ _power(COVARIANCE, -0.5)
DIMENSION = np.sum(WHITE**2) / POINTS


def _samples(rng, draws=DRAWS, num_samples=SAMPLES):
    """How often each place and label is in each draw, over the number of samples."""
    chances = np.full((2, POINTS), 0.5 / POINTS) * (1 + np.outer((1, -1), np.sin(6 * PLACES)))
    counts = rng.multinomial(num_samples, chances.ravel(), draws) / num_samples
    return counts.reshape(draws, 2, POINTS), chances


def _bernstein(scale, variance, num_samples=SAMPLES):
    return 2 * scale * LOG / num_samples + np.sqrt(2 * variance * LOG / num_samples)


def _proposition_39(rng):
    counts, _ = _samples(rng)
    centred = WHITE - WHITE.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1)
    # E |z|^p <= max |z|^(p - 2) E |z|^2, and p! / 2 >= 3^(p - 2).
    bound = _bernstein(lengths.max() / 3, np.mean(lengths**2))
    return np.linalg.norm(counts.sum(axis=1) @ centred, axis=1), bound


def _lemma_35(rng):
    # Labels of size one, whose moments about 0 are one: sigma = 1, B = 1/3.
    counts, chances = _samples(rng)
    sums = (counts[:, 0] - counts[:, 1] - chances[0] + chances[1]) @ WHITE
    first = 2 * LONGEST / 3 * LOG / (SAMPLES * np.sqrt(RIDGE))
    return np.linalg.norm(sums, axis=1), first + np.sqrt(8 * DIMENSION * LOG / SAMPLES)


def _covariances(counts):
    return np.einsum("dx,xi,xj->dij", counts.sum(axis=1), FEATURES, FEATURES) - COVARIANCE


def _lemma_36(rng, scale=LONGEST**2):
    gaps = _power(COVARIANCE, -0.5) @ _covariances(_samples(rng)[0])
    first = 4 * scale * LOG / (SAMPLES * np.sqrt(RIDGE))
    return np.linalg.norm(gaps, axis=(1, 2)), first + np.sqrt(
        8 * LONGEST**2 * DIMENSION * LOG / SAMPLES
    )


def _proposition_41(rng):
    half = _power(COVARIANCE, -0.5)
    gaps = half @ _covariances(_samples(rng)[0]) @ half
    each = WHITE[:, :, None] * WHITE[:, None] - half @ COVARIANCE @ half
    second = np.mean(each @ each, axis=0)
    norm = np.linalg.norm(second, 2)
    log = np.log(2 * np.trace(second) / (norm * CHANCE))
    most = np.linalg.eigvalsh(each).max()
    bound = 2 * most * log / (3 * SAMPLES) + np.sqrt(2 * norm * log / SAMPLES)
    return np.linalg.eigvalsh(gaps).max(axis=1), bound


def _lemma_34(rng):
    half, log = _power(COVARIANCE, -0.5), np.log(12 * DIMENSION / CHANCE)
    num_samples = int(np.ceil(40 * LONGEST**2 / RIDGE * log))
    gaps = half @ _covariances(_samples(rng, num_samples=num_samples)[0]) @ half
    norms = np.linalg.norm(gaps, 2, axis=(1, 2))
    return norms, 0.25


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


def _lemma_48(rng):
    def minimise(weights):
        point = np.zeros(2)
        for _ in range(30):
            _, slopes = _losses(point[None])
            curvature = np.abs(slopes[0]) * (1 - LARGEST * np.abs(slopes[0]))
            hessian = PAIR.T @ ((weights * curvature).sum(axis=0)[:, None] * PAIR)
            gradient = (weights * slopes[0]).sum(axis=0) @ PAIR + RIDGE * point
            point = point - np.linalg.solve(hessian + RIDGE * np.eye(2), gradient)
        assert np.linalg.norm(gradient) < 1e-9
        return point

    counts, chances = _samples(rng, 150)
    best = minimise(chances)
    steep = REACH / LARGEST
    bound = 4 * steep * LOG / (SAMPLES * RIDGE)
    bound += 2 * steep / RIDGE * np.sqrt(2 * LOG / SAMPLES)
    return np.asarray([np.linalg.norm(minimise(each) - best) for each in counts]), bound


def _deviations(rng):
    """E - E_n at every point of the ball, by draw."""
    counts, chances = _samples(rng)
    return np.einsum("bsx,dsx->db", _losses(BALL)[0], chances - counts)


def _lemma_49(rng):
    root = np.sqrt(2 * np.log(4 / CHANCE) / SAMPLES)
    return np.abs(_deviations(rng)).max(axis=1), RADIUS * REACH / LARGEST / np.sqrt(SAMPLES) + root


def _complexity(rng, values):
    """E sup (1/n) sum of sigma_i f(x_i) over the class; values by function, label and place."""
    counts, _ = _samples(rng, num_samples=SAMPLES)
    signed = 2 * rng.binomial(np.rint(counts * SAMPLES).astype(int), 0.5) / SAMPLES - counts
    return np.einsum("bsx,dsx->db", values, signed).max(axis=1).mean()


def _proposition_52(rng):
    # With the 1/n of the definition twice the complexity is meant (Errata, K26).
    losses = _losses(BALL)[0]
    rest = 2 * _complexity(rng, losses - losses[:1]) + np.sqrt(8 * LOG / SAMPLES)
    return _deviations(rng).max(axis=1), rest


def _proposition_67(rng):
    counts, chances = _samples(rng)
    gaps = (counts - chances).sum(axis=1) @ PAIR
    linear = np.broadcast_to((BALL @ PAIR.T)[:, None], (len(BALL), 2, POINTS))
    most = RADIUS * np.linalg.norm(PAIR - PAIR.mean(axis=0), axis=1).max()
    variance = RADIUS**2 * np.linalg.norm(np.cov(PAIR.T, bias=True), 2)
    bound = 4 * _complexity(rng, linear) + 4 * most * LOG / (3 * SAMPLES)
    return RADIUS * np.linalg.norm(gaps, axis=1), bound + np.sqrt(2 * variance * LOG / SAMPLES)


def _lemma_68(rng):
    """The largest slope of E - E_n in the weighted norm, which no two functions' gap exceeds."""
    counts, chances = _samples(rng)
    covariance = PAIR.T @ PAIR / POINTS
    white = PAIR @ _power(covariance, -0.5)
    # Far out slopes are those of the hinge.
    points = np.concatenate([BALL, 5 * BALL, 50 * BALL])
    slopes = np.einsum("bsx,dsx,xi->dbi", _losses(points)[1], chances - counts, white)
    log, steep = np.log(2 * np.e * np.log(SAMPLES) / CHANCE), np.e / LARGEST
    bound = 4 * np.sqrt(np.sum(white**2) / POINTS / SAMPLES) + np.sqrt(2 * log / SAMPLES)
    bound += 8 * REACH * log / (3 * SAMPLES * np.sqrt(RIDGE))
    return np.linalg.norm(slopes, axis=2).max(axis=1), steep * bound


ROOM = {
    _proposition_39: 2,
    _proposition_41: 2.5,
    _proposition_52: 15,
    _proposition_67: 5,
    _lemma_34: 12,
    _lemma_35: 5,
    _lemma_36: 10,
    _lemma_48: 20,
    _lemma_49: 8,
    _lemma_68: 20,
}


# Source: PK Lemmas 34, 35, 36, 48, 49, 56 and 68, (13), Propositions 39, 41, 52 and 67.
@pytest.mark.parametrize("statement", ROOM, ids=lambda one: one.__name__.strip("_"))
def test_a_bound_is_exceeded_no_more_often_than_stated(statement):
    values, bound = statement(np.random.default_rng(0))
    assert np.mean(values > bound) <= CHANCE
    assert np.mean(values > bound / ROOM[statement]) > CHANCE


# Source: PK Lemma 34.
def test_a_close_empirical_covariance_has_a_close_inverse():
    half, root = _power(COVARIANCE, 0.5), np.linalg.cholesky(COVARIANCE).T
    found = []
    for gap in _covariances(_samples(np.random.default_rng(0), 100, 150)[0]):
        close = np.linalg.norm(_power(COVARIANCE, -0.5) @ gap @ _power(COVARIANCE, -0.5), 2)
        inverse = _power(COVARIANCE + gap, -1)
        if close <= 0.25:
            found.append(np.linalg.norm(root @ inverse @ half, 2))
    assert len(found) > 50
    assert 1.1 < max(found) <= 4 / 3


# Source: PK Lemmas 74 and 75.
@pytest.mark.parametrize("num_features", [50, 200, 800])
def test_random_fourier_features_come_as_close_to_the_kernel_as_stated(num_features):
    operator, half = KERNEL / POINTS, _power(KERNEL / POINTS, -0.5)
    dimension = np.trace(operator @ half @ half)

    def features(frequencies, phases):
        waves = np.cos(PLACES[:, None] * frequencies + 2 * np.pi * phases)
        return np.sqrt(2 / POINTS) * waves

    # The largest leverage over a grid, at most the supremum: it makes the bounds smaller.
    grid = np.meshgrid(np.linspace(0, 60, 121), np.linspace(0, 1, 17))
    leverage = np.max(np.sum((half @ features(*map(np.ravel, grid))) ** 2, axis=0))
    rng = np.random.default_rng(num_features)
    shape = 300, 1, num_features
    draws = features(rng.normal(scale=5, size=shape), rng.uniform(size=shape))
    moments = np.einsum("dxm,dym->dxy", draws, draws) / num_features
    gaps = half @ (moments - operator)
    once = np.sqrt(np.linalg.eigvalsh(gaps.swapaxes(1, 2) @ gaps)[:, -1])
    twice = np.abs(np.linalg.eigvalsh(gaps @ half)[:, [0, -1]]).max(axis=1)
    first = np.sqrt(4 * dimension * LOG / num_features)
    first += 4 * np.sqrt(leverage * LOG) / num_features
    log = np.log(8 / (RIDGE * CHANCE))
    second = 2 * (1 + leverage) * log / (3 * num_features)
    second += np.sqrt(2 * leverage * log / num_features)
    for values, bound in ((once, first), (twice, second)):
        assert values.max() < bound
        assert np.mean(values > bound / 10) > CHANCE


def test_the_bernstein_condition_is_on_the_labels_and_not_on_their_noise():
    # Source: PK Lemma 35, Assumption 2. Labels without noise: sigma and B as small as one likes.
    counts, _ = _samples(np.random.default_rng(0))
    labels = np.sin(6 * PLACES)
    sums = (counts.sum(axis=1) - 1 / POINTS) * labels @ WHITE
    assert np.linalg.norm(sums, axis=1).min() > 1e-3
    noise = 1e-4
    first = 2 * noise * LONGEST * LOG / (SAMPLES * np.sqrt(RIDGE))
    assert first + np.sqrt(8 * noise**2 * DIMENSION * LOG / SAMPLES) < 1e-3


def test_the_first_term_of_the_empirical_covariance_has_the_square_of_the_longest_row():
    # Source: PK Lemma 36. One sample; a row of length 100 in one of a thousand places, else 0.
    length, chance, ridge = 100.0, 1e-3, 10.0
    weighted = np.sqrt(chance * length**2 + ridge)
    gap = length**2 * (1 - chance) / weighted
    log = np.log(2 / (0.9 * chance))
    rest = np.sqrt(8 * length**2 * chance * length**2 / weighted**2 * log)
    # The gap has a chance of a thousandth, and the bound at less than that is below it.
    assert gap > 4 * length * log / np.sqrt(ridge) + rest
    assert gap < 4 * length**2 * log / np.sqrt(ridge) + rest


def test_twice_the_complexity_bounds_the_deviation_and_once_does_not():
    # Source: PK Proposition 52. All sets of a continuum: f = 0 on the sample and 1 elsewhere.
    num_samples = 1000
    signs = np.random.default_rng(0).choice((-1, 1), (400, num_samples))
    complexity = np.mean(np.sum(signs > 0, axis=1)) / num_samples
    assert complexity == pytest.approx(0.5, abs=0.01)
    rest = np.sqrt(8 * LOG / num_samples)
    assert complexity + rest < 1 < 2 * complexity + rest


def test_the_logarithm_stands_outside_of_the_root_for_features_that_are_rarely_large():
    # Source: PK Lemma 74. The same feature with chance q, else none, at t = 2 exp(-1000).
    chance, num_features, ridge, log = 1e-4, 10_000, 1e-8, 1000.0
    hits = np.arange(1, 400)
    gaps = (hits / num_features - chance) / np.sqrt(chance + ridge)
    leverage, dimension = 1 / (chance + ridge), chance / (chance + ridge)
    first = np.sqrt(4 * dimension * log / num_features)
    printed = first + 4 * np.sqrt(leverage * log) / num_features
    right = first + 4 * np.sqrt(leverage) * log / num_features
    log_chances = binom.logpmf(hits, num_features, chance)
    assert np.any(log_chances[gaps > printed] > np.log(2) - log)
    assert not np.any(log_chances[gaps > right] > np.log(2) - log - np.log(400))
