"""`jaxdp sweep`: the cells that it predicts, and what it writes."""

import json

import numpy as np
import pytest
import xarray

import jaxdp

GRID = ["--dim", "20", "--clip-scale", "0.2,1", "--peak", "1,2,3"]


@pytest.mark.slow
def test_each_cell_is_predicted_and_the_best_is_named(run, tmp_path):
    out = run.well("sweep", *GRID, "--num-steps", 67, "--json", "--out", tmp_path)
    found = json.loads(out)
    dataset = xarray.load_dataset(tmp_path / "sweep.nc", engine="h5netcdf")
    assert dataset["predicted"].dims == ("clip_scale", "peak", "rho")
    problem = jaxdp.LinearRegression.isotropic(20, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 0.2, 1.0, 67)
    expected = jaxdp.predict(problem, algorithm, records=1).final_risk
    cell = dataset["predicted"].sel(clip_scale=0.2, peak=3.0).squeeze()
    assert float(cell) == pytest.approx(float(expected), rel=1e-4)
    assert found["best"]["predicted"] == pytest.approx(float(dataset["predicted"].min()))
    assert (found["cells"], found["failed"]) == (6, 0)
    assert found["files"] == [str(tmp_path / name) for name in ("sweep.nc", "sweep.json")]
    assert np.isin([found["best"]["clip_scale"], found["best"]["peak"]], [0.2, 1, 2, 3]).all()
