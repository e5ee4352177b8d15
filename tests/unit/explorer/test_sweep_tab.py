"""The tab of a sweep: the right numbers, and a sentence for what is not there."""

import numpy as np
import panel
import pytest
import xarray

from jaxdp.explorer.files import open_store
from jaxdp.explorer.sweep_tab import least, picture, sweep_view

_VALUES = np.arange(24.0).reshape(2, 3, 4) + 1
_WORDS = {"c": [1.0, 2.0, 4.0, 8.0], "b": ["x", "y", "z"]}
_DATASET = xarray.Dataset({"risk": (("a", "b", "c"), _VALUES), "word": ("b", [*"pqr"])}, _WORDS)


def test_maps_and_lines_are_drawn_and_the_rest_is_refused():
    view = sweep_view(_DATASET)
    quantity, across, along = view.select(panel.widgets.Select)
    sliders = view.select(panel.widgets.DiscreteSlider)
    assert quantity.options == ["risk"]
    assert (across.value, along.value) == ("c", "b")
    # A slider for each axis; those of axes that are drawn are hidden.
    assert [slider.visible for slider in sliders] == [False, False, True]

    def said():
        return " ".join(str(one.object) for one in view.select(panel.pane.HTML))

    assert "least risk: 1 at b = x, c = 1" in said()
    sliders[-1].value = 1
    assert "least risk: 13 at b = x, c = 1" in said()
    along.value = "(none)"
    assert "least risk: 13 at c = 1" in said()
    along.value = "c"
    assert "expected axes that differ" in said()


@pytest.mark.parametrize(("drawn", "at"), [(["/etc"], {}), (["c", "b"], {"a": 9})])
def test_what_is_not_there_is_refused(drawn, at):
    assert "expected axes that differ" in picture(_DATASET["risk"], drawn, at).object


def test_a_sweep_of_nothing_finished_says_so():
    nothing = xarray.Dataset({"risk": (("a", "b"), np.full((2, 3), np.nan))})
    assert least(nothing["risk"]) == "no finished cell here has a finite value"
    with pytest.raises(ValueError, match="a number over an axis"):
        sweep_view(_DATASET[["word"]])


def test_a_file_of_a_sweep_is_opened_and_nothing_else(tmp_path):
    _DATASET[["risk"]].to_netcdf(tmp_path / "sweep.nc", engine="h5netcdf")
    xarray.testing.assert_identical(open_store(tmp_path / "sweep.nc"), _DATASET[["risk"]])
    (tmp_path / "other.nc").write_text("nothing")
    for path, words in [("other.nc", "NetCDF"), ("none", "not there"), (".", "folder of a sweep")]:
        with pytest.raises(ValueError, match=words):
            open_store(tmp_path / path)
