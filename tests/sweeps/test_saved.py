"""A store is read without the function that made it: what is finished, with its axes' values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import jaxdp
from jaxdp.sweeps import read_store


def _cells(x, kind, key):
    return {"value": x * {"one": 1.0, "ten": 10.0}[kind] + jnp.arange(2.0), "count": jnp.int32(3)}


@pytest.fixture
def swept(tmp_path):
    axes = {"x": jnp.asarray([0.5, 1.5, 4.0]), "kind": ("one", "ten")}
    settings = {"key": jax.random.key(0), "version": "1", "shard_size": 2, "quiet": True}
    return jaxdp.sweep(_cells, axes, store=tmp_path, **settings), tmp_path


def test_a_store_is_what_the_sweep_returned(swept):
    dataset, folder = swept
    found = read_store(folder)
    assert found.value.dims == dataset.value.dims
    xarray.testing.assert_equal(found, dataset.astype(float))
    assert found.kind.data.tolist() == ["one", "ten"]


def test_what_is_damaged_or_missing_is_nan_and_stays_as_it_is(swept):
    dataset, folder = swept
    *_, damaged, missing = sorted(folder.glob("shard-*.npz"))
    damaged.write_bytes(damaged.read_bytes()[:-70])
    missing.unlink()
    found = read_store(folder)
    known = np.isfinite(found["count"])
    assert int(known.sum()) == 3
    np.testing.assert_array_equal(found.value.data[known], dataset.value.data[known])
    assert damaged.exists()


def test_without_their_values_axes_have_indices(swept):
    _, folder = swept
    (folder / "axes.npz").unlink()
    assert read_store(folder).x.data.tolist() == [0, 1, 2]


def test_a_sweep_goes_on_with_a_store_that_has_no_values_of_its_axes(swept):
    dataset, folder = swept
    (folder / "axes.npz").write_bytes(b"")
    (folder / "sweep.json").unlink()
    axes = {"x": jnp.asarray([0.5, 1.5, 4.0]), "kind": ("one", "ten")}
    settings = {"key": jax.random.key(0), "version": "1", "quiet": True}
    again = jaxdp.sweep(_cells, axes, store=folder, **settings)
    xarray.testing.assert_equal(again, dataset)
    assert read_store(folder).x.data.tolist() == [0.5, 1.5, 4.0]


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(ValueError, match="folder of a sweep"):
        read_store(tmp_path)
