"""How it is learnt: algorithms that simulators, theories and accountants read."""

from jaxdp.algorithms.base import AbstractAlgorithm as AbstractAlgorithm
from jaxdp.algorithms.base import Update as Update
from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD as OnePassDPSGD
from jaxdp.algorithms.optimiser import OptimiserState as OptimiserState
from jaxdp.algorithms.optimiser import PrivateOptimiser as PrivateOptimiser
