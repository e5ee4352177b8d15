"""Slices of a sweep: the right numbers, and nothing for what is not there."""

import numpy as np
import pytest
import xarray

from jaxdp.explorer.sweep_slices import open_store, quantities, slice_of, texts_of

_RISK = np.random.default_rng(0).uniform(1, 2, (3, 4, 5))
_DATASET = xarray.Dataset(
    {"risk": (("rho", "clip", "kind"), _RISK), "once": ((), 1.0), "word": ("rho", list("abc"))},
    {"rho": [0.5, 1.0, 1.5], "clip": np.geomspace(0.1, 100, 4), "kind": list("uvwxy")},
)


def test_a_slice_has_the_chosen_axes_at_the_places_of_the_others():
    found = slice_of(_DATASET, "risk", "clip", "kind", {"rho": 2, "clip": 3})
    np.testing.assert_array_equal(found, _RISK[2].T)
    assert found.dims == ("kind", "clip")
    np.testing.assert_array_equal(found["clip"], _DATASET["clip"])
    np.testing.assert_array_equal(found["kind"], range(5))
    line = slice_of(_DATASET, "risk", "rho", None, {"clip": 1, "kind": 4})
    np.testing.assert_array_equal(line, _RISK[:, 1, 4])


def test_values_of_axes_are_said_in_words():
    assert texts_of(_DATASET, "kind") == tuple("uvwxy")
    assert texts_of(_DATASET, "clip") == ("0.1", "1", "10", "100")


def test_quantities_are_numbers_over_an_axis():
    assert quantities(_DATASET) == {"risk": ("kind", "clip", "rho")}
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


def test_a_file_of_a_sweep_is_opened_and_nothing_else(tmp_path):
    _DATASET[["risk"]].to_netcdf(tmp_path / "sweep.nc", engine="h5netcdf")
    xarray.testing.assert_identical(open_store(tmp_path / "sweep.nc"), _DATASET[["risk"]])
    (tmp_path / "other.nc").write_text("nothing")
    for path, words in [("other.nc", "NetCDF"), ("none", "not there"), (".", "folder of a sweep")]:
        with pytest.raises(ValueError, match=words):
            open_store(tmp_path / path)
