"""The picture draws what it is given and touches no global style."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.plots import plot_comparison, plot_grid

TIME = jnp.linspace(0, 1, 5)


def _trajectory(risk, label, status=0):
    risk = jnp.asarray(risk)
    status = jnp.full(risk.shape[:-1], status)
    return jaxdp.Trajectory(TIME, risk, risk[..., -1] + 0.1, status, {}, label=label)


RUNS = _trajectory([[1, 0.8, 0.5, 0.3, 0.2], [1, 0.6, 0.3, 0.1, 0.0]], "simulated")
ODE = _trajectory([1, 0.7, 0.4, 0.2, 0.1], "ODE")


def test_the_lines_are_the_data(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure = plot_comparison(RUNS, ODE, beside=[_trajectory(RUNS.risk, "SDE")], title="a title")
    figure.savefig(tmp_path / "picture.png")
    assert dict(matplotlib.rcParams) == before
    axes, below = figure.axes
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in axes.lines}
    np.testing.assert_allclose(
        lines["simulated, mean of 2 runs"], [1, 0.7, 0.4, 0.2, 0.1], rtol=1e-6
    )
    np.testing.assert_allclose(lines["ODE"], ODE.risk)
    assert "SDE, mean of 2 runs" in lines
    np.testing.assert_allclose(below.lines[0].get_ydata(), [0, 0, 0, 0, 0], atol=1e-6)
    assert axes.get_title() == "a title"
    assert below.get_xlabel()
    assert axes.get_ylabel()
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_failed_runs_are_not_drawn():
    spoiled = _trajectory([[1, 0.8, 0.5, 0.3, 0.2], [np.nan] * 5], "simulated")
    spoiled = jaxdp.Trajectory(
        TIME, spoiled.risk, spoiled.final_risk, jnp.asarray([0, 1]), {}, label="simulated"
    )
    labels = [line.get_label() for line in plot_comparison(spoiled, ODE).axes[0].lines]
    assert "simulated, mean of 1 run" in labels
    with pytest.raises(ValueError, match="a run that ended well"):
        plot_comparison(_trajectory(RUNS.risk, "simulated", status=1), ODE)


def _grid(**axes):
    import xarray

    values = np.random.default_rng(0).uniform(0.1, 3, [len(values) for values in axes.values()])
    return xarray.DataArray(values, coords=axes, dims=list(axes), name="risk")


def test_a_map_marks_the_least_value_and_leaves_failed_cells_empty():
    values = _grid(clip_scale=np.geomspace(0.1, 10, 5), peak=np.linspace(1, 20, 4), rho=[1.0])
    values[3, 2], values[0, 0] = 0.01, np.nan
    axes, bar = plot_grid(values).axes
    mark = axes.lines[0]
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (values.peak[2], values.clip_scale[3])
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    assert np.ma.getmaskarray(axes.collections[0].get_array()).sum() == 1
    # Beyond a hundred times the least value one colour stands for all.
    assert bar.get_ylim() == pytest.approx((0.01, 1.0))


def test_a_line_shows_one_axis_and_panels_the_others():
    line = plot_grid(_grid(clip_scale=np.geomspace(0.1, 10, 5)))
    assert line.axes[0].get_xlabel() == "clip scale $c$"
    panels = plot_grid(
        _grid(by=["a", "b"], clip_scale=np.ones(1), peak=np.arange(4.0), power=np.arange(3.0))
    )
    titles = [axes.get_title() for axes in panels.axes]
    assert titles == ["a", "b", ""]


def test_panels_that_are_left_out_are_counted():
    values = _grid(clip_scale=np.arange(1.0, 5), peak=np.arange(4.0), rho=np.arange(1.0, 4))
    assert "1 more" in plot_grid(values, most_panels=2).get_suptitle()
