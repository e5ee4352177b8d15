"""The algorithms of PK exactly as printed, to reproduce the paper: each cost says what is false."""

from jaxdp.kernels.published.algorithm5 import Algorithm5 as Algorithm5
from jaxdp.kernels.published.algorithms_1_and_3 import Algorithm1 as Algorithm1
from jaxdp.kernels.published.algorithms_1_and_3 import Algorithm3 as Algorithm3
from jaxdp.kernels.published.algorithms_2_and_4 import Algorithm2 as Algorithm2
from jaxdp.kernels.published.algorithms_2_and_4 import Algorithm4 as Algorithm4
from jaxdp.kernels.published.canonical import CanonicalEstimator as CanonicalEstimator
from jaxdp.kernels.published.curated import CuratedFunction as CuratedFunction
from jaxdp.kernels.published.projection import GaussianUnlessFailure as GaussianUnlessFailure

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
