"""The goals of the benchmark of plans, and its table."""

import numpy as np
import xarray

from experiments import harness
from experiments.harness import Check

_GAP, _ERRORS = 0.02, 3.0


def _mean_and_error(values: xarray.DataArray) -> tuple[xarray.DataArray, xarray.DataArray]:
    return values.mean("repeat"), harness.standard_error(values, "repeat")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals, set before measuring; never asserted by a test."""
    fresh, error = _mean_and_error(dataset.fresh)
    curse, curse_error = _mean_and_error(dataset.reported - dataset.validation)
    counts = [int(count) for count in dataset.search.data]
    planned, planned_error = float(dataset.planned_fresh), float(dataset.planned_fresh_error)
    worse = [
        planned - _ERRORS * np.hypot(planned_error, float(one)) > float(mean)
        for mean, one in zip(fresh, error, strict=True)
    ]
    sigmas = (curse / curse_error).data
    simulated = float(dataset.planned_validation)
    allowed = _GAP * simulated + _ERRORS * float(dataset.planned_validation_error)
    gap = float(dataset.predicted) - simulated
    return [
        Check(
            "on rows that nobody saw the plan is no worse than the mean search of any length, "
            f"within {_ERRORS:g} standard errors",
            f"plan {planned:.4f}({planned_error:.4f}); searches "
            + ", ".join(
                f"{count}: {float(mean):.4f}({float(one):.4f})"
                for count, mean, one in zip(counts, fresh, error, strict=True)
            ),
            not any(worse),
        ),
        Check(
            f"every search reports less than its setting is worth, by {_ERRORS:g} standard errors",
            ", ".join(
                f"{count}: {float(mean):+.4f}({float(one):.4f})"
                for count, mean, one in zip(counts, curse, curse_error, strict=True)
            ),
            bool(np.all(sigmas < -_ERRORS)),
        ),
        Check(
            f"what the plan predicts is simulated, within {_GAP:.0%} and {_ERRORS:g} standard "
            "errors",
            f"predicted {float(dataset.predicted):.4f}, simulated {simulated:.4f}, "
            f"{gap / simulated:+.2%}",
            abs(gap) <= allowed,
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """A table of what was found, and one of the plan's cells."""
    rows = []
    for count in dataset.search.data:
        here = dataset.sel(search=count)
        cells = []
        for values in (here.reported, here.validation, here.reported - here.validation, here.fresh):
            mean, error = _mean_and_error(values)
            cells.append(f"{float(mean):.4f} ± {float(error):.4f}")
        seconds = float(dataset.start_seconds) + int(count) * float(dataset.run_seconds)
        rows.append([f"{count} single runs", *cells, f"{seconds:.1f}"])
    predicted, simulated = float(dataset.predicted), float(dataset.planned_validation)
    error = float(dataset.planned_validation_error)
    rows.append(
        [
            "plan",
            f"{predicted:.4f} (predicted)",
            f"{simulated:.4f} ± {error:.4f}",
            f"{predicted - simulated:.4f} ± {error:.4f}",
            f"{float(dataset.planned_fresh):.4f} ± {float(dataset.planned_fresh_error):.4f}",
            f"{float(dataset.plan_seconds):.1f}",
        ]
    )
    head = ["how", "reported", "new runs, same rows", "reported - true", "rows nobody saw", "s"]
    cells = [
        [
            f"{int(cell.cell_num_steps)}",
            f"{float(cell.cell_sampling_rate):g}",
            f"{float(cell.cell_learning_rate):.4g}",
            f"{float(cell.cell_clip_norm):.4g}",
            f"{float(cell.cell_risk):.4f}{', chosen' if place == dataset.attrs['chosen'] else ''}",
        ]
        for place, cell in ((one, dataset.isel(place=one)) for one in range(dataset.sizes["place"]))
    ]
    columns = ["steps", "sampling rate", "learning rate", "clip norm", "predicted (rank 0)"]
    attrs = dataset.attrs
    return (
        f"n = {attrs['num_train']}, epsilon = {attrs['epsilon']:g}, delta = {attrs['delta']:g}, "
        f"{attrs['adjacency']} throughout; {dataset.sizes['repeat']} searches of each length, and "
        f"{attrs['num_runs']} new runs with what each found. A search draws a cell of the plan, "
        "and learning rate and clip norm uniformly in their logarithms, the rate up to gradient "
        "descent's limit; it trains 50 at once. Seconds hold calibrations and compilation, the "
        "plan's the prediction of the chosen cell and its spread too; the machine was shared with "
        "other work, so that they tell the order of magnitude alone. At this size a simulated run "
        "costs less than a prediction: what a plan buys is an objective without noise. Both choose "
        "by the validation rows, and neither is private: both want public rows.\n\n"
        + harness.table(head, rows)
        + "\n\n"
        + harness.table(columns, cells)
    )
