"""Learning-rate schedules: functions of time in [0, 1] that do not increase.

AC is "Better Rates for Private Linear Regression in the Proportional Regime via Aggressive
Clipping".
"""

from jaxdp.schedules.base import AbstractSchedule
from jaxdp.schedules.callables import FromSteps, Plain, as_schedule
from jaxdp.schedules.closed_forms import Constant, Hyperbolic, PiecewiseLinear, Polynomial

__all__ = [
    "AbstractSchedule",
    "Constant",
    "FromSteps",
    "Hyperbolic",
    "PiecewiseLinear",
    "Plain",
    "Polynomial",
    "as_schedule",
]
