"""The verb `sweep` in one process: its cells are those of a plain loop."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp.sweeps import cell_key
from jaxdp.sweeps.axes import as_axes

KEY = jr.key(7)
AXES = {"c": np.array([0.5, 1.0, 2.0]), "power": (0, 2), "seed": np.arange(4)}


def noisy(key, c, power, seed):
    """A random number and a vector, of all that a cell is given."""
    noise = jr.normal(key) + jr.normal(jr.fold_in(jr.key(0), seed))
    return {"value": c**power + noise, "powers": c ** jnp.arange(1 + power * 0 + 2)}


@pytest.fixture(scope="module")
def looped():
    """A Python loop over the cells: value (c, power, seed), powers (c, power, seed, 2)."""
    shape = tuple(map(len, AXES.values()))
    value, powers = np.zeros(shape), np.zeros((*shape, 3))
    for cell in itertools.product(*map(range, shape)):
        given = {name: AXES[name][i] for name, i in zip(AXES, cell, strict=True)}
        found = noisy(cell_key(KEY, *cell), **given)
        value[cell], powers[cell] = found["value"], found["powers"]
    return value, powers


@pytest.mark.parametrize("shard_size", [None, 5, 1000])
def test_a_sweep_is_a_loop_whatever_its_shards(looped, shard_size):
    dataset = jaxdp.sweep(noisy, AXES, key=KEY, shard_size=shard_size)
    assert dataset["value"].dims == ("c", "power", "seed")
    assert dataset["powers"].dims == ("c", "power", "seed", "powers_dim_0")
    np.testing.assert_allclose(dataset["value"], looped[0], rtol=2e-6)
    np.testing.assert_allclose(dataset["powers"], looped[1], rtol=2e-6)


def test_the_function_is_traced_once_for_each_looped_value(tmp_path):
    calls = []

    def counted(key, c, power):
        calls.append(power)
        return {"value": c**power}

    axes = {"c": np.linspace(1, 2, 40), "power": (1, 2, 3)}
    jaxdp.sweep(counted, axes, key=KEY, shard_size=7, store=tmp_path)
    assert sorted(calls) == [1, 2, 3]


def test_a_trajectory_becomes_labelled_records():
    def risk(key, clip_scale):
        risk = clip_scale * jnp.ones((2, 5)) + jr.normal(key, (2, 1))
        time, status = jnp.arange(5) / 4, jnp.zeros(2, int)
        return jaxdp.Trajectory(time, risk, 2 * risk[:, -1], status, {"clipped_fraction": -risk})

    dataset = jaxdp.sweep(risk, {"clip_scale": np.array([0.5, 1.0])}, key=KEY)
    assert dataset["risk"].dims == ("clip_scale", "run", "record")
    assert dataset["final_risk"].dims == ("clip_scale", "run")
    np.testing.assert_array_equal(dataset["clipped_fraction"], -dataset["risk"])
    assert "parameters" not in dataset
    np.testing.assert_allclose(dataset["time"], [0, 0.25, 0.5, 0.75, 1])
    assert dataset["risk"].attrs["units"] == "1"
    np.testing.assert_allclose(dataset["risk"][1], risk(cell_key(KEY, 1), 1.0).risk, rtol=1e-5)


def test_clocks_that_differ_are_a_variable():
    def clock(key, num_steps):
        time = jnp.arange(3) / num_steps
        zero = jnp.zeros(())
        return jaxdp.Trajectory(time, time, zero, jnp.zeros((), int), {})

    assert jaxdp.sweep(clock, {"num_steps": (2, 4)}, key=KEY)["time"].dims == (
        "num_steps",
        "record",
    )
    assert "time" in jaxdp.sweep(clock, {"num_steps": (4,)}, key=KEY).coords


def test_provenance_units_and_coordinates_are_kept(tmp_path):
    dataset = jaxdp.sweep(noisy, AXES, key=KEY)
    for name, values in AXES.items():
        np.testing.assert_array_equal(dataset[name], values)
    assert dataset["c"].attrs["units"] == "1"
    assert dataset.attrs["jax"] == jax.__version__
    assert dataset.attrs["function"].endswith("test_sweep.noisy")
    assert "cpu" in dataset.attrs["device"]
    assert dataset.attrs["key"] == "threefry2x32 0 7"
    # Everything in it can be written to a file and read back.
    import xarray

    dataset.to_netcdf(tmp_path / "sweep.nc", engine="h5netcdf")
    assert xarray.load_dataset(tmp_path / "sweep.nc", engine="h5netcdf").identical(dataset)


def _failing(key, c):
    raise ArithmeticError("the function's own")


C = {"c": np.arange(2.0)}
REFUSED = [
    ({"function": lambda key, c: c}, TypeError, "dict of arrays, such as .* Trajectory, got Dyn"),
    ({"function": lambda key, c: {"x": {"y": c}}}, TypeError, "expected x to be an array"),
    (
        {"function": lambda key, c: {"x": jnp.ones(c)}},
        TypeError,
        r"arrays \(c\) .*Give .* as a tuple",
    ),
    ({"function": lambda key, c: {"x": np.sqrt(c)}}, TypeError, "if, range.. and NumPy take none"),
    ({"function": lambda key, c: {}}, ValueError, "at least one array"),
    ({"function": lambda key, c: {"c": c}}, ValueError, "axes and of dimensions, got c, c"),
    (
        {"function": lambda key, c: {"x": jnp.ones(2), "x_dim_0": c}},
        ValueError,
        "names that differ, .* got x, x_dim_0, x_dim_0",
    ),
    (
        {"function": lambda key, size: {"x": jnp.ones(size)}, "axes": {"size": (2, 3)}},
        ValueError,
        r"'x': 'float32\(2,\)'} first.*at {'size': 3}",
    ),
    ({"function": _failing}, ArithmeticError, "the function's own"),
    ({"key": jr.PRNGKey(0)}, TypeError, "a key of the old kind"),
    ({"shard_size": 0}, ValueError, "shard_size >= 1"),
    ({"executor": ThreadPoolExecutor}, TypeError, "to have submit.*ThreadPoolExecutor"),
]


@pytest.mark.parametrize(("wrong", "kind", "message"), REFUSED)
def test_wrong_calls_are_refused(wrong, kind, message):
    with pytest.raises(kind, match=message):
        jaxdp.sweep(**({"function": lambda key, c: {"x": c}, "axes": C, "key": KEY} | wrong))


def test_traced_arguments_are_refused():
    with pytest.raises(TypeError, match="concrete key, got a traced one"):
        jax.jit(lambda key: jaxdp.sweep(noisy, AXES, key=key))(KEY)
    with pytest.raises(TypeError, match="axis c to be an array of concrete real"):
        jax.jit(lambda values: as_axes({"c": values}))(jnp.arange(2.0))
