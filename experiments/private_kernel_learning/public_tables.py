"""Real tables in public units: columns and targets by ranges that no record of a table moves.

The ranges are round numbers for what the columns are (physical limits, scales of questionnaires);
whatever lies beyond is clipped. They were typed with the sets' documentation and the tables' own
extremes in view, in place of a curator's prior knowledge.
Rows of one table share a split's randomness and nothing else.
"""

import csv
import math
import pathlib
from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key

from experiments.private_kernel_learning.synthetic import Split
from experiments.private_kernel_learning.year_prediction import (
    BOUNDS,
    CENTRAL_YEAR,
    NUM_PUBLIC,
    publicly_scaled,
    read_year_prediction,
)
from experiments.tables import read

_PI = math.pi
# Ranges of the inputs in the order of the columns, and of the target, the last one.
RANGES = {
    # kg in a cubic metre of mixture, days; MPa.
    "concrete": [
        *((0, 600), (0, 400), (0, 250), (100, 300), (0, 40), (700, 1200), (500, 1000), (0, 365)),
        (0, 100),
    ],
    # Angles of a robot arm's joints; distance of its hand from a point within reach.
    "kin8nm": [*[(-_PI / 2, _PI / 2)] * 8, (0, 2)],
    # Degrees Celsius, cm Hg, mbar, per cent; MW of a plant that is built for 480.
    "power-plant": [(0, 40), (20, 90), (980, 1040), (0, 100), (400, 500)],
    # Areas in square angstrom, fractions, penalties; distance in angstrom, 0 to 21 by design.
    "protein-tertiary-structure": [
        *((0, 50_000), (0, 20_000), (0, 1), (0, 500), (0, 6e6), (0, 600), (0, 20_000), (0, 350)),
        *((0, 100), (0, 21)),
    ],
    # g or mg in a litre, pH, volume per cent; marks from 0 to 10.
    "wine-quality-red": [
        *((4, 16), (0, 2), (0, 1), (0, 16), (0, 0.7), (0, 80), (0, 300), (0.98, 1.01), (2.5, 4.5)),
        *((0, 2), (8, 15), (0, 10)),
    ],
}
# Census of 1994: the categories that its codebook lists. "?" is none of them.
_ADULT_NUMBERS = {0: (17, 90), 4: (1, 16), 10: (0, 100_000), 11: (0, 5000), 12: (0, 100)}
ADULT_CATEGORIES = {
    1: "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay "
    "Never-worked",
    5: "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    6: "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
    "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
    "Priv-house-serv Protective-serv Armed-Forces",
    7: "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    8: "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    9: "Female Male",
    13: "United-States",
}
_ADULT_CLASS = ">50K"
REGRESSION, CLASSIFICATION = "regression", "classification"


class PublicTable(NamedTuple):
    """A table whose units are public.

    Attributes:
        inputs: about within [-1, 1] each.
        labels: less the middle of their range, clipped to it; or -1 and +1.
        label_bound: half the range; 1 for classes.
        num_variables: columns before categories were spread over indicators.
        kind: "regression" or "classification".
    """

    inputs: Float[np.ndarray, "rows dim"]
    labels: Float[np.ndarray, " rows"]
    label_bound: float
    num_variables: int
    kind: str

    @property
    def scale(self) -> float:
        """Scale of the Gaussian kernel: the root of the number of variables."""
        return math.sqrt(self.num_variables)

    def split(self, test_share: float, *, key: Key[Array, ""]) -> Split:
        """Its rows in random order, the first share of them to test on."""
        order = np.asarray(jr.permutation(key, len(self.labels)))
        count = round(test_share * len(order))
        test, train = order[:count], order[count:]
        return Split(self.inputs[train], self.labels[train], self.inputs[test], self.labels[test])


def load(data: pathlib.Path, name: str, most: int | None = None) -> PublicTable:
    """A table of `uci/`, "year" of `yearmsd/`, or "adult"."""
    if name == "adult":
        return _adult(data / "uci" / "adult.csv", most)
    if name == "year":
        return _year(data / "yearmsd", most)
    table = read(data, name)
    *ranges, target = RANGES[name]
    low, high = np.array(ranges, float).T
    inputs = np.clip((table.inputs[:most] - low) / (high - low) * 2 - 1, -1, 1)
    labels = np.clip(table.labels[:most], *target) - sum(target) / 2
    return PublicTable(inputs, labels, (target[1] - target[0]) / 2, len(ranges), REGRESSION)


def _year(folder: pathlib.Path, most: int | None) -> PublicTable:
    """Songs after those that the public units were read from."""
    songs = read_year_prediction(folder)
    count = len(songs.years) - NUM_PUBLIC
    rows = slice(NUM_PUBLIC, NUM_PUBLIC + min(count, most or count))
    inputs, labels = songs.inputs[rows], songs.years[rows] - CENTRAL_YEAR
    scaled = publicly_scaled(Split(inputs, labels, inputs[:0], labels[:0]))
    bound = BOUNDS.label
    return PublicTable(scaled.train_inputs, labels, bound, inputs.shape[1], REGRESSION)


def _adult(path: pathlib.Path, most: int | None) -> PublicTable:
    """Who earns more than 50,000 dollars: numbers by their ranges, an indicator a category."""
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if row][:most]
    columns = list(zip(*rows, strict=True))
    parts = []
    for column, (low, high) in _ADULT_NUMBERS.items():
        values = np.array(columns[column], float)
        parts.append(np.clip((values - low) / (high - low) * 2 - 1, -1, 1)[:, None])
    for column, words in ADULT_CATEGORIES.items():
        parts.append(np.array(columns[column])[:, None] == np.array(words.split()))
    labels = np.where(np.array(columns[-1]) == _ADULT_CLASS, 1.0, -1.0)
    count = len(_ADULT_NUMBERS) + len(ADULT_CATEGORIES)
    return PublicTable(
        np.concatenate(parts, axis=1, dtype=float), labels, 1.0, count, CLASSIFICATION
    )
