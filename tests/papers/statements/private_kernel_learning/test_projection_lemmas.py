"""PK's lemmas on projected operators, tails and minimisers, in matrices: nothing of jaxdp.

In the kernel's eigenbasis L is diagonal, a projection is a matrix S of D rows (eigenfunctions) and
M columns (sample paths over the root of M), L_M = S S' and C_M = S' S.
"""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2, wishart

DIM, PATHS, ROWS, RIDGE = 40, 15, 60, 0.03
EIGENVALUES = np.arange(1, DIM + 1.0) ** -2.0
# Eigenvalues of zero: functions that the RKHS does not hold.
EIGENVALUES[-3:] = 0


def _norm(matrix):
    return np.linalg.norm(matrix, 2)


def _power(matrix, power):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 1e-300) ** power) @ vectors.T


def _ridged(matrix, power, ridge=RIDGE):
    return _power(matrix + ridge * np.eye(len(matrix)), power)


def _projection(rng, paths=PATHS):
    return np.sqrt(EIGENVALUES)[:, None] * rng.standard_normal((DIM, paths)) / np.sqrt(paths)


OPERATOR = np.diag(EIGENVALUES)
HALF = _ridged(OPERATOR, 0.5)


# Source: PK Lemmas 27, 28, 29, 30 and 31.
@pytest.mark.parametrize("source", [0.5, 0.75, 1.0])
def test_the_parts_of_the_error_are_below_their_products_of_norms(source):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        spanned = _projection(rng)
        projected, inner = spanned @ spanned.T, spanned.T @ spanned
        rows = rng.standard_normal((ROWS, DIM))
        empirical = spanned.T @ rows.T @ rows @ spanned / ROWS
        direction = rng.standard_normal(DIM)
        target = EIGENVALUES**source * direction
        size = np.linalg.norm(direction)
        labels = rows @ target + rng.standard_normal(ROWS)
        learn = spanned @ _ridged(empirical, -1)
        moment = spanned.T @ rows.T @ labels / ROWS
        width = _norm(learn @ _ridged(inner, 0.5))
        # 27, the labels.
        left = np.linalg.norm(learn @ (moment - spanned.T @ target))
        right = width * np.linalg.norm(_ridged(inner, -0.5) @ (moment - spanned.T @ target))
        assert left <= right * (1 + 1e-9)
        # 28: what lies outside of the kernel's range is not seen.
        outside = np.zeros(DIM)
        outside[-3:] = 1
        np.testing.assert_allclose(spanned.T @ outside, 0, atol=1e-12)
        # 29, the sample, with kappa^2 at the largest eigenvalue of L, which it is at least.
        smooth = projected @ _ridged(projected, -1) @ target
        ratio = _norm(_ridged(projected, -0.5) @ HALF)
        left = np.linalg.norm(learn @ spanned.T @ target - smooth)
        right = size * ratio * width * _norm(_ridged(inner, -0.5) @ (inner - empirical))
        assert left <= right * (1 + 1e-9)
        # 30, the projection.
        ideal = OPERATOR @ _ridged(OPERATOR, -1) @ target
        apart = _ridged(OPERATOR, -0.5) @ (OPERATOR - projected)
        once, twice = _norm(apart), _norm(apart @ _ridged(OPERATOR, -0.5))
        right = size * np.sqrt(RIDGE) * ratio * once ** (2 * source - 1) * twice ** (2 - 2 * source)
        assert np.linalg.norm(smooth - ideal) <= right * (1 + 1e-9)
        # 31, the ridge: met up to a factor where the target sits at the ridge.
        assert np.linalg.norm(ideal - target) <= size * RIDGE**source
    least = (RIDGE / (EIGENVALUES + RIDGE) * EIGENVALUES**source).max()
    assert least > 0.2 * RIDGE**source
    assert least < RIDGE**source < 6 * least


# Source: PK Lemma 34.
def test_close_operators_have_comparable_ridged_inverses():
    seen = []
    for paths in (20, 80, 320, 1280):
        spanned = _projection(np.random.default_rng(paths), paths)
        inverse = _ridged(OPERATOR, -0.5)
        close = _norm(inverse @ (OPERATOR - spanned @ spanned.T) @ inverse)
        ratio = _norm(_ridged(spanned @ spanned.T, -0.5) @ HALF)
        assert ratio <= (1 - close) ** -0.5 if close < 1 else True
        seen.append((close, ratio))
    assert all(ratio <= np.sqrt(2) for close, ratio in seen if close <= 0.5)
    assert sum(close <= 0.5 for close, _ in seen) >= 2


# Source: PK Lemmas 32, 37.
def test_projected_operators_are_close_as_often_as_stated():
    kappa, chance, draws = np.sqrt(EIGENVALUES.sum()), 0.1, 200
    dimension = np.sum(EIGENVALUES / (EIGENVALUES + RIDGE))
    rng, inverse = np.random.default_rng(0), _ridged(OPERATOR, -0.5)
    log, paths = np.log(2 / chance), 60
    limit = 2 * kappa * np.sqrt(32 * dimension * log) / paths
    limit += np.sqrt(64 * kappa**2 * dimension * log / paths)
    norms, traces = [], []
    for _ in range(draws):
        spanned = _projection(rng, paths)
        norms.append(np.linalg.norm(inverse @ (OPERATOR - spanned @ spanned.T)))
        inner = spanned.T @ spanned
        traces.append(np.trace(np.linalg.solve(inner + RIDGE * np.eye(paths), inner)))
    assert np.mean(np.asarray(norms) > limit) <= chance
    # The constants leave room, a factor of sixteen; a twentieth of the bound would be wrong.
    assert np.mean(np.asarray(norms) > limit / 20) > chance
    assert np.mean(np.asarray(traces) > 2 * dimension) <= 3 * chance
    assert np.mean(np.asarray(traces) > 0.8 * dimension) > 3 * chance


# Source: PK Propositions 24 and 42, Lemma 50.
def test_norms_of_gaussian_vectors_have_their_tails():
    for size in (1, 5, 50, 500):
        for depth in (0.5, 2.0, 8.0):
            # a_i = 1/M: the case of Lemma 7.
            assert chi2.sf(size + 2 * np.sqrt(size * depth) + 2 * depth, size) <= np.exp(-depth)
            assert chi2.cdf(size - 2 * np.sqrt(size * depth), size) <= np.exp(-depth)
            chance = np.exp(-depth)
            radius = np.sqrt(size) + np.sqrt(8 * np.log(2 / chance))
            assert chi2.sf(radius**2, size) <= chance
    # Without the root's second term the first bound is false, and so is half of the radius's.
    assert chi2.sf(50 + 2 * np.sqrt(50 * 8.0), 50) > np.exp(-8.0)
    assert chi2.sf((np.sqrt(50) + np.sqrt(8 * np.log(2e4)) / 5) ** 2, 50) > 1e-4
    # Unequal weights, by simulation.
    rng, weights = np.random.default_rng(0), np.arange(1, 9.0) ** -2
    sums = (rng.standard_normal((100_000, 8)) ** 2 - 1) @ weights
    for depth in (0.5, 2.0, 4.0):
        above = 2 * np.linalg.norm(weights) * np.sqrt(depth)
        assert np.mean(sums >= above + 2 * weights.max() * depth) <= np.exp(-depth)
        assert np.mean(sums <= -above) <= np.exp(-depth)


# Source: PK Proposition 43.
def test_gaussian_matrices_have_their_norm():
    rng, chance = np.random.default_rng(0), 0.1
    norms = [_norm(rng.standard_normal((30, 12))) for _ in range(300)]
    limit = np.sqrt(30) + np.sqrt(12) + np.sqrt(2 * np.log(2 / chance))
    # The universal constant may be one.
    assert np.mean(np.asarray(norms) > limit) <= chance
    assert np.mean(np.asarray(norms) > 0.7 * limit) > chance


# Source: PK Lemma 51, Proposition 54.
def test_minimisers_are_as_far_apart_as_their_gradients_over_the_convexity():
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((30, 4)), np.sign(rng.standard_normal(30))
    shift, ridge = rng.standard_normal(4) * 0.2, 0.3

    def gradient(point, which, with_shift):
        slopes = -labels[which] / (1 + np.exp(labels[which] * (rows[which] @ point)))
        return slopes @ rows[which] / len(which) + ridge * point + with_shift * shift

    def minimiser(which, with_shift):
        def value(point):
            losses = np.logaddexp(0, -labels[which] * (rows[which] @ point))
            return losses.mean() + ridge / 2 * point @ point + with_shift * shift @ point

        return minimize(
            value, np.zeros(4), jac=lambda point: gradient(point, which, with_shift), tol=1e-12
        ).x

    everyone, half = np.arange(30), np.arange(15)
    moved = np.linalg.norm(minimiser(everyone, 0) - minimiser(everyone, 1))
    assert 0.3 * np.linalg.norm(shift) / ridge < moved <= np.linalg.norm(shift) / ridge
    # Proposition 54: the gradient of one objective at the other's minimiser.
    first, second = minimiser(everyone, 0), minimiser(half, 0)
    bound = np.linalg.norm(gradient(first, half, 0)) / ridge
    assert 0.3 * bound < np.linalg.norm(first - second) <= bound * (1 + 1e-6)


# Source: PK Lemma 61.
def test_a_determinant_changed_by_rank_two():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((6, 6)) + 4 * np.eye(6)
    change = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 6))
    values = np.linalg.eigvals(np.linalg.solve(matrix, change))
    first, second = values[np.argsort(-np.abs(values))[:2]]
    ratio = np.linalg.det(matrix + change) / np.linalg.det(matrix) - 1
    assert ratio == pytest.approx(float(np.real(first + second + first * second)), rel=1e-9)


# Source: PK Proposition 53, Lemma 69.
def test_random_signs_are_fitted_by_a_ball_as_little_as_stated():
    rng, rows = np.random.default_rng(0), 40
    features = rng.standard_normal((rows, DIM)) * np.sqrt(EIGENVALUES)
    signs = rng.choice([-1.0, 1.0], (4000, rows))
    # The largest mean over a ball of radius one is a norm.
    fitted = np.linalg.norm(signs @ features, axis=1).mean() / rows
    bound = 2 / rows * np.sqrt(np.sum(features**2))
    assert fitted <= bound
    assert fitted > 0.4 * bound
    # In the norm of L_lambda^(1/2), whose features have N(lambda) as their mean square.
    scaled = features / np.sqrt(EIGENVALUES + RIDGE)
    dimension = np.sum(EIGENVALUES / (EIGENVALUES + RIDGE))
    fitted = np.linalg.norm(signs @ scaled, axis=1).mean() / rows
    assert fitted <= 2 * np.sqrt(dimension / rows)
    assert fitted > 0.4 * 2 * np.sqrt(dimension / rows)


# Source: PK Lemma 71.
def test_a_power_of_an_operator_interpolates_its_norm():
    rng = np.random.default_rng(0)
    for _ in range(20):
        left, root = rng.standard_normal((5, 8)), rng.standard_normal((8, 8))
        positive = root @ root.T
        for power in (0.0, 0.3, 0.7, 1.0):
            bound = _norm(left) ** (1 - power) * _norm(left @ positive) ** power
            assert _norm(left @ _power(positive, power)) <= bound * (1 + 1e-9)


def _cut_off(projected, target, power, ridge=RIDGE):
    """L_M^(-p) S w of the proofs' w, f in the projection without eigenvalues below the ridge."""
    values, vectors = np.linalg.eigh(projected)
    kept = np.where(values >= ridge, np.maximum(values, ridge) ** -power, 0)
    return (vectors * kept) @ vectors.T @ target


def _cut_off_bounds(operator, projected, direction, source, power, ridge=RIDGE):
    """The norm and the bias of PK Lemma 73, each with its bound as printed and as it is right."""
    target = _power(operator, source) @ direction
    size = np.linalg.norm(direction)
    size *= _norm(_ridged(projected, -source, ridge) @ _power(operator, source))
    norm, order = np.linalg.norm(_cut_off(projected, target, power + 0.5, ridge)), _norm(projected)
    printed = ridge ** min(source - 0.5 - power, 0) * (order + ridge) ** source
    printed *= order ** (-power - 0.5) * size
    right = 2**source * size * max(x ** (source - power - 0.5) for x in (ridge, order))
    bias = np.linalg.norm(_cut_off(projected, target, 0.0, ridge) - target)
    return (norm, printed, right), (bias, ridge**source * size, (2 * ridge) ** source * size)


# Source: PK Lemma 73.
@pytest.mark.parametrize("source", [0.5, 0.75, 1.0])
def test_the_cut_off_target_has_its_norms_and_its_bias_up_to_a_power_of_two(source):
    for power in (0.0, source / 2):
        ratios = []
        for seed in range(10):
            rng = np.random.default_rng(seed)
            spanned = _projection(rng)
            given = OPERATOR, spanned @ spanned.T, rng.standard_normal(DIM), source, power
            for found, _, right in _cut_off_bounds(*given):
                assert found <= right
                ratios.append(found / right)
        assert max(ratios) > 0.1
    # Without the power of two both are exceeded: an eigenvalue of L_M just below the ridge, or just
    # above it beside a large one.
    first = np.eye(2)[0]
    _, below = _cut_off_bounds(np.eye(2), np.diag([0.99 * RIDGE, 1]), first, source, 0.0)
    operator = np.diag([1, 1e3])
    above, _ = _cut_off_bounds(
        operator, np.diag([1.01 * RIDGE, 1e3]), first, source, max(source - 0.5, 0.0)
    )
    for found, printed, right in (below, above):
        assert right >= found > 1.9**source * printed


# Source: PK Lemma 45, (6).
@pytest.mark.parametrize("source", [0.5, 0.75, 1.0])
def test_the_cut_off_targets_risk_is_as_stated_where_the_projection_is_as_close_as_asked(source):
    inverse, kept = _ridged(OPERATOR, -0.5), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        # L_M of 10,000 paths, by the law of their second moment.
        moment = wishart.rvs(10_000, np.eye(DIM), random_state=rng) / 10_000
        projected = np.sqrt(EIGENVALUES)[:, None] * moment * np.sqrt(EIGENVALUES)
        apart = inverse @ (projected - OPERATOR)
        # The direction that the cut just takes off, of eigenvalue 1/36.
        direction = (np.arange(DIM) == 5).astype(float)
        target = EIGENVALUES**source * direction
        # c_2 = 2 of the squared loss, whose excess risk is the squared distance.
        excess = np.sum((_cut_off(projected, target, 0.0) - target) ** 2)
        bound = 2 ** (2 * source + 1) * RIDGE ** (2 * source) * np.sum(direction**2)
        if max(_norm(apart), _norm(apart @ inverse)) <= RIDGE ** (source - 0.5) / 2:
            kept.append(excess / bound)
    assert len(kept) >= 5
    assert 0.05 < max(kept) <= 1


def _power_bounds(first, second, ridge, source):
    """|L_(M,lambda)^(-r) L_lambda^r|, and its bounds by PK Lemma 70, as printed and as proved."""
    left = _norm(_ridged(second, -source, ridge) @ _ridged(first, source, ridge))
    apart = _ridged(first, -0.5, ridge) @ (second - first)
    once, twice = _norm(apart), _norm(apart @ _ridged(first, -0.5, ridge))
    mixed = ridge ** (0.5 - source) * once ** (2 * source - 1) * twice ** (2 - 2 * source)
    # The bounds say nothing where the mixed norm is not below one.
    printed, proved = (
        (1 + sign * twice) ** (1 - source) / (1 - mixed) if mixed < 1 else np.inf
        for sign in (-1, 1)
    )
    return left, printed, proved


# Source: PK Lemma 70.
def test_a_power_of_close_operators_ridged_inverses_is_bounded_and_one_step_of_the_proof_is_not():
    rng, seen = np.random.default_rng(0), []
    for _ in range(3000):
        dim, source = int(rng.integers(1, 5)), rng.choice([0.5, 0.6, 0.75, 0.9, 1.0])
        first = np.diag(10.0 ** rng.uniform(-4, 1, dim))
        ridge = 10.0 ** rng.uniform(-3, 0)
        half = _ridged(first, 0.5, ridge)
        change = rng.standard_normal((dim, dim))
        second = first + half @ (change + change.T) @ half * 10.0 ** rng.uniform(-3, 0)
        if np.linalg.eigvalsh(second)[0] >= 0:
            seen.append(_power_bounds(first, second, ridge, source))
    left, printed, proved = np.transpose(seen)
    assert np.sum(np.isfinite(proved)) > 1000
    # What is proved has 1 + |.|; what is printed is smaller, and was never seen to be exceeded.
    assert np.all(left <= proved * (1 + 1e-9))
    assert np.all(left <= printed * (1 + 1e-9))
    # Of numbers far below the ridge it is met: a smaller power of it would be exceeded.
    left, printed, _ = _power_bounds(np.full((1, 1), 1e-3), np.zeros((1, 1)), 1.0, 0.75)
    assert np.log(left) > 0.99 * np.log(printed)
    # The step: |I + D| <= 1 - |D|, which is false of every D >= 0 but 0.
    assert _norm(np.eye(2) + np.diag([0.3, 0.1])) > 1 - 0.3


# Source: PK Lemma 72.
def test_the_difference_of_two_squared_norms_is_bounded():
    rng, tight = np.random.default_rng(0), []
    for trial in range(300):
        source = (0.5, 0.75, 1.0)[trial % 3]
        root = rng.standard_normal((4, 4)) * 10.0 ** rng.uniform(-2, 1, 4)
        inner, solution = root @ root.T, rng.standard_normal(4)
        ridge = 10.0 ** rng.uniform(-8, 1)
        other = solution - 10.0 ** rng.uniform(-2, 2) * np.linalg.solve(inner, solution)
        if trial % 2:
            other = rng.standard_normal(4)
        moved = solution - other
        left = solution @ solution - other @ other + moved @ moved
        sizes = np.sqrt(ridge) * np.linalg.norm(moved) + np.sqrt(moved @ inner @ moved)
        weighted = np.linalg.norm(_power(inner, -source / 2) @ solution)
        right = 2 * ridge ** ((source - 1) / 2) * weighted * sizes
        assert left <= right * (1 + 1e-9)
        tight.append(left / right)
    # Half of it would be too little.
    assert max(tight) > 0.9


# Source: PK Lemma 76.
def test_a_smooth_losss_excess_risk_is_below_the_squared_distance():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 3))
    chances = 1 / (1 + np.exp(-rows @ np.asarray([1.0, -2.0, 0.5])))

    def risk(point):
        margins = rows @ point
        return np.mean(
            chances * np.logaddexp(0, -margins) + (1 - chances) * np.logaddexp(0, margins)
        )

    best = np.asarray([1.0, -2.0, 0.5])
    for _ in range(20):
        point = best + rng.standard_normal(3)
        distance = np.mean((rows @ (point - best)) ** 2)
        # c_2 = 1/4 for the logistic loss.
        assert 0 <= risk(point) - risk(best) <= distance / 8
        assert risk(point) - risk(best) > distance / 80
