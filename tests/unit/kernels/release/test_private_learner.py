"""The one fit of all private learners: what it checks, and what becomes of a data frame."""

import hashlib
import math
import warnings

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from helpers import Unreadable

import jaxdp
from experiments.private_kernel_learning import published
from jaxdp import kernels, losses
from jaxdp.kernels.release.private_learner import FitRequest
from jaxdp.kernels.release.released_function import FitRecord
from jaxdp.kernels.release.tables import real_array
from jaxdp.regression.methods import HuberLearner

TABLE = np.random.default_rng(0).uniform(size=(60, 2)) * [1.0, 3.0]
LABELS = np.where(TABLE[:, 0] > 0.5, 1.0, -1.0)
NOISE_SEED = 2**200 + 3
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1, "noise_seed": NOISE_SEED}
KERNEL, LOSS = kernels.Gaussian(1.0), losses.Logistic()
PATHS = {"num_projections": 4, "num_features": 8, "input_bound": math.inf}
RIDGE = kernels.PrivateKernelRidge(KERNEL, label_bound=1.0, **PATHS)
LEARNERS = {
    "ridge": RIDGE,
    "classifier": kernels.PrivateKernelClassifier(KERNEL, **PATHS),
    "regressor": HuberLearner(KERNEL, loss=losses.Huber(0.5), **PATHS),
    "Algorithm1": published.Algorithm1(KERNEL, 4, 0.1, 1.0, num_features=8),
    "Algorithm2": published.Algorithm2(KERNEL, 4, 0.1, LOSS, num_features=8),
    "Algorithm3": published.Algorithm3(KERNEL, 4, 0.1, 1.0),
    "Algorithm4": published.Algorithm4(KERNEL, 4, 0.1, LOSS),
    "Algorithm5": published.Algorithm5(KERNEL, 0.1, LOSS),
    "CanonicalEstimator": published.CanonicalEstimator(
        lambda rows: jnp.cos(math.pi * rows[:, :1] * jnp.arange(1, 5)[None]), 4, 1.0, 3.0
    ),
}


def _request(**changes):
    given = {**BUDGET, "inputs": TABLE, "labels": LABELS, "warning": None, **changes}
    return FitRequest.checked(**given)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"epsilon": 0.0, "public_seed": "a"}, ValueError, "epsilon"),
        ({"delta": 1.0, "public_seed": "a"}, ValueError, "delta"),
        ({"public_seed": "a", "noise_seed": -1}, TypeError, "public_seed"),
        ({"noise_seed": -1}, ValueError, "noise_seed"),
        ({"noise_seed": 1}, ValueError, "noise_seed to differ from public_seed"),
        ({}, OSError, "looked at"),
    ],
    ids=["epsilon", "delta", "public seed", "noise seed", "one seed", "nothing"],
)
def test_budget_and_seeds_are_checked_in_this_order_before_the_data(name, wrong, error, message):
    with pytest.raises(error, match=message):
        LEARNERS[name].fit(Unreadable(), LABELS, **{**BUDGET, **wrong})


@pytest.mark.parametrize("name", ["ridge", "Algorithm4", "Algorithm5", "CanonicalEstimator"])
def test_a_budget_in_float32_is_the_number_that_it_stands_for(name):
    epsilon, rows = np.float32(2.3), jnp.asarray(TABLE[:3])
    first, second = (
        LEARNERS[name].fit(TABLE, LABELS, **{**BUDGET, "epsilon": value})
        for value in (epsilon, float(epsilon))
    )
    np.testing.assert_array_equal(first(rows), second(rows))
    assert first.release() == second.release()


def test_a_request_shows_neither_records_nor_the_secret_seed():
    shown = f"{_request()!r} {_request()}"
    assert str(NOISE_SEED) not in shown
    assert "array" not in shown
    assert f"{TABLE[0, 0]:.4f}" not in shown


def test_the_noise_of_a_request_is_that_of_its_hash():
    """Literally: a seed gives the noise that it gave in every version before."""
    hashed = hashlib.sha256(b"((60, 2), 1.0, 1e-05, 1)")
    hashed.update(TABLE.tobytes())
    hashed.update(LABELS.tobytes())
    noise = _request(epsilon=1, public_seed=np.int64(1)).noise()
    assert (noise.seed, noise.context) == (NOISE_SEED, hashed.digest())
    # What else is hidden gives noise of its own.
    assert _request().noise(TABLE[:, :1]).context != hashed.digest()
    assert _request(noise_seed=None).noise().seed is None


@pytest.mark.usefixtures("callers_line")
@pytest.mark.parametrize("name", ["ridge", "regressor"])
def test_labels_are_clipped_with_a_warning_and_the_release_does_not_say_so(name):
    labels = np.where(np.arange(60) < 3, 2 * LABELS, LABELS)
    with pytest.warns(UserWarning, match="3 of 60 labels are beyond label_bound = 1 and") as seen:
        release = LEARNERS[name].fit(TABLE, labels, **BUDGET)
    # It points at the line of the call.
    assert [warning.filename for warning in seen] == [__file__]
    clipped = LEARNERS[name].fit(TABLE, LABELS, **BUDGET)
    np.testing.assert_array_equal(release.coefficients, clipped.coefficients)
    assert (str(release), release.cost) == (str(clipped), clipped.cost)
    assert release.label_bound == 1
    request = _request(labels=2 * LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(request.truncated(1.0).targets, LABELS)
    np.testing.assert_array_equal(request.targets, 2 * LABELS)


FRAME = pandas.DataFrame(TABLE, columns=["a", "b"])


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
    more = FRAME.assign(c=LABELS)
    with pytest.raises(ValueError, match="with 'c' besides"):
        release(more)


def test_columns_without_names_are_taken_by_position():
    nameless = RIDGE.fit(TABLE, LABELS, **BUDGET)
    np.testing.assert_array_equal(nameless(FRAME), nameless(TABLE))
    named = RIDGE.fit(FRAME, LABELS, **BUDGET)
    np.testing.assert_array_equal(named(pandas.DataFrame(TABLE)), named(TABLE))


def test_names_and_the_record_of_the_fit_are_saved(tmp_path):
    release, path = RIDGE.fit(FRAME, LABELS, **BUDGET), tmp_path / "model.npz"
    assert release.columns == kernels.ColumnNames(("a", "b"))
    release.save(path)
    np.testing.assert_array_equal(kernels.load(path)(FRAME[["b", "a"]]), release(TABLE))
    assert kernels.load(path).record == release.record == FitRecord(len(TABLE))
    assert "n, public" in release.card


TEXTS = ["1.5"] * 59 + ["secret"]


@pytest.mark.parametrize(
    ("inputs", "column"),
    [
        (FRAME[["a"]].assign(city=TEXTS), "'city'"),
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


def test_a_large_delta_is_warned_of_before_the_fit_and_by_account_and_not_by_its_result(tmp_path):
    budget, path = BUDGET | {"delta": 1 / len(TABLE)}, tmp_path / "model.npz"
    with pytest.raises(UserWarning, match="is at least 1/n"):
        RIDGE.fit(TABLE, LABELS, **budget)
    with pytest.warns(UserWarning, match="is at least 1/n") as told:
        release = RIDGE.fit(TABLE, LABELS, **budget)
    assert len(told) == 1
    # Of a fit that is paid for nothing may raise, also if warnings are errors.
    release.save(path)
    for one in (release, kernels.load(path)):
        assert one.cost.epsilon <= budget["epsilon"]
        assert f"{one}{one!r}{one.card}"
        with pytest.warns(UserWarning, match=f"at least 1/n = {1 / len(TABLE):.2g}"):
            jaxdp.account(one, delta=budget["delta"])
