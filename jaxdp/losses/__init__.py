"""Losses of a prediction: value, slope and curvature, and their means for Gaussian predictions.

PK is "Optimal differentially private kernel learning with random projection".
"""

from jaxdp.losses.base import AbstractLoss as AbstractLoss
from jaxdp.losses.base import AbstractMarginLoss as AbstractMarginLoss
from jaxdp.losses.base import AbstractResidualLoss as AbstractResidualLoss
from jaxdp.losses.logistic import Logistic as Logistic
from jaxdp.losses.one_hot_squared import OneHotSquared as OneHotSquared
from jaxdp.losses.softmax import Softmax as Softmax
from jaxdp.losses.squared import HalfSquared as HalfSquared
from jaxdp.losses.squared import Huber as Huber
from jaxdp.losses.squared import Squared as Squared

__all__ = [
    "AbstractLoss",
    "AbstractMarginLoss",
    "AbstractResidualLoss",
    "HalfSquared",
    "Huber",
    "Logistic",
    "OneHotSquared",
    "Softmax",
    "Squared",
]
