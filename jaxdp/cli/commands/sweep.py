"""`jaxdp sweep`: the risk of private linear regression over a grid, by the ODE or simulated."""

import argparse
import dataclasses
import functools
import importlib
import itertools
import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp.cli import output
from jaxdp.cli.commands.linear_regression import gaussian_rows
from jaxdp.cli.values import MOST_CELLS, check_sizes, flag, grid
from jaxdp.core.checks import require_count
from jaxdp.core.extras import require_extra
from jaxdp.core.files.whole_files import whole_file
from jaxdp.plots import plot_grid
from jaxdp.sweeps.axes import as_axes

if TYPE_CHECKING:
    import xarray

_FILES = {"dataset": "sweep.nc", "picture": "sweep.png", "numbers": "sweep.json"}
_TUNED = ("clip_scale", "peak")
_OTHERS = ("power", "aspect_ratio", "rho")
_AXES = (*_TUNED, *_OTHERS)
_MOST_LINES = 20
_MOST_STEPS = 2**31


@dataclasses.dataclass(frozen=True)
class Setting:
    """The numbers that all cells share."""

    dim: int
    label_noise: float
    condition_number: float
    num_runs: int

    @property
    def problem(self):
        """Linear regression on Gaussian rows."""
        return gaussian_rows(self.dim, self.condition_number, self.label_noise)


def sweep(options: argparse.Namespace) -> None:
    """Compute the grid, save it, draw it, and say where the risk is least."""
    for module in ("xarray", "h5py", "h5netcdf"):
        with require_extra(module, "sweeps", "jaxdp sweep"):
            importlib.import_module(module)
    import xarray

    setting = Setting(
        require_count("--dim", options.dim),
        options.label_noise,
        options.condition_number,
        require_count("--num-runs", options.num_runs),
    )
    check_sizes(all_runs=(setting.num_runs, setting.dim))
    axes = {name: grid(getattr(options, name), flag(name)) for name in _AXES}
    _check(setting, axes)
    ode_key, simulation_key = output.seeded_keys(options, 2)
    files = output.prepared_files(options, _FILES)
    found = []
    if options.by in ("ode", "both"):
        # The equation does not depend on the number of runs, nor does its store.
        one = dataclasses.replace(setting, num_runs=1)
        found.append(_swept(options, "ode", predicted_risk, one, axes, ode_key))
    if options.by in ("simulation", "both"):
        # Each number of steps is a program of its own.
        looped = axes | {"aspect_ratio": tuple(axes["aspect_ratio"].tolist())}
        found.append(_swept(options, "simulation", simulated_risk, setting, looped, simulation_key))
    dataset = xarray.Dataset(
        {name: part[name] for part in found for name in part.data_vars},
        attrs=found[-1].attrs
        | {
            "function": "; ".join(part.attrs["function"] for part in found),
            "options": output.as_json(output.described_options(options)),
        },
    )
    # The least of many simulated risks is too small; the prediction has no such bias.
    risk = dataset["simulated" if options.by == "simulation" else "predicted"]
    with whole_file(files["dataset"]) as partial:
        dataset.to_netcdf(partial, engine="h5netcdf")
    names = [name for name in ("predicted", "simulated") if name in dataset]
    both = xarray.concat([dataset[name] for name in names], "by").assign_coords(by=names)
    output.write_picture(files["picture"], plot_grid(both, label="risk $R$"))
    summary = {
        "problem": "linear regression",
        "options": output.described_options(options),
        "by": options.by,
        "best": _best(dataset, risk),
        "cells": int(risk.size),
        "failed": int((~np.isfinite(risk)).sum()),
    }
    output.finish(options, files, summary, _lines(setting, dataset, risk))


def _swept(options: argparse.Namespace, name: str, function, setting: Setting, axes, key):
    """The dataset of one function, kept in a folder of its name where there is a store."""
    return jaxdp.sweep(
        functools.partial(function, setting),
        axes,
        key=key,
        store=options.store and options.store / name,
        shard_size=options.shard_size,
        quiet=options.quiet,
    )


def predicted_risk(setting: Setting, *, key, aspect_ratio, **parameters) -> dict[str, Any]:
    """The risk of what is released, by the ODE."""
    num_steps = jnp.round(setting.dim / aspect_ratio).astype(int)
    algorithm = _algorithm(**parameters, num_steps=num_steps)
    predicted = jaxdp.predict(setting.problem, algorithm, records=1)
    return {"predicted": predicted.final_risk, "predicted_status": predicted.status}


def simulated_risk(setting: Setting, *, key, aspect_ratio, **parameters) -> dict[str, Any]:
    """Mean and standard error of the risk of what is released, over independent runs."""
    algorithm = _algorithm(**parameters, num_steps=round(setting.dim / aspect_ratio))
    count = setting.num_runs
    runs = jaxdp.simulate(setting.problem, algorithm, key=key, num_runs=count, records=1)
    risk = runs.final_risk
    error = jnp.std(risk, ddof=1) / count**0.5 if count > 1 else jnp.asarray(jnp.nan)
    return {
        "simulated": risk.mean(),
        "standard_error": error,
        "simulated_status": runs.status.max(),
    }


def _algorithm(*, clip_scale, peak, power, rho, num_steps) -> jaxdp.OnePassDPSGD:
    return jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, power), clip_scale, rho, num_steps)


def _check(setting: Setting, axes: dict[str, np.ndarray]) -> None:
    """Refuse what the library would: inside the sweep values are traced and cannot be looked at."""
    counts = [len(values) for values in axes.values()]
    if math.prod(counts) > MOST_CELLS:
        raise ValueError(
            f"expected grids of at most {MOST_CELLS} cells together, got "
            f"{' * '.join(map(str, counts))}"
        )
    _ = setting.problem
    for ratio in (float(axes["aspect_ratio"].min()), float(axes["aspect_ratio"].max())):
        if not setting.dim / _MOST_STEPS < ratio <= setting.dim:
            raise ValueError(
                "expected 0 < --aspect-ratio <= --dim, for at least one sample and fewer than "
                f"2^31, got {ratio:g}"
            )
    # One option at a time, so that an error can name it.
    sound = {"clip_scale": 1.0, "peak": 1.0, "power": 0.0, "rho": 1.0, "num_steps": 1}
    for name, values in axes.items():
        try:
            for value in (float(values.min()), float(values.max())):
                if name in sound:
                    _algorithm(**(sound | {name: value}))
            as_axes({name: values})
        except ValueError as error:
            raise ValueError(f"{flag(name)}: {error}") from error


def _best(dataset: "xarray.Dataset", risk: "xarray.DataArray") -> dict[str, float] | None:
    """The cell of the least risk, and all that is known there."""
    if not np.isfinite(risk).any():
        return None
    place = risk.argmin(list(risk.dims))
    cell = dataset.isel(place)  # pyright: ignore[reportArgumentType]
    return {str(name): float(cell[name]) for name in (*_AXES, *cell.data_vars)}


def _lines(setting: Setting, dataset: "xarray.Dataset", risk: "xarray.DataArray") -> list[str]:
    """The least risk over clip scale and peak, for each of the other values."""
    shown = (*_OTHERS, *_TUNED)
    lines = [
        f"linear regression: d = {setting.dim}, kappa = {setting.condition_number:g}, "
        f"zeta = {setting.label_noise:g}; {risk.size} cells, {risk.name} risk",
        f"{' '.join(f'{name:>12}' for name in shown)}    least risk",
    ]
    cells = list(itertools.product(*(dataset[name].data for name in _OTHERS)))
    for values in cells[:_MOST_LINES]:
        chosen = dict(zip(_OTHERS, values, strict=True))
        best = _best(dataset.sel(chosen), risk.sel(chosen))
        if best is not None:
            row = " ".join(f"{best[name]:12.4g}" for name in shown)
            lines.append(f"{row}    {best[str(risk.name)]:.6g}{_beside(best, risk)}")
    if len(cells) > _MOST_LINES:
        lines.append(f"and {len(cells) - _MOST_LINES} more, in the dataset")
    failed = int((~np.isfinite(risk)).sum())
    if failed:
        lines.append(f"{failed} of {risk.size} cells did not end well: NaN")
    return lines


def _beside(best: dict[str, float], risk: "xarray.DataArray") -> str:
    """Words about the best cell: its simulated risk, and tuned values that end their grids."""
    said = ""
    if "simulated" in best:
        known = np.isfinite(best["standard_error"])
        error = f"+- {best['standard_error']:.2g}" if known else "in one run"
        said = f" {error}"
        if risk.name != "simulated":
            said = f"  (simulated {best['simulated']:.6g} {error})"
    edges = [
        name
        for name in _TUNED
        if risk[name].size > 1 and best[name] in (risk[name].data.min(), risk[name].data.max())
    ]
    return said + (f"  (at the edge of the grid: {', '.join(edges)})" if edges else "")
