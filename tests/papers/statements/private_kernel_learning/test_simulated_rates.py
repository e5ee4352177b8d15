"""PK's rates beside learners that are run, of losses with and without curvature.

Inputs are uniform on POINTS places of the circle, the kernel has the trigonometric functions as
eigenfunctions with eigenvalues l^(-1/gamma), gamma = 1/2, and risks are sums over the places. The
private part is seen without sampling error, the samples' part without privacy. Noise of standard
deviation c/(n eps), and the constants of lambda and M, are free, since a rate has none.
"""

import numpy as np
import pytest

from experiments.statements.private_kernel_learning.rates import (
    lipschitz_rate,
    random_feature_rate,
    random_projection_rate,
)

POINTS, CAPACITY = 128, 0.5
PLACES = 2 * np.pi * np.arange(POINTS) / POINTS
FREQUENCIES = np.arange(1, 60)
WAVES = PLACES[:, None] * FREQUENCIES
BASIS = np.concatenate(
    [np.ones((POINTS, 1)), np.sqrt(2) * np.cos(WAVES), np.sqrt(2) * np.sin(WAVES)], axis=1
)
RANKS = np.concatenate([[1], 2 * FREQUENCIES, 2 * FREQUENCIES + 1])
EIGENVALUES = RANKS ** (-1 / CAPACITY)
# Half of the smoothed hinge's round corner; its slope is one on the left and zero on the right.
CORNER = 0.25


def _hinge(margins):
    """Value, slope and curvature of a loss that is a straight line but for its corner."""
    inside = np.clip((1 + CORNER - margins) / (2 * CORNER), 0, 1)
    values = np.where(margins < 1 - CORNER, 1 - margins, CORNER * inside**2)
    return values, -inside, np.where(np.abs(margins - 1) < CORNER, 1 / (2 * CORNER), 0.0)


def _logistic(margins):
    chances = 1 / (1 + np.exp(margins))
    return np.logaddexp(0, -margins), -chances, chances * (1 - chances)


def _projection(rng, num_paths):
    draws = rng.standard_normal((len(RANKS), num_paths))
    return BASIS @ (np.sqrt(EIGENVALUES)[:, None] * draws) / np.sqrt(num_paths)


def _minimise(loss, features, weights, ridge, noise):
    """Predictions of PK Algorithm 2's minimiser; weights of positive and of negative labels."""

    def objective(point):
        margins = features @ point
        above, below = loss(margins), loss(-margins)
        value = weights[0] @ above[0] + weights[1] @ below[0]
        slope = weights[0] * above[1] - weights[1] * below[1]
        gradient = features.T @ slope + ridge * point + noise
        value += ridge / 2 * point @ point + noise @ point
        return value, gradient, weights[0] * above[2] + weights[1] * below[2]

    point = np.zeros(features.shape[1])
    value, gradient, curvature = objective(point)
    for _ in range(200):
        # No product of matrices: threads would cost more than these small ones take.
        hessian = np.einsum("xi,xj->ij", features, curvature[:, None] * features)
        hessian[np.diag_indices_from(hessian)] += ridge
        step, length = np.linalg.solve(hessian, gradient), 1.0
        gain = gradient @ step
        if gain < 1e-6 * ridge:
            return features @ point
        while objective(point - length * step)[0] > value - length * gain / 10:
            length /= 2
        point = point - length * step
        value, gradient, curvature = objective(point)
    raise AssertionError("the minimiser was not found")


def _risk(loss, weights, predictions):
    return weights[0] @ loss(predictions)[0] + weights[1] @ loss(-predictions)[0]


def _tilted(tilt):
    """Labels that are positive with chance (1 + tilt)/2 everywhere, as weights of the places."""
    return np.full((2, POINTS), 0.5 / POINTS) * (1 + tilt * np.asarray([[1.0], [-1.0]]))


def _excess_without_curvature(ridge, num_paths, noise, tilts, num_samples=None, runs=80):
    """Excess risk of the hinge by run and tilt; the best prediction is near 1 everywhere."""
    found = np.empty((runs, len(tilts)))
    constants = np.linspace(0.7, 1.3, 1201)
    for run in range(runs):
        rng = np.random.default_rng(run)
        features = _projection(rng, num_paths)
        shift = noise * rng.standard_normal(num_paths)
        for place, tilt in enumerate(tilts):
            seen = weights = _tilted(tilt)
            if num_samples is not None:
                seen = rng.multinomial(num_samples, weights.ravel()).reshape(2, -1) / num_samples
            predictions = _minimise(_hinge, features, seen, ridge, shift)
            total = weights.sum(axis=1)
            best = total[0] * _hinge(constants)[0] + total[1] * _hinge(-constants)[0]
            found[run, place] = _risk(_hinge, weights, predictions) - best.min()
    return found


def _exponent(levels, risks):
    """Slope of the mean over runs in logarithms, and its standard error; risks by level and run."""
    logs = np.log(levels) - np.mean(np.log(levels))
    shares = np.mean(risks, axis=1)
    errors = np.std(risks, axis=1, ddof=1) / np.sqrt(np.shape(risks)[1]) / shares
    return -logs @ np.log(shares) / (logs @ logs), np.linalg.norm(logs * errors) / (logs @ logs)


LEVELS = np.asarray([40.0, 160.0, 640.0])
# Labels whose tilt is a small part of the ridge: no learner sees much of it.
FAINT = 0.25


def _falls_at_least(rate, levels, risks):
    exponent, error = _exponent(levels, risks)
    return exponent > rate - 3 * error


# Source: PK Theorem 18.
@pytest.mark.parametrize("part", ["privacy", "samples"])
def test_without_curvature_the_excess_risk_falls_at_the_rate_of_theorem_18_and_no_faster(part):
    rate = getattr(lipschitz_rate(CAPACITY).decay, part)
    faint, worst = [], []
    for level in LEVELS:
        # The ridge of either part is its rate, and M of the order lambda^(-gamma).
        ridge = level**-rate
        num_paths = int(np.ceil(5 * ridge**-CAPACITY))
        tilts = [FAINT * ridge, ridge, 0.9]
        if part == "privacy":
            risks = _excess_without_curvature(ridge, num_paths, 0.3 / level, tilts)
        else:
            given = {"num_samples": int(level), "runs": 150}
            risks = _excess_without_curvature(ridge, num_paths, 0.0, tilts, **given)
        faint.append(risks[:, 0])
        worst.append(risks[:, np.argmax(risks.mean(axis=0))])
    # Whatever the labels are, and at the pace of the rate itself where they are faint.
    assert _falls_at_least(rate, LEVELS, worst)
    exponent, error = _exponent(LEVELS, faint)
    assert abs(exponent - rate) < 3 * error < 0.1
    # The same check refuses the exponent of the theorem with curvature.
    larger = getattr(random_projection_rate(1.0, CAPACITY).decay, part)
    assert not _falls_at_least(larger, LEVELS, faint)


# Source: PK Theorem 19.
def test_with_curvature_the_excess_risk_falls_at_the_rate_of_theorem_19_and_not_without():
    source, levels = 0.75, 10 * LEVELS
    rate = random_projection_rate(source, CAPACITY)
    target = BASIS @ (1.5 * EIGENVALUES**source * RANKS**-0.51 * (-1.0) ** RANKS)
    chances = 1 / (1 + np.exp(-target))
    weights = np.stack([chances, 1 - chances]) / POINTS
    curved, straight = [], []
    for level in levels:
        ridge, num_paths = 0.1 * level**-rate.ridge.privacy, level**rate.projections.privacy
        num_paths, noise, row = int(np.ceil(num_paths)), 0.1 / level, []
        for run in range(8):
            rng = np.random.default_rng(run)
            features = _projection(rng, num_paths)
            shift = noise * rng.standard_normal(num_paths)
            predictions = _minimise(_logistic, features, weights, ridge, shift)
            row.append(_risk(_logistic, weights, predictions) - _risk(_logistic, weights, target))
        curved.append(row)
        tilts = [FAINT * ridge]
        straight.append(_excess_without_curvature(ridge, num_paths, noise, tilts, runs=4)[:, 0])
    assert _falls_at_least(rate.decay.privacy, levels, curved)
    assert not _falls_at_least(rate.decay.privacy, levels, straight)


# Source: PK Theorem 17.
def test_fourier_features_fall_at_the_rate_of_theorem_17_where_they_are_as_many_as_it_asks():
    source, levels = 0.5, 100 * 4.0 ** np.arange(4)
    rate = random_feature_rate(source, CAPACITY, 1.0)
    frequencies = np.arange(POINTS // 2)
    masses = np.where(frequencies, 2 * (2.0 * np.maximum(frequencies, 1)) ** (-1 / CAPACITY), 1.0)
    target = np.cos(PLACES[:, None] * frequencies + frequencies) @ (
        np.sqrt(masses) * np.maximum(2 * frequencies, 1) ** -0.51
    )

    def risks(level, num_features, runs=12):
        """Squared distance of PK Algorithm 3's estimator, of the true moments, to its target."""
        ridge, noise, found = level**-rate.ridge.privacy, 0.3 / level, []
        for run in range(runs):
            rng = np.random.default_rng(run)
            drawn = rng.choice(frequencies, num_features, p=masses / masses.sum())
            phases = rng.uniform(0, 2 * np.pi, num_features)
            features = np.cos(PLACES[:, None] * drawn + phases)
            features *= np.sqrt(2 * masses.sum() / num_features)
            error = rng.standard_normal((num_features, num_features))
            moment = features.T @ features / POINTS + noise * (error + error.T) / 2
            vector = features.T @ target / POINTS + noise * rng.standard_normal(num_features)
            solution = np.linalg.solve(moment + ridge * np.eye(num_features), vector)
            found.append(np.mean((features @ solution - target) ** 2))
        return found

    asked = [x**rate.projections.privacy * np.log(x) / 4 for x in levels]
    # As many as a random projection would need.
    few = [4 * x ** (rate.ridge.privacy * CAPACITY) for x in levels]
    enough, starved = (
        [risks(x, int(np.ceil(count))) for x, count in zip(levels, counts, strict=True)]
        for counts in (asked, few)
    )
    assert _falls_at_least(rate.decay.privacy, levels, enough)
    assert not _falls_at_least(rate.decay.privacy, levels, starved)
