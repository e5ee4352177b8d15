"""`jaxdp sweep`: the predicted risk of private linear regression over a grid."""

import argparse
from typing import Any

import jax
import numpy as np

import jaxdp
from jaxdp.cli import output
from jaxdp.core.files import whole_file
from jaxdp.core.packages import require_extra

_FILES = {"dataset": "sweep.nc", "numbers": "sweep.json"}
_AXES = {
    "clip_scale": np.geomspace(0.1, 10, 20).tolist(),
    "peak": np.geomspace(1, 20, 20).tolist(),
    "rho": [1.0],
}
_ONE = {"clip_scale": 1.0, "peak": 1.0, "rho": 1.0}


def sweep(options: argparse.Namespace) -> None:
    """Predict every cell, save the grid, and print the cell with the least risk."""
    with require_extra("h5netcdf", "sweeps", "jaxdp sweep"):
        import h5netcdf  # noqa: F401  # pyright: ignore[reportMissingImports]
    output.settle(options, {"num_steps": 10 * options.dim, **_AXES})
    problem = jaxdp.LinearRegression.isotropic(options.dim, label_noise=options.label_noise)
    files = output.prepared_files(options, _FILES)

    def algorithm(clip_scale, peak, rho) -> jaxdp.OnePassDPSGD:
        schedule = jaxdp.Polynomial(peak, options.power)
        return jaxdp.OnePassDPSGD(schedule, clip_scale, rho, options.num_steps)

    def predicted(*, key, **cell) -> dict[str, Any]:
        found = jaxdp.predict(problem, algorithm(**cell), records=1)
        return {"predicted": found.final_risk, "status": found.status}

    axes = {name: np.array(getattr(options, name)) for name in _AXES}
    for name, values in axes.items():
        for value in (values.min(), values.max()):
            # In the sweep values are traced, and cannot be refused.
            algorithm(**(_ONE | {name: value}))
    dataset = jaxdp.sweep(predicted, axes, key=jax.random.key(0))
    with whole_file(files["dataset"]) as partial:
        dataset.to_netcdf(partial, engine="h5netcdf")
    risk = dataset["predicted"].data
    failed, best = int((~np.isfinite(risk)).sum()), None
    if failed < risk.size:
        place = np.unravel_index(np.nanargmin(risk), risk.shape)
        cell = zip(axes.items(), place, strict=True)
        best = {name: float(values[index]) for (name, values), index in cell}
        best |= {"predicted": float(risk[place])}
    summary = {
        "problem": "linear regression",
        "options": output.described_options(options),
        "best": best,
        "cells": risk.size,
        "failed": failed,
    }
    lines = [f"linear regression: d = {options.dim}, {risk.size} cells, {failed} without a risk"]
    lines += [f"{name:>12} {value:.6g}" for name, value in (best or {}).items()]
    output.finish(options, files, summary, lines)
