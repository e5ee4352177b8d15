"""`jaxdp sweep`: grids as they are typed, what it writes."""

import json

import jax.random as jr
import numpy as np
import pytest
import xarray

import jaxdp
from jaxdp import cli
from jaxdp.cli.commands.sweep import Setting, simulated_risk
from jaxdp.cli.values import grid

SMALL = ["--dim", "20", "--num-runs", "4", "--quiet"]
AXES = ["--clip-scale", "0.2,1", "--peak", "1:3:3"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.3", [0.3]),
        ("0,0.5,1", [0, 0.5, 1]),
        ("1:3:3", [1, 2, 3]),
        ("0.1:10:3:log", [0.1, 1, 10]),
    ],
)
def test_grids_are_what_they_say(text, values):
    np.testing.assert_allclose(grid(text, "--peak"), values)


@pytest.mark.parametrize(
    "text", ["", "a", "1:2", "1:2:3:lin", "1:2:0", "0:1:3:log", "1,1", "nan", "1:2:x", "2:2:3"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"expected .*--peak"):
        grid(text, "--peak")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """One sweep by the ODE and by simulation, and the folder it wrote to."""
    out = tmp_path_factory.mktemp("both")
    options = [*SMALL, *AXES, "--aspect-ratio", "0.3", "--by", "both", "--json"]
    assert cli.main(["sweep", *options, "--out", str(out), "--store", str(out / "kept")]) == 0
    return out, options


def test_prediction_and_simulation_of_each_cell_are_saved(both):
    dataset = xarray.load_dataset(both[0] / "sweep.nc", engine="h5netcdf")
    assert dataset["predicted"].dims == ("clip_scale", "peak", "power", "aspect_ratio", "rho")
    assert dataset["predicted"].shape == dataset["simulated"].shape == (2, 3, 1, 1, 1)
    problem = jaxdp.LinearRegression.isotropic(20, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 0.2, 1.0, 67)
    cell = dataset.sel(clip_scale=0.2, peak=3.0).squeeze()
    expected = jaxdp.predict(problem, algorithm, records=1).final_risk
    assert float(cell["predicted"]) == pytest.approx(float(expected), rel=1e-4)
    gap = (dataset["simulated"] - dataset["predicted"]) / dataset["standard_error"]
    assert float(abs(gap).max()) < 8
    assert (both[0] / "sweep.png").stat().st_size > 10_000


def test_json_names_the_best_cell_of_the_prediction(both, run):
    # From its store, so nothing is computed.
    folder, options = both
    status, out, err = run("sweep", *options, "--out", folder, "--store", folder / "kept")
    assert (status, err) == (0, "")
    found = json.loads(out)
    dataset = xarray.load_dataset(folder / "sweep.nc", engine="h5netcdf")
    assert found["best"]["predicted"] == pytest.approx(float(dataset["predicted"].min()))
    assert found["best"]["simulated"] > 0
    assert (found["cells"], found["failed"]) == (6, 0)
    assert [path.endswith((".nc", ".png", ".json")) for path in found["files"]] == [True] * 3


def test_a_store_of_other_options_is_refused(both, run):
    folder, options = both
    changed = *options, "--dim", "21", "--out", folder, "--store", folder / "kept"
    status, _, err = run("sweep", *changed)
    assert (status, err.count("\n")) == (2, 1)
    assert "keeps another sweep: its function computes something else" in err


@pytest.mark.slow
def test_simulated_risks_have_their_standard_error():
    cell = dict(clip_scale=0.5, peak=2.0, power=0.5, aspect_ratio=0.3, rho=1.0)
    setting = Setting(dim=12, label_noise=0.3, condition_number=1.0, num_runs=9)
    found = simulated_risk(setting, key=jr.key(1), **cell)
    problem = jaxdp.LinearRegression.isotropic(12, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(2.0, 0.5), 0.5, 1.0, 40)
    runs = np.asarray(
        jaxdp.simulate(problem, algorithm, key=jr.key(1), num_runs=9, records=1).final_risk
    )
    np.testing.assert_allclose(found["simulated"], runs.mean(), rtol=1e-5)
    np.testing.assert_allclose(found["standard_error"], runs.std(ddof=1) / 3, rtol=1e-4)


@pytest.mark.slow
def test_the_edge_of_a_grid_is_named(run, tmp_path):
    # The best learning rate is far beyond 2.
    edge = ["--clip-scale", "0.1,0.2,0.4", "--peak", "1:2:3", "--out", str(tmp_path)]
    _, out, _ = run("sweep", *SMALL, *edge)
    assert "(at the edge of the grid: clip_scale, peak)" in out
