"""The tab of a features file without a browser: what it asks, draws and refuses."""

from typing import Any, cast

import equinox as eqx
import numpy as np
import pytest
from falling import on_a_loop, rest

import jaxdp
from jaxdp.explorer.forecast_tab import ForecastTab
from jaxdp.planning.forecasts import CurvePoint, Forecast, Level

ROWS = np.random.default_rng(0).normal(size=(40, 3))
LABELS = np.where(ROWS[:, 0] > 0, 1, -1)
PUBLIC = jaxdp.FixedFeatures.from_arrays(ROWS, LABELS, ROWS, LABELS, loss=jaxdp.losses.Logistic())


class _Plan(eqx.Module):
    """What a forecast tells of its plan."""

    epsilon: float


def _found(epsilon):
    """A forecast that costs nothing."""
    points = [(epsilon * one, 40) for one in (0.5, 1.0, 2.0)] + [(epsilon, 20), (epsilon, 80)]
    curve = tuple(CurvePoint(*point, 0.5, 0.7 + 0.01 * i) for i, point in enumerate(points))
    level = Level(0.71, 0.6, 0.8, 0.02)
    return Forecast(cast(Any, _Plan(epsilon)), 40, "alike", level, level, curve, None)


@pytest.fixture
def asked(monkeypatch):
    """The arguments of each forecast that the tab has asked for, none of which is computed."""
    calls = []

    def forecast(public, *, progress, **arguments):
        assert public is PUBLIC
        progress(0.5)
        calls.append(arguments)
        if arguments["num_steps"] == 7:
            raise jaxdp.NotCoveredError("expected <another> number, got 7")
        return _found(arguments["epsilon"])

    monkeypatch.setattr(jaxdp, "forecast", forecast)
    monkeypatch.setattr(Forecast, "_repr_html_", lambda _: "the whole <b>forecast</b>")
    return calls


async def _pressed(tab):
    tab.button.clicks += 1
    await rest(tab)


@on_a_loop
async def test_the_settings_are_asked_and_the_answer_is_drawn_and_said(asked):
    tab = ForecastTab(PUBLIC, "rows & more.npz")
    assert "rows &amp; more.npz: 40 public rows" in tab.work.state.object
    tab.widgets["num_samples"].value = "400"
    tab.widgets["epsilon"].value = "4"
    assert not asked
    await _pressed(tab)
    (given,) = asked
    assert (given["num_samples"], given["epsilon"], given["delta"]) == (400, 4, 1e-5)
    assert given["stand_in"] == "alike"
    assert tab.whole.object == "the whole <b>forecast</b>"
    assert "forecast, 9 runs in 10" in tab.picture.object.axes[0].get_legend_handles_labels()[1]
    assert "num_samples=400" in tab.code.object
    assert "rows &amp; more.npz" in tab.code.object


@pytest.mark.parametrize(
    ("name", "sent", "words"),
    [
        ("num_samples", "1e9", "a whole number from 20 to 4000, got 1e9"),
        ("epsilon", "<script>", "&lt;script&gt;"),
        ("num_steps", "7", "&lt;another&gt;"),
    ],
)
@on_a_loop
async def test_what_cannot_be_forecast_is_refused_with_one_message(asked, name, sent, words):
    tab = ForecastTab(PUBLIC, "rows.npz")
    await _pressed(tab)
    before = tab.picture.object
    tab.widgets[name].value = sent
    await _pressed(tab)
    assert words in tab.work.state.object
    assert tab.work.state.object.count("expected") == 1
    assert tab.picture.object is before


@on_a_loop
async def test_a_forecast_of_many_minutes_is_refused(asked):
    rows = np.zeros((2000, 20))
    labels = np.resize(np.asarray([-1, 1]), 2000)
    many = jaxdp.FixedFeatures.from_arrays(rows, labels, rows, labels, loss=jaxdp.losses.Logistic())
    tab = ForecastTab(many, "rows.npz")
    tab.widgets["num_samples"].value = "200000"
    tab.widgets["num_steps"].value = "500"
    await _pressed(tab)
    assert "expected n x features x classes x steps" in tab.work.state.object
    assert not asked
