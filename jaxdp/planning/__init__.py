"""From a budget to how to run it: plans, by gradients through the theory."""

from jaxdp.planning.dispatch import plan as plan
from jaxdp.planning.features.training_plan import Cell as Cell
from jaxdp.planning.features.training_plan import TrainingPlan as TrainingPlan

__all__ = ["Cell", "TrainingPlan", "plan"]
