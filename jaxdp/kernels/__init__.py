"""Private kernel learning: kernels, feature maps, and learners whose release is a function.

In the docstrings PK is "Optimal differentially private kernel learning with random projection".
`PrivateKernelRidge`, `PrivateKernelClassifier` and `PrivateKernelRegressor` are proved private; the
proofs stand in the docstrings of `ridge/learner.py`, `margin/objective_calibration.py` and
`margin/softmax_calibration.py`. `published` holds the paper's algorithms as printed.
"""

from jaxdp.kernels import published
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, AbstractStationaryKernel
from jaxdp.kernels.evaluation import blockwise, row_blocks
from jaxdp.kernels.features.exact_paths import ExactPaths, exact_sample_paths
from jaxdp.kernels.features.nystrom import NystromFeatures
from jaxdp.kernels.features.sample_paths import PathwiseFeatures, SamplePaths
from jaxdp.kernels.functions.arc_cosine import ArcCosine, ArcCosineFeatures
from jaxdp.kernels.functions.bounded import ClippedFeatures, NormScaling, RangedKernel, RangeScaling
from jaxdp.kernels.functions.callable_kernel import CallableKernel
from jaxdp.kernels.functions.dot_product import (
    IdentityFeatures,
    InnerProduct,
    Polynomial,
    ProductFeatures,
)
from jaxdp.kernels.functions.fourier import CosineFeatures, FourierFeatures
from jaxdp.kernels.functions.stationary import Gaussian, Laplace, Matern, OrthogonalFeatures
from jaxdp.kernels.functions.torus import MercerFeatures, TorusKernel
from jaxdp.kernels.margin.learners import PrivateKernelClassifier, PrivateKernelRegressor
from jaxdp.kernels.margin.objective_calibration import (
    ObjectiveCalibration,
    objective_perturbation_std,
)
from jaxdp.kernels.margin.softmax_calibration import softmax_perturbation_std
from jaxdp.kernels.release.model_card import FitRecord
from jaxdp.kernels.release.model_file import load
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.kernels.release.tables import Columns
from jaxdp.kernels.ridge.learner import PrivateKernelRidge
from jaxdp.kernels.ridge.rules import (
    AbstractRidgeRule,
    AbstractStatisticsRule,
    NoiseRidge,
    SelectedProjections,
    SelectedRidge,
    Theorem11Rule,
)

__all__ = [
    "AbstractFeatureMap",
    "AbstractKernel",
    "AbstractRidgeRule",
    "AbstractStationaryKernel",
    "AbstractStatisticsRule",
    "ArcCosine",
    "ArcCosineFeatures",
    "CallableKernel",
    "ClippedFeatures",
    "Columns",
    "CosineFeatures",
    "ExactPaths",
    "FitRecord",
    "FourierFeatures",
    "Gaussian",
    "IdentityFeatures",
    "InnerProduct",
    "Laplace",
    "Matern",
    "MercerFeatures",
    "NoiseRidge",
    "NormScaling",
    "NystromFeatures",
    "ObjectiveCalibration",
    "OrthogonalFeatures",
    "PathwiseFeatures",
    "Polynomial",
    "PrivateKernelClassifier",
    "PrivateKernelRegressor",
    "PrivateKernelRidge",
    "ProductFeatures",
    "RangeScaling",
    "RangedKernel",
    "ReleasedFunction",
    "SamplePaths",
    "SelectedProjections",
    "SelectedRidge",
    "Theorem11Rule",
    "TorusKernel",
    "blockwise",
    "exact_sample_paths",
    "load",
    "objective_perturbation_std",
    "published",
    "row_blocks",
    "softmax_perturbation_std",
]
