"""What happens: simulators, and the verb that runs them."""

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
