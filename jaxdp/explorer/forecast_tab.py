"""The forecast tab: the expected accuracy of private training over epsilon."""

import functools
import math

import panel

import jaxdp
from jaxdp.explorer.fields import Choice, Number, read
from jaxdp.explorer.parts import Progress, Run, Work, code_html, form, pane, side_by_side
from jaxdp.plots import plot_forecast

_TABLE, _PRIVACY, _TRAINING = "Private table", "Privacy budget", "Training"
_ALIKE = {"alike": "like the private ones", "unlike": "only related, such as other classes"}
# Largest product of rows, features, outputs and steps: some minutes of processor time.
_MOST_WORK = 10**9
_CODE = """\
import jaxdp
import jaxdp.explorer

public = jaxdp.explorer.open_features({path!r})
forecast = jaxdp.forecast(public, {given})
print(forecast)
jaxdp.plots.plot_forecast(forecast).savefig("forecast.png")
"""


class ForecastTab:
    """Forecasts from the public rows of one file, in one session.

    Attributes:
        view: the Panel object.
        widgets: one widget for each setting.
    """

    def __init__(self, public: jaxdp.FixedFeatures, path: str):
        rows = public.num_train
        most, few = max(100 * rows, 100), min(rows, 20)
        self.fields = (
            Number(
                *("num_samples", "n, private rows", few, most, rows, _TABLE, True, True),
                help="The public rows are repeated or left out until there are as many.",
            ),
            Choice("stand_in", "The public rows are", _ALIKE, "alike", _TABLE),
            Number(
                *("epsilon", "ε, middle of the range", 0.05, 20.0, 2.0, _PRIVACY, True),
                help="The curve reaches from a quarter of it to four times it.",
            ),
            Number("delta", "δ", 1e-12, 1e-2, 1e-5, _PRIVACY, True),
            Number("num_steps", "T, steps", 5, 500, 50, _TRAINING, True, True),
            Number(
                *("sampling_rate", "q, sampling rate", 0.001, 1.0, 0.2, _TRAINING, True),
                help="The expected share of the rows in a batch; 1 is the full batch.",
            ),
        )
        self._public, self._path = public, path
        settings, self.widgets = form(self.fields)
        self.button = panel.widgets.Button(label="Make the forecast", color="primary", width=150)
        self.picture = panel.pane.Matplotlib(None, sizing_mode="scale_width", max_width=900)
        self.whole, self.code = pane(), pane()
        self.work = Work(
            f"{path}: {rows} public rows, {public.num_features} features. Press the button: in "
            "about a minute you see the expected accuracy of private training and what it would "
            "leak. No private data is read.",
            self._follow,
        )
        shown = self.work.state, self.button, self.picture, self.whole, self.code
        self.view = side_by_side(settings, *shown)
        self.button.on_click(self.work.do)

    async def _follow(self, run: Run, progress: Progress) -> None:
        """Make a forecast with the values of the widgets."""
        values = read(self.fields, {name: one.value for name, one in self.widgets.items()})
        given = ", ".join(f"{name}={value!r}" for name, value in values.items())
        self.code.object = code_html(_CODE.format(path=self._path, given=given))
        outputs = self._public.loss.num_outputs or 1
        sizes = values["num_samples"], self._public.num_features, outputs, values["num_steps"]
        if math.prod(sizes) > _MOST_WORK:
            raise ValueError(
                f"expected n x features x classes x steps <= {_MOST_WORK:.0e}, got "
                f"{math.prod(sizes):.1e}: take fewer, or run the Python below"
            )
        forecast = functools.partial(jaxdp.forecast, **values, progress=progress)
        found = await run("forecasting", forecast, self._public)
        self.picture.object = plot_forecast(found)
        self.whole.object = found._repr_html_()
