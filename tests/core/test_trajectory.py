"""The answer type's own check."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp import Status, Trajectory
from jaxdp.core.trajectory import status_of


def _trajectory(status):
    status = jnp.asarray(status)
    zeros = jnp.zeros((*status.shape, 3))
    return Trajectory(jnp.arange(3.0), zeros, zeros[..., 0], status, {}, label="simulated")


def test_check_returns_the_trajectory_when_all_is_well():
    good = _trajectory([0, 0])
    assert good.check() is good


def test_check_says_how_many_runs_ended_badly_and_how():
    bad = _trajectory([Status.OK, Status.DIVERGED, Status.DIVERGED, Status.SOLVER_STOPPED])
    with pytest.raises(RuntimeError, match="of 4 runs 2 diverged, 1 solver stopped"):
        bad.check()


def test_status_sees_a_nan_anywhere_on_the_path():
    risk = jnp.zeros((3, 4)).at[1, 2].set(jnp.nan)
    final = jnp.asarray([0.0, 0.0, jnp.inf])
    assert status_of(risk, final).tolist() == [0, 1, 1]


def test_a_dataset_has_time_runs_and_units():
    xarray = pytest.importorskip("xarray")
    problem = jaxdp.LinearRegression.isotropic(5, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(1.0, 1.0, 1.0, 20)
    runs = jaxdp.simulate(
        problem, algorithm, key=jax.random.key(0), num_runs=3, records=4, keep_parameters=True
    )
    dataset = runs.to_xarray()
    assert isinstance(dataset, xarray.Dataset)
    assert dataset.sizes == {"run": 3, "time": 5, "parameter": 5}
    assert all(dataset[name].attrs["units"] == "1" for name in dataset.variables)
    assert dataset.attrs["label"] == runs.label
    np.testing.assert_array_equal(dataset.risk.sel(time=1.0), runs.risk[:, -1])
    np.testing.assert_array_equal(dataset.clipped_fraction, runs.observables["clipped_fraction"])
    prediction = jaxdp.predict(problem, algorithm, records=4).to_xarray()
    assert prediction.risk.dims == ("time",)


def test_a_batch_keeps_its_clocks():
    pytest.importorskip("xarray")
    one = jaxdp.Trajectory(
        time=jnp.array([0.0, 1.0]),
        risk=jnp.array([[1.0, 0.5], [1.0, 0.4]]),
        final_risk=jnp.array([0.5, 0.4]),
        status=jnp.zeros(2, int),
        observables={},
    )
    dataset = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf, leaf]), one).to_xarray()
    assert dataset.risk.dims == ("run_0", "run_1", "record")
