r"""Exponents of the excess risk of private kernel learning, as PK's theorems state them.

With r the source exponent, gamma the capacity, alpha the compatibility and beta the embedding
exponent (PK Assumptions 4, 3, 9 and 7), every theorem has the form $n^{-a} + (n\epsilon)^{-b}$, up
to logarithms, for $\epsilon \ge 1/n$. delta enters only in logarithms. All constants are taken as
1. r lies in [1/2, 1], gamma in [0, 1], alpha and beta in [gamma, 1].

`filtered_noise_rate` and `undersmoothed_rate` go beyond the theorems: they count that the ridge
filters the noise.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float


class Exponents(NamedTuple):
    """One exponent for n, one for n epsilon, without their signs."""

    samples: float
    privacy: float


class KernelRate(NamedTuple):
    r"""Order of the excess risk, $n^{-a} + (n\epsilon)^{-b}$, and how it is reached.

    Attributes:
        decay: a and b.
        ridge: p and q of $\lambda = n^{-p} \vee (n\epsilon)^{-q}$; None if nothing is chosen.
        projections: s and t of $M = n^s \wedge (n\epsilon)^t$; None if nothing is chosen.
    """

    decay: Exponents
    ridge: Exponents | None = None
    projections: Exponents | None = None

    def excess_risk(self, num_samples: ArrayLike, epsilon: ArrayLike) -> Float[np.ndarray, "..."]:
        """The order of the excess risk, at most 1 for each part."""
        samples, product = np.asarray(num_samples), np.multiply(num_samples, epsilon)
        return samples**-self.decay.samples + product**-self.decay.privacy

    def choice(self, num_samples: ArrayLike, epsilon: ArrayLike):
        """Ridge and number of projections, the second rounded up, of a rate that has both."""
        assert self.ridge is not None
        assert self.projections is not None
        samples, product = np.asarray(num_samples), np.multiply(num_samples, epsilon)
        ridge = np.maximum(samples**-self.ridge.samples, product**-self.ridge.privacy)
        kept = np.minimum(samples**self.projections.samples, product**self.projections.privacy)
        return ridge, np.ceil(kept)


def minimax_rate(source: float, capacity: float, embedding: float = 1.0) -> KernelRate:
    r"""The minimax rate, which no private learner can beat in the worst case over targets.

    The canonical estimator reaches it if the kernel with eigenvalues $\mu_l^\beta$ is bounded.
    Source: PK Theorem 10 (squared loss) and Theorem 23 (some Lipschitz loss). The sensitivity of
    the canonical estimator is misprinted (`canonical_excess_risk`). That no learner is faster
    follows if $(E|\phi_l|)^2$ is of the order of $\mu_l^\beta$ (`private_lower_bound`), and not
    under Assumption 7, which bounds it from below alone and always holds with $\beta = 1$: on the
    torus the canonical estimator is faster than the rate for any $\beta > \gamma$.
    """
    private = 4 * source / (2 * source + capacity + embedding)
    return KernelRate(Exponents(_public_exponent(source, capacity), private))


def random_projection_rate(source: float, capacity: float) -> KernelRate:
    """The published rate of Algorithm 1, and of Algorithm 2 under local strong convexity.

    Source: PK Theorems 11, 19 and 58. An upper bound; `filtered_noise_rate` is faster for every
    r > 1/2.
    """
    return random_feature_rate(source, capacity, capacity)


def random_feature_rate(source: float, capacity: float, compatibility: float) -> KernelRate:
    r"""The published rate of Algorithms 3 and 4.

    With $\gamma_\alpha = (2r - 1)\gamma + (2 - 2r)\alpha$.

    Source: PK Theorems 17 and 21; alpha = gamma gives Theorems 11 and 19.
    """
    mixed = _mixed_capacity(source, capacity, compatibility)
    ridge = Exponents(1 / (2 * source + capacity), 2 / (4 * source + mixed))
    per_ridge = 2 * source - 1 + mixed
    return KernelRate(
        Exponents(_public_exponent(source, capacity), 4 * source / (4 * source + mixed)),
        ridge,
        Exponents(per_ridge * ridge.samples, per_ridge * ridge.privacy),
    )


def lipschitz_rate(compatibility: float) -> KernelRate:
    """The published rate for convex smooth Lipschitz losses without curvature.

    No source condition helps.

    Source: PK Theorem 18 (random projection: alpha = gamma) and the remark after it (random
    Fourier features).
    """
    ridge = Exponents(1 / 2, 2 / (2 + compatibility))
    projections = Exponents(compatibility / 2, compatibility * ridge.privacy)
    return KernelRate(ridge, ridge, projections)


def functional_perturbation_rate(source: float, capacity: float) -> KernelRate:
    """The published rate of Algorithm 5; output perturbation of projected coefficients has it too.

    Source: PK Theorem 22, whose proof in A.11 prints the exponents without their minus signs. For
    r > 1 - gamma/2 it is better than what Theorem 19 proves for Algorithm 2, against the order that
    the text states for r = 1/2; `filtered_noise_rate` restores that order.
    """
    ridge = Exponents(1 / (2 * source + capacity), 1 / (source + 1))
    return KernelRate(
        Exponents(_public_exponent(source, capacity), 2 * source / (source + 1)), ridge
    )


def filtered_noise_rate(
    source: float, capacity: float, compatibility: float | None = None
) -> KernelRate:
    r"""The rate that Algorithms 1 to 4 reach when the ridge's filtering of the noise is counted.

    Derived (to first order, not a theorem): noise of standard deviation s on u, or on b/n, adds
    $s^2\operatorname{tr}C(C + \lambda)^{-2} \le s^2N(\lambda)/\lambda$ to the risk, whatever M is;
    PK Lemma 14 bounds it by $s^2M/\lambda$. Balanced with $\lambda^{2r}$ it gives $\lambda =
    (n\epsilon)^{-2/(2r+\gamma+1)}$ and the risk $(n\epsilon)^{-4r/(2r+\gamma+1)}$: the minimax rate
    at beta = 1 for *every* r, where the theorems reach it at r = 1/2 alone. The noise on C asks for
    $M \lesssim (\lambda n\epsilon)^2$, and the projection for $M \gtrsim
    \lambda^{1-2r-\gamma_\alpha}$. Both hold at that ridge if alpha = gamma; otherwise they meet at
    $\lambda = (n\epsilon)^{-2/(2r+\gamma_\alpha+1)}$. Algorithm 4 has no noise on C, and random
    features the rate of random projection. test_kernel_rates.py minimises the predicted risk.
    """
    compatibility = capacity if compatibility is None else compatibility
    mixed = _mixed_capacity(source, capacity, compatibility)
    ridge = Exponents(1 / (2 * source + capacity), 2 / (2 * source + mixed + 1))
    per_ridge = 2 * source - 1 + mixed
    return KernelRate(
        Exponents(_public_exponent(source, capacity), 2 * source * ridge.privacy),
        ridge,
        Exponents(per_ridge * ridge.samples, per_ridge * ridge.privacy),
    )


def undersmoothed_rate(source: float, capacity: float, power: float) -> KernelRate:
    r"""The rate of `filtered_noise_rate` with a rougher kernel, of the eigenvalues $\mu_l^b$.

    The eigenfunctions stay, and `power` is b, in (gamma, 1].

    The rougher kernel has capacity gamma/b and source r/b, of which a ridge uses at most 1. The
    risk falls as $(n\epsilon)^{-4r/(2r+\gamma+b)}$ for $r \le b$: the minimax rate as b tends to
    beta, the least power that leaves the kernel bounded (gamma on the torus). A Matern kernel of
    less smoothness is such a kernel up to constants, with no knowledge of P_X but that its density
    is bounded from both sides. Derived, like `filtered_noise_rate`: to first order, no theorem.
    """
    return filtered_noise_rate(min(source / power, 1), capacity / power)


def linear_risk_order(
    num_samples: float, epsilon: float, *, trace: float = 1.0, rank: float = math.inf
) -> float:
    r"""Order of the excess risk of the inner product kernel, whatever the dimension.

    With t = tr(Sigma) and k its rank, $k/n \wedge (t/n)^{1/2}$ and, for privacy,
    $k^{1/2}/n\epsilon \wedge t^{1/3}/(n\epsilon)^{2/3}$. They solve $\lambda = N(\lambda)/n$ and
    $\lambda = N(\lambda)^{1/2}/n\epsilon$ for $N \le t/\lambda \wedge k$.
    Source: PK Theorems 63 and 65. Lemma 66 prints $\lVert\Sigma\rVert$ for t (a squared Frobenius
    norm is bounded as if it were an operator norm), which sections B.2 and B.3 inherit; the last
    line of B.3 prints 1/n for the first bracket.
    """
    private = _private_order(num_samples, epsilon, trace, rank)
    return min(rank / num_samples, math.sqrt(trace / num_samples)) + private


def lipschitz_linear_risk_order(
    num_samples: float, epsilon: float, *, trace: float = 1.0, rank: float = math.inf
) -> float:
    r"""Order of the excess risk of the inner product kernel under a Lipschitz loss.

    $n^{-1/2}$ without privacy, whatever the rank, as a loss without curvature has no faster rate;
    for privacy the part of `linear_risk_order`, from $\lambda = \sqrt M/(n\varepsilon)$ and
    $M = N(\lambda) \le t/\lambda \wedge k$.
    Source: PK Theorem 64, which says Algorithm 1 for Algorithm 2.
    """
    private = _private_order(num_samples, epsilon, trace, rank)
    return 1 / math.sqrt(num_samples) + private


def _private_order(num_samples: float, epsilon: float, trace: float, rank: float) -> float:
    product = num_samples * epsilon
    return min(math.sqrt(rank) / product, (trace / product**2) ** (1 / 3))


def _public_exponent(source: float, capacity: float) -> float:
    """Exponent of n without privacy. Source: Caponnetto and De Vito (2007), as cited by PK."""
    return 2 * source / (2 * source + capacity)


def _mixed_capacity(source: float, capacity: float, compatibility: float) -> float:
    """gamma_alpha of PK Theorem 17."""
    return (2 * source - 1) * capacity + (2 - 2 * source) * compatibility
