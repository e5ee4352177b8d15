"""Private regression and classification of tables by linear functions of public features."""

from jaxdp.regression.columns import ColumnFeatures, Columns
from jaxdp.regression.features import WithConstant
from jaxdp.regression.learners import LinearFit, PrivateLinearClassifier, PrivateLinearRegression
from jaxdp.regression.ledger import Entry, Ledger
from jaxdp.regression.methods import (
    AbstractDescentMethod,
    AbstractMethod,
    Automatic,
    FullBatch,
    NoisyStatistics,
    PlannedDPSGD,
    Whitened,
)

__all__ = [
    "AbstractDescentMethod",
    "AbstractMethod",
    "Automatic",
    "ColumnFeatures",
    "Columns",
    "Entry",
    "FullBatch",
    "Ledger",
    "LinearFit",
    "NoisyStatistics",
    "PlannedDPSGD",
    "PrivateLinearClassifier",
    "PrivateLinearRegression",
    "Whitened",
    "WithConstant",
]
