"""A trajectory prints where its quantities begin and end, and is a table for pandas."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp

RUNS = jaxdp.Trajectory(
    jnp.asarray([0.0, 0.5, 1.0]),
    jnp.asarray([[1.0, 0.4, 0.2], [1.0, 0.6, 0.4], [1.0, jnp.nan, jnp.nan]]),
    jnp.asarray([0.3, 0.5, jnp.nan]),
    jnp.asarray([0, 0, 1]),
    {"distance": jnp.arange(9.0).reshape(3, 3)},
    label="simulated",
)


def _one(place):
    part = jax.tree.map(lambda leaf: leaf[place], dataclasses.replace(RUNS, time=RUNS.risk))
    return dataclasses.replace(part, time=RUNS.time, std=jnp.full(3, 0.25))


def test_runs_print_the_mean_of_those_that_ended_well_and_how_many_did_not():
    lines = [" ".join(line.split()) for line in str(RUNS).splitlines()]
    assert lines[0] == "Trajectory: simulated"
    assert "status 2 ok, 1 diverged how the run ended" in lines
    assert "time 0 to 1, 3 records" in lines
    assert "risk 1 to 0.3 from start to end" in lines
    # (0.3 + 0.5)/2, and 0.2/sqrt(2)/sqrt(2).
    assert any(line.startswith("final_risk 0.4 +- 0.1 risk of the released") for line in lines)
    assert "distance 1.5 to 3.5" in lines
    assert "risk 1 to 0.3" in repr(RUNS)
    assert "<td" in RUNS._repr_html_()


def test_a_prediction_prints_its_numbers():
    text = " ".join(str(_one(0)).split())
    assert "status ok" in text
    assert "final_risk 0.3 risk of the released iterate" in text
    assert "std 0.25 to 0.25" in text


def test_a_batch_prints_the_range_over_it():
    batch = jax.vmap(lambda scale: jax.tree.map(lambda leaf: scale * leaf, _one(0)))(
        jnp.arange(1.0, 4)
    )
    text = str(batch)
    assert text.startswith("Trajectory: simulated, a batch of 3")
    assert "0.3, 0.6, 0.9" in text


def test_traced_trajectories_and_trees_without_numbers_print():
    said = []
    jax.jit(lambda one: (said.extend([str(one), repr(one)]), one.risk)[1])(RUNS)
    assert "traced float32[3,3]" in said[0]
    assert "risk=f32[3,3]" in said[1]
    empty = jax.tree.map(lambda leaf: None, RUNS)
    assert "risk=None" in repr(empty)
    assert str(empty).startswith("Trajectory: simulated")


def test_runs_that_all_failed_print():
    assert "none ended well" in str(dataclasses.replace(RUNS, status=jnp.ones(3, int)))


def test_a_frame_has_a_row_for_each_record_of_each_run():
    frame = RUNS.to_pandas()
    assert list(frame.columns) == ["run", "time", "risk", "distance", "final_risk", "status"]
    assert len(frame) == 9
    row = frame[(frame.run == 1) & (frame.time == 0.5)]
    assert row.risk.item() == pytest.approx(0.6)
    assert row.distance.item() == 4
    assert row.final_risk.item() == pytest.approx(0.5)
    assert set(frame[frame.run == 2].status) == {"DIVERGED"}
    assert frame.attrs["label"] == "simulated"
    single = _one(0).to_pandas()
    assert list(single.columns[:3]) == ["time", "risk", "std"]
    assert len(single) == 3


def test_a_frame_of_a_batch_of_runs_has_each_trajectory_at_its_own_times():
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), RUNS)
    frame = batch.to_pandas()
    assert list(frame.columns[:3]) == ["run_0", "run_1", "time"]
    assert set(frame[frame.run_0 == 1].time) == {0.0, 1.0, 2.0}
    assert np.array_equal(frame[frame.run_0 == 0].distance, np.arange(9.0))
    with pytest.raises(TypeError, match="concrete trajectory"):
        jax.jit(lambda one: one.to_pandas())(RUNS)
