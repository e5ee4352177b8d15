"""What is learnt: descriptions that simulators and theories read."""

from jaxdp.problems.base import AbstractProblem as AbstractProblem
from jaxdp.problems.base import Samples as Samples
from jaxdp.problems.linear import LinearRegression as LinearRegression
from jaxdp.problems.tabular import TabularRegression as TabularRegression
