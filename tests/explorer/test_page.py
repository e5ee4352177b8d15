"""The page without a browser: what it refuses, what it says, and that nothing is lost."""

import dataclasses
import subprocess
import sys
import threading
from html.parser import HTMLParser

import numpy as np
import panel
import pytest
from falling import TIME, Falling, rest

from jaxdp.explorer.studies.base import Number
from jaxdp.explorer.views.background import Latest, Poster, Programs
from jaxdp.explorer.views.server import allowed_origins
from jaxdp.explorer.views.sweep_tab import SweepTab
from jaxdp.explorer.views.theory_tab import TheoryTab
from jaxdp.explorer.views.widgets import code_html, label_html


@pytest.fixture
def tab():
    study = Falling()
    made = TheoryTab(study, Poster())
    _wait(made)
    study.watch = made
    return made


def _wait(tab):
    rest(tab._curves, tab._actions)


def _risk(tab):
    return np.asarray(tab.figure.predicted["line"].data["y"])


class _Reader(HTMLParser):
    """What HTML says, and of which elements it is made."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_a_slider_and_a_box_move_the_curve(tab):
    tab.controls["rate"].slider.value = np.log10(2.0)
    _wait(tab)
    np.testing.assert_allclose(_risk(tab), np.exp(-2 * TIME))
    assert tab.controls["rate"].box.value == "2"
    tab.controls["rate"].box.value = "0.5"
    _wait(tab)
    np.testing.assert_allclose(_risk(tab), np.exp(-0.5 * TIME))
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
    shown = _Reader(tab.message.object)
    assert shown.text.startswith("expected")
    assert [tag for tag, _ in shown.elements] == ["div"]
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
    # The settings stay refused, whatever is asked of them.
    tab.message.object = ""
    tab.simulate.clicks += 1
    _wait(tab)
    assert "can be described" in tab.message.object


def test_runs_that_are_too_many_are_refused(tab):
    tab.runs.value = 100
    tab.simulate.clicks += 1
    _wait(tab)
    assert tab.message.visible
    assert "expected fewer runs" in tab.message.object
    assert not len(tab.figure.simulated["line"].data["y"])


@pytest.mark.parametrize("sent", ["![i](http://h/p.png)", "<b>", "[a](http://h)", "&lt;"])
def test_a_message_is_text_whatever_was_sent(tab, sent):
    import xarray

    dataset = xarray.Dataset({"risk": (("a", "b"), np.ones((2, 2)))})
    sweep = SweepTab(dataset)
    tab.refuse(f"got {sent}")
    sweep.refuse(f"got {sent}")
    for message in (tab.message, sweep.message):
        # Panel reads Markdown, and HTML in it, in panes of other kinds.
        assert type(message) is panel.pane.HTML
        shown = _Reader(message.object)
        assert shown.text == f"got {sent}"
        assert shown.elements == [("div", {"class": "refused", "role": "alert"})]
        assert message.visible


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
    np.testing.assert_allclose(tab.figure.simulated["line"].data["y"], np.exp(-TIME))
    assert "10 runs" in tab.readout.object
    assert tab.text.value.endswith("# 10")
    tab.controls["rate"].box.value = "2"
    _wait(tab)
    assert not len(tab.figure.simulated["line"].data["y"])
    assert tab.text.value.endswith("# None")


def test_the_python_is_there_to_be_copied_and_is_shown_once_it_is_unfolded(tab):
    copied = tab.text.value
    assert copied
    assert not tab.code.object
    tab.code_card.collapsed = False
    assert tab.code.object == code_html(copied)
    tab.controls["rate"].slider.value = np.log10(2.0)
    _wait(tab)
    assert tab.text.value != copied
    assert tab.code.object == code_html(tab.text.value)


def test_a_plan_sets_the_sliders_and_shows_what_it_gained(tab):
    before = _risk(tab)
    tab.plan.clicks += 1
    _wait(tab)
    assert tab.values["rate"] == 3
    assert tab.controls["rate"].box.value == "3"
    np.testing.assert_allclose(_risk(tab), np.exp(-3 * TIME))
    # Released before: 1/e + .1, and after: exp(-3) + .1.
    assert "before the plan 0.4679, 3.12 times less" in tab.readout.object
    assert tab.keep.value
    np.testing.assert_array_equal(tab.figure.kept.data["y"], before)
    assert tab.scale.value
    tab.controls["rate"].box.value = "2"
    _wait(tab)
    assert "before the plan" not in tab.readout.object
    np.testing.assert_array_equal(tab.figure.kept.data["y"], before)
    tab.keep.value = False
    assert not len(tab.figure.kept.data["y"])


def test_a_label_explains_itself_as_text():
    field = Number("rate", "rate <b>", 0.1, 1.0, 0.5, "Problem", help='"quoted" & <i>')
    shown = _Reader(label_html(field))
    assert shown.text == "rate <b>"
    assert shown.elements == [("abbr", {"title": field.help})]
    assert label_html(dataclasses.replace(field, help="")) == "rate &lt;b&gt;"


def test_a_plan_of_settings_that_were_changed_meanwhile_is_not_set(tab):
    started, changed = threading.Event(), threading.Event()

    def wait():
        started.set()
        assert changed.wait(5)

    tab.study.meanwhile = wait
    tab.plan.clicks += 1
    assert started.wait(5)
    tab.controls["rate"].box.value = "2"
    changed.set()
    _wait(tab)
    assert tab.values["rate"] == 2
    assert "the settings were changed while it was planned" in tab.message.object


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
    rest(latest)
    assert done == [1, 6]


def test_what_breaks_does_not_keep_the_next_from_being_done(capsys):
    latest, done = Latest(), threading.Event()

    def broken(number):
        raise AssertionError("a defect")

    for job in (broken, lambda number: done.set()):
        latest.ask(job)
        rest(latest)
    assert done.wait(5)
    assert "a defect" in capsys.readouterr().err


@pytest.mark.slow
def test_a_program_that_ends_waits_for_what_is_done_and_for_nothing_else():
    program = """if True:
        import threading, time
        from jaxdp.explorer.views.background import Latest, end_if_over

        started, endless = threading.Event(), threading.Event()

        def step(number):
            started.set()
            threading.main_thread().join()
            print("done")

        def long(number):
            endless.set()
            while True:
                time.sleep(.01)
                end_if_over()

        one, other = Latest(), Latest()
        one.ask(step)
        other.ask(long)
        started.wait()
        endless.wait()
        one.ask(lambda number: print("dropped"))
        print("end")
    """
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.split() == ["end", "done"]
    assert not ran.stderr


def test_other_origins_have_no_websocket():
    assert allowed_origins("127.0.0.1", 5006, ()) == ["127.0.0.1:5006", "localhost:5006"]
    assert allowed_origins("192.0.2.7", 80, ("lab:80",)) == ["192.0.2.7:80", "lab:80"]
    for address in ("127.0.0.1", "::1", "0.0.0.0", "192.0.2.7"):
        assert not any("*" in origin for origin in allowed_origins(address, 5006, ()))


def test_the_second_tab_draws_maps_and_lines_and_refuses_the_rest():
    import xarray

    values = np.arange(24.0).reshape(2, 3, 4) + 1
    dataset = xarray.Dataset({"risk": (("a", "b", "c"), values)}, {"c": [1.0, 2.0, 4.0, 8.0]})
    tab = SweepTab(dataset)
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


def test_programs_are_known_until_they_are_too_many():
    forgotten = []
    programs = Programs(most=3, forget=lambda: forgotten.append("all"))
    for name in ("a", "b", "c", "b"):
        programs.add(name)
    assert [name in programs for name in "abcd"] == [True, True, True, False]
    assert not forgotten
    # The fourth is forgotten with the others: JAX has to compile it again as well.
    programs.add("d")
    assert forgotten == ["all"]
    assert not any(name in programs for name in "abcd")
    programs.add("d")
    assert "d" in programs
    assert forgotten == ["all"]
