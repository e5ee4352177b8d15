"""What happens: simulators, and the verb that runs them.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; PF is "Privacy for Free in the Overparameterized Regime".
"""

from jaxdp.simulation.base import AbstractSimulator as AbstractSimulator
from jaxdp.simulation.dispatch import simulate as simulate
from jaxdp.simulation.iterates import Iterates as Iterates
from jaxdp.simulation.reduced import Reduced as Reduced
from jaxdp.simulation.rows.function_space import FunctionSpace as FunctionSpace
from jaxdp.simulation.rows.gradient_sde import ClippedSDE as ClippedSDE
from jaxdp.simulation.rows.gradient_sde import OrnsteinUhlenbeckSDE as OrnsteinUhlenbeckSDE
from jaxdp.simulation.streams.homogenized_sde import HomogenizedSDE as HomogenizedSDE

__all__ = [
    "AbstractSimulator",
    "ClippedSDE",
    "FunctionSpace",
    "HomogenizedSDE",
    "Iterates",
    "OrnsteinUhlenbeckSDE",
    "Reduced",
    "simulate",
]
