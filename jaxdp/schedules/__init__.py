"""Learning-rate schedules: time in [0, 1] to a non-increasing value.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping".
"""

from jaxdp.schedules.base import AbstractSchedule as AbstractSchedule
from jaxdp.schedules.base import is_checked as is_checked
from jaxdp.schedules.base import is_non_increasing as is_non_increasing
from jaxdp.schedules.base import require_non_increasing as require_non_increasing
from jaxdp.schedules.callables import FromSteps as FromSteps
from jaxdp.schedules.callables import Plain as Plain
from jaxdp.schedules.callables import as_schedule as as_schedule
from jaxdp.schedules.closed_forms import Constant as Constant
from jaxdp.schedules.closed_forms import Hyperbolic as Hyperbolic
from jaxdp.schedules.closed_forms import PiecewiseLinear as PiecewiseLinear
from jaxdp.schedules.closed_forms import Polynomial as Polynomial

__all__ = [
    "AbstractSchedule",
    "Constant",
    "FromSteps",
    "Hyperbolic",
    "PiecewiseLinear",
    "Plain",
    "Polynomial",
    "as_schedule",
    "is_checked",
    "is_non_increasing",
    "require_non_increasing",
]
