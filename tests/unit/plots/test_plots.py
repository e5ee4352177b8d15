"""The picture draws what it is given and touches no global style."""

import dataclasses
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import jaxdp
from jaxdp.plots import plot_comparison, plot_grid

TIME = np.linspace(0, 1, 5, dtype=np.float32)


def _trajectory(risk, label, status=0):
    risk = np.asarray(risk, np.float32)
    status = np.broadcast_to(status, risk.shape[:-1])
    return jaxdp.Trajectory(TIME, risk, risk[..., -1] + 0.1, status, {}, label=label)


RUNS = _trajectory([[1, 0.8, 0.5, 0.3, 0.2], [1, 0.6, 0.3, 0.1, 0.0]], "simulated")
ODE = _trajectory([1, 0.7, 0.4, 0.2, 0.1], "ODE")
SHORT = jaxdp.Trajectory(TIME[:3], ODE.risk[:3], ODE.final_risk, ODE.status, {})


def test_the_lines_are_the_data(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure = plot_comparison(RUNS, ODE, beside=[_trajectory(RUNS.risk, "SDE")], title="a title")
    figure.savefig(tmp_path / "picture.png")
    assert dict(matplotlib.rcParams) == before
    axes, below = figure.axes
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in axes.lines}
    mean = lines["simulated, mean of 2 runs"]
    np.testing.assert_allclose(mean, [1, 0.7, 0.4, 0.2, 0.1], rtol=1e-6)
    np.testing.assert_allclose(lines["ODE"], ODE.risk)
    assert "SDE, mean of 2 runs" in lines
    np.testing.assert_allclose(below.lines[0].get_ydata(), [0, 0, 0, 0, 0], atol=1e-6)
    assert axes.get_title() == "a title"
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_a_predicted_spread_is_drawn_and_named():
    std = jnp.asarray([0.0, 0.1, 0.2, 0.2, 0.1])
    spreading = dataclasses.replace(ODE, std=std, final_std=jnp.asarray(0.03))
    above, _ = plot_comparison(RUNS, spreading).axes
    drawn = [np.asarray(line.get_ydata()) for line in above.lines]
    for edge in (ODE.risk - std, ODE.risk + std):
        assert any(len(line) == 5 and np.allclose(line, edge) for line in drawn)
    for edge in (0.2 - 0.03, 0.2 + 0.03):
        assert any(len(line) == 2 and np.allclose(line, edge) for line in drawn)
    named = [text.get_text() for text in above.get_legend().get_texts()]
    assert named.count("ODE ± standard deviation") == 1


def test_failed_runs_are_not_drawn():
    spoiled = _trajectory([[1, 0.8, 0.5, 0.3, 0.2], [np.nan] * 5], "simulated", [0, 1])
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


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_comparison(ODE, RUNS), "simulated to be runs .* got ODE .* runs come first"),
        (lambda: plot_comparison(RUNS, beside=RUNS), r"beside to be a list .* give \[it\]"),
        (lambda: plot_comparison(RUNS, SHORT), "simulation, 5 up to 1, got 3 up to 0.5"),
        (lambda: plot_grid("label"), "expected a DataArray"),
        (lambda: plot_comparison(RUNS, ODE, ax=Figure().subplots()), "ax to be 2 Axes"),
        (lambda: plot_grid(_grid(peak=np.arange(4.0)), ax=Figure()), "matplotlib's Axes, got Fig"),
    ],
)
def test_arguments_that_are_swapped_or_of_another_kind_are_named(draw, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw()


@pytest.fixture
def pyplot(monkeypatch):
    import matplotlib

    monkeypatch.setenv("MPLBACKEND", "agg")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    yield plt
    plt.close("all")


def test_a_script_that_draws_for_ever_keeps_few_figures_open(pyplot):
    kept = [plot_grid(_grid(peak=np.arange(4.0))) for _ in range(25)]
    assert len(pyplot.get_fignums()) == 10
    assert pyplot.gcf() is kept[-1]
    assert all(figure.axes for figure in kept)


def test_a_notebook_shows_a_figure_once_though_it_is_open_and_returned(pyplot, monkeypatch):
    display = pytest.importorskip("IPython.display")
    shown = []
    monkeypatch.setattr(display, "publish_display_data", shown.append)
    figure = plot_comparison(RUNS, ODE)
    figure._ipython_display_()
    assert pyplot.get_fignums() == []
    assert shown[0]["image/png"].startswith(b"\x89PNG")
    assert "Figure" in shown[0]["text/plain"]
    pickle.loads(pickle.dumps(figure))
