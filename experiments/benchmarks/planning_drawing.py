"""How a plan is drawn beside random searches."""

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments.harness import drawing, standard_error

# Of what the plan is worth, the largest loss that the picture shows.
_TOP = 1.5


def plot(dataset: xarray.Dataset) -> Figure:
    """What was reported and what it is worth, against the runs of a search; and the time.

    Triangles at the upper edge stand for searches that lie beyond it.
    """
    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    places = np.arange(dataset.sizes["search"])
    looks = {
        "reported": ("reported: best single run, or predicted", drawing.ORANGE, -0.2, "o"),
        "validation": ("new runs, validation rows", drawing.SKY, 0.0, "s"),
        "fresh": ("new runs, rows that nobody saw", drawing.BLUE, 0.2, "D"),
    }
    top = _TOP * float(dataset.planned_fresh)
    for name, (label, color, shift, marker) in looks.items():
        values = dataset[name].transpose("search", "repeat").data
        x = np.broadcast_to(places[:, None] + shift, values.shape)
        is_shown = values < top
        for shown, y, form in ((is_shown, values, marker), (~is_shown, 0 * values + top, "^")):
            look = {"color": color, "ms": 3 if form == marker else 5, "mew": 0}
            left.plot(x[shown], y[shown], form, alpha=0.35, **look)
        error = standard_error(dataset[name], "repeat").data
        look = {"color": color, "label": label, "capsize": 2, "ms": 5, "linestyle": ""}
        left.errorbar(places + shift, values.mean(axis=1), error, marker=marker, **look)
    end = len(places)
    plan = (
        (dataset.predicted, drawing.ORANGE, -0.2, "o"),
        (dataset.planned_validation, drawing.SKY, 0.0, "s"),
        (dataset.planned_fresh, drawing.BLUE, 0.2, "D"),
    )
    for value, color, shift, marker in plan:
        left.plot(end + shift, float(value), marker, color=color, ms=6, mec=drawing.BLACK, mew=0.8)
    left.axhline(float(dataset.planned_fresh), color=drawing.BLUE, lw=0.8, ls=":", zorder=0)
    names = [f"{count}" for count in dataset.search.data]
    left.set_ylim(top=1.02 * top)
    left.set_xticks(range(end + 1), [*names, "plan"])
    left.set_xlabel("single runs of a random search")
    left.set_ylabel("squared error")
    figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize="small")
    drawing.tidy(left, f"$\\epsilon$ = {dataset.attrs['epsilon']:g}")
    seconds = float(dataset.start_seconds) + dataset.search.data * float(dataset.run_seconds)
    bars = right.barh([*names, "plan"], [*seconds, float(dataset.plan_seconds)], height=0.6)
    for bar, color in zip(bars, [drawing.GREY] * end + [drawing.BLUE], strict=True):
        bar.set_color(color)
    right.bar_label(bars, fmt="%.3g", padding=3, fontsize="small")
    right.invert_yaxis()
    right.set_xlim(0, 1.2 * max(*seconds, float(dataset.plan_seconds)))
    right.set_xlabel("seconds")
    drawing.tidy(right, "time, compilation included")
    return figure
