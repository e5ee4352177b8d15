"""Private kernel learning: kernels, feature maps, and learners whose release is a function.

In the docstrings PK is "Optimal differentially private kernel learning with random projection".
`PrivateKernelRidge`, `PrivateKernelClassifier` and `PrivateKernelRegressor` are proved private; the
proofs stand in the docstrings of `ridge/learner.py`, `margin/objective_calibration.py` and
`margin/softmax_calibration.py`. `published` holds the paper's algorithms as printed.
"""

from jaxdp.kernels import published as published
from jaxdp.kernels.base import AbstractFeatureMap as AbstractFeatureMap
from jaxdp.kernels.base import AbstractKernel as AbstractKernel
from jaxdp.kernels.base import AbstractStationaryKernel as AbstractStationaryKernel
from jaxdp.kernels.evaluation import blockwise as blockwise
from jaxdp.kernels.evaluation import row_blocks as row_blocks
from jaxdp.kernels.features.exact_paths import ExactPaths as ExactPaths
from jaxdp.kernels.features.exact_paths import exact_sample_paths as exact_sample_paths
from jaxdp.kernels.features.nystrom import NystromFeatures as NystromFeatures
from jaxdp.kernels.features.orthogonal import OrthogonalFeatures as OrthogonalFeatures
from jaxdp.kernels.features.sample_paths import PathwiseFeatures as PathwiseFeatures
from jaxdp.kernels.features.sample_paths import SamplePaths as SamplePaths
from jaxdp.kernels.functions.arc_cosine import ArcCosine as ArcCosine
from jaxdp.kernels.functions.arc_cosine import ArcCosineFeatures as ArcCosineFeatures
from jaxdp.kernels.functions.bounded import ClippedFeatures as ClippedFeatures
from jaxdp.kernels.functions.bounded import NormScaling as NormScaling
from jaxdp.kernels.functions.bounded import RangedKernel as RangedKernel
from jaxdp.kernels.functions.bounded import RangeScaling as RangeScaling
from jaxdp.kernels.functions.callable_kernel import CallableKernel as CallableKernel
from jaxdp.kernels.functions.dot_product import IdentityFeatures as IdentityFeatures
from jaxdp.kernels.functions.dot_product import InnerProduct as InnerProduct
from jaxdp.kernels.functions.dot_product import Polynomial as Polynomial
from jaxdp.kernels.functions.dot_product import ProductFeatures as ProductFeatures
from jaxdp.kernels.functions.fourier import CosineFeatures as CosineFeatures
from jaxdp.kernels.functions.fourier import FourierFeatures as FourierFeatures
from jaxdp.kernels.functions.stationary import Gaussian as Gaussian
from jaxdp.kernels.functions.stationary import Laplace as Laplace
from jaxdp.kernels.functions.stationary import Matern as Matern
from jaxdp.kernels.functions.torus import MercerFeatures as MercerFeatures
from jaxdp.kernels.functions.torus import TorusKernel as TorusKernel
from jaxdp.kernels.margin.learners import PrivateKernelClassifier as PrivateKernelClassifier
from jaxdp.kernels.margin.learners import PrivateKernelRegressor as PrivateKernelRegressor
from jaxdp.kernels.margin.objective_calibration import ObjectiveCalibration as ObjectiveCalibration
from jaxdp.kernels.margin.objective_calibration import (
    objective_perturbation_std as objective_perturbation_std,
)
from jaxdp.kernels.margin.softmax_calibration import (
    softmax_perturbation_std as softmax_perturbation_std,
)
from jaxdp.kernels.release.columns import Columns as Columns
from jaxdp.kernels.release.model_file import load as load
from jaxdp.kernels.release.released_function import ReleasedFunction as ReleasedFunction
from jaxdp.kernels.ridge.learner import PrivateKernelRidge as PrivateKernelRidge
from jaxdp.kernels.ridge.rules import AbstractRidgeRule as AbstractRidgeRule
from jaxdp.kernels.ridge.rules import AbstractStatisticsRule as AbstractStatisticsRule
from jaxdp.kernels.ridge.rules import FixedRidge as FixedRidge
from jaxdp.kernels.ridge.rules import NoiseRidge as NoiseRidge
from jaxdp.kernels.ridge.rules import Theorem11Rule as Theorem11Rule
from jaxdp.kernels.ridge.selection import SelectedProjections as SelectedProjections
from jaxdp.kernels.ridge.selection import SelectedRidge as SelectedRidge

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
    "FixedRidge",
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
