"""Private kernel learning: kernels, feature maps, and learners whose release is a function.

PK is "Optimal differentially private kernel learning with random projection"; its algorithms as
printed are in `experiments/private_kernel_learning/published`.
"""

from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.evaluation import blockwise, row_blocks
from jaxdp.kernels.features.public_features import FunctionFeatures, SamplePaths
from jaxdp.kernels.functions.bounded import ClippedFeatures, NormScaling
from jaxdp.kernels.functions.dot_product import IdentityFeatures, InnerProduct
from jaxdp.kernels.functions.fourier import (
    CosineFeatures,
    FourierFeatures,
    Gaussian,
    Laplace,
    Matern,
)
from jaxdp.kernels.functions.torus import TorusKernel
from jaxdp.kernels.margin.learners import PrivateKernelClassifier
from jaxdp.kernels.release.model_file import load
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.kernels.release.tables import ColumnNames
from jaxdp.kernels.ridge.learner import PrivateKernelRidge
from jaxdp.kernels.ridge.rules import SelectedRidge, Theorem11Rule

__all__ = [
    "AbstractFeatureMap",
    "AbstractKernel",
    "ClippedFeatures",
    "ColumnNames",
    "CosineFeatures",
    "FourierFeatures",
    "FunctionFeatures",
    "Gaussian",
    "IdentityFeatures",
    "InnerProduct",
    "Laplace",
    "Matern",
    "NormScaling",
    "PrivateKernelClassifier",
    "PrivateKernelRidge",
    "ReleasedFunction",
    "SamplePaths",
    "SelectedRidge",
    "Theorem11Rule",
    "TorusKernel",
    "blockwise",
    "load",
    "row_blocks",
]
