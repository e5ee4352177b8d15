"""Simulators of private training, and `simulate`, which runs them.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; PF is "Privacy for Free in the Overparameterized Regime".
"""

from jaxdp.simulation.dispatch import simulate
from jaxdp.simulation.iterates import Iterates
from jaxdp.simulation.reduced import Reduced
from jaxdp.simulation.rows.function_space import FunctionSpace
from jaxdp.simulation.rows.gradient_sde import ClippedSDE, OrnsteinUhlenbeckSDE
from jaxdp.simulation.rows.networks import LinearisedNetwork, NetworkTraining
from jaxdp.simulation.streams.homogenized_sde import HomogenizedSDE

__all__ = [
    "ClippedSDE",
    "FunctionSpace",
    "HomogenizedSDE",
    "Iterates",
    "LinearisedNetwork",
    "NetworkTraining",
    "OrnsteinUhlenbeckSDE",
    "Reduced",
    "simulate",
]
