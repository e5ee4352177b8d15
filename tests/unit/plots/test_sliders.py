"""Sliders draw a picture anew when they move."""

import sys

import numpy as np
import pytest

from jaxdp.plots import show_sliders


def test_sliders_start_at_the_defaults_and_draw_when_they_move(monkeypatch):
    ipywidgets = pytest.importorskip("ipywidgets")
    drawn, shown = [], []

    def draw(clip_scale=0.21, count=2, name="b"):
        drawn.append((clip_scale, count, name))

    monkeypatch.setattr("ipywidgets.widgets.interaction.display", shown.append)
    stops = {"clip_scale": np.geomspace(0.1, 0.4, 3), "count": [1, 2, 3], "name": ["a", "b"]}
    show_sliders(draw, **stops)
    (box,) = shown
    clip, count, name, picture = box.children
    assert isinstance(picture, ipywidgets.Output)
    assert (clip.description, count.description) == ("clip scale", "count")
    assert [text for text, _ in clip.options] == ["0.1", "0.2", "0.4"]
    assert not clip.continuous_update
    clip.value = clip.options[2][1]
    count.value, name.value = 3, "a"
    about = pytest.approx(0.2), pytest.approx(0.4)
    expected = [(about[0], 2, "b"), (about[1], 2, "b"), (about[1], 3, "b"), (about[1], 3, "a")]
    assert [each for each in drawn if each in expected] == drawn
    assert drawn[0] == expected[0]
    assert drawn[-1] == expected[-1]


def test_without_ipywidgets_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # makes its import fail
    with pytest.raises(ModuleNotFoundError, match=r"jaxdp-lab\[notebooks\]"):
        show_sliders(lambda count=1: None, count=[1, 2])
