"""The algorithms of PK exactly as printed, to reproduce the paper: each cost says what is false."""

from experiments.private_kernel_learning.published.algorithm5 import Algorithm5
from experiments.private_kernel_learning.published.algorithms_1_and_3 import Algorithm1, Algorithm3
from experiments.private_kernel_learning.published.algorithms_2_and_4 import Algorithm2, Algorithm4
from experiments.private_kernel_learning.published.canonical import CanonicalEstimator
from experiments.private_kernel_learning.published.curated import CuratedFunction
from experiments.private_kernel_learning.published.exact_paths import (
    ExactPaths,
    exact_sample_paths,
)
from experiments.private_kernel_learning.published.huber_hinge import HuberHinge
from experiments.private_kernel_learning.published.projection import GaussianUnlessFailure

__all__ = [
    "Algorithm1",
    "Algorithm2",
    "Algorithm3",
    "Algorithm4",
    "Algorithm5",
    "CanonicalEstimator",
    "CuratedFunction",
    "ExactPaths",
    "GaussianUnlessFailure",
    "HuberHinge",
    "exact_sample_paths",
]
