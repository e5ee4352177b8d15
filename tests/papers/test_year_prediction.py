"""Reading songs: what comes out of a file, and one clear error for each that is broken."""

import numpy as np
import pytest

from experiments.private_kernel_learning.year_prediction import read_year_prediction

_ROWS = np.column_stack([[1922, 2011, 1999], np.arange(270.0).reshape(3, 90) / 7])


def _written(path, rows, **options):
    np.savetxt(path, rows, delimiter=",", fmt="%.17g", **options)
    return path


def test_songs_are_read_in_order_from_a_file_or_from_its_folder(tmp_path):
    path = _written(tmp_path / "YearPredictionMSD.txt", _ROWS)
    for place in (path, str(path), tmp_path):
        songs = read_year_prediction(place)
        np.testing.assert_array_equal(songs.years, [1922, 2011, 1999])
        np.testing.assert_array_equal(songs.inputs, _ROWS[:, 1:])


def _changed(row, column, value):
    rows = _ROWS.copy()
    rows[row, column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (_ROWS[:, :-1], "expected 91 columns, got 90"),
        (_changed(1, 5, np.nan), "in row 2"),
        (_ROWS[:, ::-1], "in row 1"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, rows, message):
    path = _written(tmp_path / "songs.csv", rows)
    with pytest.raises(ValueError, match=message) as error:
        read_year_prediction(path)
    assert str(path) in str(error.value)


def test_missing_ambiguous_or_foreign_files_are_refused(tmp_path):
    for missing in (tmp_path / "missing", tmp_path):
        with pytest.raises(ValueError, match="no such file"):
            read_year_prediction(missing)
    (tmp_path / "words.txt").write_text("year,a,b\n1999,x,y\n")
    with pytest.raises(ValueError, match="not a table of numbers"):
        read_year_prediction(tmp_path)
    (tmp_path / "other.csv").write_text("")
    with pytest.raises(ValueError, match="2 text files"):
        read_year_prediction(tmp_path)
