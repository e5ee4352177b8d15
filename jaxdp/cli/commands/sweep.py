"""`jaxdp sweep`: the risk of private linear regression over a grid, by the ODE or simulated."""

import argparse
import dataclasses
import functools
import importlib
import itertools
import math
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.cli.files import write_picture, write_text
from jaxdp.cli.grids import MOST_CELLS, grid
from jaxdp.cli.output import (
    as_json,
    described_options,
    seeded_keys,
)
from jaxdp.cli.sizes import check_sizes
from jaxdp.core.extras import require_extra
from jaxdp.core.files.whole_files import whole_file

if TYPE_CHECKING:
    import xarray

# Option, symbol in words, and the default grid.
GRIDS = {
    "clip_scale": ("c, the clip norm over sqrt(dim)", "0.1:10:20:log"),
    "peak": ("learning rate at time 0", "1:20:20:log"),
    "power": ("the learning rate decays as (1 - t)^power", "0.5"),
    "aspect_ratio": ("gamma = dim / samples", "0.1"),
    "rho": ("the result is rho-GDP", "1"),
}
_FILES = {"dataset": "sweep.nc", "picture": "sweep.png", "numbers": "sweep.json"}
_MOST_LINES = 20
_MOST_STEPS = 2**31


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is the same in every cell."""

    dim: int
    label_noise: float
    condition_number: float
    num_runs: int


def sweep(options: argparse.Namespace) -> None:
    """Compute the grid, save it, draw it, and say where the risk is least."""
    for module in ("xarray", "h5py", "h5netcdf"):
        with require_extra(module, "sweeps", "jaxdp sweep"):
            importlib.import_module(module)
    import xarray

    import jaxdp
    from jaxdp.core.checks import require_count
    from jaxdp.plots import plot_grid

    require_count("--num-runs", options.num_runs)
    setting = Setting(
        require_count("--dim", options.dim),
        options.label_noise,
        options.condition_number,
        options.num_runs,
    )
    check_sizes(all_runs=(setting.num_runs, setting.dim))
    axes = {name: grid(getattr(options, name), _flag(name)) for name in GRIDS}
    _check(setting, axes)
    ode_key, simulation_key = seeded_keys(options, 2, *_FILES.values())
    found = []
    if options.by in ("ode", "both"):
        found.append(
            jaxdp.sweep(
                # The equation does not depend on the number of runs, nor does its store.
                functools.partial(predicted_risk, dataclasses.replace(setting, num_runs=1)),
                axes,
                key=ode_key,
                **_kept(options, "ode"),
            )
        )
    if options.by in ("simulation", "both"):
        # Each number of steps is a program of its own.
        looped = axes | {"aspect_ratio": tuple(axes["aspect_ratio"].tolist())}
        found.append(
            jaxdp.sweep(
                functools.partial(simulated_risk, setting),
                looped,
                key=simulation_key,
                **_kept(options, "simulation"),
            )
        )
    dataset = xarray.Dataset(
        {name: part[name] for part in found for name in part.data_vars},
        attrs=found[-1].attrs
        | {
            "function": "; ".join(part.attrs["function"] for part in found),
            "options": as_json(described_options(options)),
        },
    )
    # The least of many simulated risks is too small; the prediction has no such bias.
    risk = dataset["simulated" if options.by == "simulation" else "predicted"]
    files = {kind: options.out / name for kind, name in _FILES.items()}
    with whole_file(files["dataset"]) as partial:
        dataset.to_netcdf(partial, engine="h5netcdf")
    write_picture(files["picture"], plot_grid(_side_by_side(dataset), label="risk $R$"))
    best = _best(dataset, risk)
    summary = {
        "problem": "linear regression",
        "options": described_options(options),
        "by": options.by,
        "best": best,
        "cells": int(risk.size),
        "failed": int((~np.isfinite(risk)).sum()),
        "files": [str(path) for path in files.values()],
    }
    text = as_json(summary)
    write_text(files["numbers"], text)
    if options.json:
        print(text)
        return
    print(*_lines(setting, dataset, risk), sep="\n")
    print(*(f"{kind}: {path}" for kind, path in files.items()), sep="\n")


def predicted_risk(
    setting: Setting, *, key, clip_scale, peak, power, aspect_ratio, rho
) -> dict[str, Any]:
    """The risk of what is released, by the ODE."""
    import jax.numpy as jnp

    import jaxdp

    num_steps = jnp.round(setting.dim / aspect_ratio).astype(int)
    algorithm = _algorithm(clip_scale, peak, power, rho, num_steps)
    predicted = jaxdp.predict(_problem(setting), algorithm, records=1)
    return {"predicted": predicted.final_risk, "predicted_status": predicted.status}


def simulated_risk(
    setting: Setting, *, key, clip_scale, peak, power, aspect_ratio, rho
) -> dict[str, Any]:
    """Mean and standard error of the risk of what is released, over independent runs."""
    import jax.numpy as jnp

    import jaxdp

    algorithm = _algorithm(clip_scale, peak, power, rho, round(setting.dim / aspect_ratio))
    runs = jaxdp.simulate(
        _problem(setting), algorithm, key=key, num_runs=setting.num_runs, records=1
    )
    risk, count = runs.final_risk, setting.num_runs
    error = jnp.std(risk, ddof=1) / count**0.5 if count > 1 else jnp.asarray(jnp.nan)
    return {
        "simulated": risk.mean(),
        "standard_error": error,
        "simulated_status": runs.status.max(),
    }


def _problem(setting: Setting):
    import jaxdp

    kappa, noise = setting.condition_number, setting.label_noise
    if kappa == 1:
        return jaxdp.LinearRegression.isotropic(setting.dim, label_noise=noise)
    return jaxdp.LinearRegression.power_law(setting.dim, condition_number=kappa, label_noise=noise)


def _algorithm(clip_scale, peak, power, rho, num_steps):
    import jaxdp

    return jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, power), clip_scale, rho, num_steps)


def _check(setting: Setting, axes: dict[str, np.ndarray]) -> None:
    """Refuse what the library would: inside the sweep values are traced and cannot be looked at."""
    from jaxdp.sweeps.axes import as_axes

    counts = [len(values) for values in axes.values()]
    if math.prod(counts) > MOST_CELLS:
        raise ValueError(
            f"expected grids of at most {MOST_CELLS} cells together, got "
            f"{' * '.join(map(str, counts))}"
        )
    _problem(setting)
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
            raise ValueError(f"{_flag(name)}: {error}") from error
    ratio = float(axes["aspect_ratio"].min())
    first = {name: float(values[0]) for name, values in axes.items() if name in sound}
    _algorithm(**first, num_steps=round(setting.dim / ratio))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _kept(options: argparse.Namespace, name: str) -> dict[str, Any]:
    store = options.store and pathlib.Path(options.store) / name
    return {"store": store, "shard_size": options.shard_size, "quiet": options.quiet}


def _side_by_side(dataset: "xarray.Dataset") -> "xarray.DataArray":
    """The predicted and the simulated risks, stacked along an axis of those two names."""
    import xarray

    names = [name for name in ("predicted", "simulated") if name in dataset]
    return xarray.concat([dataset[name] for name in names], "by").assign_coords(by=names)


def _best(dataset: "xarray.Dataset", risk: "xarray.DataArray") -> dict[str, float] | None:
    """The cell of the least risk, and all that is known there."""
    if not np.isfinite(risk).any():
        return None
    place = risk.argmin(list(risk.dims))
    cell = dataset.isel(place)  # pyright: ignore[reportArgumentType]
    return {str(name): float(cell[name]) for name in (*GRIDS, *cell.data_vars)}


def _lines(setting: Setting, dataset: "xarray.Dataset", risk: "xarray.DataArray") -> list[str]:
    """The least risk over clip scale and peak, for each of the other values."""
    heading = (
        f"linear regression: d = {setting.dim}, kappa = {setting.condition_number:g}, "
        f"zeta = {setting.label_noise:g}; {risk.size} cells, {risk.name} risk"
    )
    others = [name for name in GRIDS if name not in ("clip_scale", "peak")]
    rows = [f"{' '.join(f'{name:>12}' for name in (*others, 'clip_scale', 'peak'))}    least risk"]
    for values in itertools.islice(
        itertools.product(*(dataset[name].data for name in others)), _MOST_LINES
    ):
        chosen = dict(zip(others, values, strict=True))
        best = _best(dataset.sel(chosen), risk.sel(chosen))
        if best is None:
            continue
        shown = " ".join(f"{best[name]:12.4g}" for name in (*others, "clip_scale", "peak"))
        rows.append(
            f"{shown}    {best[str(risk.name)]:.6g}{_beside(best, risk)}{_at_edge(best, risk)}"
        )
    hidden = int(np.prod([dataset.sizes[name] for name in others])) - _MOST_LINES
    if hidden > 0:
        rows.append(f"and {hidden} more, in the dataset")
    failed = int((~np.isfinite(risk)).sum())
    if failed:
        rows.append(f"{failed} of {risk.size} cells did not end well: NaN")
    return [heading, *rows]


def _at_edge(best: dict[str, float], risk: "xarray.DataArray") -> str:
    """Which of the tuned values is the first or the last of its grid, in words."""
    names = [
        name
        for name in ("clip_scale", "peak")
        if risk[name].size > 1 and best[name] in (risk[name].data.min(), risk[name].data.max())
    ]
    return f"  (at the edge of the grid: {', '.join(names)})" if names else ""


def _beside(best: dict[str, float], risk: "xarray.DataArray") -> str:
    """What else is known at the best cell, in words."""
    if "simulated" not in best:
        return ""
    known = np.isfinite(best["standard_error"])
    error = f"+- {best['standard_error']:.2g}" if known else "in one run"
    return (
        f" {error}"
        if risk.name == "simulated"
        else f"  (simulated {best['simulated']:.6g} {error})"
    )
