r"""How much to regularise a private ridge regression, without looking at the data again.

A ridge that is chosen from the released statistics alone costs no privacy (post-processing). Beside
a fixed ridge there are two rules here: proportional to the noise (`NoiseRidge`), and PK Theorem
11's, from how smooth the target is thought to be (`Theorem11Rule`). `selection` holds those that
estimate the risk from the noisy statistics themselves. A choice by the error on private data is
left out: it would need a budget of its own.
"""

import abc
import math
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.core.arrays import plain_float
from jaxdp.core.checks import host_number, require_positive
from jaxdp.core.description import AbstractDescription
from jaxdp.kernels.release.joint_release import JointNoise


class NoisyStatistics(NamedTuple):
    r"""What was released, averaged over the records, for features and labels of bound one.

    Attributes:
        covariance: $\sum_i z_i z_i^\top / (n B^2)$ and noise.
        correlation: $\sum_i y_i z_i / (n B T)$ and noise.
        noise: the standard deviations of that noise.
        num_samples: n.
        epsilon: of the whole release.
    """

    covariance: Float[np.ndarray, "outputs outputs"]
    correlation: Float[np.ndarray, " outputs"]
    noise: JointNoise
    num_samples: int
    epsilon: float

    def first(self, num_outputs: int) -> "NoisyStatistics":
        """Those of the first columns alone."""
        kept = slice(num_outputs)
        covariance, correlation = self.covariance[kept, kept], self.correlation[kept]
        return self._replace(covariance=covariance, correlation=correlation)

    @property
    def num_outputs(self) -> int:
        """M."""
        return len(self.correlation)

    @property
    def noise_norm(self) -> float:
        r"""$\sigma_C \sqrt{2M}$: the spectral norm of the noise on the covariance, for large M.

        Off its diagonal that noise has standard deviation $\sigma_C / \sqrt 2$, and Wigner's
        semicircle ends at $2 \sqrt M$ times it.
        """
        return self.noise.covariance * math.sqrt(2 * self.num_outputs)


class AbstractStatisticsRule(AbstractDescription):
    """From released statistics to coefficients: post-processing."""

    @abc.abstractmethod
    def coefficients(
        self, statistics: NoisyStatistics, *, public_seed: int
    ) -> Float[np.ndarray, " outputs"]:
        """For features and labels of bound one; what is drawn for it comes from the seed."""


class AbstractRidgeRule(AbstractStatisticsRule):
    """From released statistics to a ridge: post-processing."""

    @abc.abstractmethod
    def choose(self, statistics: NoisyStatistics, *, public_seed: int) -> float:
        """The ridge, for features of bound one; what is drawn for it comes from the seed."""

    def coefficients(self, statistics, *, public_seed):
        return ridge_solution(statistics, self.choose(statistics, public_seed=public_seed))


class NoiseRidge(AbstractRidgeRule):
    r"""A ridge as large as the noise that it has to tame: `factor` $\sigma_C \sqrt{2M}$.

    The learner's default has the factor 1 where an intercept is released, and 1/2 where the
    coefficients have to carry the mean of the labels too, which a large ridge shrinks. Measured on
    the synthetic problem of PK Section 5: from epsilon = 1 on, the errors are at most a fifth above
    those of the best ridge.

    Args:
        factor: > 0.

    Raises:
        ValueError: the factor is not positive and finite.

    Example:
        >>> from jaxdp.kernels import Gaussian, NoiseRidge, PrivateKernelRidge
        >>> learner = PrivateKernelRidge(Gaussian(1.0), label_bound=1.0, ridge=NoiseRidge(0.5))
        >>> learner.ridge.factor
        0.5
    """

    factor: float = eqx.field(static=True, converter=plain_float, default=1.0)

    def __check_init__(self):
        require_positive("factor", self.factor)

    def choose(self, statistics, *, public_seed):
        del public_seed
        return self.factor * statistics.noise_norm


class Theorem11Rule(AbstractRidgeRule):
    r"""The ridge of PK Theorem 11, for whoever knows the exponents of source and capacity.

    $\lambda = \max\{n^{-1/(2r+\gamma)}, (n\epsilon)^{-2/(4r+\gamma)}\}$ times a constant.

    Source: PK Theorem 11 and the choices at the end of Section 4.2, for a kernel bounded by one.
    The theorem leaves the constants open. It also sets how many projections to draw: see
    `num_projections`.

    Args:
        source: r in [1/2, 1], how smooth the target is (Assumption 4).
        capacity: gamma in [0, 1], how slowly the eigenvalues decay (Assumption 3).
        constant: > 0, of lambda.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> from jaxdp.kernels import Theorem11Rule
        >>> rule = Theorem11Rule(source=0.5, capacity=0.5)
        >>> print(f"{rule.ridge(10_000, 1.0):.4f}, M = {rule.num_projections(10_000, 1.0)}")
        0.0022, M = 22
    """

    source: float = eqx.field(static=True, converter=plain_float)
    capacity: float = eqx.field(static=True, converter=plain_float)
    constant: float = eqx.field(static=True, converter=plain_float, default=1.0)

    def __check_init__(self):
        require_positive("constant", self.constant)
        for name, value, low in (("source", self.source, 0.5), ("capacity", self.capacity, 0.0)):
            if not low <= host_number(name, value) <= 1:
                raise ValueError(f"expected {low} <= {name} <= 1, got {value}")

    def choose(self, statistics, *, public_seed):
        del public_seed
        return self.ridge(statistics.num_samples, statistics.epsilon)

    def ridge(self, num_samples: int, epsilon: float) -> float:
        """lambda, for features of bound one."""
        r, gamma = self.source, self.capacity
        statistical = num_samples ** (-1 / (2 * r + gamma))
        private = (num_samples * epsilon) ** (-2 / (4 * r + gamma))
        return self.constant * max(statistical, private)

    def num_projections(self, num_samples: int, epsilon: float, *, constant: float = 1.0) -> int:
        r"""M: the least of $n^{(2r+\gamma-1)/(2r+\gamma)}$ and
        $(n\epsilon)^{(4r+2\gamma-2)/(4r+\gamma)}$, times a constant, rounded up."""
        r, gamma = self.source, self.capacity
        require_positive("constant", constant)
        statistical = num_samples ** ((2 * r + gamma - 1) / (2 * r + gamma))
        private = (num_samples * epsilon) ** ((4 * r + 2 * gamma - 2) / (4 * r + gamma))
        return max(1, math.ceil(constant * min(statistical, private)))


def ridge_path(
    covariance: Float[np.ndarray, "outputs outputs"],
    correlation: Float[np.ndarray, " outputs"],
    ridges: Float[np.ndarray, " ridges"],
) -> Float[np.ndarray, "ridges outputs"]:
    r"""$(C_+ + \lambda I)^{-1} u$ for each $\lambda$, $C_+$ being C without negative eigenvalues.

    A noisy C is often indefinite, and $C + \lambda I$ then nearly singular for some $\lambda$: the
    sharp peaks of PK Figure 2. The nearest positive semi-definite matrix has none, and is free.
    """
    values, vectors = np.linalg.eigh(covariance)
    shrunk = (vectors.T @ correlation) / (np.maximum(values, 0) + ridges[:, None])
    return shrunk @ vectors.T


def ridge_solution(statistics: NoisyStatistics, ridge: float) -> Float[np.ndarray, " outputs"]:
    """The solution of `ridge_path` for one ridge."""
    ridges = np.asarray([ridge])
    return ridge_path(statistics.covariance, statistics.correlation, ridges)[0]
