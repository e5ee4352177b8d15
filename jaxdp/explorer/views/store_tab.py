"""The second tab: any two axes of a sweep, at values of the others that sliders choose."""

import html
from typing import TYPE_CHECKING, Any

import panel

from jaxdp.explorer.stored.slices import (
    Slice,
    axis_of,
    lines_of,
    quantities,
    slice_of,
    spans_decades,
)
from jaxdp.explorer.views.controls import WIDTH
from jaxdp.explorer.views.grid_figure import lines_figure, map_figure
from jaxdp.explorer.views.layout import message_html, message_pane, pane

if TYPE_CHECKING:
    import xarray

_NO_AXIS, _MAP, _LINES = "(none)", "map", "lines"


class StoreTab:
    """Slices of one dataset, in one session.

    Attributes:
        view: the object of Panel.
    """

    def __init__(self, dataset: "xarray.Dataset"):
        self._dataset, self._quantities = dataset, quantities(dataset)
        self._is_setting = False
        names = list(self._quantities)
        width = WIDTH - 20
        self.quantity = panel.widgets.Select(
            label="quantity", options=names, value=names[0], width=width
        )
        self.across = panel.widgets.Select(label="horizontal axis", options=[], width=width)
        self.along = panel.widgets.Select(label="second axis", options=[], width=width)
        self.kind = panel.widgets.RadioButtonGroup(options=[_MAP, _LINES], value=_MAP, width=width)
        self.is_log = panel.widgets.Checkbox(label="logarithmic scale", value=False)
        self.sliders: dict[str, Any] = {}
        self._places = panel.Column(width=width)
        self.message = message_pane()
        self.readout = pane(min_height=26)
        self.picture = panel.Column(sizing_mode="stretch_width")
        for widget in (self.across, self.along, self.kind, self.is_log):
            widget.param.watch(self._draw, "value")
        self.quantity.param.watch(self._chosen, "value")
        settings = panel.Column(
            self.quantity, self.across, self.along, self.kind, self.is_log, self._places
        )
        self.view = panel.Row(
            panel.Column(settings, width=WIDTH + 12),
            panel.Column(
                self.message,
                self.picture,
                self.readout,
                sizing_mode="stretch_width",
                max_width=1000,
                margin=(0, 0, 0, 16),
            ),
            sizing_mode="stretch_width",
        )
        self._chosen(None)

    def _chosen(self, _event) -> None:
        """Another quantity has other axes."""
        dims = self._quantities.get(self.quantity.value)
        if dims is None:
            self._refuse(f"expected one of {', '.join(self._quantities)}")
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
        texts = axis_of(self._dataset, name).texts
        slider = panel.widgets.IntSlider(
            start=0,
            end=len(texts) - 1,
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
            self._refuse(str(error))
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

    def _refuse(self, message: str) -> None:
        self.message.object = message_html(message)
        self.message.visible = True


def _readout(part: Slice, label: str, *, is_map: bool) -> str:
    """Where the quantity is least, and what is not drawn."""
    notes = []
    if part.best is not None:
        row, column = part.best
        places = [(part.across, column)] + ([] if part.along is None else [(part.along, row)])
        where = ", ".join(f"{axis.name} = {axis.texts[place]}" for axis, place in places)
        notes.append(
            f'<span class="readout">least {html.escape(label)}: '
            f"<b>{part.values[row, column]:.4g}</b> at {html.escape(where)}</span>"
        )
    else:
        notes.append('<span class="note">nothing here is finished, or finite</span>')
    if part.along is not None and not is_map:
        drawn, count = len(lines_of(part)), len(part.values)
        is_whole = drawn == count
        lines = (
            "a line for each value of" if is_whole else f"lines for {drawn} of {count} values of"
        )
        notes.append(f'<span class="note">{lines} {html.escape(part.along.name)}</span>')
    return "<br>".join(notes)
