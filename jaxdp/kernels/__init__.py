"""Private kernel learning: kernels, feature maps, and learners whose release is a function.

In the docstrings PK is "Optimal differentially private kernel learning with random projection".
`PrivateKernelRidge` and `PrivateKernelClassifier` are proved private; the proofs stand in the
docstrings of `ridge/learner.py`, `margin/objective_calibration.py` and
`margin/softmax_calibration.py`. The paper's algorithms as printed are in
`experiments/private_kernel_learning/published`.
"""

from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, AbstractStationaryKernel
from jaxdp.kernels.evaluation import blockwise, row_blocks
from jaxdp.kernels.features.function_features import FunctionFeatures
from jaxdp.kernels.features.sample_paths import SamplePaths
from jaxdp.kernels.functions.bounded import ClippedFeatures, NormScaling, RangeScaling
from jaxdp.kernels.functions.dot_product import IdentityFeatures, InnerProduct
from jaxdp.kernels.functions.fourier import CosineFeatures, FourierFeatures
from jaxdp.kernels.functions.stationary import Gaussian, Laplace, Matern
from jaxdp.kernels.functions.torus import MercerFeatures, TorusKernel
from jaxdp.kernels.margin.learners import PrivateKernelClassifier
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
    NoiseRidge,
    SelectedRidge,
    Theorem11Rule,
)

__all__ = [
    "AbstractFeatureMap",
    "AbstractKernel",
    "AbstractRidgeRule",
    "AbstractStationaryKernel",
    "ClippedFeatures",
    "Columns",
    "CosineFeatures",
    "FitRecord",
    "FourierFeatures",
    "FunctionFeatures",
    "Gaussian",
    "IdentityFeatures",
    "InnerProduct",
    "Laplace",
    "Matern",
    "MercerFeatures",
    "NoiseRidge",
    "NormScaling",
    "ObjectiveCalibration",
    "PrivateKernelClassifier",
    "PrivateKernelRidge",
    "RangeScaling",
    "ReleasedFunction",
    "SamplePaths",
    "SelectedRidge",
    "Theorem11Rule",
    "TorusKernel",
    "blockwise",
    "load",
    "objective_perturbation_std",
    "row_blocks",
    "softmax_perturbation_std",
]
