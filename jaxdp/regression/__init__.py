"""Private regression and classification of tables by linear functions of public features."""

from jaxdp.kernels import load
from jaxdp.regression.columns import ColumnFeatures, Columns
from jaxdp.regression.features import ComposedFeatures, WithConstant
from jaxdp.regression.learners import PrivateLinearClassifier, PrivateLinearRegression
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.methods import (
    AbstractMethod,
    Automatic,
    FullBatch,
    NoisyStatistics,
    ObjectivePerturbation,
    PlannedDPSGD,
    Whitened,
)

__all__ = [
    "AbstractMethod",
    "Automatic",
    "ColumnFeatures",
    "Columns",
    "ComposedFeatures",
    "FullBatch",
    "Ledger",
    "NoisyStatistics",
    "ObjectivePerturbation",
    "PlannedDPSGD",
    "PrivateLinearClassifier",
    "PrivateLinearRegression",
    "Whitened",
    "WithConstant",
    "load",
]
