"""The strategy of least predicted risk: stationary, of columns of norm 1, and as good as known."""

import jax
import numpy as np
import pytest
from helpers import BEST_OF_SIXTEEN

import jaxdp
from jaxdp.planning import optimal_strategy
from jaxdp.planning.streams.optimal_strategy import least_trace_strategy
from jaxdp.privacy import independent_strategy, square_root_strategy

COUNT = 4
GIVEN = {"rates": [2.89956761, 1.2041559, 0.66906133, 0.42982237], "clip_scale": 0.43558959}
GIVEN |= {"rho": 1.0, "batch_size": 2500}


@pytest.fixture(scope="module")
def problem():
    return jaxdp.LinearRegression.isotropic(100, label_noise=0.3)


@pytest.fixture(scope="module")
def best(problem):
    return optimal_strategy(problem, **GIVEN)


def _final(problem, strategy):
    algorithm = jaxdp.CorrelatedDPSGD(**GIVEN, strategy=strategy)
    return float(jaxdp.predict(problem, algorithm, records=1).final_risk)


def test_columns_have_norm_one_and_steps_take_noise_back(best):
    assert best.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(best, axis=0), 1, rtol=1e-12)
    np.testing.assert_array_equal(np.triu(best, 1), 0)
    assert (np.diag(best) > 0).all()
    inverse = np.linalg.inv(best)
    spread = np.sqrt(np.diag(inverse @ inverse.T))
    correlation = (inverse @ inverse.T) / spread[:, None] / spread
    assert (correlation[-1, :-1] < 0).all()


def test_no_small_change_of_the_strategy_lowers_the_risk(best):
    random = np.random.default_rng(0)
    with jax.enable_x64():
        wide = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        least = _final(wide, best)
        # A change of first order would show on one of the two sides.
        for _ in range(10):
            change = np.tril(random.normal(size=(COUNT, COUNT)))
            for size in (-1e-3, 1e-3):
                other = best + size * change
                other = other / np.linalg.norm(other, axis=0)
                assert _final(wide, other) > least
        assert _final(wide, independent_strategy(COUNT)) > 1.1 * least
        assert _final(wide, square_root_strategy(COUNT, 0.3)) > least


def test_reaches_the_known_risks(problem, best):
    # Found with free rates; .00105 with independent noise and hyperbolic rates.
    assert _final(problem, best) == pytest.approx(8.8181e-4, rel=1e-4)


@pytest.mark.slow
def test_sixteen_steps_reach_the_known_risk(problem):
    strategy = optimal_strategy(problem, **BEST_OF_SIXTEEN)
    np.testing.assert_allclose(np.linalg.norm(strategy, axis=0), 1, rtol=1e-12)
    algorithm = jaxdp.CorrelatedDPSGD(**BEST_OF_SIXTEEN, strategy=strategy)
    assert float(jaxdp.predict(problem, algorithm).final_risk) == pytest.approx(7.09e-4, rel=2e-3)


def test_the_least_trace_satisfies_its_conditions():
    random = np.random.default_rng(1)
    root = random.normal(size=(6, 6))
    weights = root @ root.T
    strategy = least_trace_strategy(weights)
    gram = strategy.T @ strategy
    # X^-1 W X^-1 is diagonal and positive: the multipliers of X_jj = 1. W has a small floor.
    weights = weights + 1e-10 * np.trace(weights) * np.eye(6)
    multipliers = np.linalg.solve(gram, np.linalg.solve(gram, weights).T)
    off = multipliers - np.diag(np.diag(multipliers))
    assert np.abs(off).max() < 1e-8 * np.diag(multipliers).max()
    assert (np.diag(multipliers) > 0).all()


@pytest.mark.parametrize(("count", "rank"), [(3, 1), (6, 3)])
def test_weights_of_low_rank_have_a_strategy_and_a_lower_trace(count, rank):
    root = np.random.default_rng(count).normal(size=(count, rank))
    weights = root @ root.T
    strategy = least_trace_strategy(weights)
    np.testing.assert_allclose(np.linalg.norm(strategy, axis=0), 1, rtol=1e-12)
    assert (np.diag(strategy) > 0).all()
    np.testing.assert_array_equal(strategy, np.tril(strategy))
    assert _trace(weights, strategy) < 0.97 * np.trace(weights)
    random = np.random.default_rng(0)
    for _ in range(20):
        other = strategy + 1e-3 * np.tril(random.normal(size=strategy.shape)) * np.diag(strategy)
        other /= np.linalg.norm(other, axis=0)
        assert _trace(weights, strategy) < _trace(weights, other) * 1.001


def _trace(weights, strategy):
    mixing = np.linalg.inv(strategy)
    return np.trace(weights @ mixing @ mixing.T)


def test_steps_without_a_rate_and_runs_without_noise_are_left_independent(problem):
    still = optimal_strategy(
        problem, rates=[1.0, 0.0, 0.5, 0.3], clip_scale=0.5, rho=1.0, batch_size=2500
    )
    np.testing.assert_allclose(still[1], [0, 1, 0, 0], atol=1e-5)
    np.testing.assert_allclose(still[:, 1], [0, 1, 0, 0], atol=1e-5)
    silent = optimal_strategy(problem, **GIVEN | {"rho": np.inf})
    np.testing.assert_array_equal(silent, np.eye(COUNT))


@pytest.mark.slow
def test_unequal_spectra_are_planned_for():
    problem = jaxdp.LinearRegression(np.repeat([1.4, 0.6], 50), np.full(100, 0.1), 0.3)
    best = optimal_strategy(problem, **GIVEN)
    isotropic = optimal_strategy(jaxdp.LinearRegression.isotropic(100, label_noise=0.3), **GIVEN)
    assert _final(problem, best) < _final(problem, isotropic)
    assert _final(problem, best) < 0.99 * _final(problem, independent_strategy(COUNT))
