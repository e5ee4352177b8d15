"""What is learnt: descriptions that simulators and theories read.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; PF is "Privacy for Free in the Overparameterized Regime".
"""

from jaxdp.problems.base import AbstractLinearModelProblem as AbstractLinearModelProblem
from jaxdp.problems.base import AbstractProblem as AbstractProblem
from jaxdp.problems.base import AbstractSampleProblem as AbstractSampleProblem
from jaxdp.problems.base import Samples as Samples
from jaxdp.problems.rows.features import AbstractFeatureProblem as AbstractFeatureProblem
from jaxdp.problems.rows.features import ReducedFeatures as ReducedFeatures
from jaxdp.problems.rows.fixed_features import FixedFeatures as FixedFeatures
from jaxdp.problems.rows.kernel_solutions import SpectralGap as SpectralGap
from jaxdp.problems.rows.linearised import Linearised as Linearised
from jaxdp.problems.rows.random_features import RandomFeatures as RandomFeatures
from jaxdp.problems.rows.random_features import gaussian_inputs as gaussian_inputs
from jaxdp.problems.rows.random_features import sphere_inputs as sphere_inputs
from jaxdp.problems.streams.input_scales import InputScales as InputScales
from jaxdp.problems.streams.linear import LinearRegression as LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem as AbstractSignalProblem
from jaxdp.problems.streams.signal import LogisticRegression as LogisticRegression
from jaxdp.problems.streams.tabular import TabularRegression as TabularRegression

__all__ = [
    "AbstractFeatureProblem",
    "AbstractLinearModelProblem",
    "AbstractProblem",
    "AbstractSampleProblem",
    "AbstractSignalProblem",
    "FixedFeatures",
    "InputScales",
    "LinearRegression",
    "Linearised",
    "LogisticRegression",
    "RandomFeatures",
    "ReducedFeatures",
    "Samples",
    "SpectralGap",
    "TabularRegression",
    "gaussian_inputs",
    "sphere_inputs",
]
