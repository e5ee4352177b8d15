"""Folders like the real ones, of made-up data, small enough for a figure's smoke version."""

import csv
import gzip
import pathlib

import numpy as np

from experiments.private_kernel_learning import public_tables
from experiments.private_kernel_learning.year_prediction import CENTRES, SCALES
from experiments.private_regression.fresh_tables import FRESH

_ROWS, _COLUMNS = 600, 9


def idx(values: np.ndarray) -> bytes:
    """Bytes in the format of MNIST's files."""
    return (
        bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes() + values.tobytes()
    )


def rows(folder: pathlib.Path) -> None:
    """A Gaussian table, and images with one pixel always dark."""
    random = np.random.default_rng(5)
    inputs = random.normal(size=(_ROWS, _COLUMNS))
    labels = inputs.sum(axis=1) + random.normal(size=_ROWS)
    (folder / "uci").mkdir()
    np.savetxt(folder / "uci" / "concrete.txt", np.column_stack([inputs, labels]), fmt="%.5f")
    pixels = np.clip(128 + 30 * random.normal(size=(_ROWS, _COLUMNS)), 0, 255).astype(np.uint8)
    digits = np.clip(pixels.mean(axis=1) // 10 - 8, 0, 9).astype(np.uint8)
    images = np.insert(pixels, 4, 0, axis=1).reshape(_ROWS, 2, 5)
    (folder / "mnist").mkdir()
    for kind, values in (("images-idx3", images), ("labels-idx1", digits)):
        path = folder / "mnist" / f"train-{kind}-ubyte.gz"
        path.write_bytes(gzip.compress(idx(values)))


def digits(folder: pathlib.Path) -> None:
    """A pattern for each digit, in noise that lights few pixels."""
    random = np.random.default_rng(5)
    patterns = random.random((10, 28, 28)) < 0.06
    (folder / "mnist").mkdir()
    for part, count in (("train", 1200), ("t10k", 500)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        kept = random.random((count, 28, 28)) < 0.6
        stray = random.random((count, 28, 28)) < 0.03
        images = (200 * (patterns[labels] & kept | stray)).astype(np.uint8)
        for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
            (folder / "mnist" / f"{part}-{kind}-ubyte").write_bytes(idx(values))


def songs(folder: pathlib.Path) -> None:
    """Songs whose year depends on their timbre."""
    random = np.random.default_rng(8)
    moods, loads = random.normal(size=(700, 3)), random.normal(size=(3, 90))
    units = moods @ (loads * np.sqrt(0.7 / np.sum(loads**2, axis=0)))
    units += np.sqrt(0.3) * random.normal(size=(700, 90))
    years = 1996 + 14 * moods[:, 0] + 3 * random.normal(size=700)
    years = np.clip(np.round(years), 1922, 2011)
    table = np.column_stack([years, CENTRES + SCALES * units])
    (folder / "yearmsd").mkdir()
    np.savetxt(folder / "yearmsd" / "songs.csv", table, delimiter=",")


def census(folder: pathlib.Path) -> None:
    """Concrete whose strength is smooth in its mixture, and a census that money decides."""
    (folder / "uci").mkdir()
    random = np.random.default_rng(4)
    *ranges, _ = public_tables.RANGES["concrete"]
    low, high = np.array(ranges, float).T
    unit = random.uniform(-1, 1, (600, len(low)))
    strength = 50 + 30 * np.sin(2 * unit[:, 0]) + 3 * random.normal(size=600)
    table = np.column_stack([low + (unit + 1) / 2 * (high - low), strength])
    np.savetxt(folder / "uci" / "concrete.txt", table, fmt="%.5f")
    words = {place: text.split() for place, text in public_tables.ADULT_CATEGORIES.items()}
    numbers = public_tables._ADULT_NUMBERS
    lines = []
    for _ in range(600):
        row = ["?"] * 14
        for place, (least, most) in numbers.items():
            row[place] = str(random.integers(least, most + 1))
        for place, names in words.items():
            row[place] = random.choice([*names, "?"])
        lines.append(", ".join([*row, ">50K" if int(row[4]) > 11 else "<=50K"]))
    (folder / "uci" / "adult.csv").write_text("\n".join(lines) + "\n\n")


def leaderboard(
    folder: pathlib.Path, names=("carseats", "credit", "hpc"), count: int = 400
) -> None:
    """The census, and rows with the columns of fresh tables, whose first number decides."""
    census(folder)
    (folder / "rdatasets").mkdir()
    random = np.random.default_rng(6)
    for name in names:
        fresh, specs = FRESH[name], [*FRESH[name].columns.values()]
        is_number = [isinstance(spec, tuple) for spec in specs]
        cells = [
            random.uniform(spec[0], spec[1], count) if number else random.choice(spec, count)
            for spec, number in zip(specs, is_number, strict=True)
        ]
        low, high = specs[is_number.index(True)]
        labels = (cells[is_number.index(True)] - low) / (high - low)
        if fresh.classes:
            labels = np.array(fresh.classes)[(len(fresh.classes) * labels).astype(int)]
        else:
            labels = fresh.labels[1] * labels
        table = np.array(cells, object).T
        if not all(is_number):
            table[random.random(table.shape) < 0.01] = ""
        with (folder / "rdatasets" / f"{name}.csv").open("w", newline="") as file:
            lines = ([*row, label] for row, label in zip(table, labels, strict=True))
            csv.writer(file).writerows([[*fresh.columns, fresh.target], *lines])


# Makers of the data folder of a figure's smoke version; other figures make up their own data.
DATA = {
    "real_tables": rows,
    "fig01_mnist_width": digits,
    "fig02_mnist_samples": digits,
    "fig04_mnist_hyperparameters": digits,
    "fig03_year_prediction": songs,
    "uci_tables": census,
    "mnist_classification": digits,
    "steps_batches_clip": digits,
    "noise_over_steps": digits,
    "leaderboard": leaderboard,
    "stand_ins": digits,
    "networks": digits,
    "published_digits": digits,
}
