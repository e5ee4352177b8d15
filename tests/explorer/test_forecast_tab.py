"""The tab of a features file without a browser: what it asks, draws, keeps and refuses."""

import types

import jax
import jax.numpy as jnp
import pytest
from falling import rest

import jaxdp
from jaxdp.explorer.views.background import Poster
from jaxdp.explorer.views.forecast_tab import ForecastTab, forecast_figure
from jaxdp.planning import CurvePoint, Level

ROWS = jax.random.normal(jax.random.key(0), (40, 3))
LABELS = jnp.where(ROWS[:, 0] > 0, 1, -1)
PUBLIC = jaxdp.FixedFeatures.from_arrays(ROWS, LABELS, ROWS, LABELS, loss=jaxdp.losses.Logistic())


def _found(epsilon, stand_in):
    """What the tab reads of a forecast."""
    curve = tuple(CurvePoint(epsilon * one, 40, 0.5, 0.7 + 0.01 * one) for one in (0.5, 1.0, 2.0))
    return types.SimpleNamespace(
        plan=types.SimpleNamespace(epsilon=epsilon),
        over_epsilon=curve,
        accuracy=Level(0.71, 0.6, 0.8, 0.02) if stand_in == "alike" else None,
        leak=types.SimpleNamespace(auc=0.6, bound=0.65),
        _repr_html_=lambda: "the whole <b>forecast</b>",
    )


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
    return ForecastTab(PUBLIC, "rows & more.npz", Poster())


def _press(tab):
    tab.button.clicks += 1
    rest(tab._actions)


def _labels(drawn):
    return [item.label.value for item in drawn.legend[0].items]


def test_the_settings_are_asked_and_the_answer_is_drawn_and_said(tab, asked):
    tab.controls["num_samples"].box.value = "400"
    tab.controls["epsilon"].box.value = "4"
    assert not asked
    _press(tab)
    assert asked == [tab.values]
    assert (asked[0]["num_samples"], asked[0]["epsilon"], asked[0]["delta"]) == (400, 4, 1e-5)
    for words in ("<b>0.710</b>", "0.600 to 0.800", "± 0.02", "AUC 0.600", "at most 0.650"):
        assert words in tab.readout.object
    assert tab.whole.object == "the whole <b>forecast</b>"
    assert len(tab._place) == 1
    assert "interval of nine runs in ten" in _labels(forecast_figure(tab.shown, None))
    assert "num_samples=400" in tab.code.object
    assert "up to date" in tab.status.object


def test_no_level_is_told_from_rows_that_are_only_related(tab, asked):
    tab.controls["stand_in"].select.value = "unlike"
    _press(tab)
    assert "the level of this curve does not" in tab.readout.object
    assert "0.710" not in tab.readout.object
    assert _labels(forecast_figure(tab.shown, None)) == ["expected, best settings of each ε"]


def test_a_spread_that_is_not_known_is_neither_drawn_nor_said(tab):
    found = _found(2.0, "alike")
    tab.show(found)
    assert "standard deviation of single runs" in _labels(forecast_figure(found, None))
    assert "single runs" in tab.readout.object
    found.accuracy = found.accuracy._replace(std=None)
    tab.show(found)
    assert "standard deviation of single runs" not in _labels(forecast_figure(found, None))
    assert "single runs" not in tab.readout.object


def test_a_curve_is_kept_beside_the_next_one(tab, asked):
    _press(tab)
    tab.keep.value = True
    tab.controls["epsilon"].box.value = "4"
    _press(tab)
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
def test_what_cannot_be_forecast_is_refused_with_one_message(tab, asked, name, sent, words):
    _press(tab)
    before = tab.readout.object
    tab.controls[name].box.value = sent
    if not tab.message.visible:
        _press(tab)
    assert words in tab.message.object
    assert tab.message.object.count("expected") == 1
    assert tab.readout.object == before


def test_a_forecast_of_many_minutes_is_refused(tab, asked):
    tab.study._public = types.SimpleNamespace(
        num_features=10**6, loss=jaxdp.losses.Softmax(10), num_train=40
    )
    _press(tab)
    assert "expected n x features x classes x steps" in tab.message.object
    assert not asked
