"""Problems for simulators and theories: streams of samples, tables, and features on fixed rows.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; PF is "Privacy for Free in the Overparameterized Regime".
"""

from jaxdp.core.numerics.hermite import hermite_coefficients
from jaxdp.problems.base import (
    AbstractProblem,
    AbstractSampleProblem,
    Samples,
)
from jaxdp.problems.rows.features import AbstractFeatureProblem, ReducedFeatures
from jaxdp.problems.rows.fixed_features import FixedFeatures
from jaxdp.problems.rows.linearised import Linearised
from jaxdp.problems.rows.random_features import RandomFeatures, sphere_inputs
from jaxdp.problems.streams.input_scales import InputScales
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem, LogisticRegression
from jaxdp.problems.streams.tabular import TabularRegression

__all__ = [
    "AbstractFeatureProblem",
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
    "TabularRegression",
    "hermite_coefficients",
    "sphere_inputs",
]
