"""Privacy: the cost of a release, the noise that it needs, and bounds on any attack.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; DR is "A Law of Data Reconstruction for Random Features (and Beyond)".
"""

from jaxdp.privacy.accounting import Cost, account
from jaxdp.privacy.attack_bounds import (
    approximate_reconstruction_bound,
    error_lower_bound,
    largest_membership_auc,
    largest_true_positive_rate,
    reconstruction_bound,
    sphere_log_baseline,
)
from jaxdp.privacy.audits.one_run import audit_one_run
from jaxdp.privacy.audits.two_data_sets import audit
from jaxdp.privacy.batches.poisson import PoissonSampler
from jaxdp.privacy.batches.unamplified import FixedOrder, FixedSizeBatches, ShuffledEpochs
from jaxdp.privacy.budgets import (
    AbstractBudget,
    ApproximateDP,
    GaussianDP,
    MembershipAdvantage,
    ReconstructionBound,
    TruePositiveRate,
)
from jaxdp.privacy.calibration import (
    calibrated_noise_multiplier,
    gaussian_noise_std,
    zcdp_noise_std,
)
from jaxdp.privacy.conversions.gaussian import (
    composed_mu,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_tradeoff,
)
from jaxdp.privacy.conversions.zcdp import epsilon_to_zcdp, zcdp_epsilon, zcdp_epsilon_published
from jaxdp.privacy.mechanisms import AbstractMechanism, Composition, GaussianMechanism, Unproved
from jaxdp.privacy.noise_over_steps import BandedNoise, ScheduledNoise
from jaxdp.privacy.objective_perturbation import ObjectivePerturbationMechanism
from jaxdp.privacy.release import Release, StatedBudget, compose
from jaxdp.privacy.secret.secret_noise import SecretNoise, secret_key
from jaxdp.privacy.strategies import independent_strategy, square_root_strategy
from jaxdp.privacy.tuning import NegativeBinomialRepetitions, PoissonRepetitions, tuned, tuned_mu

__all__ = [
    "AbstractBudget",
    "AbstractMechanism",
    "ApproximateDP",
    "BandedNoise",
    "Composition",
    "Cost",
    "FixedOrder",
    "FixedSizeBatches",
    "GaussianDP",
    "GaussianMechanism",
    "MembershipAdvantage",
    "NegativeBinomialRepetitions",
    "ObjectivePerturbationMechanism",
    "PoissonRepetitions",
    "PoissonSampler",
    "ReconstructionBound",
    "Release",
    "ScheduledNoise",
    "SecretNoise",
    "ShuffledEpochs",
    "StatedBudget",
    "TruePositiveRate",
    "Unproved",
    "account",
    "approximate_reconstruction_bound",
    "audit",
    "audit_one_run",
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
    "largest_membership_auc",
    "largest_true_positive_rate",
    "reconstruction_bound",
    "secret_key",
    "sphere_log_baseline",
    "square_root_strategy",
    "tuned",
    "tuned_mu",
    "zcdp_epsilon",
    "zcdp_epsilon_published",
    "zcdp_noise_std",
]
