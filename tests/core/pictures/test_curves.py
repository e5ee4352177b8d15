"""A trajectory draws itself: a curve, the mean of its runs, or a curve for each of a batch."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp

TIME = jnp.asarray([0.0, 0.5, 1.0])
RUNS = jaxdp.Trajectory(
    TIME,
    jnp.asarray([[1.0, 0.4, 0.2], [1.0, 0.6, 0.4], [1.0, jnp.nan, jnp.nan]]),
    jnp.asarray([0.2, 0.4, jnp.nan]),
    jnp.asarray([0, 0, 1]),
    {"distance": jnp.full((3, 3), 2.0)},
    label="simulated",
)
ODE = jaxdp.Trajectory(
    TIME, RUNS.risk[0], RUNS.final_risk[0], jnp.asarray(0), {}, jnp.full(3, 0.1), label="ODE"
)


def _drawn(figure):
    (axes,) = figure.axes
    return {line.get_label(): np.asarray(line.get_ydata()) for line in axes.lines}, axes


def test_runs_are_drawn_as_the_mean_and_band_of_those_that_ended_well():
    lines, axes = _drawn(RUNS.plot())
    np.testing.assert_allclose(lines["simulated, mean of 2 runs"], [1, 0.5, 0.3], rtol=1e-6)
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(1.0)
    # ddof 1 of two values 0.2 apart.
    assert band.min() == pytest.approx(0.3 - 0.2 / np.sqrt(2), rel=1e-5)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time", "risk")


def test_a_prediction_is_drawn_with_the_band_that_it_predicts():
    lines, axes = _drawn(ODE.plot())
    np.testing.assert_allclose(lines["ODE"], ODE.risk)
    assert axes.collections[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(1.1)


def test_each_of_a_batch_has_a_curve_over_its_own_clock():
    batch = jax.tree.map(
        lambda leaf: jnp.stack([leaf, 2 * leaf]), dataclasses.replace(ODE, std=None)
    )
    _, axes = _drawn(batch.plot())
    assert [line.get_xdata()[-1] for line in axes.lines] == [1.0, 2.0]
    assert len({str(line.get_color()) for line in axes.lines}) == 2
    assert axes.get_xlim() == (0.0, 2.0)


def test_an_observable_is_drawn_by_its_name_into_given_axes():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert RUNS.plot("distance", ax=axes) is axes.figure
    assert axes.get_ylabel() == "distance"
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 2.0)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(KeyError, match="one of risk, distance, got 'overlap'"):
        RUNS.plot("overlap")
    failed = dataclasses.replace(RUNS, status=jnp.ones(3, int))
    with pytest.raises(ValueError, match="a run that ended well"):
        failed.plot()
    with pytest.raises(TypeError, match="concrete trajectory"):
        jax.jit(lambda one: one.plot())(RUNS)
