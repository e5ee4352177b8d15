"""Theories, which predict the risk without sampling, and `predict`, which chooses among them.

Papers in the docstrings: AC is "Better Rates for Private Linear Regression in the Proportional
Regime via Aggressive Clipping"; PF is "Privacy for Free in the Overparameterized Regime"; PK is
"Optimal differentially private kernel learning with random projection"; DR is "A Law of Data
Reconstruction for Random Features (and Beyond)".
"""

from jaxdp.theory.dispatch import predict
from jaxdp.theory.features.gaussian_closure import ClippedDiffusion, GaussianClosure
from jaxdp.theory.features.mean_path import MeanPath
from jaxdp.theory.features.modewise_closure import ModewiseClosure
from jaxdp.theory.features.unclipped import GradientFlow, OrnsteinUhlenbeck, UnclippedRecursion
from jaxdp.theory.kernels.risk import (
    ExcessRisk,
    ReleaseNoise,
    predicted_excess_risk,
    tuned_excess_risk,
)
from jaxdp.theory.kernels.spectrum import KernelSpectrum, effective_dimension
from jaxdp.theory.reconstruction.error import (
    mu_at_reconstruction_error,
    one_step_reconstruction_error,
    optimal_row_error,
    row_error_lower_bound,
)
from jaxdp.theory.reconstruction.local import (
    last_iterate_reconstruction_errors,
    local_reconstruction_errors,
    membership_mu,
)
from jaxdp.theory.streams.bounds import LowerBound, TightLowerBound, TightUpperBound, UpperBound
from jaxdp.theory.streams.coupled_ode import CoupledODE, DiscreteRecursion
from jaxdp.theory.streams.finite_dimension import FiniteDimension
from jaxdp.theory.streams.fluctuations import Fluctuations
from jaxdp.theory.streams.polynomial_rates import polynomial_rate
from jaxdp.theory.streams.volterra import DiscreteVolterra

__all__ = [
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
    "MeanPath",
    "ModewiseClosure",
    "OrnsteinUhlenbeck",
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
    "row_error_lower_bound",
    "tuned_excess_risk",
]
