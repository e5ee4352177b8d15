"""Songs and the years they appeared in: the year-prediction set, from a file or fetched."""

import pathlib
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.core.extras import require_extra

# The range of years that the set announces; the responses are centred in it.
FIRST_YEAR, LAST_YEAR = 1922, 2011
NUM_FEATURES = 90
_NUM_SONGS = 515_345
# "year" on OpenML, the same rows in the same order.
_OPENML = 44027
_SOURCE = "give YearPredictionMSD.txt, or rows of it: a year and 90 numbers, separated by commas"


class Songs(NamedTuple):
    """One song a row: 12 means and 78 covariances of its timbre, and its year."""

    inputs: Float[np.ndarray, "songs 90"]
    years: Float[np.ndarray, " songs"]


def read_year_prediction(path: str | pathlib.Path | None = None) -> Songs:
    """Songs in the order of the file, float64. Source: Bertin-Mahieux (2011), UCI.

    Rows of one album follow one another: neighbours are not independent.

    Args:
        path: the text file, or a folder that holds a single .txt or .csv. None fetches all 515,345
            songs by scikit-learn, which keeps them for the next time.

    Raises:
        ValueError: the file is missing or broken (says which, and why), or nothing was fetched.
        ImportError: scikit-learn is needed and not installed.
    """
    if path is None:
        return _fetched()
    path = _find(pathlib.Path(path))
    try:
        table = np.loadtxt(path, delimiter=",", ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a table of numbers ({error}); {_SOURCE}") from None
    if table.shape[1] != NUM_FEATURES + 1:
        raise ValueError(f"{path}: expected 91 columns, got {table.shape[1]}; {_SOURCE}")
    return _checked(Songs(table[:, 1:], table[:, 0]), str(path))


def _find(path: pathlib.Path) -> pathlib.Path:
    if path.is_file():
        if not path.stat().st_size:
            raise ValueError(f"{path}: the file is empty; {_SOURCE}")
        return path
    found = sorted(one for ending in ("*.txt", "*.csv") for one in path.glob(ending))
    if len(found) != 1:
        what = f"{len(found)} text files in this folder" if found else "no such file"
        raise ValueError(f"{path}: {what}; {_SOURCE}")
    return _find(found[0])


def _fetched() -> Songs:
    with require_extra("sklearn", "data", "fetching the songs", f"; or {_SOURCE}"):
        from sklearn.datasets import fetch_openml
    try:
        inputs, years = fetch_openml(
            data_id=_OPENML, return_X_y=True, as_frame=False, parser="liac-arff"
        )
    # OSError: no network, no server, no room; ValueError: another data set than asked for.
    except (OSError, ValueError) as error:
        raise ValueError(f"the songs could not be fetched ({error}); {_SOURCE}") from error
    songs = Songs(np.asarray(inputs, np.float64), np.asarray(years, np.float64))
    if songs.inputs.shape != (_NUM_SONGS, NUM_FEATURES) or songs.years.shape != (_NUM_SONGS,):
        raise ValueError(
            f"fetched songs of unexpected shapes {songs.inputs.shape}, {songs.years.shape}; "
            f"{_SOURCE}"
        )
    return _checked(songs, f"OpenML {_OPENML}")


def _checked(songs: Songs, origin: str) -> Songs:
    if not np.isfinite(songs.inputs).all():
        raise ValueError(f"{origin}: expected finite numbers; {_SOURCE}")
    years = songs.years
    wrong = ~((years >= FIRST_YEAR) & (years <= LAST_YEAR) & (years == np.floor(years)))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{origin}: expected years from {FIRST_YEAR} to {LAST_YEAR} in the first column, got "
            f"{years[row]:g} in row {row + 1}; {_SOURCE}"
        )
    return songs
