"""From a budget to how to run it: plans, by gradients through the theory.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping".
"""

from jaxdp.planning.dispatch import plan as plan
from jaxdp.planning.features.training_plan import Cell as Cell
from jaxdp.planning.features.training_plan import TrainingPlan as TrainingPlan
from jaxdp.planning.forecasts import CurvePoint as CurvePoint
from jaxdp.planning.forecasts import Forecast as Forecast
from jaxdp.planning.forecasts import Level as Level
from jaxdp.planning.forecasts import forecast as forecast
from jaxdp.planning.streams.families import FreeForm as FreeForm
from jaxdp.planning.streams.inverse import best_risks as best_risks
from jaxdp.planning.streams.inverse import required_epsilon as required_epsilon
from jaxdp.planning.streams.inverse import required_samples as required_samples
from jaxdp.planning.streams.one_pass_plan import OnePassPlan as OnePassPlan
from jaxdp.planning.streams.one_pass_plan import Sensitivity as Sensitivity
from jaxdp.planning.streams.optimal import Optimal as Optimal
from jaxdp.planning.streams.optimal_strategy import optimal_strategy as optimal_strategy
from jaxdp.planning.streams.robust import Box as Box

__all__ = [
    "Box",
    "Cell",
    "CurvePoint",
    "Forecast",
    "FreeForm",
    "Level",
    "OnePassPlan",
    "Optimal",
    "Sensitivity",
    "TrainingPlan",
    "best_risks",
    "forecast",
    "optimal_strategy",
    "plan",
    "required_epsilon",
    "required_samples",
]
