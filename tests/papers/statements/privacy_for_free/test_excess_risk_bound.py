"""PF Theorem 1's bound and its constants, and the inequality that it comes from."""

import math

import jax
import numpy as np
import pytest

import jaxdp
from experiments.statements.privacy_for_free.excess_risk_bound import (
    excess_risk_bound,
    fitted_constants,
)


def test_terms_are_those_of_the_theorem():
    # Source: PF Theorem 1, (4.4), both lines.
    n, d, epsilon, delta = 3000, 300, 0.5, 1e-4
    given = {"epsilon": epsilon, "delta": delta}
    first = d / (n * epsilon) * math.log(n) ** 5 * math.sqrt(math.log(1 / delta))
    third = math.sqrt(n * math.log(d) ** 3 / d**1.5)
    found = excess_risk_bound(n, d, **given)
    assert found == pytest.approx((first, math.sqrt(d / n), third), rel=1e-12)
    assert found.total == pytest.approx(sum(found))
    plain = excess_risk_bound(n, d, **given, with_logarithms=False, constants=(2, 3, 4))
    expected = 2 * d / (n * epsilon), 3 * math.sqrt(d / n), 4 * math.sqrt(n / d**1.5)
    assert plain == pytest.approx(expected, rel=1e-12)
    assert found.is_vacuous()
    assert not plain._replace(stopping=0.0, plateau=0.0).is_vacuous(0.5)


def test_with_constants_of_one_it_is_vacuous_at_every_size_that_fits_a_computer():
    # Source: PF Theorem 1. The sum of the last two terms alone is least at n = d^1.25 / log^1.5 d.
    for dim in (10, 100, 1000, 10_000, 100_000):
        for num_train in np.geomspace(dim, dim**1.5, 12).astype(int).tolist():
            given = {"epsilon": 8.0, "delta": 1 / num_train}
            assert excess_risk_bound(num_train, dim, **given).is_vacuous()
    # Without logarithms the last two are 2 d^(-1/8) at best, below one from d = 2^8 on.
    small, large = (
        excess_risk_bound(int(dim**1.25), dim, epsilon=1e6, delta=0.5, with_logarithms=False)
        for dim in (200, 300)
    )
    assert small.is_vacuous()
    assert not large.is_vacuous()


def test_fitted_constants_are_the_least_that_bound_all_cells():
    # Derived: planted constants are found, and none can be lowered.
    planted = np.asarray([0.7, 0.2, 0.05])
    n, d, epsilon = (
        part.ravel() for part in np.meshgrid([100, 400, 1600, 6400], [20, 80, 320], [0.5, 2.0, 1e4])
    )
    terms = np.stack([d / (n * epsilon), np.sqrt(d / n), np.sqrt(n / d**1.5)])
    excess = planted @ terms * np.where(np.arange(terms.shape[1]) % 2, -1, 1)
    found = fitted_constants(n, d, epsilon, 1 / n, excess)
    np.testing.assert_allclose(found, planted, rtol=1e-6)
    below = excess * np.random.default_rng(0).uniform(0.2, 1, excess.size)
    found = fitted_constants(n, d, epsilon, 1 / n, below)
    # To the last digit: the programme's own tolerance is made up for.
    assert np.all(found @ terms >= np.abs(below) * (1 - 1e-14))
    for place in np.flatnonzero(found > 0):
        lower = found * np.where(np.arange(3) == place, 0.99, 1)
        assert np.any(lower @ terms < np.abs(below))


def test_with_logarithms_the_same_cells_ask_for_smaller_constants():
    n = np.asarray([400, 1600, 6400])
    plain, logarithmic = (
        fitted_constants(n, 40, 1.0, 1 / n, 0.5 * 40 / n, with_logarithms=choice)
        for choice in (False, True)
    )
    assert logarithmic[0] < 1e-3 * plain[0]
    for samples in n.tolist():
        bound = excess_risk_bound(
            samples, 40, epsilon=1.0, delta=1 / samples, constants=logarithmic.tolist()
        )
        assert bound.total >= 0.5 * 40 / samples * (1 - 1e-9)


def test_tiny_excess_risks_and_vanishing_terms_get_finite_constants():
    # HiGHS takes 1e-7 for zero.
    n = np.asarray([400.0, 1600.0])
    found = fitted_constants(n, 40, 1.0, 1 / n, 1e-9 * 40 / n)
    assert found[0] == pytest.approx(1e-9, rel=1e-6)
    found = fitted_constants([1, 1], 4, 1.0, 0.1, [0.1, 0.2], with_logarithms=True)
    assert np.all(np.isfinite(found))


@pytest.mark.slow
def test_the_excess_risk_is_bounded_by_the_distance_to_the_interpolator():
    # Source: PF (6.117), by Cauchy and Schwarz on the test rows, with Minkowski in place of its
    # last two lines: |R - R*| <= G (G + 2 sqrt(R*)), G^2 = E R(x)^2.
    problem = jaxdp.RandomFeatures.sample(150, 100, 20, None, key=jax.random.key(2))
    algorithm = jaxdp.DPGD(1.0, 10.0, 40, 0.5)
    found = jaxdp.predict(problem, algorithm, theory=jaxdp.OrnsteinUhlenbeck(), records=8)
    best = problem.interpolator_risk()
    square = np.asarray(found.observables["interpolator_distance"] + found.observables["variance"])
    gap = np.abs(np.asarray(found.risk) - best)
    root = np.sqrt(square)
    bound = root * (root + 2 * math.sqrt(best))
    assert np.all(gap <= bound * (1 + 1e-4))
    printed = 2 * square**2 + 16 * square * (_prediction_square(problem.reduced()) + 1.0)
    assert np.all(gap**2 <= printed)
    # A fifth of it would be too little.
    assert np.any(gap > bound / 5)


def _prediction_square(problem):
    """E (phi^T theta*)^2 over the test rows."""
    train, test = problem.host_features()
    solution = np.linalg.pinv(train) @ np.asarray(problem.train_labels, np.float64)
    return np.mean((test @ solution) ** 2)
