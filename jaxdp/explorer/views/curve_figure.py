"""The picture of a risk over time: prediction with its band, and simulated runs over it."""

from typing import Any

import numpy as np
import panel
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, Legend, LegendItem, Whisker
from bokeh.plotting import figure
from jaxtyping import Float

from jaxdp.comparison.picture import Spread
from jaxdp.core.trajectory import Trajectory

# Two of Okabe and Ito's colours, which colour-blind readers tell apart, as in `jaxdp.plots`.
_BLACK, _BLUE, _GREY = "#000000", "#0072B2", "#8C8C8C"
_BAND, _HEIGHT = "#B8B8B8", 430
# The released risk is drawn beyond the end, when the last step's noise has come. The simulated one
# stands a little to the left of the predicted one, so that both are seen.
_RELEASED_AT, _SIMULATED_AT = 1.05, 1.02
# A band that reaches below zero has no lower edge on a logarithmic axis.
_LEAST = 1e-12
_LABELS = {
    "curve": "predicted",
    "band": "predicted standard deviation of single runs",
    "end": "released, after the last step's noise",
    "kept": "kept, to compare with",
    "runs": "simulated, mean and standard error",
}
_EMPTY: dict[str, list[float]] = {"x": [], "y": [], "low": [], "high": []}


class CurveFigure:
    """A risk over time, on a linear or a logarithmic axis.

    Attributes:
        pane: the object of Panel; empty until there is something to draw.
        sources: the numbers that are drawn: "line", "band" and "end" of the prediction, "kept" for
            another prediction to compare with, "runs" and "runs_end" of a simulation.
    """

    def __init__(self, time_label: str, risk_label: str):
        self._labels = time_label, risk_label
        # The names are for a browser's test, which looks for them.
        self.sources = {
            name: ColumnDataSource(dict(_EMPTY), name=name)
            for name in ("line", "band", "end", "kept", "runs", "runs_end")
        }
        self._items: dict[str, LegendItem] = {}
        self._curve: Trajectory | None = None
        self.pane = panel.pane.Bokeh(None, sizing_mode="stretch_width", min_height=_HEIGHT)

    def show_curve(self, curve: Trajectory) -> None:
        """Draw another prediction; its band comes later, and simulated runs were of another."""
        time, risk = np.asarray(curve.time, np.float64), np.asarray(curve.risk, np.float64)
        self._curve = curve
        self._put("line", time, risk)
        for name in ("band", "end", "runs", "runs_end"):
            self.sources[name].data = dict(_EMPTY)
        if not np.isclose(float(curve.final_risk), risk[-1], rtol=1e-6, atol=0):
            self._put("end", [_RELEASED_AT * time[-1]], [float(curve.final_risk)])
        self._name()

    def show_band(self, band: Trajectory) -> None:
        """Draw the spread of a prediction about the curve that is shown."""
        line, end = self.sources["line"].data, self.sources["end"].data
        self._put("band", line["x"], line["y"], np.asarray(band.std, np.float64))
        if len(end["x"]):
            self._put("end", end["x"], end["y"], float(np.asarray(band.final_std)))
        self._name()

    def show_runs(self, time: Float[np.ndarray, " records"], runs: Spread) -> None:
        """Draw the mean of simulated runs, with its standard error."""
        self._put("runs", time, runs.mean, runs.error)
        if len(self.sources["end"].data["x"]):
            self._put("runs_end", [_SIMULATED_AT * time[-1]], [runs.final], runs.final_error)
        self._name()

    def keep(self, is_kept: bool) -> None:
        """Keep the prediction that is shown to compare others with, or forget the kept one."""
        line: Any = self.sources["line"].data if is_kept else _EMPTY
        self.sources["kept"].data = dict(line)
        self._name()

    def draw(self, *, is_log: bool) -> None:
        """Draw the picture anew, with this scale of the risk."""
        drawn: Any = figure(
            height=_HEIGHT,
            sizing_mode="stretch_width",
            min_width=280,
            y_axis_type="log" if is_log else "linear",
            x_axis_label=self._labels[0],
            y_axis_label=self._labels[1],
            tools="pan,box_zoom,wheel_zoom,reset,save",
            active_drag=None,
        )

        def area(name, color, alpha):
            source = self.sources[name]
            return drawn.varea("x", "low", "high", source=source, fill_color=color, alpha=alpha)

        def line(name, color, width):
            source = self.sources[name]
            return drawn.line("x", "y", source=source, line_color=color, line_width=width)

        def end(name, color, marker):
            source = self.sources[name]
            bars: Any = {"base": "x", "lower": "low", "upper": "high", "line_color": color}
            drawn.add_layout(Whisker(source=source, upper_head=None, lower_head=None, **bars))
            return drawn.scatter("x", "y", source=source, marker=marker, size=10, color=color)

        band, error = area("band", _BAND, 0.6), area("runs", _BLUE, 0.35)
        kept, runs = line("kept", _GREY, 3), line("runs", _BLUE, 4.5)
        curve, released = line("line", _BLACK, 2), end("end", _BLACK, "diamond")
        end("runs_end", _BLUE, "circle")
        parts = {"curve": [curve], "band": [band], "end": [released], "kept": [kept]}
        parts["runs"] = [runs, error]
        self._items = {
            name: LegendItem(label=_LABELS[name], renderers=renderers)
            for name, renderers in parts.items()
        }
        drawn.add_layout(Legend(items=list(self._items.values())))
        _style(drawn)
        self._name()
        self.pane.object = drawn

    def _put(self, name: str, x: Any, y: Any, width: Any = 0.0) -> None:
        y = np.asarray(y, np.float64)
        low = np.maximum(y - width, _LEAST)
        self.sources[name].data = {"x": x, "y": y, "low": low, "high": y + width}

    def _name(self) -> None:
        """Name in the legend only what is there."""
        for name, item in self._items.items():
            item.visible = name == "curve" or len(self.sources[name].data["x"]) > 0
        if self._items and self._curve is not None:
            self._items["curve"].label = value(f"predicted, {self._curve.label}")


def _style(drawn: Any) -> None:
    """Fonts that can be read in a paper, and nothing that is not needed."""
    for axis in drawn.axis:
        axis.axis_label_text_font_size = "13pt"
        axis.axis_label_text_font_style = "normal"
        axis.major_label_text_font_size = "11pt"
        axis.minor_tick_line_color = None
    for legend in drawn.legend:
        legend.label_text_font_size = "11pt"
        legend.border_line_color = None
        legend.background_fill_alpha = 0.7
    drawn.grid.grid_line_alpha = 0.4
    drawn.outline_line_color = None
    drawn.min_border_right = 20
    drawn.toolbar.logo = None
    drawn.toolbar.autohide = True
