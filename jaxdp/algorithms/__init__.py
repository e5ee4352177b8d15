"""How it is learnt: algorithms that simulators, theories and accountants read.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; PF is "Privacy for Free in the Overparameterized Regime"; DR is "A Law of Data
Reconstruction for Random Features (and Beyond)".
"""

from jaxdp.algorithms.base import AbstractAlgorithm, AbstractOnePassAlgorithm, Update
from jaxdp.algorithms.calibration import AbstractCalibration, ExactCalibration, PublishedCalibration
from jaxdp.algorithms.correlated_dp_sgd import CorrelatedDPSGD
from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.algorithms.private_optimiser.adaptive_clip import AdaptiveClip
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.readings import (
    AdamConstants,
    adam_constants,
    linear_state_of,
)
from jaxdp.algorithms.private_optimiser.state import (
    AbstractAverage,
    ExponentialAverage,
    OptimiserState,
    PolyakAverage,
    TailAverage,
)
from jaxdp.algorithms.private_optimiser.training import NonPrivateOptimiser, train
from jaxdp.algorithms.private_optimiser.training_result import Training
from jaxdp.algorithms.transformations.linear_state import LinearState, linear_state

__all__ = [
    "DPGD",
    "AbstractAlgorithm",
    "AbstractAverage",
    "AbstractCalibration",
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
