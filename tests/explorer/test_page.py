"""The page without a browser: what it refuses, what it says, and that nothing is lost."""

import threading
import time

import numpy as np
import pytest

from jaxdp.explorer.studies.base import AbstractStudy, Band, Curve, Described, Runs
from jaxdp.explorer.studies.fields import Choice, Number, Shown
from jaxdp.explorer.views.document import Poster
from jaxdp.explorer.views.latest import Latest
from jaxdp.explorer.views.server import allowed_origins
from jaxdp.explorer.views.store_tab import StoreTab
from jaxdp.explorer.views.theory_tab import TheoryTab

_TIME = np.linspace(0, 1, 5)


class _Falling(AbstractStudy):
    """A risk that falls by a rate, without JAX; each pace compiles its own program."""

    name, label, time_label, risk_label = "falling", "falling", "time", "risk"
    fields = (
        Number("rate", "rate", 0.1, 10.0, 1.0, "Problem", is_log=True),
        Choice("pace", "pace", {"slow": "slow", "fast": "fast"}, "slow", "Problem"),
        Number("extra", "extra", 0.0, 1.0, 0.5, "Problem", shown=Shown("pace", ("fast",))),
        Number("delta", "δ", 1e-9, 1e-2, 1e-5, "Problem", is_log=True),
    )

    def __init__(self):
        self.said = []
        self.watch = None

    def check(self, values):
        if values["rate"] == 7:
            raise ValueError("expected <another> rate, got 7")

    def describe(self, values):
        import jaxdp

        if values["rate"] == 9:
            raise ValueError("expected a rate that can be described, got 9")
        return Described(dict(values), None, jaxdp.OnePassDPSGD(1.0, 1.0, 1.0, 10))

    def curve(self, described):
        if self.watch is not None:
            self.said.append(self.watch.status.object)
        risk = np.exp(-described.values["rate"] * _TIME)
        return Curve(_TIME, risk, float(risk[-1]) + 0.1, "theory")

    def curve_program(self, values):
        return ("test_page", id(self), values["pace"])

    def band(self, described):
        return Band(np.full(5, 0.01), 0.02)

    def band_program(self, values):
        return ("test_page band", id(self), values["pace"])

    def check_runs(self, values, num_runs):
        if num_runs > 50:
            raise ValueError("expected fewer runs")

    def simulate(self, described, num_runs, progress=None):
        self.check_runs(described.values, num_runs)
        mean = np.exp(-described.values["rate"] * _TIME)
        return Runs(_TIME, mean, 0.01 * mean, float(mean[-1]), 0.01, num_runs, 0)

    def plan(self, described):
        return {"rate": 3.0}

    def code(self, described, num_runs):
        return f"rate = {described.values['rate']!r}  # {num_runs}"


@pytest.fixture
def tab():
    study = _Falling()
    made = TheoryTab(study, Poster())
    _wait(made)
    study.watch = made
    return made


def _wait(tab):
    for _ in range(1000):
        if tab._curves.is_idle and tab._actions.is_idle:
            return
        time.sleep(0.005)
    raise AssertionError("the page did not come to rest")


def _risk(tab):
    return np.asarray(tab.figure.predicted["line"].data["y"])


def test_a_slider_and_a_box_move_the_curve(tab):
    tab.controls["rate"].slider.value = np.log10(2.0)
    _wait(tab)
    np.testing.assert_allclose(_risk(tab), np.exp(-2 * _TIME))
    assert tab.controls["rate"].box.value == "2"
    tab.controls["rate"].box.value = "0.5"
    _wait(tab)
    np.testing.assert_allclose(_risk(tab), np.exp(-0.5 * _TIME))
    assert tab.controls["rate"].slider.value == pytest.approx(np.log10(0.5))
    band = tab.figure.predicted["band"].data
    np.testing.assert_allclose(np.asarray(band["high"]) - _risk(tab), 0.01)
    assert "rate = 0.5" in tab.text.value
    assert "replace-one" in tab.cost.object


@pytest.mark.parametrize("sent", ["-1", "1e9", "nan", "", "<script>", "7", "__import__('os')"])
def test_a_bad_value_is_refused_with_one_message_and_nothing_is_lost(tab, sent):
    before, values = _risk(tab), dict(tab.values)
    tab.controls["rate"].box.value = sent
    _wait(tab)
    assert tab.message.visible
    assert "expected" in tab.message.object
    assert "<" not in tab.message.object
    assert tab.values == values
    assert tab.controls["rate"].box.value == "1"
    np.testing.assert_array_equal(_risk(tab), before)
    tab.controls["rate"].box.value = "2"
    assert not tab.message.visible


@pytest.mark.parametrize("sent", [5.0, -7.0, float("nan")])
def test_a_browser_that_sends_what_no_slider_sends_is_refused(tab, sent):
    tab.controls["rate"].slider.value = sent
    _wait(tab)
    assert "rate to be a number from 0.1 to 10" in tab.message.object
    assert tab.controls["rate"].slider.value == 0
    assert tab.values["rate"] == 1


def test_what_fails_in_the_background_leaves_the_picture(tab):
    before = _risk(tab)
    tab.controls["rate"].box.value = "9"
    _wait(tab)
    assert "can be described" in tab.message.object
    np.testing.assert_array_equal(_risk(tab), before)
    tab.runs.value = 100
    tab.simulate.clicks += 1
    _wait(tab)
    assert "fewer runs" in tab.message.object or "can be described" in tab.message.object


def test_compiling_is_said_of_programs_that_are_new(tab):
    tab.controls["pace"].select.value = "fast"
    _wait(tab)
    tab.controls["rate"].box.value = "3"
    _wait(tab)
    first, second = tab.study.said
    assert "compiling" in first
    assert "compiling" not in second
    assert "up to date" in tab.status.object
    assert tab.controls["extra"].view.visible


def test_simulated_runs_are_drawn_until_something_changes(tab):
    tab.runs.value = 10
    tab.simulate.clicks += 1
    _wait(tab)
    np.testing.assert_allclose(tab.figure.simulated["line"].data["y"], np.exp(-_TIME))
    assert "10 runs" in tab.readout.object
    assert tab.text.value.endswith("# 10")
    tab.controls["rate"].box.value = "2"
    _wait(tab)
    assert not len(tab.figure.simulated["line"].data["y"])
    assert tab.text.value.endswith("# None")


def test_a_plan_sets_the_sliders(tab):
    tab.plan.clicks += 1
    _wait(tab)
    assert tab.values["rate"] == 3
    assert tab.controls["rate"].box.value == "3"
    np.testing.assert_allclose(_risk(tab), np.exp(-3 * _TIME))


def test_of_what_waits_only_the_latest_is_done():
    latest, done, first, release = Latest(), [], threading.Event(), threading.Event()

    def slow(number):
        first.set()
        release.wait(5)
        done.append(number)

    latest.ask(slow)
    first.wait(5)
    for _ in range(5):
        latest.ask(done.append)
    release.set()
    for _ in range(1000):
        if latest.is_idle:
            break
        time.sleep(0.005)
    assert done == [1, 6]


def test_other_origins_have_no_websocket():
    assert allowed_origins("127.0.0.1", 5006, ()) == ["127.0.0.1:5006", "localhost:5006"]
    assert allowed_origins("192.0.2.7", 80, ("lab:80",)) == ["192.0.2.7:80", "lab:80"]
    for address in ("127.0.0.1", "::1", "0.0.0.0", "192.0.2.7"):
        assert not any("*" in origin for origin in allowed_origins(address, 5006, ()))


def test_the_second_tab_draws_maps_and_lines_and_refuses_the_rest():
    import xarray

    values = np.arange(24.0).reshape(2, 3, 4) + 1
    dataset = xarray.Dataset({"risk": (("a", "b", "c"), values)}, {"c": [1.0, 2.0, 4.0, 8.0]})
    tab = StoreTab(dataset)
    assert "least risk: <b>1</b>" in tab.readout.object
    tab.sliders["a"].value = 1
    assert "least risk: <b>13</b>" in tab.readout.object
    tab.kind.value = "lines"
    assert "a line for each value of b" in tab.readout.object
    picture = tab.picture[0]
    tab.sliders["a"].value = 9
    assert tab.message.visible
    assert "index of a from 0 to 1" in tab.message.object
    assert tab.picture[0] is picture
    tab.sliders["a"].value = 0
    assert not tab.message.visible
    tab.along.value = "(none)"
    assert "least risk: <b>1</b>" in tab.readout.object
