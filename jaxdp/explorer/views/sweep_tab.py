"""The tab of a sweep: any two of its axes, at values of the others that sliders choose."""

import html
from typing import TYPE_CHECKING, Any

import numpy as np
import panel
from bokeh.models import ColorBar, ColumnDataSource, FixedTicker, LinearColorMapper, LogColorMapper
from bokeh.palettes import Viridis256

from jaxdp.explorer.sweep_slices import (
    Axis,
    Slice,
    axis_of,
    lines_of,
    quantities,
    slice_of,
    spans_decades,
)
from jaxdp.explorer.views.curve_figure import empty_figure, styled
from jaxdp.explorer.views.widgets import WIDTH, message_pane, pane, show_message, side_by_side
from jaxdp.plots.grids import cell_edges

if TYPE_CHECKING:
    import xarray

_NO_AXIS, _MAP, _LINES = "(none)", "map", "lines"
# Okabe and Ito's colours, in an order in which neighbours differ in lightness too.
_COLORS = ["#000000", "#E69F00", "#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#8C8C8C"]
_BEST, _HEIGHT, _MOST_TICKS = "#D55E00", 470, 12
# Beyond this many times the least value a map is one colour: what is far off does not matter.
_RANGE = 100


class SweepTab:
    """Slices of one dataset, in one session.

    Attributes:
        view: the object of Panel.
    """

    def __init__(self, dataset: "xarray.Dataset"):
        self._dataset, self._quantities = dataset, quantities(dataset)
        self._is_setting = False
        names, wide = list(self._quantities), {"width": WIDTH - 20}
        self.quantity = panel.widgets.Select(
            label="quantity", options=names, value=names[0], **wide
        )
        self.across = panel.widgets.Select(label="horizontal axis", options=[], **wide)
        self.along = panel.widgets.Select(label="second axis", options=[], **wide)
        self.kind = panel.widgets.RadioButtonGroup(options=[_MAP, _LINES], value=_MAP, **wide)
        self.is_log = panel.widgets.Checkbox(label="logarithmic scale", value=False)
        self.sliders: dict[str, Any] = {}
        self._labels: dict[str, Any] = {}
        self._places = panel.Column(**wide)
        self.message, self.readout = message_pane(), pane(min_height=26)
        self.picture = panel.Column(sizing_mode="stretch_width")
        watched = self.across, self.along, self.kind, self.is_log
        for widget in watched:
            widget.param.watch(self._draw, "value")
        self.quantity.param.watch(self._chosen, "value")
        self.view = side_by_side(
            (self.quantity, *watched, self._places), (self.message, self.picture, self.readout)
        )
        self._chosen(None)

    def refuse(self, message: str) -> None:
        """Say why something is not done; nothing else changes."""
        show_message(self.message, message)

    def _chosen(self, _event) -> None:
        """Another quantity has other axes."""
        dims = self._quantities.get(self.quantity.value)
        if dims is None:
            self.refuse(f"expected one of {', '.join(self._quantities)}")
            return
        longest = sorted(dims, key=lambda name: -self._dataset.sizes[name])
        self._is_setting = True
        try:
            self.across.options, self.across.value = list(dims), longest[0]
            self.along.options = [_NO_AXIS, *dims]
            self.along.value = longest[1] if len(dims) > 1 else _NO_AXIS
            self.is_log.value = spans_decades(self._dataset[self.quantity.value].data)
        finally:
            self._is_setting = False
        self.sliders = {name: self._slider(name) for name in dims}
        self._labels = {name: pane(margin=(6, 5, 0, 5)) for name in dims}
        self._places[:] = [
            part for name in dims for part in (self._labels[name], self.sliders[name])
        ]
        self._draw(None)

    def _slider(self, name: str):
        slider = panel.widgets.IntSlider(
            start=0,
            end=self._dataset.sizes[name] - 1,
            value=0,
            show_value=False,
            width=WIDTH - 20,
            bar_color="#0072B2",
        )
        slider.param.watch(self._draw, "value")
        return slider

    def _draw(self, _event) -> None:
        if self._is_setting:
            return
        along = None if self.along.value == _NO_AXIS else self.along.value
        at = {name: slider.value for name, slider in self.sliders.items()}
        try:
            part = slice_of(self._dataset, self.quantity.value, self.across.value, along, at)
        except (ValueError, TypeError) as error:
            # The picture stays as it was.
            self.refuse(str(error))
            return
        self.message.visible = False
        for name, slider in self.sliders.items():
            texts = axis_of(self._dataset, name).texts
            self._labels[name].object = html.escape(f"{name} = {texts[slider.value]}")
            is_free = name not in (self.across.value, along)
            slider.visible = self._labels[name].visible = is_free
        label, is_log = str(self.quantity.value), bool(self.is_log.value)
        is_map = self.kind.value == _MAP and along is not None
        drawn = (map_figure if is_map else lines_figure)(part, label, is_log=is_log)
        self.picture[:] = [panel.pane.Bokeh(drawn, sizing_mode="stretch_width")]
        self.readout.object = _readout(part, label, is_map=is_map)


def map_figure(part: Slice, label: str, *, is_log: bool):
    """A colour for each cell of a slice over two axes, the least value marked.

    Logarithmic colours go up to a hundred times the least value; only what is positive has one
    then.
    """
    assert part.along is not None
    scales = ("log" if axis.is_log else "linear" for axis in (part.across, part.along))
    drawn = empty_figure(_HEIGHT, part.across.name, part.along.name, *scales)
    _name_ticks(drawn.xaxis, part.across)
    _name_ticks(drawn.yaxis, part.along)
    across, along = cell_edges(part.across.places), cell_edges(part.along.places)
    rows, columns = (each.ravel() for each in np.indices(part.values.shape))
    values = part.values.ravel()
    shown = np.isfinite(values) & ((values > 0) | (not is_log))
    known = values[shown]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if is_log:
        high = min(high, _RANGE * low)
    # A map of one value has a scale all the same.
    high = high if high > low else low + max(abs(low), 1e-6)
    made = LogColorMapper if is_log and known.size else LinearColorMapper
    # Low is yellow, as in the pictures of jaxdp.plots.
    mapper = made(palette=Viridis256[::-1], low=low, high=high, nan_color="#FFFFFF")
    cells: Any = {
        "left": across[columns],
        "right": across[columns + 1],
        "bottom": along[rows],
        "top": along[rows + 1],
        "value": np.where(shown, values, np.nan),
    }
    color = {"field": "value", "transform": mapper}
    ends = {name: name for name in ("left", "right", "bottom", "top")}
    # Lines in the colour of the cells, so that no seams are seen.
    drawn.quad(**ends, source=ColumnDataSource(cells), fill_color=color, line_color=color)
    drawn.add_layout(ColorBar(color_mapper=mapper, major_label_text_font_size="11pt"), "right")
    drawn.title.text = label
    drawn.title.text_font_size = "13pt"
    if part.best is not None:
        row, column = part.best
        place = [part.across.places[column]], [part.along.places[row]]
        drawn.scatter(*place, marker="star", size=16, fill_color=_BEST, line_color="black")
    styled(drawn)
    return drawn


def lines_figure(part: Slice, label: str, *, is_log: bool):
    """A line for each value of the second axis, or for as many as can be told apart."""
    scales = ("log" if each else "linear" for each in (part.across.is_log, is_log))
    drawn = empty_figure(_HEIGHT, part.across.name, label, *scales)
    _name_ticks(drawn.xaxis, part.across)
    for number, row in enumerate(lines_of(part)):
        values = part.values[row]
        if is_log:
            values = np.where(values > 0, values, np.nan)
        color, along = _COLORS[number % len(_COLORS)], part.along
        named = {} if along is None else {"legend_label": f"{along.name} = {along.texts[row]}"}
        drawn.line(part.across.places, values, line_color=color, line_width=2, **named)
        drawn.scatter(part.across.places, values, size=6, color=color, **named)
    styled(drawn)
    return drawn


def _name_ticks(drawn_axis: Any, axis: Axis) -> None:
    """Words at the ticks of an axis whose places are only numbers in a row."""
    is_number = (f"{at:.4g}" == text for at, text in zip(axis.places, axis.texts, strict=True))
    if all(is_number):
        return
    kept = np.unique(np.linspace(0, len(axis.places) - 1, _MOST_TICKS).round()).tolist()
    drawn_axis.ticker = FixedTicker(ticks=kept)
    drawn_axis.major_label_overrides = {int(place): axis.texts[int(place)] for place in kept}


def _readout(part: Slice, label: str, *, is_map: bool) -> str:
    """Where the quantity is least, and what is not drawn."""
    notes = ['<span class="note">nothing here is finished, or finite</span>']
    if part.best is not None:
        row, column = part.best
        places = [(part.across, column)] + ([] if part.along is None else [(part.along, row)])
        where = ", ".join(f"{axis.name} = {axis.texts[place]}" for axis, place in places)
        notes = [
            f'<span class="readout">least {html.escape(label)}: '
            f"<b>{part.values[row, column]:.4g}</b> at {html.escape(where)}</span>"
        ]
    if part.along is not None and not is_map:
        drawn, count = len(lines_of(part)), len(part.values)
        lines = "a line for each value of"
        if drawn < count:
            lines = f"lines for {drawn} of {count} values of"
        notes.append(f'<span class="note">{lines} {html.escape(part.along.name)}</span>')
    return "<br>".join(notes)
