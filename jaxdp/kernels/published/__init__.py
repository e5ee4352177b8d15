"""The algorithms of PK exactly as printed, to reproduce the paper: each cost says what is false."""

from jaxdp.kernels.published.algorithm5 import Algorithm5
from jaxdp.kernels.published.algorithms_1_and_3 import Algorithm1, Algorithm3
from jaxdp.kernels.published.algorithms_2_and_4 import Algorithm2, Algorithm4
from jaxdp.kernels.published.canonical import CanonicalEstimator
from jaxdp.kernels.published.curated import CuratedFunction
from jaxdp.kernels.published.projection import GaussianUnlessFailure

__all__ = [
    "Algorithm1",
    "Algorithm2",
    "Algorithm3",
    "Algorithm4",
    "Algorithm5",
    "CanonicalEstimator",
    "CuratedFunction",
    "GaussianUnlessFailure",
]
