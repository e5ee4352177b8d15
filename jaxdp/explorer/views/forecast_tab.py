"""The tab of a features file: what private training is forecast to give, over epsilon."""

import asyncio
import functools
import html
from typing import Any

import panel

import jaxdp
from jaxdp.explorer.studies.base import Values
from jaxdp.explorer.studies.feature_forecast import FeatureForecast
from jaxdp.explorer.views.tab import AbstractTab
from jaxdp.explorer.views.widgets import code_html, folding_card, grouped_cards, pane, side_by_side
from jaxdp.planning import Forecast
from jaxdp.plots import plot_forecast

_START = (
    "Press the button: nothing private is read, and in a minute or so you see which accuracy "
    "private training is expected to have, and what it would leak."
)


class ForecastTab(AbstractTab):
    """Forecasts from the public rows of one file, in one session."""

    def __init__(self, public: jaxdp.FixedFeatures, path: str):
        self.study, self._path = FeatureForecast(public), path
        self._set_up(self.study)
        self.readout, self.whole = pane(f'<span class="note">{_START}</span>'), pane()
        self.code = pane(code_html(self.study.code(path, self.values)))
        self.button = panel.widgets.Button(label="Make the forecast", color="primary", width=150)
        self.keep = panel.widgets.Checkbox(label="keep this curve to compare", align="center")
        self.button.on_click(
            lambda _: self.start("forecasting", functools.partial(self._forecast, self.values))
        )
        panel.bind(self._keep, self.keep, watch=True)
        # What is drawn, and what it is compared with.
        self.shown: Forecast | None = None
        self.kept: Forecast | None = None
        self.picture = panel.pane.Matplotlib(None, sizing_mode="scale_width", max_width=900)
        rows = f"{public.num_train} public rows, {public.num_features} features"
        right = (
            panel.Row(self.status, margin=0),
            self.message,
            pane(f'<span class="note">{html.escape(f"{path}: {rows}")}</span>'),
            self.picture,
            self.readout,
            panel.Row(self.button, self.keep, margin=(4, 0), styles={"flex-wrap": "wrap"}),
            folding_card("The whole forecast", self.whole, is_open=True),
            folding_card("The Python", self.code, is_open=False),
        )
        self.view = side_by_side(grouped_cards(self.study.fields, self.views), right)

    def show(self, found: Forecast) -> None:
        """Draw a forecast and say it."""
        self.shown = found
        self._draw()
        self.readout.object = _readout(found)
        self.whole.object = found._repr_html_()

    def _follow(self):
        self.code.object = code_html(self.study.code(self._path, self.values))

    def _refused(self, name, value, message):
        self.refuse(message)

    async def _forecast(self, values: Values) -> None:
        self.show(await asyncio.to_thread(self.study.forecast, values, self.progress()))

    def _keep(self, is_kept: bool) -> None:
        self.kept = self.shown if is_kept else None
        self._draw()

    def _draw(self) -> None:
        if self.shown is not None:
            self.picture.object = forecast_figure(self.shown, self.kept)


def forecast_figure(found: Forecast, kept: Forecast | None) -> Any:
    """The picture of `plot_forecast`, with the curves of another forecast in grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    if kept is not None:
        for axes, name, curve in (
            (panels[0], "epsilon", kept.over_epsilon),
            (panels[1], "num_samples", kept.over_samples),
        ):
            places = [getattr(one, name) for one in curve]
            style: Any = {"color": "#8C8C8C", "label": "kept, to compare with"}
            axes.plot(places, [one.accuracy for one in curve], "o-", **style)
    plot_forecast(found, ax=panels)
    return figure


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
