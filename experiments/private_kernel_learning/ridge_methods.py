"""The ways to release ridge statistics that PK's figures compare, each with its own noise."""

from collections.abc import Callable
from typing import NamedTuple

from experiments.private_kernel_learning.feature_draws import (
    CLIPPED_PATHS,
    COSINES,
    EXACT_PATHS,
    PAIRS,
    FeatureDraw,
)
from jaxdp.kernels import Gaussian, PrivateKernelRidge
from jaxdp.kernels.published import Algorithm1, Algorithm3

# Of the certified learner's budget, where it releases an intercept.
INTERCEPT_SHARE = 0.1


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


Noise = Callable[[Gaussian, int, Bounds, Budget], dict[str, float]]


def _algorithm1(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    # The ridge has no part in the noise.
    return Algorithm1(kernel, size, 1.0, bounds.label).noise_std(*budget.arguments)


def _algorithm3(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    return Algorithm3(kernel, size, 1.0, bounds.label).noise_std(*budget.arguments)


def _certified(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    learner = PrivateKernelRidge(kernel, size, label_bound=bounds.label)
    return learner.noise_std(*budget.arguments)


def _with_intercept(
    kernel: Gaussian, size: int, bounds: Bounds, budget: Budget
) -> dict[str, float]:
    learner = PrivateKernelRidge(
        kernel,
        size,
        label_bound=bounds.label,
        residual_bound=bounds.residual,
        intercept_share=INTERCEPT_SHARE,
    )
    return learner.noise_std(*budget.arguments)


def _none(kernel: Gaussian, size: int, bounds: Bounds, budget: Budget) -> dict[str, float]:
    return {"C": 0.0, "u": 0.0}


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
    "RP, certified with intercept": Method(CLIPPED_PATHS, _with_intercept),
}
NOISELESS = {"RP": Method(EXACT_PATHS, _none), "RFF": Method(COSINES, _none)}
