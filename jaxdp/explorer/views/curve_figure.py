"""The picture of a risk over time: prediction with its band, and simulated runs over it."""

from typing import Any

import numpy as np
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, Legend, LegendItem, Whisker
from bokeh.plotting import figure
from jaxtyping import Float

from jaxdp.comparison.picture import Spread
from jaxdp.core.trajectory import Trajectory

# Two of Okabe and Ito's colours, which colour-blind readers tell apart, as in `jaxdp.plots`.
BLACK, BLUE, GREY = "#000000", "#0072B2", "#8C8C8C"
_BAND, _FONT, _HEIGHT = "#B8B8B8", "13pt", 430
# Where what is released is drawn: beyond the end, when the last step's noise has come.
_RELEASED_AT = 1.05
# A band that reaches below zero has no lower edge on a logarithmic axis.
_LEAST = 1e-12
_EMPTY: dict[str, dict[str, Any]] = {
    "line": {"x": [], "y": []},
    "band": {"x": [], "low": [], "high": []},
    "end": {"x": [], "y": [], "low": [], "high": []},
}
_Sources = dict[str, ColumnDataSource]


class CurveFigure:
    """Two figures of the same data, one with a logarithmic axis, of which one is shown.

    Attributes:
        predicted, simulated: what is drawn: a "line", a "band" about it, and its "end", what is
            released.
        kept: another prediction that is drawn to compare with.
        linear, log: the figures.
    """

    def __init__(self, time_label: str, risk_label: str):
        # The names are for a browser's test, which looks for them.
        self.predicted: _Sources = {
            name: ColumnDataSource(dict(data), name=name) for name, data in _EMPTY.items()
        }
        self.simulated: _Sources = {
            name: ColumnDataSource(dict(data)) for name, data in _EMPTY.items()
        }
        self.kept = ColumnDataSource(dict(_EMPTY["line"]))
        self._items: list[dict[str, LegendItem]] = []
        self.linear = self._figure("linear", time_label, risk_label)
        self.log = self._figure("log", time_label, risk_label)
        self._curve: Trajectory | None = None
        self._name()

    def show_curve(self, curve: Trajectory) -> None:
        """Draw another prediction; its band comes later, and simulated runs were of another."""
        self._curve = curve
        time, risk, final = _drawn(curve)
        self.predicted["line"].data = {"x": time, "y": risk}
        self.predicted["band"].data = dict(_EMPTY["band"])
        has_jump = not np.isclose(final, risk[-1], rtol=1e-6, atol=0)
        _put_end(self.predicted, final if has_jump else None, 0.0, time[-1])
        if len(self.simulated["line"].data["x"]):
            for name, data in _EMPTY.items():
                self.simulated[name].data = dict(data)
        self._name()

    def keep(self, is_kept: bool) -> None:
        """Keep the prediction that is shown to compare others with, or forget the kept one."""
        line: Any = self.predicted["line"].data if is_kept else _EMPTY["line"]
        self.kept.data = dict(line)
        self._name()

    def show_band(self, band: Trajectory) -> None:
        """Draw the spread of a prediction about the curve that is shown."""
        assert self._curve is not None
        time, risk, final = _drawn(self._curve)
        _put_band(self.predicted, time, risk, np.asarray(band.std, np.float64))
        if len(self.predicted["end"].data["x"]):
            _put_end(self.predicted, final, float(np.asarray(band.final_std)), time[-1])
        self._name()

    def show_runs(self, time: Float[np.ndarray, " records"], runs: Spread) -> None:
        """Draw the mean of simulated runs, with its standard error."""
        self.simulated["line"].data = {"x": time, "y": runs.mean}
        _put_band(self.simulated, time, runs.mean, runs.error)
        if len(self.predicted["end"].data["x"]):
            # A little to the right of the predicted one, so that both are seen.
            _put_end(self.simulated, float(runs.final), float(runs.final_error), 1.02 * time[-1])
        self._name()

    def _figure(self, scale: Any, time_label: str, risk_label: str):
        drawn = empty_figure(_HEIGHT, time_label, risk_label, "linear", scale)
        predicted, simulated = self.predicted, self.simulated
        edges = {"y1": "low", "y2": "high"}
        band = drawn.varea("x", **edges, source=predicted["band"], fill_color=_BAND, fill_alpha=0.6)
        error = drawn.varea(
            "x", **edges, source=simulated["band"], fill_color=BLUE, fill_alpha=0.35
        )
        kept = drawn.line("x", "y", source=self.kept, line_color=GREY, line_width=3)
        runs = drawn.line("x", "y", source=simulated["line"], line_color=BLUE, line_width=4.5)
        curve = drawn.line("x", "y", source=predicted["line"], line_color=BLACK, line_width=2)
        end = drawn.scatter(
            "x", "y", source=predicted["end"], marker="diamond", size=11, color=BLACK
        )
        drawn.scatter("x", "y", source=simulated["end"], marker="circle", size=8, color=BLUE)
        for source, color in ((predicted, BLACK), (simulated, BLUE)):
            style: Any = {"line_color": color, "line_width": 1.5}
            bars: Any = {"base": "x", "lower": "low", "upper": "high", **style}
            drawn.add_layout(
                Whisker(source=source["end"], upper_head=None, lower_head=None, **bars)
            )
        items = {
            "curve": LegendItem(label="predicted", renderers=[curve]),
            "band": LegendItem(
                label="predicted standard deviation of single runs", renderers=[band]
            ),
            "end": LegendItem(label="released, after the last step's noise", renderers=[end]),
            "kept": LegendItem(label="kept, to compare with", renderers=[kept]),
            "runs": LegendItem(label="simulated, mean and standard error", renderers=[runs, error]),
        }
        self._items.append(items)
        drawn.add_layout(Legend(items=list(items.values())))
        styled(drawn)
        return drawn

    def _name(self) -> None:
        """Legends without what is not there."""
        predicted, simulated = self.predicted, self.simulated
        sources = {"band": predicted["band"], "end": predicted["end"], "runs": simulated["line"]}
        sources["kept"] = self.kept
        for items in self._items:
            for name, source in sources.items():
                items[name].visible = len(source.data["x"]) > 0
            if self._curve is not None:
                items["curve"].label = value(f"predicted, {self._curve.label}")


def _drawn(curve: Trajectory):
    time, risk = np.asarray(curve.time, np.float64), np.asarray(curve.risk, np.float64)
    return time, risk, float(curve.final_risk)


def _put_band(sources: _Sources, time, middle, width) -> None:
    low, high = np.maximum(middle - width, _LEAST), middle + width
    sources["band"].data = {"x": time, "low": low, "high": high}


def _put_end(sources: _Sources, final: float | None, width: float, last: float) -> None:
    """Draw the released risk with its spread; nothing where it is None."""
    if final is None:
        sources["end"].data = dict(_EMPTY["end"])
        return
    ends = {"low": [max(final - width, _LEAST)], "high": [final + width]}
    sources["end"].data = {"x": [_RELEASED_AT * last], "y": [final], **ends}


def empty_figure(height: int, across: str, along: str, x_scale: Any, y_scale: Any) -> Any:
    """A figure with axes of these names and scales."""
    return figure(
        height=height,
        sizing_mode="stretch_width",
        min_width=280,
        x_axis_type=x_scale,
        y_axis_type=y_scale,
        x_axis_label=across,
        y_axis_label=along,
        tools="pan,box_zoom,wheel_zoom,reset,save",
        active_drag=None,
    )


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
