"""Procedures that choose nothing by looking at data: what a curator could really release.

The figures' curves are the least errors on the test set over M and lambda: an oracle's. Beside
them stand fits of the certified learner with public bounds, and the noisy mean alone.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.private_kernel_learning.ridge_methods import Bounds, Budget, with_intercept
from experiments.private_kernel_learning.synthetic import Split
from jaxdp.kernels import AbstractKernel, PrivateKernelRidge
from jaxdp.privacy import gaussian_mu
from jaxdp.privacy.secret.secret_noise import SecretNoise


def _learners(
    kernel: AbstractKernel, bounds: Bounds, budget: Budget
) -> dict[str, PrivateKernelRidge]:
    return {
        "no intercept": PrivateKernelRidge(
            kernel, _DEFAULT, label_bound=bounds.label, input_bound=math.inf
        ),
        "intercept": with_intercept(kernel, _DEFAULT, bounds, budget),
        "intercept, M = 50": with_intercept(kernel, 50, bounds, budget),
    }


# The learner's own M. The smaller one was settled on draws of the synthetic model, which is public.
_DEFAULT = 200
PROCEDURES = ["noisy mean", "no intercept", "intercept", "intercept, M = 50"]
DRAWN = PROCEDURES[-1]


def data_free_errors(
    kernel: AbstractKernel,
    split: Split,
    bounds: Bounds,
    epsilons: tuple[float, ...],
    *,
    public_seed: int,
    noise_seed: int,
) -> Float[np.ndarray, "procedures epsilons"]:
    """Mean squared test error of every procedure under every budget.

    Args:
        kernel: of the learners.
        split: training rows and test rows.
        bounds: chosen without the data.
        epsilons: one release each.
        public_seed, noise_seed: of the features, and of the noise (secret, were this a release).
    """
    # Clipped here, where the learner would warn.
    labels = np.clip(split.train_labels, -bounds.label, bounds.label)
    found = np.empty((len(PROCEDURES), len(epsilons)))
    for column, epsilon in enumerate(epsilons):
        budget = Budget(epsilon, split.num_train)
        predictions: list[Any] = [_noisy_mean(labels, bounds.label, budget, noise_seed)]
        for learner in _learners(kernel, bounds, budget).values():
            release = learner.fit(
                split.train_inputs,
                labels,
                epsilon=epsilon,
                delta=budget.delta,
                public_seed=public_seed,
                noise_seed=noise_seed,
            )
            predictions.append(np.asarray(release(split.test_inputs), np.float64))
        found[:, column] = [np.mean((one - split.test_labels) ** 2) for one in predictions]
    return found


def _noisy_mean(labels, bound: float, budget: Budget, noise_seed: int) -> float:
    """The mean label with the Gaussian mechanism's noise, for sensitivity 2T/n."""
    std = 2 * bound / (budget.num_samples * gaussian_mu(budget.epsilon, budget.delta))
    purpose = f"mean label at epsilon {budget.epsilon}"
    normal = float(SecretNoise(noise_seed).normals(1, purpose)[0])
    return float(np.clip(labels.mean() + std * normal, -bound, bound))
