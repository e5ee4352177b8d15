"""From a budget to how to run it: plans, by gradients through the theory."""

from jaxdp.planning.dispatch import plan as plan
from jaxdp.planning.features.training_plan import Cell as Cell
from jaxdp.planning.features.training_plan import TrainingPlan as TrainingPlan
from jaxdp.planning.streams.family import FreeForm as FreeForm
from jaxdp.planning.streams.one_pass_plan import OnePassPlan as OnePassPlan
from jaxdp.planning.streams.one_pass_plan import Sensitivity as Sensitivity
from jaxdp.planning.streams.optimal import Optimal as Optimal
from jaxdp.planning.streams.optimal_strategy import optimal_strategy as optimal_strategy

__all__ = [
    "Cell",
    "FreeForm",
    "OnePassPlan",
    "Optimal",
    "Sensitivity",
    "TrainingPlan",
    "optimal_strategy",
    "plan",
]
