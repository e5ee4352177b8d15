"""How much to regularise a private ridge regression, without looking at the data again.

A ridge that is chosen from the released statistics alone costs no privacy (post-processing). Beside
a fixed ridge there are: a ridge as large as the noise (`NoiseRidge`); PK Theorem 11's, from how
smooth the target is thought to be (`Theorem11Rule`); and the choice by an unbiased estimate of the
squared error, for which the noise of the release is split in two (`SelectedRidge`). A choice by the
error on private data is left out: it would need a budget of its own.
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
from jaxdp.kernels.release.joint_release import JointNoise, noise_of, num_normals


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


class AbstractRidgeRule(AbstractDescription):
    """A rule that turns released statistics into a ridge: post-processing."""

    @abc.abstractmethod
    def choose(self, statistics: NoisyStatistics, *, public_seed: int) -> float:
        """The ridge, for features of bound one; random choices use the seed."""


class NoiseRidge(AbstractRidgeRule):
    r"""A ridge as large as the noise that it has to tame: `factor` $\sigma_C \sqrt{2M}$.

    The learner's default has the factor 1 where an intercept is released, and 1/2 where the
    coefficients have to carry the mean of the labels too. On the synthetic problem of PK Section 5,
    from epsilon = 1 on, the errors are at most a fifth above those of the best ridge.

    Args:
        factor: > 0.

    Raises:
        ValueError: the factor is not positive and finite.

    Example:
        >>> from jaxdp.kernels import Gaussian, PrivateKernelRidge
        >>> from jaxdp.kernels.ridge.rules import NoiseRidge
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
    The theorem leaves the constants open. The rule also sets how many projections to draw.

    Args:
        source: r in [1/2, 1], how smooth the target is (Assumption 4).
        capacity: gamma in [0, 1], how slowly the eigenvalues decay (Assumption 3).
        constant: > 0, of lambda.

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


# How often the noise is split, and gamma^2, the share of it that is added to what is fitted.
_NUM_SPLITS, SHARE = 8, 0.5
# On a grid of ratio sqrt 2 from a quarter of the noise's norm upward.
_NUM_RIDGES = 11
_Pair = tuple[Float[np.ndarray, "outputs outputs"], Float[np.ndarray, " outputs"]]


class SelectedRidge(AbstractRidgeRule):
    r"""The ridge of least risk, as the noisy statistics themselves estimate it.

    The squared error of coefficients b is, up to a constant, $b^\top C b - 2 u \cdot b$. Estimated
    with the noise that b was fitted to, it would be too low. So the noise is split in two: with
    fresh noise E of the same law, $(C, u) + \gamma E$ and $(C, u) - E / \gamma$ have independent
    noises. The first is fitted, the second judges without bias; the average over several E. The
    least is then refitted to all, with $\lambda$ smaller by $\sqrt{1 + \gamma^2}$, as its noise is.
    Source: Oliveira, Lei and Tibshirani (2024), the coupled bootstrap. No budget is spent.

    Where privacy costs much the judge is noisy too: ridges far below `NoiseRidge`'s look good by
    chance, and are not tried. On the synthetic problem of PK Section 5 it is no better than
    `NoiseRidge`; it is for noise that is small, or a factor that is unknown. Left out: that the
    error on the training records is lower than on new ones.

    Example:
        >>> from jaxdp.kernels import Gaussian, PrivateKernelRidge, SelectedRidge
        >>> PrivateKernelRidge(Gaussian(1.0), label_bound=1.0, ridge=SelectedRidge()).ridge
        SelectedRidge()
    """

    def choose(self, statistics, *, public_seed):
        ridges = _ridges(statistics)
        generator = np.random.default_rng([public_seed, _NUM_SPLITS])
        risks = np.zeros(len(ridges))
        for _ in range(_NUM_SPLITS):
            fitted, judge = split_noise(statistics, generator)
            risks += _risks(judge, ridge_path(*fitted, ridges))
        return float(ridges[np.argmin(risks)]) / math.sqrt(1 + SHARE)


def split_noise(statistics: NoisyStatistics, generator: np.random.Generator) -> tuple[_Pair, _Pair]:
    """Two copies of (C, u) with independent noises: what is fitted, and what judges."""
    size = statistics.num_outputs
    fresh = noise_of(generator.standard_normal(num_normals(size)), size, statistics.noise)
    covariance, correlation = statistics.covariance, statistics.correlation
    gamma = math.sqrt(SHARE)
    fitted = covariance + gamma * fresh[0], correlation + gamma * fresh[1]
    return fitted, (covariance - fresh[0] / gamma, correlation - fresh[1] / gamma)


def _ridges(statistics: NoisyStatistics) -> Float[np.ndarray, " ridges"]:
    return statistics.noise_norm * 2.0 ** (np.arange(_NUM_RIDGES) / 2 - 2)


def _risks(judge, coefficients) -> Float[np.ndarray, " ridges"]:
    covariance, correlation = judge
    squares = np.einsum("ri,ij,rj->r", coefficients, covariance, coefficients, optimize=True)
    return squares - 2 * coefficients @ correlation
