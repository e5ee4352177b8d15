"""Released functions as files: the same function comes back, and nothing else is let in."""

import dataclasses
import json
import math
import pathlib

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp import kernels
from jaxdp.core.files import archived, as_header
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.release import model_file
from jaxdp.kernels.release.released_function import FitRecord
from jaxdp.privacy import Composition, GaussianMechanism, Release, StatedBudget, Unproved

DIM = 3
INPUTS = np.random.default_rng(0).uniform(size=(50, DIM)).astype(np.float32)


def _function(mechanism=None, published=None, base=None, seed=0):
    base_key, coefficients_key = jr.split(jr.key(seed))
    base = base or kernels.SamplePaths.sample(kernels.Gaussian(1.0), 6, 8, DIM, key=base_key)
    features = kernels.ClippedFeatures(kernels.NormScaling(base, 2.5), 1.0)
    statement = Release(
        "sums", "replace-one", mechanism or GaussianMechanism(0.3), ("assumed: ε, n",), published
    )
    return kernels.ReleasedFunction(
        features=features,
        coefficients=jr.normal(coefficients_key, (features.num_outputs,)),
        intercept=jnp.asarray(0.1),
        label_bound=1.5,
        public_seed=2**62,
        statement=statement,
        delta=1e-5,
        record=FitRecord(70, "a curve", (("a", "0 to 1"),), ((0.5, 0.1, "a sum"),)),
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.npz"
    _function().save(path)
    return path


def _assert_refused(content, reason, tmp_path):
    path = tmp_path / "wrong.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        kernels.load(path)
    assert str(path) in str(caught.value)


def test_the_same_function_comes_back_bit_by_bit(saved):
    function, loaded = _function(), kernels.load(saved)
    assert np.array_equal(function(INPUTS), loaded(INPUTS))
    assert loaded.cost == function.cost
    assert loaded.public_seed == 2**62
    assert repr(loaded) == repr(function)
    assert jaxdp.account(loaded, delta=1e-3) == jaxdp.account(function, delta=1e-3)


@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianMechanism(math.inf),
        Composition((GaussianMechanism(0.1), Unproved("it has no proof"))),
        Unproved("a reason with ünicode"),
    ],
)
def test_every_cost_comes_back(mechanism, tmp_path):
    function = _function(mechanism, StatedBudget(1.0, 1e-5))
    function.save(tmp_path / "model")
    assert kernels.load(tmp_path / "model").cost == function.cost


def test_every_public_feature_map_and_kernel_has_a_written_form():
    bases = AbstractFeatureMap, kernels.AbstractKernel
    public = {
        cls
        for name, cls in vars(kernels).items()
        if isinstance(cls, type) and issubclass(cls, bases) and not name.startswith("Abstract")
    }
    # What holds a user's function cannot be written.
    unwritten = public - set(model_file.importable().values())
    assert {cls.__name__ for cls in unwritten} == {"FunctionFeatures"}


def test_a_release_that_was_paid_for_is_not_overwritten_unasked(tmp_path):
    path = tmp_path / "model.npz"
    _function().save(path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"model\.npz exists; .* overwrite=True"):
        _function(seed=1).save(path)
    assert path.read_bytes() == before
    _function(seed=1).save(path, overwrite=True)
    assert path.read_bytes() != before


def test_foreign_files_are_refused(tmp_path):
    _assert_refused(archived({"a": np.ones(3)}), "it has no header", tmp_path)
    _assert_refused(b"x, y\n1, 2\n" * 20, "damaged, or no archive", tmp_path)
    objects = archived({"header": np.asarray([{}], dtype=object)})
    _assert_refused(objects, "pickled objects in header", tmp_path)


def _forged(path, change):
    """The file with changed contents, and checksums that fit."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    return archived(arrays | {"header": as_header(header)})


def _set(*path, value):
    def change(header, arrays):
        part = header
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = value

    return change


def _array(change):
    def changed(header, arrays):
        name = header["function"]["fields"]["coefficients"]["array"]
        arrays[name] = change(arrays[name])

    return changed


_FIELDS = "function", "fields"
_STATEMENT = *_FIELDS, "statement", "fields"
# One for each thing that is looked at; test_model_fuzz makes thousands of others.
FORGERIES = {
    "an earlier version": (_set("version", value=5), "expected version 6 .* got 5: fit again"),
    "a version that is no number": (_set("version", value=True), "expected version 6"),
    "another format": (_set("format", value="a sweep"), "but of 'a sweep'"),
    "unknown class": (_set("function", "class", value="os.system"), "unknown class, 'os.system'"),
    "not a function": (
        lambda header, arrays: (arrays.clear(), header.update(function={"tuple": []})),
        "is not a released function",
    ),
    "unknown kind": (_set("function", value={"eval": "1"}), "unknown kind of part"),
    "text as bound": (_set(*_FIELDS, "label_bound", value="1"), "do not fit together"),
    "a number as assumption": (
        _set(*_STATEMENT, "assumptions", value={"tuple": [1]}),
        "assumptions of Release is not",
    ),
    "adjacency": (_set(*_STATEMENT, "adjacency", value="none"), "do not fit together"),
    "mechanism": (_set(*_STATEMENT, "mechanism", "fields", "mu", value=-1.0), "do not fit"),
    "missing field": (lambda header, _: header["function"]["fields"].pop("delta"), "fields of"),
    "extra array": (lambda header, arrays: arrays.update(rows=np.ones(5)), "to nothing: rows"),
    "no rows": (_set(*_FIELDS, "record", "fields", "num_samples", value=0), "num_samples >= 1"),
    "noise of others": (
        _set(*_FIELDS, "record", "fields", "noise_std", value={"tuple": [1.0]}),
        "noise_std of 6 coefficients, got 1",
    ),
    "a number as forecast": (
        _set(*_FIELDS, "record", "fields", "forecast", value=1),
        "forecast of FitRecord is not",
    ),
    "NaN": (_array(lambda found: found * np.nan), "not finite"),
    "text": (_array(lambda found: found.astype(str)), "to hold numbers"),
    "another order of bytes": (_array(lambda found: found.astype(">f4")), "to hold numbers, got >"),
    "float64": (_array(lambda found: found.astype(np.float64)), "enable x64"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_parts_that_do_not_fit_are_refused_though_the_checksums_do(forgery, saved, tmp_path):
    change, reason = FORGERIES[forgery]
    _assert_refused(_forged(saved, change), reason, tmp_path)


def test_the_card_is_in_the_file_and_says_what_the_function_and_its_record_do(saved):
    card = kernels.load(saved).card
    assert card == _function().card
    for text in ("a curve", "a: 0 to 1", "50.0%  a sum", "replace-one", "70", "assumed: ε, n"):
        assert text in card
    assert f"{_function().cost.epsilon:.4g}" in card
    with np.load(saved) as archive:
        record = json.loads(archive["header"].tobytes())["function"]["fields"]["record"]
    assert record["fields"]["num_samples"] == 70


def test_chances_are_told_of_log_odds_alone():
    with pytest.raises(ValueError, match="expected a function of log odds"):
        _function().predict_proba(INPUTS)
    np.testing.assert_array_equal(_function().predict(INPUTS), _function()(INPUTS))


def test_classes_have_an_intercept_each_or_one_for_all(tmp_path):
    function, levels = _function(), np.array([0.5, -1.0, 2.0], np.float32)
    parts = {"coefficients": np.eye(function.features.num_outputs, 3), "label_bound": None}
    plain = dataclasses.replace(function, **parts, intercept=0.0)
    levelled = dataclasses.replace(function, **parts, intercept=levels)
    np.testing.assert_allclose(levelled(INPUTS), plain(INPUTS) + levels, rtol=1e-6)
    levelled.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(kernels.load(tmp_path / "model.npz")(INPUTS), levelled(INPUTS))
    for wrong in (levels[:2], levels[None]):
        with pytest.raises(ValueError, match=r"expected intercept of shape \(3\)"):
            dataclasses.replace(function, **parts, intercept=wrong)


def test_a_file_does_not_grow_with_the_records(tmp_path):
    """No training row is in it, nor an expansion on the training rows."""
    learner = kernels.PrivateKernelRidge(
        kernels.Gaussian(1.0), 6, 8, label_bound=1.0, input_bound=2.0
    )
    sizes = set()
    for count in (20, 200):
        table = np.random.default_rng(1).uniform(size=(count, DIM))
        release = learner.fit(table, table[:, 0], epsilon=1.0, delta=1e-5, public_seed=1)
        release.save(tmp_path / "model.npz", overwrite=True)
        sizes.add(round(pathlib.Path(tmp_path / "model.npz").stat().st_size, -2))
    assert len(sizes) == 1
