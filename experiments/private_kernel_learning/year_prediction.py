"""Songs and the years they appeared in: the year-prediction set, from a file or fetched, and split.

The public units come from the first 176 songs of the file, which no figure trains or tests on:
their mean and standard deviation in every column, to two digits. Any numbers of
about that size would do, as long as no other song influences them. PK's own units, the training
rows' means and standard deviations, make each record's features depend on all others: one record
can move nC hundreds of times further than the noise is made for.
"""

import pathlib
from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key

from experiments.private_kernel_learning.ridge_methods import Bounds
from experiments.private_kernel_learning.synthetic import Split
from jaxdp.core.packages import require_extra

# The range of years that the set announces; the responses are centred in it.
FIRST_YEAR, LAST_YEAR = 1922, 2011
_YEARS = np.arange(FIRST_YEAR, LAST_YEAR + 1)
NUM_FEATURES = 90
# "year" on OpenML, the same rows in the same order.
_OPENML = 44027
_SOURCE = "give YearPredictionMSD.txt, or rows of it: a year and 90 numbers, separated by commas"
NUM_PUBLIC = 176
# Source: PK section 5, responses in [-44.5, 44.5]. A song's year is taken to be within 30 years of
# the mean one: a guess that was made before any fit.
CENTRAL_YEAR = (FIRST_YEAR + LAST_YEAR) / 2
BOUNDS = Bounds(label=(LAST_YEAR - FIRST_YEAR) / 2, residual=30.0)


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
        ValueError: the file is missing or no table of songs (says which, and why), or nothing was
            fetched.
        ImportError: scikit-learn is needed and not installed.
    """
    if path is None:
        return _fetched()
    path = pathlib.Path(path)
    files = [path] if path.is_file() else [*path.glob("*.txt"), *path.glob("*.csv")]
    if len(files) != 1:
        what = f"{len(files)} text files in this folder" if files else "no such file"
        raise ValueError(f"{path}: {what}; {_SOURCE}")
    try:
        table = np.loadtxt(files[0], delimiter=",", ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{files[0]}: not a table of numbers ({error}); {_SOURCE}") from None
    return _checked(table, str(files[0]))


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
    table = np.column_stack([np.asarray(years, np.float64), np.asarray(inputs, np.float64)])
    return _checked(table, f"OpenML {_OPENML}")


def _checked(table: Float[np.ndarray, "songs columns"], origin: str) -> Songs:
    if table.shape[1] != NUM_FEATURES + 1:
        raise ValueError(f"{origin}: expected 91 columns, got {table.shape[1]}; {_SOURCE}")
    songs = Songs(table[:, 1:], table[:, 0])
    wrong = ~(np.isfinite(songs.inputs).all(axis=1) & np.isin(songs.years, _YEARS))
    if wrong.any():
        raise ValueError(
            f"{origin}: expected finite numbers and a year from {FIRST_YEAR} to {LAST_YEAR} in "
            f"each row, not so in row {wrong.argmax() + 1}; {_SOURCE}"
        )
    return songs


def _numbers(text: str) -> Float[np.ndarray, " numbers"]:
    return np.array([float(word) for word in text.split()])


CENTRES = _numbers(
    """
    45 25 -1.9 5.7 -3.6 -9.9 1.6 -0.36 4.6 3.8 -1.1 3 30 2600 2200 1800 950 1000 620 610 350 380 390
    270 43 -45 -240 -26 100 64 -12 46 -6.6 9 -19 58 -120 370 -210 -46 -19 42 -55 0.2 2.3 -20 130 180
    -160 -10 14 24 33 -18 -1.5 70 44 10 43 -37 7 -3.7 -8.3 -98 -91 -34 -20 45 0.18 7.8 19 -32 -4.1
    -1.3 -21 -5.7 -65 -14 -120 18 6.5 -110 39 57 0.51 30 -14 2.9 31 0.56
    """
)
SCALES = _numbers(
    """
    4.1 39 29 19 17 12 12 8.4 8.9 6.5 5.7 7.2 20 1900 1300 1100 440 580 240 260 120 140 230 110 110
    710 670 310 170 140 97 52 59 74 47 95 430 490 260 190 130 100 73 40 42 71 490 250 210 130 95 73
    91 51 52 270 270 270 130 140 67 48 30 270 200 110 130 170 74 29 300 190 180 83 62 21 210 170 280
    100 20 200 180 130 17 150 170 14 160 19
    """
)


def draw(songs: Songs, num_songs: int, *, together: int = 1, key: Key[Array, ""]) -> Split:
    """Different songs in random order, half of them to train on, in the file's units.

    Rows of one album are adjacent. If single songs are drawn from a short file, most albums
    have songs on both sides, and the test error says little about new albums; `together` keeps
    neighbours on one side, except albums that lie across the end of a stretch.

    Args:
        songs: the file's songs; the first 176 are left out.
        num_songs: the most to draw; all, up to an incomplete stretch, if there are fewer.
        together: number of consecutive songs that are drawn as one.
        key: random key of the order.
    """
    left = len(songs.years) - NUM_PUBLIC
    half = min(num_songs, left) // together // 2
    if half * together < 2:
        raise ValueError(
            f"expected at least {NUM_PUBLIC + max(4, 2 * together)} songs, the first {NUM_PUBLIC} "
            f"being public, and two stretches of {together}, got {len(songs.years)}, {num_songs} "
            "to be drawn"
        )
    order = np.asarray(jr.permutation(key, left // together))
    rows = NUM_PUBLIC + order[:, None] * together + np.arange(together)
    train, test = rows[:half].ravel(), rows[half : 2 * half].ravel()
    labels = songs.years - CENTRAL_YEAR
    return Split(songs.inputs[train], labels[train], songs.inputs[test], labels[test])


def publicly_scaled(split: Split) -> Split:
    """The columns in the public units."""
    return _scaled(split, CENTRES, SCALES)


def scaled_by_training_rows(split: Split) -> Split:
    """The columns standardised as PK does it, which no noise accounts for."""
    rows = split.train_inputs
    return _scaled(split, rows.mean(axis=0), rows.std(axis=0))


def _scaled(
    split: Split, centres: Float[np.ndarray, " dim"], scales: Float[np.ndarray, " dim"]
) -> Split:
    return split._replace(
        train_inputs=(split.train_inputs - centres) / scales,
        test_inputs=(split.test_inputs - centres) / scales,
    )
