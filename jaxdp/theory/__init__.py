"""What is predicted: theories, and the verb that asks them.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; PF is "Privacy for Free in the Overparameterized Regime"; PK is "Optimal
differentially private kernel learning with random projection"; DR is "A Law of Data Reconstruction
for Random Features (and Beyond)".
"""

from jaxdp.theory.base import AbstractTheory as AbstractTheory
from jaxdp.theory.dispatch import predict as predict
from jaxdp.theory.features.clipped_diffusion import ClippedDiffusion as ClippedDiffusion
from jaxdp.theory.features.gaussian_closure import GaussianClosure as GaussianClosure
from jaxdp.theory.features.modewise_closure import ModewiseClosure as ModewiseClosure
from jaxdp.theory.features.unclipped import GradientFlow as GradientFlow
from jaxdp.theory.features.unclipped import OrnsteinUhlenbeck as OrnsteinUhlenbeck
from jaxdp.theory.features.unclipped import UnclippedRecursion as UnclippedRecursion
from jaxdp.theory.kernels.ridge_equivalent import ExcessRisk as ExcessRisk
from jaxdp.theory.kernels.ridge_equivalent import ReleaseNoise as ReleaseNoise
from jaxdp.theory.kernels.risk import predicted_excess_risk as predicted_excess_risk
from jaxdp.theory.kernels.risk import tuned_excess_risk as tuned_excess_risk
from jaxdp.theory.kernels.spectrum import KernelSpectrum as KernelSpectrum
from jaxdp.theory.kernels.spectrum import effective_dimension as effective_dimension
from jaxdp.theory.reconstruction.error import (
    mu_at_reconstruction_error as mu_at_reconstruction_error,
)
from jaxdp.theory.reconstruction.error import (
    one_step_reconstruction_error as one_step_reconstruction_error,
)
from jaxdp.theory.reconstruction.error import reconstruction_constant as reconstruction_constant
from jaxdp.theory.reconstruction.local import (
    last_iterate_reconstruction_errors as last_iterate_reconstruction_errors,
)
from jaxdp.theory.reconstruction.local import (
    local_reconstruction_errors as local_reconstruction_errors,
)
from jaxdp.theory.reconstruction.membership import membership_mu as membership_mu
from jaxdp.theory.reconstruction.optimal import optimal_row_error as optimal_row_error
from jaxdp.theory.reconstruction.optimal import row_error_lower_bound as row_error_lower_bound
from jaxdp.theory.streams.bounds import LowerBound as LowerBound
from jaxdp.theory.streams.bounds import TightLowerBound as TightLowerBound
from jaxdp.theory.streams.bounds import TightUpperBound as TightUpperBound
from jaxdp.theory.streams.bounds import UpperBound as UpperBound
from jaxdp.theory.streams.coupled_ode import CoupledODE as CoupledODE
from jaxdp.theory.streams.discrete_recursion import DiscreteRecursion as DiscreteRecursion
from jaxdp.theory.streams.finite_dimension import FiniteDimension as FiniteDimension
from jaxdp.theory.streams.fluctuations import Fluctuations as Fluctuations
from jaxdp.theory.streams.polynomial_rates import PolynomialRate as PolynomialRate
from jaxdp.theory.streams.polynomial_rates import polynomial_rate as polynomial_rate
from jaxdp.theory.streams.volterra import DiscreteVolterra as DiscreteVolterra

__all__ = [
    "AbstractTheory",
    "ClippedDiffusion",
    "CoupledODE",
    "DiscreteRecursion",
    "DiscreteVolterra",
    "ExcessRisk",
    "FiniteDimension",
    "Fluctuations",
    "GaussianClosure",
    "GradientFlow",
    "KernelSpectrum",
    "LowerBound",
    "ModewiseClosure",
    "OrnsteinUhlenbeck",
    "PolynomialRate",
    "ReleaseNoise",
    "TightLowerBound",
    "TightUpperBound",
    "UnclippedRecursion",
    "UpperBound",
    "effective_dimension",
    "last_iterate_reconstruction_errors",
    "local_reconstruction_errors",
    "membership_mu",
    "mu_at_reconstruction_error",
    "one_step_reconstruction_error",
    "optimal_row_error",
    "polynomial_rate",
    "predict",
    "predicted_excess_risk",
    "reconstruction_constant",
    "row_error_lower_bound",
    "tuned_excess_risk",
]
