"""Choice of the ridge in private ridge regression, by post-processing of released statistics."""

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
    r"""Released statistics, averaged over the records, for features and labels of bound one.

    Attributes:
        covariance, correlation: noisy $\sum_i z_i z_i^\top / (n B^2)$, $\sum_i y_i z_i / (n B T)$.
        noise: the standard deviations of that noise.
        epsilon: epsilon of the whole release.
    """

    covariance: Float[np.ndarray, "outputs outputs"]
    correlation: Float[np.ndarray, " outputs"]
    noise: JointNoise
    num_samples: int
    epsilon: float

    @property
    def num_outputs(self) -> int:
        return len(self.correlation)

    @property
    def noise_norm(self) -> float:
        r"""$\sigma_C \sqrt{2M}$, the spectral norm of the noise on C for large M (semicircle)."""
        return self.noise.covariance * math.sqrt(2 * self.num_outputs)


class AbstractRidgeRule(AbstractDescription):
    """A rule that turns released statistics into a ridge: post-processing."""

    @abc.abstractmethod
    def choose(self, statistics: NoisyStatistics, *, public_seed: int) -> float:
        """The ridge, for features of bound one; random choices use the seed."""


class NoiseRidge(AbstractRidgeRule):
    r"""A ridge as large as the noise that it has to suppress: `factor` $\sigma_C \sqrt{2M}$.

    The learner's default factor is 1 with a released intercept, and 1/2 without. On the synthetic
    problem of PK Section 5 with epsilon >= 1, the errors are at most a fifth above the best.
    """

    factor: float = eqx.field(static=True, converter=plain_float, default=1.0)

    def __check_init__(self):
        require_positive("factor", self.factor)

    def choose(self, statistics, *, public_seed):
        return self.factor * statistics.noise_norm


class Theorem11Rule(AbstractRidgeRule):
    r"""The ridge of PK Theorem 11, for known exponents of source and capacity.

    $\lambda = \max\{n^{-1/(2r+\gamma)}, (n\epsilon)^{-2/(4r+\gamma)}\}$ times a constant that the
    theorem leaves open. Source: PK Theorem 11 and the end of Section 4.2, for kernels bounded by 1.

    Args:
        source: r in [1/2, 1], smoothness of the target (Assumption 4).
        capacity: gamma in [0, 1]; the larger, the slower the eigenvalues decay (Assumption 3).
        constant: the factor > 0 of lambda.

    Example:
        >>> from jaxdp.kernels import Theorem11Rule
        >>> print(f"{Theorem11Rule(source=0.5, capacity=0.5).ridge(10_000, 1.0):.4f}")
        0.0022
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
        return self.ridge(statistics.num_samples, statistics.epsilon)

    def ridge(self, num_samples: int, epsilon: float) -> float:
        """lambda, for features of bound one."""
        r, gamma = self.source, self.capacity
        statistical = num_samples ** (-1 / (2 * r + gamma))
        private = (num_samples * epsilon) ** (-2 / (4 * r + gamma))
        return self.constant * max(statistical, private)

    def num_projections(self, num_samples: int, epsilon: float, *, constant: float = 1.0) -> int:
        r"""The number of projections M, `constant` times the smaller of two bounds, rounded up.

        $n^{(2r+\gamma-1)/(2r+\gamma)}$ and $(n\epsilon)^{(4r+2\gamma-2)/(4r+\gamma)}$.
        """
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
    r"""The coefficients $(C_+ + \lambda I)^{-1} u$ for each $\lambda$.

    $C_+$ is C without its negative eigenvalues. A noisy C is often indefinite, and $C + \lambda I$
    then nearly singular for some $\lambda$: the sharp peaks of PK Figure 2.
    """
    values, vectors = np.linalg.eigh(covariance)
    shrunk = (vectors.T @ correlation) / (np.maximum(values, 0) + ridges[:, None])
    return shrunk @ vectors.T


def ridge_solution(statistics: NoisyStatistics, ridge: float) -> Float[np.ndarray, " outputs"]:
    """The solution of `ridge_path` for one ridge."""
    ridges = np.asarray([ridge])
    return ridge_path(statistics.covariance, statistics.correlation, ridges)[0]


# Number of splits of the noise, and gamma^2, its share that is added to the fitted statistics.
_NUM_SPLITS, SHARE = 8, 0.5
# On a grid of ratio sqrt 2 from a quarter of the noise's norm upward.
_NUM_RIDGES = 11
_Pair = tuple[Float[np.ndarray, "outputs outputs"], Float[np.ndarray, " outputs"]]


class SelectedRidge(AbstractRidgeRule):
    r"""The ridge of least risk, as estimated from the noisy statistics themselves.

    The squared error of coefficients b is, up to a constant, $b^\top C b - 2 u \cdot b$; estimated
    with the noise that b was fitted to, it would be too low. So the noise is split: with fresh
    noise E of the same distribution, $(C, u) + \gamma E$ and $(C, u) - E / \gamma$ have independent
    noises. The first is fitted, the second judges without bias, averaged over several E. The best
    ridge is then refitted to all, divided by $\sqrt{1 + \gamma^2}$, as its noise is. No budget is
    spent. Source: Oliveira, Lei and Tibshirani (2024), the coupled bootstrap. Use it if the noise
    is small or a good factor of `NoiseRidge` is unknown. With strong privacy the judge is noisy
    too, so ridges far below `NoiseRidge`'s are not tried.

    Example:
        >>> from jaxdp.kernels import Gaussian, PrivateKernelRidge, SelectedRidge
        >>> PrivateKernelRidge(Gaussian(1.0), label_bound=1.0, ridge=SelectedRidge()).ridge
        SelectedRidge()
    """

    def choose(self, statistics, *, public_seed):
        ridges = statistics.noise_norm * 2.0 ** (np.arange(_NUM_RIDGES) / 2 - 2)
        generator = np.random.default_rng([public_seed, _NUM_SPLITS])
        risks = np.zeros(len(ridges))
        for _ in range(_NUM_SPLITS):
            fitted, (covariance, correlation) = split_noise(statistics, generator)
            found = ridge_path(*fitted, ridges)
            squares = np.einsum("ri,ij,rj->r", found, covariance, found, optimize=True)
            risks += squares - 2 * found @ correlation
        return float(ridges[np.argmin(risks)]) / math.sqrt(1 + SHARE)


def split_noise(statistics: NoisyStatistics, generator: np.random.Generator) -> tuple[_Pair, _Pair]:
    """Two copies of (C, u) with independent noises: one to fit, one to judge."""
    size = statistics.num_outputs
    fresh = noise_of(generator.standard_normal(num_normals(size)), size, statistics.noise)
    covariance, correlation = statistics.covariance, statistics.correlation
    gamma = math.sqrt(SHARE)
    fitted = covariance + gamma * fresh[0], correlation + gamma * fresh[1]
    return fitted, (covariance - fresh[0] / gamma, correlation - fresh[1] / gamma)
