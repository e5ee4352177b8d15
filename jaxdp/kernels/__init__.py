"""Private kernel learning: kernels, feature maps, and learners whose release is a function.

PK in the docstrings is "Optimal differentially private kernel learning with random projection".
The proofs stand in the docstrings of the modules `ridge` and `objective_calibration`.
"""

from jaxdp.kernels import published as published
from jaxdp.kernels.arc_cosine import ArcCosine as ArcCosine
from jaxdp.kernels.arc_cosine import ArcCosineFeatures as ArcCosineFeatures
from jaxdp.kernels.base import AbstractFeatureMap as AbstractFeatureMap
from jaxdp.kernels.base import AbstractKernel as AbstractKernel
from jaxdp.kernels.base import AbstractStationaryKernel as AbstractStationaryKernel
from jaxdp.kernels.blocks import blockwise as blockwise
from jaxdp.kernels.blocks import row_blocks as row_blocks
from jaxdp.kernels.bounded import ClippedFeatures as ClippedFeatures
from jaxdp.kernels.bounded import RangeScaling as RangeScaling
from jaxdp.kernels.callable_kernel import CallableKernel as CallableKernel
from jaxdp.kernels.classifier import PrivateKernelClassifier as PrivateKernelClassifier
from jaxdp.kernels.columns import Columns as Columns
from jaxdp.kernels.dot_product import IdentityFeatures as IdentityFeatures
from jaxdp.kernels.dot_product import InnerProduct as InnerProduct
from jaxdp.kernels.dot_product import Polynomial as Polynomial
from jaxdp.kernels.dot_product import ProductFeatures as ProductFeatures
from jaxdp.kernels.exact_paths import ExactPaths as ExactPaths
from jaxdp.kernels.exact_paths import exact_sample_paths as exact_sample_paths
from jaxdp.kernels.fourier import CosineFeatures as CosineFeatures
from jaxdp.kernels.fourier import FourierFeatures as FourierFeatures
from jaxdp.kernels.losses import AbstractMarginLoss as AbstractMarginLoss
from jaxdp.kernels.losses import HuberHinge as HuberHinge
from jaxdp.kernels.losses import Logistic as Logistic
from jaxdp.kernels.model_file import load as load
from jaxdp.kernels.norm_scaling import NormScaling as NormScaling
from jaxdp.kernels.nystrom import NystromFeatures as NystromFeatures
from jaxdp.kernels.objective_calibration import ObjectiveCalibration as ObjectiveCalibration
from jaxdp.kernels.objective_calibration import (
    objective_perturbation_std as objective_perturbation_std,
)
from jaxdp.kernels.orthogonal import OrthogonalFeatures as OrthogonalFeatures
from jaxdp.kernels.pathwise import PathwiseFeatures as PathwiseFeatures
from jaxdp.kernels.ranged_kernel import RangedKernel as RangedKernel
from jaxdp.kernels.released import ReleasedFunction as ReleasedFunction
from jaxdp.kernels.ridge import PrivateKernelRidge as PrivateKernelRidge
from jaxdp.kernels.ridge_rules import AbstractRidgeRule as AbstractRidgeRule
from jaxdp.kernels.ridge_rules import FixedRidge as FixedRidge
from jaxdp.kernels.ridge_rules import NoiseRidge as NoiseRidge
from jaxdp.kernels.ridge_rules import SelectedRidge as SelectedRidge
from jaxdp.kernels.ridge_rules import Theorem11Rule as Theorem11Rule
from jaxdp.kernels.sample_paths import SamplePaths as SamplePaths
from jaxdp.kernels.stationary import Gaussian as Gaussian
from jaxdp.kernels.stationary import Laplace as Laplace
from jaxdp.kernels.stationary import Matern as Matern
from jaxdp.kernels.torus import MercerFeatures as MercerFeatures
from jaxdp.kernels.torus import TorusKernel as TorusKernel

__all__ = [
    "AbstractFeatureMap",
    "AbstractKernel",
    "AbstractMarginLoss",
    "AbstractRidgeRule",
    "AbstractStationaryKernel",
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
    "HuberHinge",
    "IdentityFeatures",
    "InnerProduct",
    "Laplace",
    "Logistic",
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
    "PrivateKernelRidge",
    "ProductFeatures",
    "RangeScaling",
    "RangedKernel",
    "ReleasedFunction",
    "SamplePaths",
    "SelectedRidge",
    "Theorem11Rule",
    "TorusKernel",
    "blockwise",
    "exact_sample_paths",
    "load",
    "objective_perturbation_std",
    "published",
    "row_blocks",
]
