"""How it is learnt: algorithms that simulators, theories and accountants read.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; PF is "Privacy for Free in the Overparameterized Regime"; DR is "A Law of Data
Reconstruction for Random Features (and Beyond)".
"""

from jaxdp.algorithms.base import AbstractAlgorithm as AbstractAlgorithm
from jaxdp.algorithms.base import AbstractFullBatchAlgorithm as AbstractFullBatchAlgorithm
from jaxdp.algorithms.base import AbstractOnePassAlgorithm as AbstractOnePassAlgorithm
from jaxdp.algorithms.base import Update as Update
from jaxdp.algorithms.calibration import AbstractCalibration as AbstractCalibration
from jaxdp.algorithms.calibration import ExactCalibration as ExactCalibration
from jaxdp.algorithms.calibration import PublishedCalibration as PublishedCalibration
from jaxdp.algorithms.correlated_dp_sgd import CorrelatedDPSGD as CorrelatedDPSGD
from jaxdp.algorithms.dp_gd import DPGD as DPGD
from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD as OnePassDPSGD
from jaxdp.algorithms.private_optimiser.adam_constants import AdamConstants as AdamConstants
from jaxdp.algorithms.private_optimiser.adam_constants import adam_constants as adam_constants
from jaxdp.algorithms.private_optimiser.adaptive_clip import AdaptiveClip as AdaptiveClip
from jaxdp.algorithms.private_optimiser.averages import AbstractAverage as AbstractAverage
from jaxdp.algorithms.private_optimiser.averages import ExponentialAverage as ExponentialAverage
from jaxdp.algorithms.private_optimiser.averages import PolyakAverage as PolyakAverage
from jaxdp.algorithms.private_optimiser.averages import TailAverage as TailAverage
from jaxdp.algorithms.private_optimiser.linear_algorithm import linear_state_of as linear_state_of
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser as PrivateOptimiser
from jaxdp.algorithms.private_optimiser.state import OptimiserState as OptimiserState
from jaxdp.algorithms.private_optimiser.training import NonPrivateOptimiser as NonPrivateOptimiser
from jaxdp.algorithms.private_optimiser.training import train as train
from jaxdp.algorithms.private_optimiser.training_result import Training as Training
from jaxdp.algorithms.transformations.linear_state import LinearState as LinearState
from jaxdp.algorithms.transformations.linear_state import linear_state as linear_state

__all__ = [
    "DPGD",
    "AbstractAlgorithm",
    "AbstractAverage",
    "AbstractCalibration",
    "AbstractFullBatchAlgorithm",
    "AbstractOnePassAlgorithm",
    "AdamConstants",
    "AdaptiveClip",
    "CorrelatedDPSGD",
    "ExactCalibration",
    "ExponentialAverage",
    "LinearState",
    "NonPrivateOptimiser",
    "OnePassDPSGD",
    "OptimiserState",
    "PolyakAverage",
    "PrivateOptimiser",
    "PublishedCalibration",
    "TailAverage",
    "Training",
    "Update",
    "adam_constants",
    "linear_state",
    "linear_state_of",
    "train",
]
