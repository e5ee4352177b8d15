"""Private regression and classification of tables by linear functions of public features."""

from jaxdp.kernels import load
from jaxdp.regression.columns import ColumnFeatures, Columns
from jaxdp.regression.features import WithConstant
from jaxdp.regression.learners import PrivateLinearClassifier, PrivateLinearRegression
from jaxdp.regression.methods import (
    Automatic,
    FullBatch,
    NoisyStatistics,
    ObjectivePerturbation,
    PlannedDPSGD,
    Whitened,
)

__all__ = [
    "Automatic",
    "ColumnFeatures",
    "Columns",
    "FullBatch",
    "NoisyStatistics",
    "ObjectivePerturbation",
    "PlannedDPSGD",
    "PrivateLinearClassifier",
    "PrivateLinearRegression",
    "Whitened",
    "WithConstant",
    "load",
]
