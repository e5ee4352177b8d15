"""Weights of noise over the steps and the banded strategies that are best for them."""

import numpy as np
import pytest

from jaxdp.planning.features.strategies import (
    least_noise_strategy,
    rows_of,
    weights_of_strategy,
)
from jaxdp.planning.streams.optimal_strategy import least_trace_strategy

CURVATURES = 1 / np.arange(1, 17)
# Sixteen modes 1/j, weights lambda / 2, a training time of 8, from an independent optimiser:
# epochs, batches, power, momentum, tail: independent, norms of a cycle, least over all C, norms 1,
# and with the price 0.05 the final and the mean cost on the way.
CELLS = {
    (4, 4, 1.0, 0.0, 0.0): (
        *(1.6681907340066018, 0.4518160562801241, 0.4505038213973071, 0.4606815273682717),
        *(0.46303806545585335, 1.395556030321038),
    ),
    (2, 8, 0.0, 0.0, 0.0): (
        *(1.8056973031604993, 0.42865143921848686, 0.4278960523740354, 0.535692241804759),
        *(0.44522800800052875, 1.188060317234524),
    ),
    (8, 2, 1.0, 0.0, 0.0): (
        *(1.6681907340066018, 0.8189793943220732, 0.8188282621803589, 0.8631023356389489),
        *(0.8221991502416316, 1.41254590868089),
    ),
    (4, 4, 0.5, 0.5, 0.0): (1.5654629754822216, 0.41647244534767647, 0.4144328522729037, 0.4225944),
    (4, 4, 0.0, 0.0, 0.25): (1.49049723103954, 0.382710089689009, 0.3810270906198364, 0.43490727),
}


def _rates(count, mean, power):
    shape = ((count - np.arange(count)) / count) ** power
    return mean * shape / shape.mean()


def _recursion(rates, momentum, tail):
    """Heavy ball with a mean of the last iterates: numbers w, v and the mean; by its loop."""
    count = len(rates)
    kept = max(1, round(tail * count))
    transitions = np.empty((count, len(CURVATURES), 3, 3))
    injections = np.empty((count, 3))
    for t, rate in enumerate(rates):
        share = 1 / kept if t >= count - kept else 0.0

        def step(state, noise, curvature, rate=rate, share=share):
            velocity = momentum * state[1] + curvature * state[0] + noise
            weight = state[0] - rate * velocity
            return np.array([weight, velocity, state[2] + share * weight])

        for j, curvature in enumerate(CURVATURES):
            transitions[t, j] = np.stack([step(unit, 0, curvature) for unit in np.eye(3)], axis=1)
        injections[t] = step(np.zeros(3), 1.0, 0.0)
    return transitions, injections


def _responses(transitions, injections):
    """Numbers of each mode after each step, for noise 1 in one step: [t, s, mode, number]."""
    count, modes, size = transitions.shape[:3]
    found = np.zeros((count + 1, count, modes, size))
    for s in range(count):
        for t in range(count):
            found[t + 1, s] = np.einsum("mij,mj->mi", transitions[t], found[t, s])
            found[t + 1, s] += injections[t] * (t == s)
    return found


def _final_and_way(epochs, batches, power, momentum, tail):
    """Rows of the final cost, and those of the mean cost after the steps, from dense responses."""
    count = epochs * batches
    found = _responses(
        *_recursion(_rates(count, 8 / count * (1 - momentum), power), momentum, tail)
    )
    final = np.sqrt(CURVATURES / 2)[:, None] * found[-1, :, :, 2].T
    way = np.sqrt(CURVATURES / 2 / count)[:, None, None] * found[1:, :, :, 0].transpose(2, 0, 1)
    return final, way.reshape(-1, count)


def _cost(rows, strategy):
    return (np.linalg.solve(strategy.T, rows.T) ** 2).sum()


def _require_norms(strategy, cycle):
    squares = (strategy**2).sum(axis=0)
    for one in range(min(cycle, len(squares))):
        np.testing.assert_allclose(squares[one::cycle].mean(), 1, rtol=1e-12)
    np.testing.assert_array_equal(strategy, np.tril(strategy))
    assert (np.diag(strategy) > 0).all()


@pytest.mark.parametrize("cell", CELLS)
def test_weights_are_those_of_dense_responses(cell):
    epochs, batches, power, momentum, tail = cell
    count = epochs * batches
    transitions, injections = _recursion(
        _rates(count, 8 / count * (1 - momentum), power), momentum, tail
    )
    final, way = _final_and_way(*cell)
    halves = CURVATURES / 2
    found = weights_of_strategy(transitions, injections, np.zeros((count, 16)), halves, 2)
    np.testing.assert_allclose(found, final.T @ final, atol=1e-14)
    assert np.trace(found) == pytest.approx(CELLS[cell][0], rel=1e-9)
    prices = np.tile(halves / count, (count, 1))
    found = weights_of_strategy(transitions, injections, prices, halves / count)
    np.testing.assert_allclose(found, way.T @ way, atol=1e-14)
    assert abs(found - final.T @ final).max() > 1e-3


def test_gains_of_zero_below_zero_and_tiny_are_exact():
    gains = np.array([0.5, 0.0, -1.5, 1e-200, 1e-200, 3.0, 0.0, 1.0])[:, None, None, None]
    random = np.random.default_rng(0)
    injections, prices = random.normal(size=(8, 1)), random.uniform(size=(9, 1))
    found = weights_of_strategy(gains, injections, prices[:-1], prices[-1])
    dense = _responses(gains, injections)[..., 0, 0]
    np.testing.assert_allclose(found, dense.T @ (prices * dense), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, marks=[pytest.mark.slow] * (cell[0] < 5)) for cell in CELLS]
)
def test_strategies_reach_the_costs_of_an_independent_optimiser(cell):
    cycle, (_, least, bound, unit, *_) = cell[1], CELLS[cell]
    final, way = _final_and_way(*cell)
    strategy = least_noise_strategy(final, cycle, cycle, 1e-12)
    _require_norms(strategy, cycle)
    assert not np.tril(strategy, -cycle).any()
    assert _cost(final, strategy) == pytest.approx(least, rel=1e-6)
    assert bound <= _cost(final, strategy) < min(1.02 * bound, 0.999 * unit)
    # Columns of norm 1 are one class for each step: dearer.
    count = len(strategy)
    own = least_noise_strategy(final, cycle, count, 1e-12)
    assert _cost(final, own) == pytest.approx(unit, rel=1e-5)
    if cell == (4, 4, 1.0, 0.0, 0.0):
        # The final cost alone leaves the noise between the steps to grow.
        assert _cost(way, strategy) > 100


@pytest.mark.parametrize("cell", list(CELLS)[:3])
def test_a_price_keeps_the_noise_on_the_way_small(cell):
    *_, least, on_the_way = CELLS[cell]
    final, way = _final_and_way(*cell)
    rows = rows_of(final.T @ final + 0.05 * way.T @ way, 1e-12)
    strategy = least_noise_strategy(rows, cell[1], cell[1], 1e-12)
    joint = _cost(final, strategy) + 0.05 * _cost(way, strategy)
    assert joint == pytest.approx(least + 0.05 * on_the_way, rel=1e-6)
    assert _cost(way, strategy) == pytest.approx(on_the_way, rel=1e-4)


def test_full_batches_have_the_schedule_of_the_closed_form():
    rates = _rates(32, 8 / 32, 1.0)
    gains = 1 - rates[:, None] * CURVATURES
    weights = weights_of_strategy(
        gains[..., None, None], -rates[:, None], np.zeros((32, 16)), CURVATURES / 2
    )
    strategy = least_noise_strategy(rows_of(weights), 1, 1)
    _require_norms(strategy, 1)
    assert np.trace(weights) == pytest.approx(0.8241309309328799, rel=1e-6)
    cost = np.trace(weights / np.diag(strategy) ** 2)
    assert cost == pytest.approx(0.7523931038403586, rel=1e-6)
    known = [1.1116272715636173, 1.1848012797371166, 0.1284691443875735]
    np.testing.assert_allclose((np.diag(strategy) ** 2)[[0, 16, 31]], known, rtol=1e-6)


def test_eigenvalues_left_out_would_be_exploited():
    final, way = _final_and_way(2, 8, 0.0, 0.0, 0.0)
    weights = final.T @ final + 0.05 * way.T @ way
    values, vectors = np.linalg.eigh(weights)
    kept = values > 1e-2 * values[-1]
    truncated = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    strategies = [least_noise_strategy(rows, 8, 8, 1e-11) for rows in (rows_of(weights), truncated)]
    safe, exploited = [np.trace(np.linalg.solve(s.T @ s, weights)) for s in strategies]
    assert safe == pytest.approx(0.44522800800052875 + 0.05 * 1.188060317234524, rel=1e-6)
    assert exploited > 1.5 * safe
    assert _cost(rows_of(weights), strategies[0]) >= safe


def test_steps_without_weight_and_runs_shorter_than_an_epoch_have_finite_noise():
    rows = np.random.default_rng(0).normal(size=(2, 6))
    rows[:, 3] = 0
    for num_bands, cycle in ((1, 1), (1, 3), (3, 3), (4, 9)):
        strategy = least_noise_strategy(rows, num_bands, cycle)
        _require_norms(strategy, cycle)
        assert np.diag(strategy).min() > 5e-4
        assert _cost(rows, strategy) < (rows**2).sum()
    np.testing.assert_array_equal(least_noise_strategy(np.zeros((1, 2)), 1, 2), np.eye(2))


@pytest.mark.parametrize(("num_bands", "cycle"), [(8, 4), (7, 9), (0, 4)])
def test_too_many_or_no_bands_are_refused(num_bands, cycle):
    with pytest.raises(ValueError, match=r"num_bands|at most"):
        least_noise_strategy(np.ones((1, 6)), num_bands, cycle)


@pytest.mark.slow
def test_the_least_trace_of_gradient_descent_is_near_its_lower_bound():
    rates = _rates(64, 20 / 64, 0.0)
    curvatures = 1 / np.arange(1, 65)
    gains = (1 - rates[:, None] * curvatures)[..., None, None]
    weights = weights_of_strategy(gains, -rates[:, None], np.zeros((64, 64)), curvatures / 2)
    strategy = least_trace_strategy(weights)
    _require_norms(strategy, 64)
    np.testing.assert_allclose(np.linalg.norm(strategy, axis=0), 1, rtol=1e-12)
    # By duality no strategy is below (tr (v^1/2 W v^1/2)^1/2)^2 / sum v, for any v > 0. At low
    # rank the best C is singular: the strategy is the best for weights with a small floor.
    floored = weights + 1e-10 * np.trace(weights) * np.eye(64)
    gram = strategy.T @ strategy
    v = np.diag(np.linalg.solve(gram, np.linalg.solve(gram, floored).T))
    rows = rows_of(floored, 0.0)
    for _ in range(50):
        _, sizes, basis = np.linalg.svd(rows * np.sqrt(v))
        bound = sizes.sum() ** 2 / v.sum()
        v = (sizes[:, None] * basis**2).sum(axis=0)
    assert bound <= _cost(rows, strategy) < (1 + 3e-6) * bound
    assert _cost(rows_of(weights, 0.0), strategy) < bound < 0.1 * np.trace(weights)
