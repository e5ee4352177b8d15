"""Released functions as files: the same function comes back, and nothing else is let in."""

import dataclasses
import hashlib
import io
import json
import math
import os
import pathlib
import zipfile

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp import kernels
from jaxdp.core.files.sealed_arrays import DamagedError, sealed
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.release import model_file, model_parts
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


def test_names_of_columns_come_back(tmp_path):
    columns = kernels.Columns(("a", "b", "c"), "y", ("no", "yes"))
    dataclasses.replace(_function(), columns=columns).save(tmp_path / "model.npz")
    assert kernels.load(tmp_path / "model.npz").columns == columns
    with pytest.raises(ValueError, match="expected names of 3 columns, got 1"):
        dataclasses.replace(_function(), columns=kernels.Columns(("a",), "y"))


def test_every_public_feature_map_and_kernel_has_a_written_form():
    bases = AbstractFeatureMap, kernels.AbstractKernel
    public = {
        cls
        for name, cls in vars(kernels).items()
        if isinstance(cls, type) and issubclass(cls, bases) and not name.startswith("Abstract")
    }
    # What holds a user's function cannot be written.
    unwritten = public - set(model_parts.importable().values())
    assert {cls.__name__ for cls in unwritten} == {"CallableKernel"}


def test_a_users_own_class_is_not_saved_and_nothing_is_left_behind(tmp_path):
    class Squares(AbstractFeatureMap):
        dim = property(lambda self: DIM)  # pyright: ignore[reportAssignmentType]
        num_outputs = property(lambda self: DIM)  # pyright: ignore[reportAssignmentType]
        norm_bound = property(lambda self: math.inf)  # pyright: ignore[reportAssignmentType]

        def __call__(self, inputs):
            return inputs**2

    with pytest.raises(TypeError, match="a Squares has no written form"):
        _function(base=Squares()).save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    _function().save(path)
    before = path.read_bytes()

    def fail(*arguments):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            _function(seed=1).save(path, overwrite=True)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["model.npz"]
    _function(seed=1).save(path, overwrite=True)
    assert path.read_bytes() != before


@pytest.mark.parametrize("taken", ["file", "dangling link", "folder"])
def test_a_release_that_was_paid_for_is_not_overwritten_unasked(tmp_path, taken):
    path = tmp_path / "model.npz"
    if taken == "file":
        _function().save(path)
    elif taken == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "absent")
    before = path.read_bytes() if taken == "file" else None
    with pytest.raises(FileExistsError, match=r"model\.npz exists; .* overwrite=True"):
        _function(seed=1).save(path)
    assert [each.name for each in tmp_path.iterdir()] == ["model.npz"]
    if taken == "file":
        assert path.read_bytes() == before
        _function(seed=1).save(path, overwrite=True)
        assert path.read_bytes() != before


def test_a_file_that_appears_while_a_release_is_written_is_kept(tmp_path, monkeypatch):
    path, write = tmp_path / "model.npz", model_file.write_whole

    def overtaken(*arguments, **options):
        path.write_bytes(b"of another process")
        write(*arguments, **options)

    monkeypatch.setattr(model_file, "write_whole", overtaken)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        _function().save(path)
    assert path.read_bytes() == b"of another process"


def test_numpy_can_read_the_arrays_without_pickles(saved):
    with np.load(saved, allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
        assert (header["format"], header["version"]) == ("jaxdp released function", 3)
        assert all(archive[name].dtype.kind in "fiu" for name in archive.files)


def test_a_byte_changed_anywhere_is_noticed(saved, tmp_path):
    content = saved.read_bytes()
    generator = np.random.default_rng(0)
    places = {0, 1, len(content) - 1, len(content) - 64, len(content) - 65}
    places |= set(np.linspace(0, len(content) - 1, 300).astype(int).tolist())
    for place in sorted(places):
        changed = bytearray(content)
        changed[place] ^= int(generator.integers(1, 256))
        with pytest.raises(DamagedError, match="digest does not fit"):
            model_file._unpacked(bytes(changed))
    _assert_refused(bytes(changed), "not written by jaxdp", tmp_path)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 200, -1, -64, -1000])
def test_a_file_cut_off_is_refused(length, saved, tmp_path):
    _assert_refused(saved.read_bytes()[:length], "cut off|is empty", tmp_path)


def test_bytes_added_at_the_end_are_noticed(saved, tmp_path):
    _assert_refused(saved.read_bytes() + b"0", "cut off, or not written", tmp_path)


def test_foreign_files_are_refused(tmp_path):
    foreign = io.BytesIO()
    np.savez(foreign, a=np.ones(3))
    _assert_refused(foreign.getvalue(), "not written by jaxdp", tmp_path)
    _assert_refused(b"x, y\n1, 2\n" * 20, "not written by jaxdp", tmp_path)
    _assert_refused(sealed({"a": np.ones(3)}), "it has no header", tmp_path)
    objects = sealed({"header": np.asarray([{}], dtype=object)})
    _assert_refused(objects, "not an archive of arrays", tmp_path)


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        kernels.load(tmp_path / "absent.npz")


def _forged(path, change):
    """The file with changed contents and a digest that fits: what a digest cannot notice."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return sealed(arrays)


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
FORGERIES = {
    "another version": (_set("version", value=4), "expected version 2 or 3"),
    "another format": (_set("format", value="a sweep"), "but of 'a sweep'"),
    "unknown class": (_set("function", "class", value="os.system"), "unknown class, 'os.system'"),
    "another class": (_set("function", "class", value="kernels.Gaussian"), "expected the fields"),
    "not a function": (
        lambda header, arrays: (arrays.clear(), header.update(function={"tuple": []})),
        "is not a released function",
    ),
    "nothing": (_set("function", value={"tuple": []}), "belong to nothing"),
    "unknown kind": (_set("function", value={"eval": "1"}), "unknown kind of part"),
    "empty part": (_set("function", value={}), "unknown kind of part"),
    "list": (_set(*_FIELDS, "label_bound", value=[1]), "do not fit together|unknown"),
    "text as bound": (_set(*_FIELDS, "label_bound", value="1"), "do not fit together"),
    "seed as text": (_set(*_FIELDS, "public_seed", value="1"), "do not fit together"),
    "negative bound": (_set(*_FIELDS, "label_bound", value=-1.0), "do not fit together"),
    "delta": (_set(*_FIELDS, "delta", value=2.0), "do not fit together"),
    "delta as text": (_set(*_FIELDS, "delta", value="1e-5"), "delta of ReleasedFunction is not"),
    "a truth as bound": (_set(*_FIELDS, "label_bound", value=True), "label_bound of Rel.* is not"),
    "a number as assumption": (
        _set(*_FIELDS, "statement", "fields", "assumptions", value={"tuple": [1]}),
        "assumptions of Release is not",
    ),
    "a number as what was released": (
        _set(*_FIELDS, "statement", "fields", "what", value=1),
        "what of Release is not",
    ),
    "adjacency": (
        _set(*_FIELDS, "statement", "fields", "adjacency", value="none"),
        "do not fit together",
    ),
    "mechanism": (
        _set(*_FIELDS, "statement", "fields", "mechanism", "fields", "mu", value=-1.0),
        "do not fit together",
    ),
    "missing field": (lambda header, _: header["function"]["fields"].pop("delta"), "fields of"),
    "extra array": (
        lambda header, arrays: arrays.update(rows=np.ones((5, DIM))),
        "belong to nothing: rows",
    ),
    "missing array": (lambda header, arrays: arrays.pop("array_0"), "no array 'array_0'"),
    "shorter": (_array(lambda found: found[:-1]), "do not fit together"),
    "another shape": (_array(lambda found: found[None]), "do not fit together"),
    "NaN": (_array(lambda found: found * np.nan), "not finite"),
    "whole numbers": (_array(lambda found: found.astype(np.int32)), "do not fit together"),
    "text": (_array(lambda found: found.astype(str)), "to hold numbers"),
    "float64": (_array(lambda found: found.astype(np.float64)), "enable x64"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_parts_that_do_not_fit_are_refused_though_the_digest_does(forgery, saved, tmp_path):
    change, reason = FORGERIES[forgery]
    _assert_refused(_forged(saved, change), reason, tmp_path)


def test_compressed_archives_are_refused(saved, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", b"0" * 10**6)
        archive.comment = b"0" * 64
    body = buffer.getvalue()[:-64]
    digest = hashlib.sha256(body).hexdigest().encode()
    _assert_refused(body + digest, "compressed entries", tmp_path)


def _resealed(path, change):
    """The archive with changed members, by name, and a digest that fits."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = b"0" * 64
    return _sealed(buffer.getvalue()[:-64])


def _sealed(body):
    return body + hashlib.sha256(body).hexdigest().encode()


def _npy(header, content=b""):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, header)  # pyright: ignore[reportAttributeAccessIssue]
    return buffer.getvalue() + content


def _text(content):
    """A header of these bytes."""
    shape = {"descr": "|u1", "fortran_order": False, "shape": (len(content),)}
    return {"header.npy": _npy(shape, content)}


_HUGE = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
MEMBERS = {
    "bytes beside the arrays": ({"notes": b"abc"}, "entries that are no arrays"),
    "a path": ({"../../evil.npy": _npy({**_HUGE, "shape": (0,)})}, "belong to nothing"),
    "a header that is no array": ({"header": b"{}"}, "entries that are no arrays"),
    "more numbers than there is memory": ({"array_0.npy": _npy(_HUGE)}, "not an archive of arrays"),
    "fewer numbers than claimed": (
        {"array_0.npy": _npy({**_HUGE, "shape": (9,)}, b"0" * 8)},
        "not an archive of arrays",
    ),
    "pickles": (
        {"array_0.npy": _npy({**_HUGE, "descr": "|O", "shape": (1,)}, b"cos\nsystem\n.")},
        "not an archive of arrays",
    ),
    "lists within lists": (_text(b"[" * 10**5), "is no JSON"),
    "a number without end": (_text(b"1" * 10**4), "is no JSON"),
}


@pytest.mark.parametrize("members", MEMBERS)
def test_archives_that_are_forged_are_refused_and_nothing_else_is_raised(members, saved, tmp_path):
    changed, reason = MEMBERS[members]
    _assert_refused(_resealed(saved, lambda found: found.update(changed)), reason, tmp_path)


def test_two_entries_of_one_name_are_refused(saved, tmp_path):
    buffer = io.BytesIO(saved.read_bytes())
    with zipfile.ZipFile(buffer, "a") as archive:
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("header.npy", archive.read("header.npy"))
        archive.comment = b"0" * 64
    _assert_refused(_sealed(buffer.getvalue()[:-64]), "entries of the same name", tmp_path)


def test_the_same_members_under_a_new_digest_are_read(saved, tmp_path):
    """So that what is refused above is refused for what was changed."""
    path = tmp_path / "again.npz"
    path.write_bytes(_resealed(saved, lambda found: None))
    assert np.array_equal(kernels.load(path)(INPUTS), _function()(INPUTS))


def test_any_byte_changed_under_a_digest_that_fits_raises_a_value_error_or_nothing(saved, tmp_path):
    body, generator = saved.read_bytes()[:-64], np.random.default_rng(3)
    path = tmp_path / "wrong.npz"
    refused = 0
    # The archive's own directory is at its end: half of the changes go there.
    places = generator.integers(0, len(body), 60).tolist()
    for place in (*places, *generator.integers(len(body) - 700, len(body), 60)):
        changed = bytearray(body)
        changed[place] ^= int(generator.integers(1, 256))
        path.write_bytes(_sealed(bytes(changed)))
        try:
            kernels.load(path)
        except ValueError:
            refused += 1
    assert refused > 60


@pytest.mark.parametrize("version", [1, 2.0, True, "1", None])
def test_another_version_is_refused(version, saved, tmp_path):
    _assert_refused(_forged(saved, _set("version", value=version)), "expected version 2", tmp_path)


def test_nothing_is_written_where_there_is_no_folder_or_no_file_could_stand(tmp_path):
    with pytest.raises(FileNotFoundError):
        _function().save(tmp_path / "absent" / "model.npz")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(OSError, match="to be a file, or not to exist"):
            _function().save(tmp_path / name, overwrite=True)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "pipe"]


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
