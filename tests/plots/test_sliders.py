"""Sliders draw a picture anew when they move, and it is drawn once where there are none."""

import sys

import numpy as np
import pytest

from jaxdp.plots import show_sliders


@pytest.fixture
def drawn():
    return []


@pytest.fixture
def draw(drawn):
    def draw(clip_scale=0.21, count=2):
        drawn.append((clip_scale, count))

    return draw


def test_without_ipywidgets_the_first_picture_is_drawn_once(draw, drawn, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # makes its import fail
    show_sliders(draw, clip_scale=np.geomspace(0.1, 0.4, 3), count=[1, 2, 3])
    assert drawn == [(pytest.approx(0.2), 2)]
    assert "no sliders" in capsys.readouterr().out


def test_sliders_start_at_the_defaults_and_draw_when_they_move(draw, drawn, monkeypatch):
    ipywidgets = pytest.importorskip("ipywidgets")
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    show_sliders(draw, clip_scale=np.geomspace(0.1, 0.4, 3), count=[1, 2, 3])
    (box,) = shown
    clip, count, picture = box.children
    assert isinstance(picture, ipywidgets.Output)
    assert (clip.description, count.description) == ("clip scale", "count")
    assert [text for text, _ in clip.options] == ["0.1", "0.2", "0.4"]
    assert not clip.continuous_update
    clip.value = clip.options[2][1]
    count.value = 3
    assert drawn == [(pytest.approx(0.2), 2), (pytest.approx(0.4), 2), (pytest.approx(0.4), 3)]


def test_what_is_returned_is_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    show_sliders(lambda name="b": f"figure {name}", name=["a", "b"])
    assert shown == ["figure b"]


def test_a_slider_needs_a_default_and_somewhere_to_stop(draw):
    with pytest.raises(TypeError, match="default for 'x'"):
        show_sliders(lambda x: None, x=[1])
    with pytest.raises(TypeError, match="default for 'other'"):
        show_sliders(draw, other=[1])
    with pytest.raises(ValueError, match="'count'"):
        show_sliders(draw, count=[])
    with pytest.raises(TypeError, match="draw"):
        show_sliders(3, count=[1])
