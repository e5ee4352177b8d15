"""The picture of a risk over time: prediction with its band, and simulated runs over it."""

from typing import Any

import numpy as np
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, Legend, LegendItem, Whisker
from bokeh.plotting import figure

from jaxdp.explorer.studies.base import Band, Curve, Runs

# Of Okabe and Ito's colours, which colour-blind readers tell apart, as in `jaxdp.plots`.
BLACK, BLUE = "#000000", "#0072B2"
_BAND, _FONT, _HEIGHT = "#B8B8B8", "13pt", 430
# Where what is released is drawn: beyond the end, when the last step's noise has come.
_RELEASED_AT = 1.05
_EMPTY_LINE: dict[str, Any] = {"x": [], "y": []}
_EMPTY_BAND: dict[str, Any] = {"x": [], "low": [], "high": []}
_EMPTY_END: dict[str, Any] = {"x": [], "y": [], "low": [], "high": []}
# A band that reaches below zero has no lower edge on a logarithmic axis.
_LEAST = 1e-12


class CurveFigure:
    """Two figures of the same data, one with a logarithmic axis, of which one is shown."""

    def __init__(self, time_label: str, risk_label: str):
        names = {"line": _EMPTY_LINE, "band": _EMPTY_BAND, "end": _EMPTY_END}
        self.predicted = {name: ColumnDataSource(data, name=name) for name, data in names.items()}
        self.simulated = {name: ColumnDataSource(data) for name, data in names.items()}
        self._items: list[dict[str, LegendItem]] = []
        self.linear = self._figure("linear", time_label, risk_label)
        self.log = self._figure("log", time_label, risk_label)
        self._curve: Curve | None = None
        self._name()

    def show_curve(self, curve: Curve) -> None:
        """Draw another prediction; its band comes later, and simulated runs were of another."""
        self._curve = curve
        has_jump = not np.isclose(curve.final_risk, curve.risk[-1], rtol=1e-6, atol=0)
        place = [_RELEASED_AT * curve.time[-1]] if has_jump else []
        final = [curve.final_risk] if has_jump else []
        self.predicted["line"].data = {"x": curve.time, "y": curve.risk}
        self.predicted["end"].data = {"x": place, "y": final, "low": final, "high": final}
        self.predicted["band"].data = dict(_EMPTY_BAND)
        self.hide_runs()
        self._name()

    def show_band(self, band: Band) -> None:
        """Draw the band of the curve that is shown."""
        curve = self._curve
        assert curve is not None
        low = np.maximum(curve.risk - band.std, _LEAST)
        self.predicted["band"].data = {"x": curve.time, "low": low, "high": curve.risk + band.std}
        end: Any = self.predicted["end"].data
        if len(end["x"]):
            edges = (
                max(curve.final_risk - band.final_std, _LEAST),
                curve.final_risk + band.final_std,
            )
            self.predicted["end"].data = {**end, "low": [edges[0]], "high": [edges[1]]}
        self._name()

    def show_runs(self, runs: Runs) -> None:
        """Draw the mean of simulated runs, with its standard error."""
        self.simulated["line"].data = {"x": runs.time, "y": runs.mean}
        low, high = np.maximum(runs.mean - runs.error, _LEAST), runs.mean + runs.error
        self.simulated["band"].data = {"x": runs.time, "low": low, "high": high}
        if len(self.predicted["end"].data["x"]):
            place, error = 1.02 * _RELEASED_AT * runs.time[-1], np.nan_to_num(runs.final_error)
            self.simulated["end"].data = {
                "x": [place],
                "y": [runs.final_mean],
                "low": [max(runs.final_mean - error, _LEAST)],
                "high": [runs.final_mean + error],
            }
        self._name()

    def hide_runs(self) -> None:
        """Take simulated runs away, which belong to other settings."""
        if len(self.simulated["line"].data["x"]):
            self.simulated["line"].data = dict(_EMPTY_LINE)
            self.simulated["band"].data = dict(_EMPTY_BAND)
            self.simulated["end"].data = dict(_EMPTY_END)

    def _figure(self, scale: Any, time_label: str, risk_label: str):
        drawn: Any = figure(
            height=_HEIGHT,
            sizing_mode="stretch_width",
            min_width=520,
            y_axis_type=scale,
            x_axis_label=time_label,
            y_axis_label=risk_label,
            tools="pan,box_zoom,wheel_zoom,reset,save",
            active_drag=None,
        )
        predicted, simulated = self.predicted, self.simulated
        edges = {"y1": "low", "y2": "high"}
        band = drawn.varea("x", **edges, source=predicted["band"], fill_color=_BAND, fill_alpha=0.6)
        error = drawn.varea(
            "x", **edges, source=simulated["band"], fill_color=BLUE, fill_alpha=0.35
        )
        runs = drawn.line("x", "y", source=simulated["line"], line_color=BLUE, line_width=4.5)
        curve = drawn.line("x", "y", source=predicted["line"], line_color=BLACK, line_width=2)
        end = drawn.scatter(
            "x", "y", source=predicted["end"], marker="diamond", size=11, color=BLACK
        )
        drawn.scatter("x", "y", source=simulated["end"], marker="circle", size=8, color=BLUE)
        for source, color in ((predicted, BLACK), (simulated, BLUE)):
            drawn.add_layout(
                Whisker(
                    base="x",
                    lower="low",
                    upper="high",
                    source=source["end"],
                    line_color=color,
                    line_width=1.5,
                    upper_head=None,
                    lower_head=None,
                )
            )
        named = {
            "curve": ("predicted", [curve]),
            "band": ("predicted standard deviation of single runs", [band]),
            "end": ("released, after the last step's noise", [end]),
            "runs": ("simulated, mean and standard error", [runs, error]),
        }
        items = {
            name: LegendItem(label=text, renderers=drawn_as)
            for name, (text, drawn_as) in named.items()
        }
        self._items.append(items)
        drawn.add_layout(Legend(items=list(items.values())))
        styled(drawn)
        return drawn

    def _name(self) -> None:
        """Legends without what is not there."""
        is_there = {
            "curve": True,
            "band": len(self.predicted["band"].data["x"]) > 0,
            "end": len(self.predicted["end"].data["x"]) > 0,
            "runs": len(self.simulated["line"].data["x"]) > 0,
        }
        for items in self._items:
            for name, item in items.items():
                item.visible = is_there[name]
            if self._curve is not None:
                items["curve"].label = value(f"predicted, {self._curve.label}")


def styled(drawn) -> None:
    """Fonts that can be read in a paper, and nothing that is not needed."""
    for axis in drawn.axis:
        axis.axis_label_text_font_size = _FONT
        axis.axis_label_text_font_style = "normal"
        axis.major_label_text_font_size = "11pt"
        axis.minor_tick_line_color = None
    for legend in drawn.legend:
        legend.label_text_font_size = "11pt"
        legend.border_line_color = None
        legend.background_fill_alpha = 0.7
        legend.location = "top_right"
    drawn.grid.grid_line_alpha = 0.4
    drawn.outline_line_color = None
    drawn.min_border_right = 20
    drawn.toolbar.logo = None
    drawn.toolbar.autohide = True
