"""The ways to release ridge statistics that PK's figures compare, each with its own noise."""

import math
from collections.abc import Callable
from typing import NamedTuple

from experiments.private_kernel_learning.feature_draws import (
    CLIPPED_PATHS,
    COSINES,
    EXACT_PATHS,
    PAIRS,
    FeatureDraw,
)
from jaxdp.kernels import AbstractKernel, Gaussian, PrivateKernelRidge
from jaxdp.kernels.published import Algorithm1, Algorithm3
from jaxdp.privacy import gaussian_mu


class Budget(NamedTuple):
    """What may be lost, and how many records share the noise."""

    epsilon: float
    num_samples: int

    @property
    def delta(self) -> float:
        """n^-1.1. Source: PK section 5."""
        return self.num_samples**-1.1

    @property
    def arguments(self) -> tuple[int, float, float]:
        """As a learner's `noise_std` takes them."""
        return self.num_samples, self.epsilon, self.delta


class Bounds(NamedTuple):
    """T, to which labels are clipped; and to what they are clipped less a released intercept."""

    label: float
    residual: float


def intercept_share(bounds: Bounds, budget: Budget) -> float:
    """The part of mu^2 that makes the intercept's noise a tenth of R, from a tenth to nine tenths.

    Free of data. A fixed tenth would, at epsilon = .1, leave the mean label with more noise than
    all that is to be learnt; a fixed half would double the other noise's variance for nothing.
    """
    std = 2 * bounds.label / (budget.num_samples * gaussian_mu(budget.epsilon, budget.delta))
    return min(0.9, max(0.1, (10 * std / bounds.residual) ** 2))


def with_intercept(
    kernel: AbstractKernel, size: int, bounds: Bounds, budget: Budget
) -> PrivateKernelRidge:
    """The certified learner of R-bounded residuals, for a budget that is known beforehand."""
    return PrivateKernelRidge(
        kernel,
        size,
        label_bound=bounds.label,
        residual_bound=bounds.residual,
        intercept_share=intercept_share(bounds, budget),
        input_bound=math.inf,
    )


Noise = Callable[[Gaussian, int, Bounds, Budget], dict[str, float]]


def _algorithm1(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    # The ridge has no part in the noise.
    return Algorithm1(kernel, size, 1.0, bounds.label).noise_std(*budget.arguments)


def _algorithm3(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    return Algorithm3(kernel, size, 1.0, bounds.label).noise_std(*budget.arguments)


def _certified(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    learner = PrivateKernelRidge(kernel, size, label_bound=bounds.label)
    return learner.noise_std(*budget.arguments)


def _centred(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    return with_intercept(kernel, size, bounds, budget).noise_std(*budget.arguments)


def _none(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    return {"C": 0.0, "u": 0.0}


def _none_centred(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    return {"C": 0.0, "u": 0.0, "intercept": 0.0}


class Method(NamedTuple):
    """Features, and the learner's standard deviations of the noise on their average statistics.

    "C" on the diagonal, "u", and "intercept" where one is released.
    """

    features: FeatureDraw
    noise_std: Noise


METHODS = {
    "RP, published": Method(EXACT_PATHS, _algorithm1),
    "RFF, published": Method(COSINES, _algorithm3),
    "RP, certified": Method(CLIPPED_PATHS, _certified),
    "RFF, certified": Method(PAIRS, _certified),
    "RP, certified with intercept": Method(CLIPPED_PATHS, _centred),
}
NOISELESS = {
    "RP": Method(EXACT_PATHS, _none),
    "RFF": Method(COSINES, _none),
    # For the private learner that has one: none without privacy is worse for want of it.
    "RP with intercept": Method(EXACT_PATHS, _none_centred),
}
