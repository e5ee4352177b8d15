"""The tab of a features file: what private training is forecast to give, over epsilon."""

import functools
import html
from typing import Any

import panel
from bokeh.models import FixedTicker

import jaxdp
from jaxdp.explorer.studies.feature_forecast import FeatureForecast
from jaxdp.explorer.views.background import AbstractTab, Poster
from jaxdp.explorer.views.curve_figure import BLACK, BLUE, GREY, empty_figure, styled
from jaxdp.explorer.views.widgets import code_html, folding_card, grouped_cards, pane, side_by_side
from jaxdp.planning import Forecast

_HEIGHT, _ORANGE = 400, "#D55E00"
_START = (
    "Press the button: nothing private is read, and in a minute or so you see which accuracy "
    "private training is expected to have, and what it would leak."
)


class ForecastTab(AbstractTab):
    """Forecasts from the public rows of one file, in one session."""

    _doing = "a forecast is being made"

    def __init__(self, public: jaxdp.FixedFeatures, path: str, poster: Poster):
        self._set_up(FeatureForecast(public), poster)
        self._path = path
        self.readout, self.whole = pane(f'<span class="note">{_START}</span>'), pane()
        self.code = pane(code_html(self.study.code(path, self.values)))
        self.button = panel.widgets.Button(label="Make the forecast", color="primary", width=150)
        self.keep = panel.widgets.Checkbox(label="keep this curve to compare", align="center")
        self.button.on_click(lambda _: self._act(functools.partial(self._forecast, self.values)))
        self.keep.param.watch(lambda event: self._keep(event.new), "value")
        # What is drawn, and what it is compared with.
        self.shown: Forecast | None = None
        self.kept: Forecast | None = None
        # Empty until there is something to draw.
        self._place = panel.Column(sizing_mode="stretch_width")
        rows = f"{public.num_train} public rows, {public.num_features} features"
        right = (
            panel.Row(self.status, margin=0),
            self.message,
            pane(f'<span class="note">{html.escape(f"{path}: {rows}")}</span>'),
            self._place,
            self.readout,
            panel.Row(self.button, self.keep, margin=(4, 0), styles={"flex-wrap": "wrap"}),
            folding_card("The whole forecast", self.whole, css_class="card-whole", is_open=True),
            folding_card("The Python", self.code, css_class="card-code", is_open=False),
        )
        self.view = side_by_side(grouped_cards(self.study.fields, self.controls), right)

    def _changed(self, name, value):
        try:
            self.values = self.study.changed(self.values, name, value)
        except ValueError as error:
            self.refuse(str(error))
        else:
            self.message.visible = False
        self.controls[name].show(self.values[name])
        self.code.object = code_html(self.study.code(self._path, self.values))

    def _forecast(self, values: dict[str, Any]) -> None:
        """Runs in a thread."""
        self._say("forecasting, compiling first ...")
        found = self.study.forecast(values, lambda share: self._say(f"forecasting: {share:.0%}"))
        self._poster.post(lambda: self.show(found))
        self._say("")

    def show(self, found: Forecast) -> None:
        """Draw a forecast and say it."""
        self.shown = found
        self._draw()
        self.readout.object = _readout(found)
        self.whole.object = found._repr_html_()

    def _keep(self, is_kept: bool) -> None:
        self.kept = self.shown if is_kept else None
        self._draw()

    def _draw(self) -> None:
        if self.shown is not None:
            drawn = forecast_figure(self.shown, self.kept)
            self._place[:] = [panel.pane.Bokeh(drawn, sizing_mode="stretch_width")]


def forecast_figure(found: Forecast, kept: Forecast | None):
    """Accuracy over epsilon, with its interval and the spread of single runs where known."""
    drawn = empty_figure(_HEIGHT, "ε", "accuracy on the public test rows", "log", "linear")
    curves = [(found, BLACK, "expected, best settings of each ε")]
    if kept is not None:
        curves.insert(0, (kept, GREY, "kept, to compare with"))
    for one, color, label in curves:
        places = [point.epsilon for point in one.over_epsilon]
        levels = [point.accuracy for point in one.over_epsilon]
        drawn.line(places, levels, line_color=color, line_width=2, legend_label=label)
        drawn.scatter(places, levels, size=7, color=color, legend_label=label)
        drawn.xaxis.ticker = FixedTicker(ticks=places)
        drawn.xaxis.major_label_overrides = {place: f"{place:.3g}" for place in places}
    level, epsilon = found.accuracy, found.plan.epsilon
    if level is not None:
        bars = [((level.low, level.high), _ORANGE, 2, "interval of nine runs in ten")]
        if (std := level.std) is not None:
            ends = level.mean - std, level.mean + std
            bars.append((ends, BLUE, 6, "standard deviation of single runs"))
        for ends, color, width, label in bars:
            look: Any = {"line_color": color, "line_width": width, "legend_label": label}
            drawn.segment([epsilon], ends[:1], [epsilon], ends[1:], **look)
    styled(drawn)
    drawn.add_layout(drawn.legend[0], "below")
    return drawn


def _readout(found: Forecast) -> str:
    """The accuracy with its interval and the leak, or why no level is told."""
    level, leak, lines = found.accuracy, found.leak, []
    if level is None:
        lines.append(
            '<span class="note">The public rows are only related to the private ones: the settings '
            "transfer, the level of this curve does not.</span>"
        )
    else:
        spread = "" if level.std is None else f"; single runs on one table ± {level.std:.2g}"
        lines.append(
            f'<span class="readout">accuracy at ε = {found.plan.epsilon:g}: <b>{level.mean:.3f}</b>'
            f"</span> <span class='note'>nine runs in ten: {level.low:.3f} to {level.high:.3f}"
            f"{spread}</span>"
        )
    if leak is not None:
        lines.append(
            f'<span class="note">It would leak: AUC {leak.auc:.3f} of the best test for the record '
            f"that is told most easily, proved to be at most {leak.bound:.3f} (.5 is chance)</span>"
        )
    return "<br>".join(lines)
