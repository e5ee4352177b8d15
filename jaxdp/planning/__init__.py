"""Plans: from a budget to the settings of a run, by gradients through the theory."""

from jaxdp.planning.dispatch import plan
from jaxdp.planning.features.training_plan import TrainingPlan
from jaxdp.planning.forecasts import Forecast, forecast
from jaxdp.planning.streams.best_schedule import Box
from jaxdp.planning.streams.families import FreeForm
from jaxdp.planning.streams.greedy_arc import Optimal
from jaxdp.planning.streams.inverse import best_risks, required_epsilon, required_samples
from jaxdp.planning.streams.one_pass_plan import OnePassPlan
from jaxdp.planning.streams.optimal_strategy import optimal_strategy

__all__ = [
    "Box",
    "Forecast",
    "FreeForm",
    "OnePassPlan",
    "Optimal",
    "TrainingPlan",
    "best_risks",
    "forecast",
    "optimal_strategy",
    "plan",
    "required_epsilon",
    "required_samples",
]
