"""Names of columns go with what is learnt; text is refused by the name of its column."""

import dataclasses
import json
import math

import numpy as np
import pandas
import pytest

from jaxdp import kernels, losses
from jaxdp.core.files.sealed_arrays import sealed, unsealed
from jaxdp.kernels import published
from jaxdp.kernels.release.columns import columns_of
from jaxdp.kernels.release.table_inputs import real_array

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.uniform(size=(60, 2)) * [1.0, 3.0]
LABELS = np.where(TABLE[:, 0] > 0.5, 1.0, -1.0)
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1, "noise_seed": 2**200 + 3}
KERNEL = kernels.Gaussian(1.0)
SIZES = {"num_projections": 8, "num_features": 16}
RIDGE = kernels.PrivateKernelRidge(KERNEL, label_bound=1.0, input_bound=math.inf, **SIZES)
LEARNERS = {
    "ridge": RIDGE,
    "classifier": kernels.PrivateKernelClassifier(KERNEL, input_bound=math.inf, **SIZES),
    "Algorithm1": published.Algorithm1(KERNEL, 8, 0.1, 1.0, num_features=16),
    "Algorithm2": published.Algorithm2(KERNEL, 8, 0.1, losses.Logistic(), num_features=16),
    "Algorithm3": published.Algorithm3(KERNEL, 8, 0.1, 1.0),
    "Algorithm5": published.Algorithm5(KERNEL, 0.1, losses.Logistic()),
    "NormClippedAlgorithm1": published.NormClippedAlgorithm1(KERNEL, 8, 0.1, 1.0, num_features=16),
}


class Frame:
    """As much of a data frame as is asked for: columns by name."""

    def __init__(self, **columns):
        self._columns = {name: np.asarray(column) for name, column in columns.items()}
        self.columns = list(columns)
        self.shape = (len(next(iter(self._columns.values()))), len(columns))
        self.ndim = 2

    def __array__(self, dtype=None, copy=None):
        return np.stack(list(self._columns.values()), axis=1).astype(dtype or object)

    def __getitem__(self, names):
        if isinstance(names, str):
            return self._columns[names]
        return Frame(**{name: self._columns[name] for name in names})


FRAME = Frame(a=TABLE[:, 0], b=TABLE[:, 1])


@pytest.mark.parametrize("name", LEARNERS)
def test_a_release_takes_the_columns_of_a_frame_by_name(name):
    release = LEARNERS[name].fit(FRAME, LABELS, **BUDGET)
    by_place = np.asarray(release(TABLE))
    np.testing.assert_array_equal(release(FRAME), by_place)
    np.testing.assert_array_equal(release(FRAME[["b", "a"]]), by_place)
    # The order matters: by their places they would be others.
    assert np.abs(np.asarray(release(TABLE[:, ::-1])) - by_place).max() > 1e-3
    with pytest.raises(ValueError, match="columns of the fit, a, b, got a table without 'b'"):
        release(FRAME[["a"]])
    more = Frame(a=TABLE[:, 0], b=TABLE[:, 1], c=LABELS)
    with pytest.raises(ValueError, match="with 'c' besides"):
        release(more)


@pytest.mark.parametrize(
    ("fitted", "given"),
    [
        ([0, 1], [1, 0]),
        ([1, 0], [0, 1]),
        ([2019, 2020], [2020, 2019]),
        ([("x", 2019), ("x", 2020)], [("x", 2020), ("x", 2019)]),
        (pandas.to_datetime(["2020-01", "2020-02"]), pandas.to_datetime(["2020-02", "2020-01"])),
    ],
    ids=["counted", "counted backwards", "years", "pairs", "dates"],
)
def test_names_of_every_kind_are_found_in_another_order(fitted, given):
    release = RIDGE.fit(pandas.DataFrame(TABLE, columns=fitted), LABELS, **BUDGET)
    backwards = pandas.DataFrame(TABLE[:, ::-1], columns=given)
    np.testing.assert_array_equal(release(backwards), release(TABLE))
    assert np.abs(np.asarray(release(TABLE[:, ::-1])) - np.asarray(release(TABLE))).max() > 1e-3


def test_columns_without_names_are_taken_by_position():
    nameless = RIDGE.fit(TABLE, LABELS, **BUDGET)
    np.testing.assert_array_equal(nameless(FRAME), nameless(TABLE))
    named = RIDGE.fit(FRAME, LABELS, **BUDGET)
    np.testing.assert_array_equal(named(pandas.DataFrame(TABLE)), named(TABLE))


def test_names_are_saved_and_a_file_of_the_version_before_is_read(tmp_path):
    release, path = RIDGE.fit(FRAME, LABELS, **BUDGET), tmp_path / "model.npz"
    assert release.columns == kernels.Columns(("a", "b"))
    release.save(path)
    np.testing.assert_array_equal(kernels.load(path)(FRAME[["b", "a"]]), release(TABLE))
    arrays = unsealed(path.read_bytes())
    header = json.loads(arrays["header"].tobytes())
    assert header["version"] == 3
    header["version"] = 2
    header["function"]["fields"]["columns"] = None
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    path.write_bytes(sealed(arrays))
    older = kernels.load(path)
    assert older.columns is None
    np.testing.assert_array_equal(older(TABLE), release(TABLE))


def test_arrays_and_numbered_columns_have_no_names():
    assert columns_of(TABLE) is None
    numbered = Frame(a=LABELS)
    numbered.columns = [0]
    assert columns_of(numbered) is None
    numbered.columns = ["a", 1]
    numbered.shape = (60, 2)
    with pytest.raises(TypeError, match="all texts, got 1 too"):
        columns_of(numbered)
    assert RIDGE.fit(TABLE, LABELS, **BUDGET).columns is None


def test_a_label_that_is_among_the_inputs_is_refused_before_anything_is_spent():
    labels = dataclasses.make_dataclass("Series", [("name", str)])("a")
    with pytest.raises(ValueError, match="names that differ, got 'a' twice"):
        RIDGE.fit(FRAME, labels, **BUDGET)


TEXTS = ["1.5"] * 59 + ["secret"]


@pytest.mark.parametrize(
    ("inputs", "column"),
    [
        (Frame(a=TABLE[:, 0], city=np.asarray(TEXTS, object)), "'city'"),
        (np.stack([TABLE[:, 0], np.asarray(TEXTS, object)], axis=1), "1"),
        ([[1.0, "1.5"]] * 60, "1"),
        (np.asarray([["1", "2"]] * 60), "0"),
    ],
    ids=["frame", "objects", "lists", "texts"],
)
def test_text_is_refused_by_the_name_of_its_column_and_not_shown(inputs, column):
    message = rf"expected inputs of real numbers, got text in column {column}"
    with pytest.raises(TypeError, match=message) as refused:
        RIDGE.fit(inputs, LABELS, **BUDGET)
    assert "secret" not in str(refused.value)
    release = RIDGE.fit(TABLE, LABELS, **BUDGET)
    with pytest.raises(TypeError, match=message):
        release(inputs)


def test_labels_and_objects_that_are_no_numbers_are_refused():
    with pytest.raises(TypeError, match="expected labels of real numbers, got text"):
        RIDGE.fit(TABLE, ["1"] * 60, **BUDGET)
    cells = TABLE.astype(object)
    np.testing.assert_array_equal(real_array("inputs", cells), TABLE)
    cells[3, 1] = 1j
    with pytest.raises(TypeError, match="got other things in column 1"):
        real_array("inputs", cells)


@pytest.mark.parametrize(
    ("cells", "came"),
    [
        (pandas.array([1, None], dtype="Int64"), "missing values or other things"),
        (pandas.to_timedelta([1, 2], unit="D"), "other things in column 'length'"),
    ],
    ids=["missing", "lengths of time"],
)
def test_cells_of_pandas_that_are_no_numbers_are_named(cells, came):
    with pytest.raises(TypeError, match=f"expected inputs of real numbers, got {came}"):
        real_array("inputs", pandas.DataFrame({"length": cells, "b": [1.0, 2.0]}))
