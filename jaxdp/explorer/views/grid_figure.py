"""The picture of a slice of a sweep: a map over two axes, or lines over one."""

from typing import Any

import numpy as np
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    FixedTicker,
    LinearColorMapper,
    LogColorMapper,
)
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from jaxdp.explorer.stored.slices import Axis, Slice, edges, lines_of
from jaxdp.explorer.views.curve_figure import styled

# Okabe and Ito's, in an order in which neighbours differ in lightness too.
_COLORS = (
    "#000000",
    "#E69F00",
    "#0072B2",
    "#56B4E9",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#8C8C8C",
)
_BEST = "#D55E00"
_MOST_TICKS = 12
# Beyond this many times the least value a map is one colour: what is far off does not matter.
_RANGE = 100


def map_figure(part: Slice, label: str, *, is_log: bool):
    """A colour for each cell, the least value marked.

    Args:
        part: over two axes.
        label: of the quantity.
        is_log: whether colours are logarithmic, up to a hundred times the least value; only what is
            positive has one then.
    """
    assert part.along is not None
    drawn = _figure(part.across, part.along)
    across, along = edges(part.across), edges(part.along)
    rows, columns = np.indices(part.values.shape)
    values = part.values.ravel()
    shown = np.isfinite(values) & ((values > 0) | (not is_log))
    known = values[shown]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    made = LogColorMapper if is_log and known.size else LinearColorMapper
    if is_log:
        high = min(high, _RANGE * low)
    # A map of one value has a scale all the same.
    high = high if high > low else low + max(abs(low), 1e-6)
    mapper = made(palette=Cividis256, low=low, high=high, nan_color="#FFFFFF")
    cells: Any = {
        "left": across[columns.ravel()],
        "right": across[columns.ravel() + 1],
        "bottom": along[rows.ravel()],
        "top": along[rows.ravel() + 1],
        "value": np.where(shown, values, np.nan),
    }
    ends = {name: name for name in ("left", "right", "bottom", "top")}
    drawn.quad(
        **ends,
        source=ColumnDataSource(cells),
        fill_color={"field": "value", "transform": mapper},
        # In the same colour, so that no seams are seen.
        line_color={"field": "value", "transform": mapper},
    )
    drawn.add_layout(ColorBar(color_mapper=mapper, major_label_text_font_size="11pt"), "right")
    drawn.title.text = label
    drawn.title.text_font_size = "13pt"
    if part.best is not None:
        row, column = part.best
        drawn.scatter(
            [part.across.places[column]],
            [part.along.places[row]],
            marker="star",
            size=16,
            fill_color=_BEST,
            line_color="white",
        )
    styled(drawn)
    return drawn


def lines_figure(part: Slice, label: str, *, is_log: bool):
    """A line for each value of the second axis, or for as many as can be told apart."""
    drawn = _figure(part.across, label, y_scale="log" if is_log else "linear")
    for number, row in enumerate(lines_of(part)):
        values = part.values[row]
        if is_log:
            values = np.where(values > 0, values, np.nan)
        color = _COLORS[number % len(_COLORS)]
        named = (
            {}
            if part.along is None
            else {"legend_label": f"{part.along.name} = {part.along.texts[row]}"}
        )
        drawn.line(part.across.places, values, line_color=color, line_width=2, **named)
        drawn.scatter(part.across.places, values, size=6, color=color, **named)
    styled(drawn)
    return drawn


def _figure(across: Axis, along: Axis | str, *, y_scale: Any = "linear"):
    """An empty figure with the axes' scales and names."""
    is_axis = isinstance(along, Axis)
    drawn: Any = figure(
        height=470,
        sizing_mode="stretch_width",
        min_width=520,
        x_axis_type="log" if across.is_log else "linear",
        y_axis_type=("log" if along.is_log else "linear") if is_axis else y_scale,
        x_axis_label=across.name,
        y_axis_label=along.name if is_axis else along,
        tools="pan,box_zoom,wheel_zoom,reset,save",
        active_drag=None,
    )
    for axis, values in ((drawn.xaxis, across), (drawn.yaxis, along)):
        if isinstance(values, Axis) and _is_named(values):
            kept = np.unique(np.linspace(0, len(values.places) - 1, _MOST_TICKS).round()).tolist()
            axis.ticker = FixedTicker(ticks=kept)
            axis.major_label_overrides = {int(place): values.texts[int(place)] for place in kept}
    return drawn


def _is_named(axis: Axis) -> bool:
    """Whether its places are numbers in a row that stand for words."""
    return any(f"{place:.4g}" != text for place, text in zip(axis.places, axis.texts, strict=True))
