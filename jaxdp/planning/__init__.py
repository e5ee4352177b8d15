"""From a budget to how to run it: plans, by gradients through the theory."""

from jaxdp.planning.dispatch import plan as plan
from jaxdp.planning.streams.optimal_strategy import optimal_strategy as optimal_strategy
from jaxdp.planning.training_plan import Cell as Cell
from jaxdp.planning.training_plan import TrainingPlan as TrainingPlan

__all__ = ["Cell", "TrainingPlan", "optimal_strategy", "plan"]
