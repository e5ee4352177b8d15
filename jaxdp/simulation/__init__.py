"""What happens: simulators, and the verb that runs them."""

from jaxdp.simulation.base import AbstractSimulator as AbstractSimulator
from jaxdp.simulation.dispatch import simulate as simulate
from jaxdp.simulation.homogenized_sde import HomogenizedSDE as HomogenizedSDE
from jaxdp.simulation.iterates import Iterates as Iterates
