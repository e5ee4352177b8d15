"""From a budget to how to run it: plans, by gradients through the theory.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping".
"""

from jaxdp.planning.dispatch import plan as plan
from jaxdp.planning.features.training_plan import Cell as Cell
from jaxdp.planning.features.training_plan import TrainingPlan as TrainingPlan
from jaxdp.planning.streams.box import Box as Box
from jaxdp.planning.streams.certificate import certified_risk as certified_risk
from jaxdp.planning.streams.families.family import FreeForm as FreeForm
from jaxdp.planning.streams.floor import small_aspect_risk as small_aspect_risk
from jaxdp.planning.streams.frontier import best_risks as best_risks
from jaxdp.planning.streams.greedy.optimal import Optimal as Optimal
from jaxdp.planning.streams.inverse import required_epsilon as required_epsilon
from jaxdp.planning.streams.inverse import required_samples as required_samples
from jaxdp.planning.streams.one_pass_plan import OnePassPlan as OnePassPlan
from jaxdp.planning.streams.one_pass_plan import Sensitivity as Sensitivity
from jaxdp.planning.streams.optimal_strategy import optimal_strategy as optimal_strategy

__all__ = [
    "Box",
    "Cell",
    "FreeForm",
    "OnePassPlan",
    "Optimal",
    "Sensitivity",
    "TrainingPlan",
    "best_risks",
    "certified_risk",
    "optimal_strategy",
    "plan",
    "required_epsilon",
    "required_samples",
    "small_aspect_risk",
]
