"""What is learnt: descriptions that simulators and theories read."""

from jaxdp.problems.base import AbstractProblem as AbstractProblem
from jaxdp.problems.base import AbstractSampleProblem as AbstractSampleProblem
from jaxdp.problems.base import Samples as Samples
from jaxdp.problems.cifar10 import read_cifar10 as read_cifar10
from jaxdp.problems.features import AbstractFeatureProblem as AbstractFeatureProblem
from jaxdp.problems.features import ReducedFeatures as ReducedFeatures
from jaxdp.problems.images import first_of_classes as first_of_classes
from jaxdp.problems.images import on_sphere as on_sphere
from jaxdp.problems.images import pooled as pooled
from jaxdp.problems.images import published_scaling as published_scaling
from jaxdp.problems.kernel_solutions import SpectralGap as SpectralGap
from jaxdp.problems.linear import LinearRegression as LinearRegression
from jaxdp.problems.mnist import read_mnist as read_mnist
from jaxdp.problems.random_features import RandomFeatures as RandomFeatures
from jaxdp.problems.random_features import gaussian_inputs as gaussian_inputs
from jaxdp.problems.random_features import sphere_inputs as sphere_inputs
from jaxdp.problems.standardisation import column_scaling as column_scaling
from jaxdp.problems.standardisation import (
    published_column_scaling as published_column_scaling,
)
from jaxdp.problems.tabular import TabularRegression as TabularRegression

__all__ = [
    "AbstractFeatureProblem",
    "AbstractProblem",
    "AbstractSampleProblem",
    "LinearRegression",
    "RandomFeatures",
    "ReducedFeatures",
    "Samples",
    "SpectralGap",
    "TabularRegression",
    "column_scaling",
    "first_of_classes",
    "gaussian_inputs",
    "on_sphere",
    "pooled",
    "published_column_scaling",
    "published_scaling",
    "read_cifar10",
    "read_mnist",
    "sphere_inputs",
]
