"""The tab of a features file without a browser: what it asks, draws, keeps and refuses."""

import dataclasses
import types
from typing import Any, cast

import equinox as eqx
import numpy as np
import pytest
from falling import on_a_loop, rest

import jaxdp
from jaxdp.explorer.views.forecast_tab import ForecastTab, forecast_figure
from jaxdp.planning.forecasts import CurvePoint, Forecast, Level

ROWS = np.random.default_rng(0).normal(size=(40, 3))
LABELS = np.where(ROWS[:, 0] > 0, 1, -1)
PUBLIC = jaxdp.FixedFeatures.from_arrays(ROWS, LABELS, ROWS, LABELS, loss=jaxdp.losses.Logistic())


class _Plan(eqx.Module):
    """What a forecast tells of its plan."""

    epsilon: float


def _found(epsilon, stand_in):
    """A forecast that costs nothing."""
    points = [(epsilon * one, 40) for one in (0.5, 1.0, 2.0)] + [(epsilon, 20), (epsilon, 80)]
    curve = tuple(CurvePoint(*point, 0.5, 0.7 + 0.01 * i) for i, point in enumerate(points))
    level = Level(0.71, 0.6, 0.8, 0.02) if stand_in == "alike" else None
    leak: Any = types.SimpleNamespace(auc=0.6, bound=0.65)
    return Forecast(cast(Any, _Plan(epsilon)), 40, stand_in, level, level, curve, leak)


@pytest.fixture(autouse=True)
def in_short(monkeypatch):
    """Forecasts say little, as these have no settings to tell."""
    monkeypatch.setattr(Forecast, "_repr_html_", lambda _: "the whole <b>forecast</b>")


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
        return _found(arguments["epsilon"], arguments["stand_in"])

    monkeypatch.setattr(jaxdp, "forecast", forecast)
    return calls


@pytest.fixture
def tab():
    return ForecastTab(PUBLIC, "rows & more.npz")


async def _press(tab):
    tab.button.clicks += 1
    await rest(tab)


def _labels(drawn):
    return drawn.axes[0].get_legend_handles_labels()[1]


@on_a_loop
async def test_the_settings_are_asked_and_the_answer_is_drawn_and_said(tab, asked):
    tab.inputs["num_samples"].value = "400"
    tab.inputs["epsilon"].value = "4"
    assert not asked
    await _press(tab)
    assert asked == [tab.values]
    assert (asked[0]["num_samples"], asked[0]["epsilon"], asked[0]["delta"]) == (400, 4, 1e-5)
    for words in ("<b>0.710</b>", "0.600 to 0.800", "± 0.02", "AUC 0.600", "at most 0.650"):
        assert words in tab.readout.object
    assert tab.whole.object == "the whole <b>forecast</b>"
    assert tab.picture.object is not None
    assert "forecast, 9 runs in 10" in _labels(forecast_figure(tab.shown, None))
    assert "num_samples=400" in tab.code.object
    assert "up to date" in tab.status.object


@on_a_loop
async def test_no_level_is_told_from_rows_that_are_only_related(tab, asked):
    tab.inputs["stand_in"].value = "unlike"
    await _press(tab)
    assert "the level of this curve does not" in tab.readout.object
    assert "0.710" not in tab.readout.object
    assert _labels(forecast_figure(tab.shown, None)) == ["expected, best settings"]


@on_a_loop
async def test_a_spread_that_is_not_known_is_not_said(tab):
    found = _found(2.0, "alike")
    tab.show(found)
    assert "single runs" in tab.readout.object
    level = found.accuracy._replace(std=None)
    tab.show(dataclasses.replace(found, accuracy=level))
    assert "single runs" not in tab.readout.object


@on_a_loop
async def test_a_curve_is_kept_beside_the_next_one(tab, asked):
    await _press(tab)
    tab.keep.value = True
    tab.inputs["epsilon"].value = "4"
    await _press(tab)
    assert (tab.kept.plan.epsilon, tab.shown.plan.epsilon) == (2, 4)
    assert "kept, to compare with" in _labels(forecast_figure(tab.shown, tab.kept))
    tab.keep.value = False
    assert tab.kept is None


@pytest.mark.parametrize(
    ("name", "sent", "words"),
    [
        ("num_samples", "1e9", "a whole number from 20 to 4000, got 1e9"),
        ("epsilon", "<script>", "&lt;script&gt;"),
        ("sampling_rate", "0.001", "at least one row"),
        ("num_steps", "7", "&lt;another&gt;"),
    ],
)
@on_a_loop
async def test_what_cannot_be_forecast_is_refused_with_one_message(tab, asked, name, sent, words):
    await _press(tab)
    before = tab.readout.object
    tab.inputs[name].value = sent
    if not tab.message.visible:
        await _press(tab)
    assert words in tab.message.object
    assert tab.message.object.count("expected") == 1
    assert tab.readout.object == before


@on_a_loop
async def test_a_forecast_of_many_minutes_is_refused(tab, asked):
    tab.study._public = types.SimpleNamespace(
        num_features=10**6, loss=jaxdp.losses.Softmax(10), num_train=40
    )
    await _press(tab)
    assert "expected n x features x classes x steps" in tab.message.object
    assert not asked
