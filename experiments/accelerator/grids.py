"""A million predictions and a hundred thousand simulated runs by `jaxdp.sweep`."""

import time
from collections.abc import Callable, Iterator

import jax.random as jr
import numpy as np

import jaxdp
from experiments.accelerator.parts import Measurement, Row, Setting, attempts, bars


def rows(setting: Setting) -> Iterator[Row]:
    """Both sweeps, compilation included."""
    yield from attempts(setting, _calls(setting.is_smoke))


def _calls(is_smoke: bool) -> Iterator[Measurement]:
    side, runs, dim, steps = (6, 8, 20, 20) if is_smoke else (1000, 1000, 1000, 1000)
    problem = jaxdp.LinearRegression.isotropic(dim=dim, label_noise=0.3)

    def predicted(key, clip_scale, peak):
        schedule = jaxdp.Polynomial(peak, power=0.5)
        algorithm = jaxdp.OnePassDPSGD(schedule, clip_scale, rho=1.0, num_steps=10 * dim)
        return {"risk": jaxdp.predict(problem, algorithm, records=1).final_risk}

    def simulated(key, clip_scale):
        schedule = jaxdp.Polynomial(3.0, power=0.5)
        algorithm = jaxdp.OnePassDPSGD(schedule, clip_scale, rho=1.0, num_steps=steps)
        found = jaxdp.simulate(problem, algorithm, num_runs=runs, key=key, records=1)
        return {"risk": found.final_risk}

    grid = {"clip_scale": np.geomspace(0.05, 5, side), "peak": np.geomspace(1, 30, side)}
    yield _swept(f"sweep of {side**2:,} predictions", predicted, grid, side**2, "cells/s")
    clips = {"clip_scale": np.geomspace(0.1, 3, 2 if is_smoke else 100)}
    count = runs * len(clips["clip_scale"])
    what = f"sweep of {count:,} simulated runs of {steps} steps, d = {dim}"
    yield _swept(what, simulated, clips, count, "runs/s")


def _swept(what: str, function: Callable, axes: dict, count: int, unit: str):
    def row(_):
        start = time.perf_counter()
        found = jaxdp.sweep(function, axes, key=jr.key(0), quiet=True)
        seconds = time.perf_counter() - start
        lost = int(np.isnan(found["risk"]).sum())
        return Row(
            what,
            count / seconds,
            unit,
            note=f"{seconds:.1f} s, compilation included; {lost} of {found['risk'].size} are NaN",
            is_wrong=lost > 0,
        )

    return Measurement(what, row)


def draw(found: list[Row]):
    """Cells and runs a second."""
    return bars(found, "a second")
