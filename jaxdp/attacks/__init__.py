"""What leaks: reconstructing the training inputs from trained parameters.

In the docstrings DR is "A Law of Data Reconstruction for Random Features (and Beyond)".
"""

from jaxdp.attacks.base import AbstractTarget as AbstractTarget
from jaxdp.attacks.informed import without_known_rows as without_known_rows
from jaxdp.attacks.interpolation import (
    gradient_descent_parameters as gradient_descent_parameters,
)
from jaxdp.attacks.interpolation import minimum_norm_parameters as minimum_norm_parameters
from jaxdp.attacks.leak import LeakReport as LeakReport
from jaxdp.attacks.leak import Verdict as Verdict
from jaxdp.attacks.leak import leak_report as leak_report
from jaxdp.attacks.measures import matching as matching
from jaxdp.attacks.measures import reconstruction_error as reconstruction_error
from jaxdp.attacks.measures import row_errors as row_errors
from jaxdp.attacks.measures import span_residual as span_residual
from jaxdp.attacks.membership import AttainedTradeoff as AttainedTradeoff
from jaxdp.attacks.membership import attained_tradeoff as attained_tradeoff
from jaxdp.attacks.membership import membership_scores as membership_scores
from jaxdp.attacks.network_target import NetworkTarget as NetworkTarget
from jaxdp.attacks.network_target import network_target as network_target
from jaxdp.attacks.network_target import two_layer_target as two_layer_target
from jaxdp.attacks.optimisers.base import AbstractOptimiser as AbstractOptimiser
from jaxdp.attacks.optimisers.base import Attempt as Attempt
from jaxdp.attacks.optimisers.base import Ending as Ending
from jaxdp.attacks.optimisers.curvature_scaled import (
    CurvatureScaledMomentum as CurvatureScaledMomentum,
)
from jaxdp.attacks.optimisers.levenberg_marquardt import LevenbergMarquardt as LevenbergMarquardt
from jaxdp.attacks.optimisers.momentum_descent import MomentumDescent as MomentumDescent
from jaxdp.attacks.posterior import best_guess as best_guess
from jaxdp.attacks.posterior import posterior_rows as posterior_rows
from jaxdp.attacks.random_features_target import RandomFeaturesTarget as RandomFeaturesTarget
from jaxdp.attacks.random_features_target import RegeneratedWeights as RegeneratedWeights
from jaxdp.attacks.random_features_target import span_target as span_target
from jaxdp.attacks.reconstruction import Reconstruction as Reconstruction
from jaxdp.attacks.reconstruction import reconstruct as reconstruct

__all__ = [
    "AbstractOptimiser",
    "AbstractTarget",
    "AttainedTradeoff",
    "Attempt",
    "CurvatureScaledMomentum",
    "Ending",
    "LeakReport",
    "LevenbergMarquardt",
    "MomentumDescent",
    "NetworkTarget",
    "RandomFeaturesTarget",
    "Reconstruction",
    "RegeneratedWeights",
    "Verdict",
    "attained_tradeoff",
    "best_guess",
    "gradient_descent_parameters",
    "leak_report",
    "matching",
    "membership_scores",
    "minimum_norm_parameters",
    "network_target",
    "posterior_rows",
    "reconstruct",
    "reconstruction_error",
    "row_errors",
    "span_residual",
    "span_target",
    "two_layer_target",
    "without_known_rows",
]
