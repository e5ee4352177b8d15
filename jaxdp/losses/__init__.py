"""Losses of a prediction: value, slope and curvature, and their means for Gaussian predictions.

PK is "Optimal differentially private kernel learning with random projection".
"""

from jaxdp.losses.base import AbstractLoss, AbstractMarginLoss, AbstractResidualLoss
from jaxdp.losses.logistic import Logistic
from jaxdp.losses.softmax import Softmax
from jaxdp.losses.squared import HalfSquared, Huber, Squared

__all__ = [
    "AbstractLoss",
    "AbstractMarginLoss",
    "AbstractResidualLoss",
    "HalfSquared",
    "Huber",
    "Logistic",
    "Softmax",
    "Squared",
]
