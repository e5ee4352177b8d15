"""The answer type: its check, its printed table, its forms for xarray and pandas, its picture."""

import dataclasses
import functools

import canonical
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp import Status, Trajectory
from jaxdp.core.trajectory import trajectory_of


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
    parts = {"time": jnp.arange(4.0), "observables": {}, "label": "simulated"}
    runs = trajectory_of(jnp.asarray(True), risk=risk, final_risk=final, **parts)
    assert runs.status.tolist() == [0, 1, 1]


def test_a_dataset_has_time_runs_and_units():
    xarray = pytest.importorskip("xarray")
    runs = canonical.runs("stream")
    dataset = runs.to_xarray()
    assert isinstance(dataset, xarray.Dataset)
    assert dataset.sizes == {"run": 3, "time": 5, "parameter": 20}
    assert all(dataset[name].attrs["units"] == "1" for name in dataset.variables)
    assert dataset.attrs["label"] == runs.label
    np.testing.assert_array_equal(dataset.risk.sel(time=1.0), runs.risk[:, -1])
    np.testing.assert_array_equal(dataset.clipped_fraction, runs.observables["clipped_fraction"])
    prediction = canonical.predicted("stream").to_xarray()
    assert prediction.risk.dims == ("time",)


@functools.cache
def _runs():
    return jaxdp.Trajectory(
        jnp.asarray([0.0, 0.5, 1.0]),
        jnp.asarray([[1.0, 0.4, 0.2], [1.0, 0.6, 0.4], [1.0, jnp.nan, jnp.nan]]),
        jnp.asarray([0.3, 0.5, jnp.nan]),
        jnp.asarray([0, 0, 1]),
        {"distance": jnp.arange(9.0).reshape(3, 3)},
        label="simulated",
    )


def _prediction():
    part = jax.tree.map(lambda leaf: leaf[0], dataclasses.replace(_runs(), time=_runs().risk))
    return dataclasses.replace(part, time=_runs().time, std=jnp.full(3, 0.25))


def test_runs_print_the_mean_of_those_that_ended_well_and_how_many_did_not():
    lines = [" ".join(line.split()) for line in str(_runs()).splitlines()]
    assert lines[0] == "Trajectory: simulated"
    assert "status 2 ok, 1 diverged how the run ended" in lines
    assert "time 0 to 1, 3 records" in lines
    assert "risk 1 to 0.3 from start to end" in lines
    # (0.3 + 0.5)/2, and 0.2/sqrt(2)/sqrt(2).
    assert any(line.startswith("final_risk 0.4 +- 0.1 risk of the released") for line in lines)
    assert "distance 1.5 to 3.5" in lines
    assert "risk 1 to 0.3" in repr(_runs())
    assert "<td" in _runs()._repr_html_()


def test_a_frame_has_a_row_for_each_record_of_each_run():
    frame = _runs().to_pandas()
    assert list(frame.columns) == ["run", "time", "risk", "distance", "final_risk", "status"]
    assert len(frame) == 9
    row = frame[(frame.run == 1) & (frame.time == 0.5)]
    assert row.risk.item() == pytest.approx(0.6)
    assert row.distance.item() == 4
    assert row.final_risk.item() == pytest.approx(0.5)
    assert set(frame[frame.run == 2].status) == {"DIVERGED"}
    assert frame.attrs["label"] == "simulated"
    single = _prediction().to_pandas()
    assert list(single.columns[:3]) == ["time", "risk", "std"]
    assert len(single) == 3


def test_a_frame_of_a_batch_of_runs_has_each_trajectory_at_its_own_times():
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), _runs())
    frame = batch.to_pandas()
    assert list(frame.columns[:3]) == ["run_0", "run_1", "time"]
    assert set(frame[frame.run_0 == 1].time) == {0.0, 1.0, 2.0}
    assert np.array_equal(frame[frame.run_0 == 0].distance, np.arange(9.0))
    with pytest.raises(TypeError, match="concrete trajectory"):
        jax.jit(lambda one: one.to_pandas())(_runs())


def _drawn(figure):
    (axes,) = figure.axes
    return {line.get_label(): np.asarray(line.get_ydata()) for line in axes.lines}, axes


def test_runs_are_drawn_as_the_mean_and_band_of_those_that_ended_well():
    lines, axes = _drawn(_runs().plot())
    np.testing.assert_allclose(lines["simulated, mean of 2 runs"], [1, 0.5, 0.3], rtol=1e-6)
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(1.0)
    # ddof 1 of two values 0.2 apart.
    assert band.min() == pytest.approx(0.3 - 0.2 / np.sqrt(2), rel=1e-5)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time", "risk")


def test_a_prediction_is_drawn_with_the_band_that_it_predicts():
    lines, axes = _drawn(_prediction().plot())
    np.testing.assert_allclose(lines["simulated"], _prediction().risk)
    assert axes.collections[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(1.25)


def test_an_observable_is_drawn_by_its_name_into_given_axes():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert _runs().plot("distance", ax=axes) is axes.figure
    assert axes.get_ylabel() == "distance"
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [1.5, 2.5, 3.5])


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(KeyError, match="one of risk, distance, got 'overlap'"):
        _runs().plot("overlap")
    failed = dataclasses.replace(_runs(), status=jnp.ones(3, int))
    with pytest.raises(ValueError, match="a run that ended well"):
        failed.plot()
    with pytest.raises(TypeError, match="concrete trajectory"):
        jax.jit(lambda one: one.plot())(_runs())
