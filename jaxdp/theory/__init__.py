"""What is predicted: theories, and the verb that asks them."""

from jaxdp.theory.base import AbstractTheory as AbstractTheory
from jaxdp.theory.bounds import LowerBound as LowerBound
from jaxdp.theory.bounds import TightLowerBound as TightLowerBound
from jaxdp.theory.bounds import TightUpperBound as TightUpperBound
from jaxdp.theory.bounds import UpperBound as UpperBound
from jaxdp.theory.clipped_diffusion import ClippedDiffusion as ClippedDiffusion
from jaxdp.theory.clipped_flow import ClippedFlow as ClippedFlow
from jaxdp.theory.coupled_ode import CoupledODE as CoupledODE
from jaxdp.theory.discrete_recursion import DiscreteRecursion as DiscreteRecursion
from jaxdp.theory.dispatch import predict as predict
from jaxdp.theory.unclipped import GradientFlow as GradientFlow
from jaxdp.theory.unclipped import OrnsteinUhlenbeck as OrnsteinUhlenbeck
