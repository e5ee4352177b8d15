"""What private training on features is forecast to give, as a function of settings."""

import math
from collections.abc import Callable

import jaxdp
from jaxdp.explorer.studies.base import AbstractSettings, Choice, Field, Number, Values
from jaxdp.planning import Forecast

_TABLE, _PRIVACY, _TRAINING = "Private table", "Privacy budget", "Training"
_ALIKE = {"alike": "like the private ones", "unlike": "only related, such as other classes"}
# Rows of a batch that are expected at least.
_SMALLEST_BATCH = 1
# Rows, features, outputs and steps, multiplied: some minutes of a processor.
_MOST_WORK = 10**9


class FeatureForecast(AbstractSettings):
    """The forecast from public features, at one number of steps and one sampling rate."""

    fields: tuple[Field, ...]  # its settings

    def __init__(self, public: jaxdp.FixedFeatures):
        self._public = public
        rows = public.num_train
        most = max(100 * rows, 100)
        self.fields = (
            Number(
                *("num_samples", "n, private rows", min(rows, 20), most, rows, _TABLE, True, True),
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

    def check(self, values):
        """Any settings go together; those of many minutes are refused when they are asked for."""

    def forecast(self, values: Values, progress: Callable[[float], None]) -> Forecast:
        """The forecast, in a minute or so; ValueError if it would take many."""
        batch = values["sampling_rate"] * values["num_samples"]
        if batch < _SMALLEST_BATCH:
            raise ValueError(
                f"expected batches of at least one row, q n >= {_SMALLEST_BATCH}, got {batch:.2g}"
            )
        outputs = self._public.loss.num_outputs or 1
        sizes = values["num_samples"], self._public.num_features, outputs, values["num_steps"]
        if math.prod(sizes) > _MOST_WORK:
            raise ValueError(
                f"expected n x features x classes x steps <= {_MOST_WORK:.0e}, got "
                f"{math.prod(sizes):.1e}: take fewer, or run the Python below"
            )
        return jaxdp.forecast(self._public, **values, progress=progress)

    def code(self, path: str, values: Values) -> str:
        """Python that makes the same forecast."""
        given = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return "\n".join(
            (
                "import jaxdp",
                "import jaxdp.explorer",
                "import jaxdp.plots",
                "",
                f"public = jaxdp.explorer.open_features({path!r})",
                f"forecast = jaxdp.forecast(public, {given})",
                "print(forecast)",
                'jaxdp.plots.plot_forecast(forecast).savefig("forecast.png")',
                "",
            )
        )
