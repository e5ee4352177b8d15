"""PK's lemmas on projected operators, tails and minimisers, in matrices.

In the kernel's eigenbasis L is diagonal, a projection is a matrix S of D rows (eigenfunctions) and
M columns (sample paths over the root of M), L_M = S S' and C_M = S' S.
"""

from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize
from scipy.stats import chi2, wishart

from experiments.statements.judged.sides import Side, at_least, at_most, between

DIM, PATHS, ROWS, RIDGE = 40, 15, 60, 0.03
EIGENVALUES = np.arange(1, DIM + 1.0) ** -2.0
# Eigenvalues of zero: functions that the RKHS does not hold.
EIGENVALUES[-3:] = 0
# Of products of norms that are equal in exact arithmetic.
_ROUNDED = 1 + 1e-9
_SOURCES = (0.5, 0.75, 1.0)


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
HALF, INVERSE = _ridged(OPERATOR, 0.5), _ridged(OPERATOR, -0.5)
DIMENSION = np.sum(EIGENVALUES / (EIGENVALUES + RIDGE))


def parts_of_the_error() -> Iterator[Side]:
    """The parts of the error are below their products of norms.

    Source: PK Lemmas 27, 28, 29, 30 and 31.
    """
    for source in _SOURCES:
        sides = np.array([_parts(source, np.random.default_rng(seed)) for seed in range(5)])
        for number, name in enumerate(("27", "29", "30", "31")):
            words = f"left side of {name}, r = {source}"
            yield at_most(words, sides[:, number, 0], sides[:, number, 1] * _ROUNDED)
        # 31 is met up to a factor where the target sits at the ridge.
        least = (RIDGE / (EIGENVALUES + RIDGE) * EIGENVALUES**source).max()
        yield from between(f"ridge^r over the bias, r = {source}", RIDGE**source / least, 1, 5)
    # 28: what lies outside of the kernel's range is not seen.
    outside = _projection(np.random.default_rng(0)).T @ (EIGENVALUES == 0)
    yield at_most("what is seen of the outside", np.abs(outside).max(), 1e-12)


def _parts(source, rng):
    """Both sides of Lemmas 27, 29, 30 and 31."""
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
    found = [(left, right)]
    # 29, the sample, with kappa^2 at the largest eigenvalue of L, which it is at least.
    smooth = projected @ _ridged(projected, -1) @ target
    ratio = _norm(_ridged(projected, -0.5) @ HALF)
    left = np.linalg.norm(learn @ spanned.T @ target - smooth)
    right = size * ratio * width * _norm(_ridged(inner, -0.5) @ (inner - empirical))
    found.append((left, right))
    # 30, the projection.
    ideal = OPERATOR @ _ridged(OPERATOR, -1) @ target
    apart = INVERSE @ (OPERATOR - projected)
    once, twice = _norm(apart), _norm(apart @ INVERSE)
    right = size * np.sqrt(RIDGE) * ratio * once ** (2 * source - 1) * twice ** (2 - 2 * source)
    found.append((np.linalg.norm(smooth - ideal), right))
    # 31, the ridge.
    return [*found, (np.linalg.norm(ideal - target), size * RIDGE**source)]


def close_operators() -> Iterator[Side]:
    """Close operators have comparable ridged inverses.

    Source: PK Lemma 34.
    """
    near = 0
    for paths in (20, 80, 320, 1280):
        spanned = _projection(np.random.default_rng(paths), paths)
        close = _norm(INVERSE @ (OPERATOR - spanned @ spanned.T) @ INVERSE)
        ratio = _norm(_ridged(spanned @ spanned.T, -0.5) @ HALF)
        if close < 1:
            yield at_most(f"norm with {paths} paths", ratio, (1 - close) ** -0.5)
        if close <= 0.5:
            yield at_most(f"norm with {paths} paths, that are close", ratio, np.sqrt(2))
            near += 1
    yield at_least("projections that are close", near, 2)


def projected_operators() -> Iterator[Side]:
    """Projected operators are close, and of as small a dimension, as often as stated.

    Source: PK Lemmas 32, 37.
    """
    kappa, chance, draws = np.sqrt(EIGENVALUES.sum()), 0.1, 200
    rng, log, paths = np.random.default_rng(0), np.log(2 / chance), 60
    limit = 2 * kappa * np.sqrt(32 * DIMENSION * log) / paths
    limit += np.sqrt(64 * kappa**2 * DIMENSION * log / paths)
    norms, traces = np.zeros(draws), np.zeros(draws)
    for draw in range(draws):
        spanned = _projection(rng, paths)
        norms[draw] = np.linalg.norm(INVERSE @ (OPERATOR - spanned @ spanned.T))
        inner = spanned.T @ spanned
        traces[draw] = np.trace(np.linalg.solve(inner + RIDGE * np.eye(paths), inner))
    yield at_most("share of norms above the bound", np.mean(norms > limit), chance)
    # The constants leave room, a factor of sixteen; a twentieth of the bound would be wrong.
    yield at_least("above a twentieth", np.mean(norms > limit / 20), chance)
    yield at_most("share of traces above 2 N", np.mean(traces > 2 * DIMENSION), 3 * chance)
    yield at_least("above 0.8 N", np.mean(traces > 0.8 * DIMENSION), 3 * chance)


def gaussian_norms() -> Iterator[Side]:
    """Norms of Gaussian vectors have their tails.

    Source: PK Propositions 24 and 42, Lemma 50.
    """
    for depth in (0.5, 2.0, 8.0):
        chance, size, at = np.exp(-depth), np.array([1, 5, 50, 500]), f"L = {depth:g}"
        # a_i = 1/M: the case of Lemma 7.
        root = 2 * np.sqrt(size * depth)
        yield at_most(f"upper tail at {at}", chi2.sf(size + root + 2 * depth, size), chance)
        yield at_most(f"lower tail at {at}", chi2.cdf(size - root, size), chance)
        radius = np.sqrt(size) + np.sqrt(8 * np.log(2 / chance))
        yield at_most(f"tail of the radius at {at}", chi2.sf(radius**2, size), chance)
    # Without the root's second term the first bound is false, and so is a fifth of the radius's.
    yield at_least("without 2 L", chi2.sf(50 + 2 * np.sqrt(50 * 8.0), 50), np.exp(-8.0))
    radius = np.sqrt(50) + np.sqrt(8 * np.log(2e4)) / 5
    yield at_least("with a fifth of the root", chi2.sf(radius**2, 50), 1e-4)
    # Unequal weights, by simulation.
    rng, weights = np.random.default_rng(0), np.arange(1, 9.0) ** -2
    sums = (rng.standard_normal((100_000, 8)) ** 2 - 1) @ weights
    for depth in (0.5, 2.0, 4.0):
        above = 2 * np.linalg.norm(weights) * np.sqrt(depth)
        tails = np.mean(sums >= above + 2 * weights.max() * depth), np.mean(sums <= -above)
        yield at_most(f"tails of unequal weights at L = {depth:g}", tails, np.exp(-depth))


def gaussian_matrices() -> Iterator[Side]:
    """Gaussian matrices have their norm; the universal constant may be one.

    Source: PK Proposition 43.
    """
    rng, chance = np.random.default_rng(0), 0.1
    norms = np.array([_norm(rng.standard_normal((30, 12))) for _ in range(300)])
    limit = np.sqrt(30) + np.sqrt(12) + np.sqrt(2 * np.log(2 / chance))
    yield at_most("share of norms above the bound", np.mean(norms > limit), chance)
    yield at_least("above 0.7 of it", np.mean(norms > 0.7 * limit), chance)


def minimisers() -> Iterator[Side]:
    """Minimisers are as far apart as their gradients over the convexity.

    Source: PK Lemma 51, Proposition 54.
    """
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
    yield from between("distance over |b|/lambda", moved * ridge / np.linalg.norm(shift), 0.3, 1)
    # Proposition 54: the gradient of one objective at the other's minimiser.
    first, second = minimiser(everyone, 0), minimiser(half, 0)
    bound = np.linalg.norm(gradient(first, half, 0)) / ridge
    distance = np.linalg.norm(first - second)
    yield from between("distance over the gradient's bound", distance / bound, 0.3, 1 + 1e-6)


def determinant() -> Iterator[Side]:
    """A determinant changed by rank two.

    Source: PK Lemma 61.
    """
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((6, 6)) + 4 * np.eye(6)
    change = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 6))
    values = np.linalg.eigvals(np.linalg.solve(matrix, change))
    first, second = values[np.argsort(-np.abs(values))[:2]]
    ratio = np.linalg.det(matrix + change) / np.linalg.det(matrix) - 1
    right = ratio / float(np.real(first + second + first * second))
    yield from between("left side over the right one", right, 1 - 1e-9, 1 + 1e-9)


def random_signs() -> Iterator[Side]:
    """Random signs are fitted by a ball as little as stated.

    Source: PK Proposition 53, Lemma 69.
    """
    rng, rows = np.random.default_rng(0), 40
    features = rng.standard_normal((rows, DIM)) * np.sqrt(EIGENVALUES)
    signs = rng.choice([-1.0, 1.0], (4000, rows))
    # The largest mean over a ball of radius one is a norm. In that of L_lambda^(1/2) the features
    # have N(lambda) as their mean square.
    scaled = features / np.sqrt(EIGENVALUES + RIDGE)
    bounds = 2 / rows * np.sqrt(np.sum(features**2)), 2 * np.sqrt(DIMENSION / rows)
    for words, each, bound in zip(("53", "69"), (features, scaled), bounds, strict=True):
        fitted = np.linalg.norm(signs @ each, axis=1).mean() / rows
        yield from between(f"fit over its bound, {words}", fitted / bound, 0.4, 1)


def powers_of_operators() -> Iterator[Side]:
    """A power of an operator interpolates its norm.

    Source: PK Lemma 71.
    """
    rng = np.random.default_rng(0)
    drawn = [(rng.standard_normal((5, 8)), rng.standard_normal((8, 8))) for _ in range(20)]
    for power in (0.0, 0.3, 0.7, 1.0):
        left = [_norm(each @ _power(root @ root.T, power)) for each, root in drawn]
        right = [
            _norm(each) ** (1 - power) * _norm(each @ root @ root.T) ** power
            for each, root in drawn
        ]
        yield at_most(f"norm at power {power}", left, np.multiply(right, _ROUNDED))


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


def cut_off_target() -> Iterator[Side]:
    """The cut-off target has its norms and its bias up to a power of two, which is not printed.

    Source: PK Lemma 73.
    """
    first = np.eye(2)[0]
    for source in _SOURCES:
        for power in (0.0, source / 2):
            ratios = []
            for seed in range(10):
                rng = np.random.default_rng(seed)
                spanned = _projection(rng)
                given = OPERATOR, spanned @ spanned.T, rng.standard_normal(DIM), source, power
                ratios += [found / right for found, _, right in _cut_off_bounds(*given)]
            words = f"largest share of the bound, r = {source}, a = {power:g}"
            yield from between(words, max(ratios), 0.1, 1)
        # Without the power of two both are exceeded: an eigenvalue of L_M just below the ridge, or
        # just above it beside a large one.
        _, below = _cut_off_bounds(np.eye(2), np.diag([0.99 * RIDGE, 1]), first, source, 0.0)
        operator = np.diag([1, 1e3])
        above, _ = _cut_off_bounds(
            operator, np.diag([1.01 * RIDGE, 1e3]), first, source, max(source - 0.5, 0.0)
        )
        for words, (found, printed, right) in (("bias", below), ("norm", above)):
            words = f"{words} that exceeds what is printed, r = {source}"
            yield Side(words, float(found), float(1.9**source * printed), float(right))


def risk_of_the_cut_off_target() -> Iterator[Side]:
    """The cut-off target's risk is as stated where the projection is as close as asked.

    Source: PK Lemma 45, (6).
    """
    for source in _SOURCES:
        kept = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            # L_M of 10,000 paths, by the law of their second moment.
            moment = wishart.rvs(10_000, np.eye(DIM), random_state=rng) / 10_000
            projected = np.sqrt(EIGENVALUES)[:, None] * moment * np.sqrt(EIGENVALUES)
            apart = INVERSE @ (projected - OPERATOR)
            # The direction that the cut just takes off, of eigenvalue 1/36.
            direction = (np.arange(DIM) == 5).astype(float)
            target = EIGENVALUES**source * direction
            # c_2 = 2 of the squared loss, whose excess risk is the squared distance.
            excess = np.sum((_cut_off(projected, target, 0.0) - target) ** 2)
            bound = 2 ** (2 * source + 1) * RIDGE ** (2 * source) * np.sum(direction**2)
            if max(_norm(apart), _norm(apart @ INVERSE)) <= RIDGE ** (source - 0.5) / 2:
                kept.append(excess / bound)
        yield at_least(f"projections as close as asked, r = {source}", len(kept), 5)
        yield from between(f"largest risk over its bound, r = {source}", max(kept), 0.05, 1)


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


def powers_of_ridged_inverses() -> Iterator[Side]:
    """A power of close operators' ridged inverses is bounded, and one step of the proof is false.

    Source: PK Lemma 70.
    """
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
    yield at_least("cases with a bound", np.sum(np.isfinite(proved)), 1000)
    # What is proved has 1 + |.|; what is printed is smaller, and was never seen to be exceeded.
    yield at_most("norm, as proved", left, proved * _ROUNDED)
    yield at_most("norm, as printed", left, printed * _ROUNDED)
    # Of numbers far below the ridge it is met: a smaller power of it would be exceeded.
    left, printed, _ = _power_bounds(np.full((1, 1), 1e-3), np.zeros((1, 1)), 1.0, 0.75)
    yield at_least(
        "ln of the norm over ln of what is printed", np.log(left) / np.log(printed), 0.99
    )
    # The step: |I + D| <= 1 - |D|, which is false of every D >= 0 but 0.
    yield at_least("|I + D| for |D| = 0.3", _norm(np.eye(2) + np.diag([0.3, 0.1])), 1 - 0.3)


def squared_norms() -> Iterator[Side]:
    """The difference of two squared norms is bounded; half of the bound would be too little.

    Source: PK Lemma 72.
    """
    rng, shares = np.random.default_rng(0), []
    for trial in range(300):
        source = _SOURCES[trial % 3]
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
        shares.append(left / (2 * ridge ** ((source - 1) / 2) * weighted * sizes))
    yield from between("largest share of the bound", max(shares), 0.9, _ROUNDED)


def risk_of_a_smooth_loss() -> Iterator[Side]:
    """A smooth loss's excess risk is below the squared distance.

    Source: PK Lemma 76.
    """
    rng = np.random.default_rng(0)
    rows, best = rng.standard_normal((200, 3)), np.asarray([1.0, -2.0, 0.5])
    chances = 1 / (1 + np.exp(-rows @ best))

    def risk(point):
        margins = rows @ point
        losses = np.logaddexp(0, -margins), np.logaddexp(0, margins)
        return np.mean(chances * losses[0] + (1 - chances) * losses[1])

    shares = []
    for _ in range(20):
        point = best + rng.standard_normal(3)
        distance = np.mean((rows @ (point - best)) ** 2)
        shares.append((risk(point) - risk(best)) / distance)
    # c_2 = 1/4 for the logistic loss.
    yield from between("excess risk over the squared distance", shares, 1 / 80, 1 / 8)


STATEMENTS = (
    parts_of_the_error,
    close_operators,
    projected_operators,
    gaussian_norms,
    gaussian_matrices,
    minimisers,
    determinant,
    random_signs,
    powers_of_operators,
    cut_off_target,
    risk_of_the_cut_off_target,
    powers_of_ridged_inverses,
    squared_norms,
    risk_of_a_smooth_loss,
)
