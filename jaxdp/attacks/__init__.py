"""Attacks: reconstructing training inputs from trained parameters, and membership inference.

DR is "A Law of Data Reconstruction for Random Features (and Beyond)".
"""

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.informed import attained_tradeoff, membership_scores, without_known_rows
from jaxdp.attacks.interpolation import gradient_descent_parameters, minimum_norm_parameters
from jaxdp.attacks.leak import Verdict, leak_report
from jaxdp.attacks.measures import matching, reconstruction_error, row_errors, span_residual
from jaxdp.attacks.network_target import NetworkTarget, network_target, two_layer_target
from jaxdp.attacks.optimisers.base import AbstractOptimiser
from jaxdp.attacks.optimisers.curvature_scaled import CurvatureScaledMomentum
from jaxdp.attacks.optimisers.levenberg_marquardt import LevenbergMarquardt
from jaxdp.attacks.optimisers.momentum_descent import MomentumDescent
from jaxdp.attacks.predicted_membership import (
    PredictedMembership,
    predicted_loss_threshold_auc,
    predicted_membership,
)
from jaxdp.attacks.random_features_target import (
    RandomFeaturesTarget,
    RegeneratedWeights,
    span_target,
)
from jaxdp.attacks.reconstruction import Reconstruction, reconstruct

__all__ = [
    "AbstractOptimiser",
    "AbstractTarget",
    "CurvatureScaledMomentum",
    "LevenbergMarquardt",
    "MomentumDescent",
    "NetworkTarget",
    "PredictedMembership",
    "RandomFeaturesTarget",
    "Reconstruction",
    "RegeneratedWeights",
    "Verdict",
    "attained_tradeoff",
    "gradient_descent_parameters",
    "leak_report",
    "matching",
    "membership_scores",
    "minimum_norm_parameters",
    "network_target",
    "predicted_loss_threshold_auc",
    "predicted_membership",
    "reconstruct",
    "reconstruction_error",
    "row_errors",
    "span_residual",
    "span_target",
    "two_layer_target",
    "without_known_rows",
]
