"""The tab of theory without a browser: what it refuses, what it says, and that nothing is lost."""

import asyncio
import threading
from html.parser import HTMLParser

import numpy as np
import panel
import param
import pytest
from falling import Falling, falling, on_a_loop, rest

from jaxdp.explorer.fields import Number
from jaxdp.explorer.parts import OVER, form, span
from jaxdp.explorer.studies import STUDIES
from jaxdp.explorer.theory_tab import TheoryTab


async def _opened():
    tab = TheoryTab(Falling())
    await rest(tab)
    return tab


async def _set(tab, **values):
    for name, value in values.items():
        tab.widgets[name].value = value
    await rest(tab)


def _slide(slider, place):
    with param.edit_constant(slider):
        slider.value_throttled = slider.value = place


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


@on_a_loop
async def test_a_slider_and_a_box_move_the_curve():
    tab = await _opened()
    box = tab.widgets["rate"]
    slider = tab.view.select(panel.widgets.FloatSlider)[0]
    _slide(slider, np.log10(2.0))
    await rest(tab)
    np.testing.assert_allclose(tab.shown.risk, falling(2.0).risk)
    assert box.value == "2"
    # The slider does not round what is typed.
    box.value = "0.512345"
    await rest(tab)
    assert slider.value == pytest.approx(np.log10(0.512345))
    assert f"{falling(0.512345).final_risk:.4g} ± 0.02" in tab.readout.object
    assert tab.text.value == "rate = 0.512345  # 0"
    assert "rate = 0.512345" in tab.code.object
    assert "replace-one" in tab.cost.object
    assert tab.picture.object is not None


@pytest.mark.parametrize("sent", ["nan", "<script>", "9"])
@on_a_loop
async def test_a_bad_value_is_refused_with_one_message_and_nothing_is_lost(sent):
    tab = await _opened()
    before, said = tab.picture.object, tab.readout.object
    await _set(tab, rate=sent)
    message = _Reader(tab.work.state.object)
    assert message.text.startswith("expected")
    assert message.elements == [("div", {"class": "refused"})]
    assert (tab.picture.object, tab.readout.object) == (before, said)
    await _set(tab, rate="2")
    assert "up to date" in tab.work.state.object


@pytest.mark.parametrize("sent", [5.0, float("nan")])
@on_a_loop
async def test_a_browser_that_sends_what_no_slider_sends_is_refused(sent):
    tab = await _opened()
    _slide(tab.view.select(panel.widgets.FloatSlider)[0], sent)
    await rest(tab)
    assert "rate to be a number from 0.1 to 10" in tab.work.state.object
    assert tab.study.described == [1]


@on_a_loop
async def test_a_number_of_runs_that_is_not_offered_is_refused():
    tab = await _opened()
    tab.widgets["runs"].options = [10**9]
    await _set(tab, runs=10**9)
    assert "expected one of no runs, 10 runs" in tab.work.state.object
    assert tab.study.described == [1]


def test_a_message_is_text_whatever_was_sent():
    sent = "![i](http://h/p.png) <b> &lt;"
    shown = _Reader(span("refused", f"got {sent}"))
    assert shown.text == f"got {sent}"
    assert shown.elements == [("div", {"class": "refused"})]


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.function.__name__)
def test_a_slider_reaches_the_ends_of_its_range_and_stands_where_its_value_is(study):
    numbers = [field for field in study.fields if isinstance(field, Number)]
    cards, widgets = form(study.fields)
    sliders = {one.css_classes[0]: one for one in cards.select(panel.widgets.FloatSlider)}
    for field in numbers:
        slider, box = sliders[f"slider-{field.name}"], widgets[field.name]
        for end, value in ((slider.end, field.high), (slider.start, field.low)):
            _slide(slider, end)
            assert field.checked(box.value) == value
        box.value = str(field.high)
        assert slider.value == slider.end


@on_a_loop
async def test_simulated_runs_are_drawn_and_said():
    tab = await _opened()
    await _set(tab, runs=10)
    assert "standard error of 10 runs" in tab.readout.object
    assert tab.text.value == "rate = 1.0  # 10"
    assert len(tab.picture.object.axes) == 2
    await _set(tab, runs=0)
    assert "standard error" not in tab.readout.object
    assert len(tab.picture.object.axes) == 1


@on_a_loop
async def test_the_latest_settings_end_what_was_done_for_earlier_ones():
    tab = await _opened()
    started, release, ended = threading.Event(), threading.Event(), []

    def long(progress):
        started.set()
        assert release.wait(5)
        try:
            progress(0.5)
        except BaseException as error:
            ended.append(type(error).__name__)
            raise

    tab.study.during = long
    tab.widgets["rate"].value = "2"
    assert await asyncio.to_thread(started.wait, 5)
    tab.study.during = lambda progress: None
    await _set(tab, rate="5")
    release.set()
    await asyncio.sleep(0.1)
    assert ended == ["Ended"]
    assert "up to date" in tab.work.state.object
    np.testing.assert_allclose(tab.shown.risk, falling(5.0).risk)


@on_a_loop
async def test_a_program_that_ends_waits_for_no_long_job():
    tab = await _opened()
    ended = []

    def long(progress):
        try:
            for _ in range(500):
                progress(0.5)
                threading.Event().wait(0.01)
        except BaseException as error:
            ended.append(type(error).__name__)
            raise

    tab.study.during = long
    tab.widgets["rate"].value = "2"
    await asyncio.sleep(0.1)
    OVER.set()
    try:
        await asyncio.sleep(0.2)
    finally:
        OVER.clear()
    assert ended == ["Ended"]


@on_a_loop
async def test_what_breaks_is_said_and_does_not_keep_the_next_from_being_done(capsys):
    tab = await _opened()

    def broken(progress):
        raise AssertionError("a defect <b>")

    tab.study.during = broken
    await _set(tab, rate="2")
    assert "a defect of jaxdp, AssertionError" in tab.work.state.object
    assert "a defect <b>" in capsys.readouterr().err
    tab.study.during = lambda progress: None
    await _set(tab, rate="3")
    np.testing.assert_allclose(tab.shown.risk, falling(3.0).risk)
