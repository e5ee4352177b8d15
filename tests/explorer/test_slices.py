"""Slices of a sweep: the right numbers, and nothing for what is not there."""

import numpy as np
import pytest
import xarray

from jaxdp.explorer.sweep_slices import (
    MOST_LINES,
    axis_of,
    lines_of,
    open_store,
    quantities,
    slice_of,
    spans_decades,
)
from jaxdp.plots.grids import cell_edges

_RISK = np.random.default_rng(0).uniform(1, 2, (3, 4, 5))
_DATASET = xarray.Dataset(
    {"risk": (("rho", "clip", "kind"), _RISK), "once": ((), 1.0), "word": ("rho", list("abc"))},
    {"rho": [0.5, 1.0, 1.5], "clip": np.geomspace(0.1, 100, 4), "kind": list("uvwxy")},
)


def test_a_slice_has_the_chosen_axes_at_the_places_of_the_others():
    found = slice_of(_DATASET, "risk", "clip", "kind", {"rho": 2, "clip": 3})
    np.testing.assert_array_equal(found.values, _RISK[2].T)
    assert found.across.name == "clip"
    assert found.best == np.unravel_index(_RISK[2].T.argmin(), (5, 4))
    line = slice_of(_DATASET, "risk", "rho", None, {"clip": 1, "kind": 4})
    np.testing.assert_array_equal(line.values, _RISK[:, 1, 4][None])


def test_axes_have_places_and_words():
    clip, kind = axis_of(_DATASET, "clip"), axis_of(_DATASET, "kind")
    assert clip.is_log
    assert not axis_of(_DATASET, "rho").is_log
    assert kind.texts == tuple("uvwxy")
    np.testing.assert_array_equal(kind.places, range(5))
    # Cells meet half way between, on their scale.
    np.testing.assert_allclose(
        cell_edges(clip.places), np.geomspace(0.1 / 10**0.5, 100 * 10**0.5, 5)
    )
    np.testing.assert_allclose(
        cell_edges(axis_of(_DATASET, "rho").places), [0.25, 0.75, 1.25, 1.75]
    )


def test_quantities_are_numbers_over_an_axis():
    assert quantities(_DATASET) == {"risk": ("rho", "clip", "kind")}
    with pytest.raises(ValueError, match="a number over an axis"):
        quantities(_DATASET[["word"]])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("word", "rho", None, {}), "one of risk"),
        (("risk", "rho", "rho", {}), "axes that differ"),
        (("risk", "/etc", None, {}), "axes that differ"),
        (("risk", "rho", None, {"clip": 4}), "index of clip from 0 to 3, got 4"),
        (("risk", "rho", None, {"rho": -1}), "index of rho from 0 to 2, got -1"),
        (("risk", "rho", None, {"kind": 0.5}), "index of kind"),
    ],
)
def test_what_is_not_there_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        slice_of(_DATASET, *given)


def test_what_failed_is_not_the_best_and_lines_are_few():
    values = np.full((20, 3), np.nan)
    dataset = xarray.Dataset({"risk": (("a", "b"), values)})
    found = slice_of(dataset, "risk", "b", "a", {})
    assert found.best is None
    assert len(lines_of(found)) == MOST_LINES
    values[7, 1] = 3.0
    assert slice_of(dataset, "risk", "b", "a", {}).best == (7, 1)
    assert spans_decades(np.asarray([1.0, 10.0, np.nan]))
    assert not spans_decades(np.asarray([0.0, 10.0]))


def test_a_file_of_a_sweep_is_opened_and_nothing_else(tmp_path):
    _DATASET[["risk"]].to_netcdf(tmp_path / "sweep.nc", engine="h5netcdf")
    xarray.testing.assert_identical(open_store(tmp_path / "sweep.nc"), _DATASET[["risk"]])
    (tmp_path / "other.nc").write_text("nothing")
    for path, words in [("other.nc", "NetCDF"), ("none", "not there"), (".", "folder of a sweep")]:
        with pytest.raises(ValueError, match=words):
            open_store(tmp_path / path)
