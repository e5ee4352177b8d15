"""The best schedule of all: its condition, its theorem, and the risks that it reaches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plan_cells import CELLS, Cell

from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams import greedy_arc as search
from jaxdp.planning.streams.best_schedule import greedy, solve
from jaxdp.planning.streams.families import log_clock, schedule_log_risk
from jaxdp.planning.streams.greedy_arc import fall, slope_in_rate
from jaxdp.schedules import PiecewiseLinear

QUICK = [CELLS[place] for place in (0, 1, 3, 4, 9)]


def _settings(count, *, seed=0):
    """Random settings along a leading axis, clip scales, and risks below the initial one."""
    rng = np.random.default_rng(seed)
    gamma, rho, label_noise, clip_scale, risk = np.exp(
        rng.uniform(np.log([1e-3, 0.1, 0.05, 0.02, 1e-6]), np.log([1, 10, 2, 5, 5]), (count, 5))
    ).T
    cells = zip(gamma, rho, label_noise, np.full(count, 0.5), strict=True)
    settings = [Cell(*cell, np.nan).setting for cell in cells]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *settings), clip_scale, risk


def _assert_is_the_derivative(slope):
    settings, clip_scale, risk = _settings(100)
    rate = 0.3 * 2 / settings.gamma
    state = risk + settings.noise_strength(clip_scale) * rate**2
    given = state, rate, clip_scale, settings
    with on_host():
        expected = np.asarray(jax.vmap(jax.grad(fall, argnums=1))(*given)) / 2
        found = np.asarray(jax.vmap(slope)(*given))
    size = settings.gamma * rate * settings.modes.second_moment(risk) / 2
    np.testing.assert_allclose(found / size, expected / size, atol=1e-9)


def test_the_condition_is_the_derivative_of_the_fall():
    _assert_is_the_derivative(lambda state, rate, *given: slope_in_rate(rate, state, *given))
    with pytest.raises(AssertionError):
        # The noise that is still to come, forgotten in the state.
        _assert_is_the_derivative(
            lambda state, rate, clip_scale, setting: slope_in_rate(
                rate, state, clip_scale, setting.without_privacy()
            )
        )


def test_the_fall_has_one_minimum_and_the_arc_rises():
    """What the theorem's proof takes from numbers: 200 random settings, 20 states each."""
    settings, clip_scale, _ = _settings(200, seed=1)
    states = np.geomspace(1e-6, 5, 20)[None]
    strength = settings.noise_strength(clip_scale)[:, None]
    highest = np.minimum(2 / settings.gamma[:, None], np.sqrt(states / strength))[..., None]
    shares = np.geomspace(1e-6, 1, 150)

    def slopes(rates, clip_scale, setting):
        return slope_in_rate(rates, states[0][:, None], clip_scale, setting)

    with on_host():
        signs = np.asarray(jax.jit(jax.vmap(slopes))(highest * shares, clip_scale, settings)) > 0
    # Falling first, then rising: one minimum.
    assert np.all(np.diff(signs.astype(int), axis=-1) >= 0)
    # And the rate of the minimum does not fall with the state, to the width of the grid.
    first = np.where(signs.any(axis=-1), signs.argmax(axis=-1), len(shares) - 1)
    rates = np.take_along_axis(highest * shares, first[..., None], axis=-1)[..., 0]
    assert np.all(rates[:, 1:] > rates[:, :-1] * (shares[0] / shares[1]) ** 1.5)


def _assert_reached(cells, change=lambda setting: setting, tolerance=1e-4):
    for cell in cells:
        _, risk = greedy(change(cell.setting))
        np.testing.assert_allclose(risk, cell.optimal, rtol=tolerance)


def test_the_optimum_is_that_of_the_references():
    _assert_reached(QUICK)


@pytest.mark.slow
def test_budgets_in_a_batch_are_those_one_by_one():
    settings = jax.tree.map(lambda *leaves: np.stack(leaves), *(cell.setting for cell in CELLS))
    _, risks = search.best_greedy(settings)
    np.testing.assert_allclose(risks, [cell.optimal for cell in CELLS], rtol=1e-4)


def _assert_stationary(cell, change=1.0):
    """Of the risk, as a function of ln c and of the logarithms of the rates at the knots."""
    setting = cell.setting
    solution = solve(None, setting)
    values, knots = solution.arguments["learning_rate"], solution.make.knots
    is_flat = values > values[0] * (1 - 1e-9)
    at_cap = values[0] > (1 - 1e-6) * setting.cap
    # Just below the cap, from where its derivative is that of a rate that still counts.
    logs = np.log(values) - 1e-9
    with on_host():
        clock = log_clock(jnp.asarray(setting.gamma), 2 * search.STEPS + 1)

        def risk(log_clip_scale, logs):
            schedule = PiecewiseLinear(knots, jnp.exp(logs))
            return schedule_log_risk(schedule, log_clip_scale, setting, clock)

        gradient = jax.jit(jax.grad(risk, argnums=(0, 1)))
        found = gradient(np.log(solution.clip_scale * change), logs)
    of_clip, of_values = map(np.asarray, found)
    # Straight lines between 200 knots are not quite the arc.
    assert abs(of_clip) < 1e-3
    # The first knot of the arc shares its kink with the flat.
    assert np.abs(of_values[~is_flat][1:]).max() < 1e-4
    tails = np.cumsum(of_values[is_flat][::-1])
    assert tails.max() < 1e-4
    assert (tails[-1] < -0.1) == at_cap
    assert at_cap or abs(tails[-1]) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("place", [1, 3, 9])
def test_no_small_change_that_is_allowed_lowers_the_risk_at_the_optimum(place):
    _assert_stationary(CELLS[place])
    with pytest.raises(AssertionError):
        _assert_stationary(CELLS[place], change=1.1)
