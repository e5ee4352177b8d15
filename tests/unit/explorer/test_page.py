"""The page without a browser: what it refuses, what it says, and that nothing is lost."""

import asyncio
import dataclasses
import subprocess
import sys
import threading
from html.parser import HTMLParser

import numpy as np
import panel
import param
import pytest
from falling import TIME, Falling, on_a_loop, rest

import jaxdp
from jaxdp.explorer.studies.base import Number
from jaxdp.explorer.studies.linear_stream import LinearStream
from jaxdp.explorer.studies.synthetic_rows import SyntheticRows
from jaxdp.explorer.sweep_slices import slice_of
from jaxdp.explorer.views.server import allowed_origins
from jaxdp.explorer.views.sweep_tab import least_html, slice_figure, sweep_view
from jaxdp.explorer.views.theory_tab import TheoryTab
from jaxdp.explorer.views.widgets import code_html, control_of, cost_html, label_html


async def _opened():
    tab = TheoryTab(Falling())
    await rest(tab)
    return tab


def _slider(tab, name="rate"):
    (slider,) = (
        one
        for one in tab.view.select(panel.widgets.FloatSlider)
        if one.css_classes == [f"slider-{name}"]
    )
    return slider


def _risk(tab):
    return np.asarray(tab.figure.sources["line"].data["y"])


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
    _slider(tab).value = np.log10(2.0)
    await rest(tab)
    np.testing.assert_allclose(_risk(tab), np.exp(-2 * TIME))
    assert tab.inputs["rate"].value == "2"
    tab.inputs["rate"].value = "0.5"
    await rest(tab)
    np.testing.assert_allclose(_risk(tab), np.exp(-0.5 * TIME))
    assert _slider(tab).value == pytest.approx(np.log10(0.5))
    band = tab.figure.sources["band"].data
    np.testing.assert_allclose(np.asarray(band["high"]) - _risk(tab), 0.01)
    assert "rate = 0.5" in tab.text.value
    assert "replace-one" in tab.cost.object


@pytest.mark.parametrize("sent", ["-1", "1e9", "nan", "", "<script>", "7", "__import__('os')"])
@on_a_loop
async def test_a_bad_value_is_refused_with_one_message_and_nothing_is_lost(sent):
    tab = await _opened()
    before, values = _risk(tab), dict(tab.values)
    tab.inputs["rate"].value = sent
    await rest(tab)
    assert tab.message.visible
    shown = _Reader(tab.message.object)
    assert shown.text.startswith("expected")
    assert [tag for tag, _ in shown.elements] == ["div"]
    assert tab.values == values
    assert tab.inputs["rate"].value == "1"
    np.testing.assert_array_equal(_risk(tab), before)
    tab.inputs["rate"].value = "2"
    assert not tab.message.visible


@pytest.mark.parametrize("sent", [5.0, -7.0, 1e9])
@on_a_loop
async def test_a_browser_that_sends_what_no_slider_sends_is_refused(sent):
    tab = await _opened()
    _slider(tab).value = sent
    await rest(tab)
    assert "rate to be a number from 0.1 to 10" in tab.message.object
    assert _slider(tab).value == 0
    assert tab.values["rate"] == 1


@on_a_loop
async def test_what_fails_in_the_background_leaves_the_picture():
    tab = await _opened()
    before = _risk(tab)
    tab.inputs["rate"].value = "9"
    await rest(tab)
    assert "can be described" in tab.message.object
    np.testing.assert_array_equal(_risk(tab), before)
    # The settings stay refused, whatever is asked of them.
    tab.message.object = ""
    tab.simulate.clicks += 1
    await rest(tab)
    assert "can be described" in tab.message.object


@on_a_loop
async def test_runs_that_are_too_many_are_refused():
    tab = await _opened()
    tab.runs.value = 100
    tab.simulate.clicks += 1
    await rest(tab)
    assert tab.message.visible
    assert "expected fewer runs" in tab.message.object
    assert not len(tab.figure.sources["runs"].data["y"])


@pytest.mark.parametrize("sent", ["![i](http://h/p.png)", "<b>", "[a](http://h)", "&lt;"])
@on_a_loop
async def test_a_message_is_text_whatever_was_sent(sent):
    tab = await _opened()
    tab.refuse(f"got {sent}")
    # Panel reads Markdown, and HTML in it, in panes of other kinds.
    assert type(tab.message) is panel.pane.HTML
    assert tab.message.visible
    shown = _Reader(tab.message.object)
    assert shown.text == f"got {sent}"
    assert shown.elements == [("div", {"class": "refused", "role": "alert"})]


@on_a_loop
async def test_a_setting_is_there_once_its_choice_asks_for_it():
    tab = await _opened()
    extra = _slider(tab, "extra")
    assert not tab.views["extra"].visible
    tab.inputs["pace"].value = "fast"
    await rest(tab)
    assert tab.views["extra"].visible
    assert extra in tab.views["extra"].select()


def test_a_slider_reaches_the_ends_of_its_range_and_stands_where_its_value_is():
    for study in (LinearStream(), SyntheticRows()):
        for field in study.fields:
            if not isinstance(field, Number):
                continue
            view, box = control_of(field)
            (slider,) = view.select(panel.widgets.FloatSlider)
            event = "value_throttled" if field.compiles else "value"
            for end, value in (("end", field.high), ("start", field.low)):
                with param.edit_constant(slider):
                    setattr(slider, event, getattr(slider, end))
                assert field.checked(box.value) == value
            box.value = str(field.high)
            assert slider.value == slider.end


def test_a_delta_of_one_in_n_is_warned_of():
    algorithm = jaxdp.OnePassDPSGD(1.0, 1.0, rho=1.0, num_steps=100)
    assert "at least 1/n = 0.01" in cost_html(algorithm, 0.01)
    assert "at least 1/n" not in cost_html(algorithm, 0.009)


@on_a_loop
async def test_simulated_runs_are_drawn_until_something_changes():
    tab = await _opened()
    tab.runs.value = 10
    tab.simulate.clicks += 1
    await rest(tab)
    np.testing.assert_allclose(tab.figure.sources["runs"].data["y"], np.exp(-TIME))
    assert "10 runs" in tab.readout.object
    assert tab.text.value.endswith("# 10")
    tab.inputs["rate"].value = "2"
    await rest(tab)
    assert not len(tab.figure.sources["runs"].data["y"])
    assert tab.text.value.endswith("# None")


@on_a_loop
async def test_the_python_is_there_to_be_copied_and_is_shown_once_it_is_unfolded():
    tab = await _opened()
    copied = tab.text.value
    assert copied
    assert not tab.code.object
    tab.code_card.collapsed = False
    assert tab.code.object == code_html(copied)
    _slider(tab).value = np.log10(2.0)
    await rest(tab)
    assert tab.text.value != copied
    assert tab.code.object == code_html(tab.text.value)


@on_a_loop
async def test_a_plan_sets_the_sliders_and_shows_what_it_gained():
    tab = await _opened()
    before = _risk(tab)
    tab.plan.clicks += 1
    await rest(tab)
    assert tab.values["rate"] == 3
    assert tab.inputs["rate"].value == "3"
    np.testing.assert_allclose(_risk(tab), np.exp(-3 * TIME))
    # Released before: 1/e + .1, and after: exp(-3) + .1.
    assert "before the plan 0.4679, 3.12 times less" in tab.readout.object
    assert tab.keep.value
    np.testing.assert_array_equal(tab.figure.sources["kept"].data["y"], before)
    assert tab.scale.value
    tab.inputs["rate"].value = "2"
    await rest(tab)
    assert "before the plan" not in tab.readout.object
    np.testing.assert_array_equal(tab.figure.sources["kept"].data["y"], before)
    tab.keep.value = False
    assert not len(tab.figure.sources["kept"].data["y"])


def test_a_label_explains_itself_as_text():
    field = Number("rate", "rate <b>", 0.1, 1.0, 0.5, "Problem", help='"quoted" & <i>')
    shown = _Reader(label_html(field))
    assert shown.text == "rate <b>"
    assert shown.elements == [("abbr", {"title": field.help})]
    assert label_html(dataclasses.replace(field, help="")) == "rate &lt;b&gt;"


@on_a_loop
async def test_a_plan_of_settings_that_were_changed_meanwhile_is_not_set():
    tab = await _opened()
    started, changed = threading.Event(), threading.Event()

    def wait():
        started.set()
        assert changed.wait(5)

    tab.study.meanwhile = wait
    tab.plan.clicks += 1
    assert await asyncio.to_thread(started.wait, 5)
    tab.inputs["rate"].value = "2"
    changed.set()
    await rest(tab)
    assert tab.values["rate"] == 2
    assert "the settings were changed while it was planned" in tab.message.object


@on_a_loop
async def test_of_what_waits_only_the_latest_is_computed():
    tab = await _opened()
    release, before = threading.Event(), tab.study.num_described
    tab.study.during = lambda: release.wait(5)
    for sent in ("2", "3", "4", "5"):
        tab.inputs["rate"].value = sent
        # The first begins; the page goes on answering.
        await asyncio.sleep(0.02)
    release.set()
    await rest(tab)
    np.testing.assert_allclose(_risk(tab), np.exp(-5 * TIME))
    assert tab.study.num_described == before + 2


@on_a_loop
async def test_one_long_job_at_a_time():
    tab = await _opened()
    release = threading.Event()
    tab.study.meanwhile = lambda: release.wait(5)
    tab.plan.clicks += 1
    await asyncio.sleep(0.02)
    tab.simulate.clicks += 1
    assert "one thing at a time: planning" in tab.message.object
    release.set()
    await rest(tab)


@on_a_loop
async def test_what_breaks_is_said_and_does_not_keep_the_next_from_being_done(capsys):
    tab = await _opened()

    def broken():
        raise AssertionError("a defect <b>")

    tab.study.during = broken
    tab.inputs["rate"].value = "2"
    await rest(tab)
    assert "a defect of jaxdp, AssertionError" in tab.message.object
    assert "a defect <b>" in capsys.readouterr().err
    tab.study.during = lambda: None
    tab.inputs["rate"].value = "3"
    await rest(tab)
    np.testing.assert_allclose(_risk(tab), np.exp(-3 * TIME))


@pytest.mark.slow
def test_a_program_that_ends_waits_for_no_long_job():
    program = """if True:
        import asyncio, time
        from jaxdp.explorer.studies.synthetic_rows import SyntheticRows
        from jaxdp.explorer.views.tab import OVER
        from jaxdp.explorer.views.theory_tab import TheoryTab

        async def main():
            tab = TheoryTab(SyntheticRows())
            report = tab.progress()

            def long():
                while True:
                    time.sleep(.01)
                    report(.5)

            job = asyncio.get_running_loop().run_in_executor(None, long)
            await asyncio.sleep(.1)
            OVER.set()
            await asyncio.wait([job])
            print(type(job.exception()).__name__)

        asyncio.run(main())
    """
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.split() == ["Ended"]


def test_other_origins_have_no_websocket():
    assert allowed_origins("127.0.0.1", 5006, ()) == ["127.0.0.1:5006", "localhost:5006"]
    assert allowed_origins("192.0.2.7", 80, ("lab:80",)) == ["192.0.2.7:80", "lab:80"]
    for address in ("127.0.0.1", "::1", "0.0.0.0", "192.0.2.7"):
        assert not any("*" in origin for origin in allowed_origins(address, 5006, ()))


def test_the_sweep_tab_draws_maps_and_lines_and_refuses_the_rest():
    import xarray

    values = np.arange(24.0).reshape(2, 3, 4) + 1
    words = {"c": [1.0, 2.0, 4.0, 8.0], "b": ["x", "y", "z"]}
    dataset = xarray.Dataset({"risk": (("a", "b", "c"), values)}, words)
    view = sweep_view(dataset)
    across, along = view.select(panel.widgets.Select)[1:]
    sliders = view.select(panel.widgets.IntSlider)
    assert (across.value, along.value) == ("c", "b")
    # A slider for each axis; those of axes that are drawn are hidden.
    assert [slider.visible for slider in sliders] == [False, False, True]

    def said():
        return " ".join(str(one.object) for one in view.select(panel.pane.HTML))

    assert "least risk: <b>1</b> at b = x, c = 1" in said()
    assert "at a = 0" in said()
    sliders[-1].value = 1
    assert "least risk: <b>13</b>" in said()
    assert "at a = 1" in said()
    along.value = "(none)"
    assert "least risk: <b>13</b> at c = 1" in said()
    along.value = "c"
    assert "axes that differ" in said()
    figure = slice_figure(dataset, slice_of(dataset, "risk", "b", "a", {}), "risk")
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["x", "y", "z"]


def test_a_sweep_of_nothing_finished_says_so():
    import xarray

    dataset = xarray.Dataset({"risk": (("a", "b"), np.full((2, 3), np.nan))})
    part = slice_of(dataset, "risk", "b", "a", {})
    assert "nothing here is finished" in least_html(dataset, part, "risk")
