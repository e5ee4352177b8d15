r"""Private training of all weights of a network, predicted and simulated.

`MeanPath(segments=S)` predicts the mean test loss and accuracy of private runs. It is compared with
the closure in the tangent kernel at the start, by which plans are searched, and with simulated
training of the network that is linearised at its start. Cells at the edge, where predictions are
expected to fail, do not count.
"""

import dataclasses
import json
import pathlib
import time
import warnings

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.forecast.network_cells import (
    CELLS,
    EDGE,
    NEW,
    STUDY,
    Cell,
    algorithm_of,
    problem_of,
)
from experiments.harness import Check
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, SKY, band, tidy
from experiments.harness.marks import legend
from jaxdp.planning.features.closure_risk import Draw, closure_risk

FOLDERS = {"data": "folder with the folders mnist (IDX files), cifar10 and uci (kin8nm.txt)"}
_SEGMENTS = 1, 4
KINDS = STUDY, NEW, EDGE
_LOSS, _ACCURACY, _ERRORS, _CELLS = 0.03, 0.006, 3, 0.9
_MOST_ROWS = 12_000
_WIDEST = 1.0  # larger relative errors are drawn as arrows
_TICKS = -1, -0.3, -0.1, -0.03, 0, 0.03, 0.1, 0.3, 1
_TITLES = {STUDY: "cells of the study", NEW: "new cells", EDGE: "at the edge, not counted"}
_STYLES = (ORANGE, "s"), (GREEN, "D"), (SKY, "^"), (BLUE, "o")
_LEGEND = {"loc": "outside lower center", "ncols": 4, "columnspacing": 1.2}
_TIMES = "run, first", "run", "S = 1, first", "S = 1", "S = 4"


@dataclasses.dataclass(frozen=True)
class Config:
    """The cells; runs of the network and of the linear one; test rows."""

    cells: tuple[Cell, ...] = CELLS
    num_runs: int = 30
    num_linear: int = 10
    num_test: int = 1000
    delta: float = 1e-5

    smoke = harness.size(
        cells=tuple(
            Cell(kind, kind, "tanh", (8,), "logistic", 100, 0.2, 8, 8.0, rate)
            for kind, rate in ((STUDY, 0.5), (NEW, 0.2), (EDGE, 5.0))
        ),
        num_runs=6,
        num_linear=4,
        num_test=50,
    )


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Simulate and predict the private training of every cell."""
    axes = {
        "cell": [one.name for one in config.cells],
        "segments": _SEGMENTS,
        "time": _TIMES,
        "run": config.num_runs,
        "linear_run": config.num_linear,
    }
    variables = {
        ("cell", "run"): ["loss", "accuracy", "movement"],
        ("cell", "linear_run"): ["linear_loss"],
        ("cell", "segments"): ["told_loss", "told_accuracy", "told_movement", "warned"],
        ("cell",): ["start_loss"],
        ("cell", "time"): ["seconds"],
    }
    found = harness.empty(axes, variables)
    for cell in harness.track(config.cells, lambda one: one.name):
        for variable, value in in_cell(config, cell, data).items():
            found[variable].loc[{"cell": cell.name}] = value
    found = found.assign_coords(kind=("cell", [one.kind for one in config.cells]))
    return harness.in_units(found, seconds="s")


def is_cheap(cell: Cell) -> bool:
    """Whether a run sees so few rows that the linear network, which is slower, is simulated."""
    return cell.sampling_rate * cell.num_train * cell.num_steps <= _MOST_ROWS


def in_cell(config: Config, cell: Cell, data: pathlib.Path | None) -> dict:
    """The results of a cell's private runs, and its predictions."""
    problem, algorithm = problem_of(cell, data, config.num_test), algorithm_of(cell, config.delta)
    key, half = jr.key(cell.seed), config.num_runs // 2
    simulated, told, given, seconds = [], [], [], []
    with warnings.catch_warnings(record=True) as kept:
        warnings.simplefilter("always")
        for again in range(2):
            begun, keys = time.perf_counter(), {"key": jr.fold_in(key, again), "num_runs": half}
            simulated.append(_end(jaxdp.simulate(problem, algorithm, records=1, **keys)))
            seconds.append((time.perf_counter() - begun) / half**again)
        for segments in _SEGMENTS:
            kept.clear()
            # Once more at first, for the seconds without compilation.
            for _ in range(2 if segments == 1 else 1):
                begun, theory = time.perf_counter(), jaxdp.MeanPath(segments=segments)
                end = _end(jaxdp.predict(problem, algorithm, theory=theory, records=1))
                seconds.append(time.perf_counter() - begun)
            told.append(end)
            given.append(len(kept) > 0)
        runs, linear_loss = {"key": key, "num_runs": config.num_linear}, np.nan
        if is_cheap(cell):
            linear = jaxdp.simulation.LinearisedNetwork()
            ends = jaxdp.simulate(problem, algorithm, simulator=linear, records=1, **runs)
            linear_loss = _end(ends)["loss"]
        (risk,) = closure_risk(jaxdp.MeanPath().modes(problem), [algorithm], is_linear=True)
        point = jnp.log(jnp.array([cell.rate, cell.clip_norm]))
        start, *_ = risk.value(point, Draw.of(algorithm), jnp.asarray(cell.num_steps))
    found = {name: np.concatenate([one[name] for one in simulated]) for name in told[0]}
    found |= {f"told_{name}": [one[name].item() for one in told] for name in told[0]}
    return found | {
        "linear_loss": linear_loss,
        "start_loss": float(start),
        "warned": given,
        "seconds": seconds,
    }


def _end(found: jaxdp.Trajectory) -> dict[str, np.ndarray]:
    """Loss, accuracy and movement at the end of each run; squared losses have no accuracy."""
    loss = np.atleast_1d(np.asarray(found.final_risk))
    ends = {"loss": loss, "accuracy": np.full(loss.shape, np.nan)}
    for name in {"accuracy", "movement"} & {*found.observables}:
        ends[name] = np.atleast_2d(np.asarray(found.observables[name]))[:, -1]
    return ends


def _errors(dataset: xarray.Dataset) -> dict[str, tuple[xarray.DataArray, xarray.DataArray]]:
    """Relative errors of the loss and their standard errors, by the kind of prediction."""
    mean, error = dataset.loss.mean("run"), harness.standard_error(dataset.loss, "run")
    linear = dataset.linear_loss.mean("linear_run")
    told = {"kernel at the start": dataset.start_loss, "linear network, simulated": linear}
    told |= {
        f"mean path, S = {count}": dataset.told_loss.sel(segments=count) for count in _SEGMENTS
    }
    found = {name: (one / mean - 1, one * error / mean**2) for name, one in told.items()}
    own = harness.standard_error(dataset.linear_loss, "linear_run") / mean
    gap, error = found["linear network, simulated"]
    return found | {"linear network, simulated": (gap, np.hypot(error, own))}


def _accuracy_errors(dataset: xarray.Dataset) -> tuple[xarray.DataArray, xarray.DataArray]:
    """Errors of the mean path's accuracy, and the standard errors of the simulated means."""
    mean = dataset.accuracy.mean("run")
    return dataset.told_accuracy - mean, harness.standard_error(dataset.accuracy, "run")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goal of the mean path, which the kernel at the start misses."""
    counted = dataset.sel(cell=dataset.kind != EDGE)
    gaps = _errors(counted)
    is_near = {name: abs(gap) <= _LOSS + _ERRORS * error for name, (gap, error) in gaps.items()}
    gap, error = _accuracy_errors(counted)
    # Squared losses have no accuracy.
    is_right = (abs(gap) <= _ACCURACY + _ERRORS * error) | error.isnull()
    for count in _SEGMENTS:
        is_near[f"mean path, S = {count}"] &= is_right.sel(segments=count)
    told = {
        name: f"{name}: in {float(near.mean()):.0%} of {near.size}, the loss at most "
        f"{float(abs(gaps[name][0]).max()):.1%} off"
        for name, near in is_near.items()
    }
    start, _, once, often = is_near
    return [
        Check(
            f"the mean path with S = {_SEGMENTS[-1]} predicts the loss within {_LOSS:.0%} and the "
            f"accuracy within {_ACCURACY:g}, plus {_ERRORS} standard errors of the simulated "
            f"means, in {_CELLS:.0%} of the cells",
            f"{told[often]}; {told[once]}",
            float(is_near[often].mean()) >= _CELLS,
        ),
        Check(
            f"the kernel at the start predicts the loss so well in fewer than {_CELLS:.0%}",
            told[start],
            float(is_near[start].mean()) < _CELLS,
        ),
    ]


def plot(dataset: xarray.Dataset) -> Figure:
    """Relative errors of the loss by cell, with bars of two standard errors."""
    groups = [dataset.sel(cell=dataset.kind == kind) for kind in KINDS]
    heights = [group.sizes["cell"] for group in groups]
    figure = Figure(figsize=(7.2, 1.6 + 0.3 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(KINDS), 1, sharex=True, height_ratios=heights)
    for axes, group, kind in zip(panels, groups, KINDS, strict=True):
        names, places = [*map(str, group.cell.values)], np.arange(group.sizes["cell"])
        band(axes, [-_LOSS, _LOSS], -0.5, len(places) - 0.5, BLACK, 0.08)
        axes.axvline(0, color=BLACK, linewidth=0.6, zorder=0)
        shifts = np.linspace(-0.27, 0.27, len(_STYLES))
        gaps = zip(_errors(group).items(), _STYLES, shifts, strict=True)
        for (name, (gap, error)), (color, marker), shift in gaps:
            style = {"color": color, "markersize": 4.5, "linestyle": "none"}
            ends = {">": gap > _WIDEST, "<": gap < -_WIDEST, marker: abs(gap) <= _WIDEST}
            for sign, here in ends.items():
                kept, where = np.clip(gap, -_WIDEST, _WIDEST)[here], (places + shift)[here]
                bars = 2 * error[here] if sign == marker else None
                label = name if sign == marker else None
                axes.errorbar(
                    kept, where, xerr=bars, marker=sign, elinewidth=1, label=label, **style
                )
        axes.set_xscale("symlog", linthresh=_LOSS, linscale=1)
        axes.set_xticks(_TICKS, [f"{100 * tick:+g} %" if tick else "0" for tick in _TICKS])
        axes.set_xticks([], minor=True)
        axes.set_yticks(places, names)
        axes.set(ylim=(len(places) - 0.5, -0.5), xlim=(-1.15 * _WIDEST, 1.15 * _WIDEST))
        tidy(axes, _TITLES[kind])
    panels[-1].set_xlabel("predicted / simulated loss - 1")
    legend(figure, handles=panels[0].get_legend_handles_labels()[0], **_LEGEND)
    return figure


def summary(dataset: xarray.Dataset) -> str:
    """The setting, and a row for every cell."""
    cells = [Cell(**one) for one in json.loads(dataset.attrs["config"])["cells"]]
    gaps, (gap, _) = _errors(dataset), _accuracy_errors(dataset)
    rows = []
    for place, cell in enumerate(cells):
        at, right = dataset.isel(cell=place), gap.isel(cell=place).values
        moved = float(np.sqrt((at.movement**2).mean()))
        row = [cell.name, cell.kind, f"{cell.num_train}, {cell.sampling_rate:g}, {cell.num_steps}"]
        row += [f"{cell.epsilon:g}", f"{cell.rate:g}", f"{moved:.2f}"]
        for runs in (at.loss, at.accuracy):
            row.append(_told(runs.mean(), harness.standard_error(runs, "run"), ".4f"))
        row += [_told(one[place], its[place], "+.1%") for one, its in gaps.values()]
        row += [_told(one, None, "+.4f") for one in right]
        rows.append([*row, "yes" if at.warned.values[-1] else "no"])
    head = ["cell", "kind", "n, q, T", "ε", "rate", "movement", "loss", "accuracy"]
    head += [f"loss: {name}" for name in gaps]
    head += [f"accuracy: S = {count}" for count in _SEGMENTS] + ["warned"]
    return f"{_setting(dataset)}\n\n{harness.table(head, rows)}"


def _told(value, error, form: str) -> str:
    """A number with its standard error, if it has one; a dash if there is no number."""
    if np.isnan(value):
        return "–"
    return f"{float(value):{form}}" + (
        "" if error is None else f" ± {float(error):{form.lstrip('+')}}"
    )


def _setting(dataset: xarray.Dataset) -> str:
    seconds = {name: float(dataset.seconds.sel(time=name).median()) for name in _TIMES}
    times = ", ".join(f"{name}: {spent:.2g}" for name, spent in seconds.items())
    runs, linear = dataset.sizes["run"], dataset.sizes["linear_run"]
    return (
        "All weights are trained. Multilayer perceptrons start from Equinox's random weights. A "
        "CNN was trained on the digits 0 to 4, and has a new last layer of random weights for two "
        "groups of other digits. Logistic and squared losses "
        "separate two groups of classes (odd and even digits; 6, 8 and 5, 7, 9; vehicles and "
        "animals; above and below the median of kin8nm), softmax losses ten digits. Cells of the "
        "study were proposed by an independent one; new cells were fixed before any result; cells "
        f"at the edge do not count in the verdict. Simulated: {runs} runs, and {linear} of the "
        "network that is linear in its weights, if a run sees at most "
        f"{_MOST_ROWS:,} rows, with one standard error. Batches are Poisson, "
        "δ = 1e-5, C = 1 (at the edge of stability 20). Movement is the root mean square of "
        "|w - w_0|/|w_0|. S is the number of segments of the mean path. Errors of the loss are "
        "relative; those of the accuracy are differences. The last column says whether the "
        f"prediction with S = {_SEGMENTS[-1]} warned. Seconds with other programs running, medians "
        f"over the cells: {times}. First are {runs // 2} runs, and a prediction, with compilation."
    )


claims = harness.claims_of(checks)
harness.main(__name__)
