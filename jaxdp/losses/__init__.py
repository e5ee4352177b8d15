"""Losses of a prediction: value, slope and curvature; and their means where it is Gaussian.

In the docstrings PK is "Optimal differentially private kernel learning with random projection".
"""

from jaxdp.losses.base import AbstractClassificationLoss as AbstractClassificationLoss
from jaxdp.losses.base import AbstractLoss as AbstractLoss
from jaxdp.losses.base import AbstractMarginLoss as AbstractMarginLoss
from jaxdp.losses.base import AbstractResidualLoss as AbstractResidualLoss
from jaxdp.losses.base import AbstractScalarLoss as AbstractScalarLoss
from jaxdp.losses.base import AbstractUnivariateLoss as AbstractUnivariateLoss
from jaxdp.losses.base import ClippedSlope as ClippedSlope
from jaxdp.losses.gaussian.softmax import CorrelatedSlope as CorrelatedSlope
from jaxdp.losses.gaussian.well_specified_logistic import SignalSlope as SignalSlope
from jaxdp.losses.gaussian.well_specified_logistic import (
    well_specified_risk as well_specified_risk,
)
from jaxdp.losses.gaussian.well_specified_logistic import (
    well_specified_slope as well_specified_slope,
)
from jaxdp.losses.linear_model import loss_gradient as loss_gradient
from jaxdp.losses.linear_model import loss_smoothness as loss_smoothness
from jaxdp.losses.linear_model import slope_limits as slope_limits
from jaxdp.losses.logistic import Logistic as Logistic
from jaxdp.losses.softmax import Softmax as Softmax
from jaxdp.losses.squared import HalfSquared as HalfSquared
from jaxdp.losses.squared import Huber as Huber
from jaxdp.losses.squared import Squared as Squared

__all__ = [
    "AbstractClassificationLoss",
    "AbstractLoss",
    "AbstractMarginLoss",
    "AbstractResidualLoss",
    "AbstractScalarLoss",
    "AbstractUnivariateLoss",
    "ClippedSlope",
    "CorrelatedSlope",
    "HalfSquared",
    "Huber",
    "Logistic",
    "SignalSlope",
    "Softmax",
    "Squared",
    "loss_gradient",
    "loss_smoothness",
    "slope_limits",
    "well_specified_risk",
    "well_specified_slope",
]
