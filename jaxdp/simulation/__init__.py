"""What happens: simulators, and the verb that runs them."""

from jaxdp.simulation.base import AbstractSimulator as AbstractSimulator
from jaxdp.simulation.dispatch import simulate as simulate
from jaxdp.simulation.function_space import FunctionSpace as FunctionSpace
from jaxdp.simulation.gradient_sde import ClippedSDE as ClippedSDE
from jaxdp.simulation.gradient_sde import OrnsteinUhlenbeckSDE as OrnsteinUhlenbeckSDE
from jaxdp.simulation.homogenized_sde import HomogenizedSDE as HomogenizedSDE
from jaxdp.simulation.iterates import Iterates as Iterates
from jaxdp.simulation.reduced import Reduced as Reduced

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
