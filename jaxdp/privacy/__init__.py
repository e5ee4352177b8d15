"""What is made public, and what that costs.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; DR is "A Law of Data Reconstruction for Random Features (and Beyond)".
"""

from jaxdp.privacy.accounting import Cost as Cost
from jaxdp.privacy.accounting import account as account
from jaxdp.privacy.audits.one_run import audit_one_run as audit_one_run
from jaxdp.privacy.audits.one_run import num_correct_guesses as num_correct_guesses
from jaxdp.privacy.audits.one_run import one_run_epsilon as one_run_epsilon
from jaxdp.privacy.audits.scores import audit_scores as audit_scores
from jaxdp.privacy.audits.scores import audit_scores_mu as audit_scores_mu
from jaxdp.privacy.audits.two_data_sets import audit as audit
from jaxdp.privacy.audits.two_data_sets import audit_mu as audit_mu
from jaxdp.privacy.batches.base import AbstractSampler as AbstractSampler
from jaxdp.privacy.batches.epochs import ShuffledEpochs as ShuffledEpochs
from jaxdp.privacy.batches.fixed_size import FixedSizeBatches as FixedSizeBatches
from jaxdp.privacy.batches.poisson import PoissonSampler as PoissonSampler
from jaxdp.privacy.batches.poisson import PoissonSubsampledGaussian as PoissonSubsampledGaussian
from jaxdp.privacy.batches.unamplified import (
    AbstractUnamplifiedSampler as AbstractUnamplifiedSampler,
)
from jaxdp.privacy.calibration import (
    calibrated_noise_multiplier as calibrated_noise_multiplier,
)
from jaxdp.privacy.calibration import gaussian_noise_std as gaussian_noise_std
from jaxdp.privacy.calibration import zcdp_noise_std as zcdp_noise_std
from jaxdp.privacy.conversions.gaussian import composed_mu as composed_mu
from jaxdp.privacy.conversions.gaussian import gaussian_delta as gaussian_delta
from jaxdp.privacy.conversions.gaussian import gaussian_epsilon as gaussian_epsilon
from jaxdp.privacy.conversions.gaussian import gaussian_mu as gaussian_mu
from jaxdp.privacy.conversions.tradeoff import gaussian_tradeoff as gaussian_tradeoff
from jaxdp.privacy.conversions.zcdp import epsilon_to_zcdp as epsilon_to_zcdp
from jaxdp.privacy.conversions.zcdp import zcdp_epsilon as zcdp_epsilon
from jaxdp.privacy.conversions.zcdp import zcdp_epsilon_published as zcdp_epsilon_published
from jaxdp.privacy.correlated_noise import BufferedToeplitzNoise as BufferedToeplitzNoise
from jaxdp.privacy.mechanisms import AbstractMechanism as AbstractMechanism
from jaxdp.privacy.mechanisms import Composition as Composition
from jaxdp.privacy.mechanisms import GaussianMechanism as GaussianMechanism
from jaxdp.privacy.mechanisms import Unproved as Unproved
from jaxdp.privacy.mechanisms import ZeroConcentrated as ZeroConcentrated
from jaxdp.privacy.objective_perturbation import ObjectivePerturbation as ObjectivePerturbation
from jaxdp.privacy.reconstruction_bounds import (
    approximate_reconstruction_bound as approximate_reconstruction_bound,
)
from jaxdp.privacy.reconstruction_bounds import error_lower_bound as error_lower_bound
from jaxdp.privacy.reconstruction_bounds import reconstruction_bound as reconstruction_bound
from jaxdp.privacy.reconstruction_bounds import sphere_log_baseline as sphere_log_baseline
from jaxdp.privacy.release import AbstractClaim as AbstractClaim
from jaxdp.privacy.release import PublishedConversion as PublishedConversion
from jaxdp.privacy.release import Release as Release
from jaxdp.privacy.release import StatedBudget as StatedBudget
from jaxdp.privacy.release import compose as compose
from jaxdp.privacy.secret.secret_key import key_entropy_bits as key_entropy_bits
from jaxdp.privacy.secret.secret_key import secret_key as secret_key
from jaxdp.privacy.secret.secret_noise import SecretNoise as SecretNoise
from jaxdp.privacy.softmax_perturbation import SoftmaxPerturbation as SoftmaxPerturbation
from jaxdp.privacy.strategies import independent_strategy as independent_strategy
from jaxdp.privacy.strategies import square_root_strategy as square_root_strategy

__all__ = [
    "AbstractClaim",
    "AbstractMechanism",
    "AbstractSampler",
    "AbstractUnamplifiedSampler",
    "BufferedToeplitzNoise",
    "Composition",
    "Cost",
    "FixedSizeBatches",
    "GaussianMechanism",
    "ObjectivePerturbation",
    "PoissonSampler",
    "PoissonSubsampledGaussian",
    "PublishedConversion",
    "Release",
    "SecretNoise",
    "ShuffledEpochs",
    "SoftmaxPerturbation",
    "StatedBudget",
    "Unproved",
    "ZeroConcentrated",
    "account",
    "approximate_reconstruction_bound",
    "audit",
    "audit_mu",
    "audit_one_run",
    "audit_scores",
    "audit_scores_mu",
    "calibrated_noise_multiplier",
    "compose",
    "composed_mu",
    "epsilon_to_zcdp",
    "error_lower_bound",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_noise_std",
    "gaussian_tradeoff",
    "independent_strategy",
    "key_entropy_bits",
    "num_correct_guesses",
    "one_run_epsilon",
    "reconstruction_bound",
    "secret_key",
    "sphere_log_baseline",
    "square_root_strategy",
    "zcdp_epsilon",
    "zcdp_epsilon_published",
    "zcdp_noise_std",
]
