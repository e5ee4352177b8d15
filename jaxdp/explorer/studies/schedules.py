"""Learning-rate schedules as settings: a family by name, and its numbers.

The best schedule is found by a plan, as straight lines between knots. Its shape is then a setting
like any other, and the peak still scales it.
"""

from typing import Any

import numpy as np

from jaxdp import Optimal
from jaxdp.explorer.studies.base import Choice, Number, Values
from jaxdp.explorer.studies.python_text import Call, call
from jaxdp.schedules import AbstractSchedule, Constant, Hyperbolic, PiecewiseLinear, Polynomial

GROUP = "Learning rate"
OPTIMAL = "optimal"
# Knots and values of a shape that begins at 1, as a plan found it; a plan comes first.
SHAPE = "shape"
# Straight lines between so many knots follow a planned schedule to about a percent. A gap counts
# relative to the rate there, and to a small share of the first one.
NUM_KNOTS, _SMALL = 24, 1e-2
# What a plan looks among for each family.
FAMILIES = {
    "constant": Constant,
    "polynomial": Polynomial,
    "hyperbolic": Hyperbolic,
    OPTIMAL: Optimal,
}


def schedule_fields(peak: Number, *, start: str, has_optimal: bool) -> tuple[Choice | Number, ...]:
    """The settings of a schedule; the best of all is among them where it can be planned."""
    options = {name: name for name in FAMILIES if name != OPTIMAL}
    if has_optimal:
        options[OPTIMAL] = "optimal, by a plan"
    polynomial, hyperbolic = (("schedule", (name,)) for name in ("polynomial", "hyperbolic"))
    knee = "knee: the time at which the rate has halved"
    return (
        Choice("schedule", "Schedule", options, start, GROUP),
        peak,
        Number("power", "power α of (1 − t)^α", 0.0, 3.0, 0.5, GROUP, shown=polynomial),
        Number(
            *("knee", knee, 1e-3, 10.0, 0.25, GROUP, True),
            shown=hyperbolic,
            help="The rate is η(0) / (1 + t / knee): a small knee falls early.",
        ),
    )


def schedule_call(values: Values, peak: float) -> Call:
    """The call that makes the schedule of some settings; an optimal one has to be planned first."""
    family = values["schedule"]
    if family == "constant":
        return call("jaxdp.Constant", peak)
    if family == "polynomial":
        return call("jaxdp.Polynomial", peak, power=values["power"])
    if family == "hyperbolic":
        return call("jaxdp.Hyperbolic", peak, knee=values["knee"])
    if values.get(SHAPE) is None:
        raise ValueError("expected a plan first: the optimal schedule is found by one, press Plan")
    knots, shape = values[SHAPE]
    return call("jaxdp.PiecewiseLinear", [*knots], [peak * each for each in shape])


def settings_of(schedule: AbstractSchedule) -> tuple[float, dict[str, Any]]:
    """The peak of a schedule that a plan found, and the other settings that make it."""
    if isinstance(schedule, Constant):
        return float(schedule.value), {"schedule": "constant"}
    if isinstance(schedule, Polynomial):
        return float(schedule.peak), {"schedule": "polynomial", "power": float(schedule.power)}
    if isinstance(schedule, Hyperbolic):
        return float(schedule.peak), {"schedule": "hyperbolic", "knee": float(schedule.knee)}
    if isinstance(schedule, PiecewiseLinear):
        knots, rates = (np.asarray(each, np.float64) for each in vars(schedule).values())
        kept = _few_knots(knots, rates)
        shape = (_rounded(knots[kept]), _rounded(rates[kept] / rates[0]))
        return float(rates[0]), {"schedule": OPTIMAL, SHAPE: shape}
    raise ValueError(f"expected a schedule with settings, got {type(schedule).__name__}")


def _few_knots(knots: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Places of so many knots that what is compiled for one plan serves the next one.

    Beginning with the ends, the next is always where straight lines are farthest off.
    """
    kept = [0, len(knots) - 1]
    scale = rates + _SMALL * rates[0]
    while len(kept) < min(NUM_KNOTS, len(knots)):
        gap = np.abs(np.interp(knots, knots[kept], rates[kept]) - rates) / scale
        gap[kept] = -1
        kept = sorted([*kept, int(np.argmax(gap))])
    return np.asarray(kept)


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)
