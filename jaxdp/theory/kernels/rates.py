r"""How fast the excess risk of private kernel learning falls: the exponents of PK's theorems.

With r the source exponent, gamma the capacity, alpha the compatibility and beta the embedding
exponent (PK Assumptions 4, 3, 9 and 7), every theorem has the form $n^{-a} + (n\epsilon)^{-b}$, up
to logarithms, for $\epsilon \ge 1/n$. delta enters by logarithms alone. All constants are taken as
1.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from jaxdp.core.checks import (
    host_array,
    host_number,
    require_host,
    require_positive,
)


class Exponents(NamedTuple):
    """One exponent for n, one for n epsilon; the sign is the reader's."""

    samples: float
    privacy: float


class KernelRate(NamedTuple):
    r"""Order of the excess risk, $n^{-a} + (n\epsilon)^{-b}$, and how it is reached.

    Attributes:
        decay: a and b.
        ridge: p and q of $\lambda = n^{-p} \vee (n\epsilon)^{-q}$; None where nothing is chosen.
        projections: s and t of $M = n^s \wedge (n\epsilon)^t$; None where nothing is chosen.

    Example:
        >>> from jaxdp.theory import random_projection_rate
        >>> rate = random_projection_rate(source=0.5, capacity=0.5)
        >>> print(f"{rate.excess_risk(10_000, epsilon=1.0):.4f}")
        0.0028
        >>> ridge, num_projections = rate.choice(10_000, epsilon=1.0)
        >>> print(f"{ridge:.4f}, {num_projections:.0f}")
        0.0022, 22
    """

    decay: Exponents
    ridge: Exponents | None = None
    projections: Exponents | None = None

    def excess_risk(self, num_samples: ArrayLike, epsilon: ArrayLike) -> Float[np.ndarray, "..."]:
        """The order of the excess risk, at most 1 for each part."""
        samples, product = _at_least_one(num_samples, epsilon)
        return samples**-self.decay.samples + product**-self.decay.privacy

    def choice(self, num_samples: ArrayLike, epsilon: ArrayLike):
        """Ridge and number of projections, the second rounded up.

        Raises:
            ValueError: the theorem chooses no ridge or no number of projections.
        """
        if self.ridge is None or self.projections is None:
            raise ValueError("expected a rate that is reached by a ridge and projections")
        samples, product = _at_least_one(num_samples, epsilon)
        ridge = np.maximum(samples**-self.ridge.samples, product**-self.ridge.privacy)
        kept = np.minimum(samples**self.projections.samples, product**self.projections.privacy)
        return ridge, np.ceil(kept)


def minimax_rate(source: float, capacity: float, embedding: float = 1.0) -> KernelRate:
    r"""The minimax rate: what no private learner can beat, in the worst case over targets.

    Reached, where the kernel with eigenvalues $\mu_l^\beta$ is bounded, by the canonical estimator.
    Source: PK Theorem 10 (squared loss) and Theorem 23 (some Lipschitz loss). The sensitivity of
    the canonical estimator is misprinted (`canonical_excess_risk`); the rate stands.

    Args:
        source: r in [1/2, 1].
        capacity: gamma in [0, 1].
        embedding: beta in [gamma, 1]; 1 always holds.

    Returns:
        The exponents of the risk.

    Example:
        >>> from jaxdp.theory import minimax_rate
        >>> rate = minimax_rate(source=0.5, capacity=0.5)
        >>> print(f"{rate.decay.samples:.3f}, {rate.decay.privacy:.3f}")
        0.667, 0.800
    """
    check_exponents(source, capacity, embedding=embedding)
    private = 4 * source / (2 * source + capacity + embedding)
    return KernelRate(Exponents(public_exponent(source, capacity), private))


def random_projection_rate(source: float, capacity: float) -> KernelRate:
    """The published rate of Algorithm 1, and of Algorithm 2 under local strong convexity.

    Source: PK Theorems 11, 19 and 58. An upper bound; `filtered_noise_rate` is faster for every
    r > 1/2.

    Args:
        source: r in [1/2, 1].
        capacity: gamma in [0, 1].

    Returns:
        The exponents of the risk, of the ridge and of the number of projections.

    Example:
        >>> from jaxdp.theory import random_projection_rate
        >>> rate = random_projection_rate(source=0.5, capacity=0.5)
        >>> print(f"{rate.decay.samples:.3f}, {rate.decay.privacy:.3f}")
        0.667, 0.800
    """
    return random_feature_rate(source, capacity, capacity)


def random_feature_rate(source: float, capacity: float, compatibility: float) -> KernelRate:
    r"""The published rate of Algorithms 3 and 4.

    With $\gamma_\alpha = (2r - 1)\gamma + (2 - 2r)\alpha$.

    Source: PK Theorems 17 and 21; alpha = gamma gives Theorems 11 and 19.

    Args:
        source: r in [1/2, 1].
        capacity: gamma in [0, 1].
        compatibility: alpha in [gamma, 1].

    Returns:
        The exponents of the risk, of the ridge and of the number of features.

    Example:
        >>> from jaxdp.theory import random_feature_rate
        >>> rate = random_feature_rate(source=0.75, capacity=0.5, compatibility=1.0)
        >>> print(f"{rate.decay.samples:.3f}, {rate.decay.privacy:.3f}")
        0.750, 0.800
    """
    check_exponents(source, capacity, compatibility=compatibility)
    mixed = mixed_capacity(source, capacity, compatibility)
    ridge = Exponents(1 / (2 * source + capacity), 2 / (4 * source + mixed))
    per_ridge = 2 * source - 1 + mixed
    return KernelRate(
        Exponents(public_exponent(source, capacity), 4 * source / (4 * source + mixed)),
        ridge,
        Exponents(per_ridge * ridge.samples, per_ridge * ridge.privacy),
    )


def lipschitz_rate(compatibility: float) -> KernelRate:
    """The published rate for convex smooth Lipschitz losses without curvature.

    No source condition helps.

    Source: PK Theorem 18 (random projection: alpha = gamma) and the remark after it (random
    Fourier features).

    Args:
        compatibility: alpha in [0, 1]; the capacity for random projection.

    Returns:
        The exponents of the risk, of the ridge and of the number of projections.

    Example:
        >>> from jaxdp.theory import lipschitz_rate
        >>> print(f"{lipschitz_rate(compatibility=0.5).decay.privacy:.3f}")
        0.800
    """
    check_exponents(0.5, 0.0, compatibility=compatibility)
    ridge = Exponents(1 / 2, 2 / (2 + compatibility))
    projections = Exponents(compatibility / 2, compatibility * ridge.privacy)
    return KernelRate(ridge, ridge, projections)


def functional_perturbation_rate(source: float, capacity: float) -> KernelRate:
    """The published rate of Algorithm 5; output perturbation of projected coefficients has it too.

    Source: PK Theorem 22, whose proof in A.11 prints the exponents without their minus signs. For
    r > 1 - gamma/2 it is better than what Theorem 19 proves for Algorithm 2, against the order that
    the text states for r = 1/2; `filtered_noise_rate` restores that order.

    Args:
        source: r in [1/2, 1].
        capacity: gamma in [0, 1].

    Returns:
        The exponents of the risk and of the ridge.

    Example:
        >>> from jaxdp.theory import functional_perturbation_rate
        >>> functional_perturbation_rate(source=1.0, capacity=0.5).decay.privacy
        1.0
    """
    check_exponents(source, capacity)
    ridge = Exponents(1 / (2 * source + capacity), 1 / (source + 1))
    return KernelRate(
        Exponents(public_exponent(source, capacity), 2 * source / (source + 1)), ridge
    )


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

    Args:
        num_samples: n.
        epsilon: > 0.
        trace: tr(Sigma), the mean of |x|^2.
        rank: of Sigma.

    Returns:
        The order, without its constant.

    Example:
        >>> from jaxdp.theory import linear_risk_order
        >>> print(f"{linear_risk_order(10_000, epsilon=1.0, rank=10):.5f}")
        0.00132
    """
    require_host("arguments", (num_samples, epsilon, trace, rank))
    for name, value in (("num_samples", num_samples), ("epsilon", epsilon), ("trace", trace)):
        require_positive(name, value)
    require_positive("rank", rank, infinite=True)
    product = num_samples * epsilon
    public = min(rank / num_samples, math.sqrt(trace / num_samples))
    return public + min(math.sqrt(rank) / product, (trace / product**2) ** (1 / 3))


def public_exponent(source: float, capacity: float) -> float:
    """Exponent of n without privacy. Source: Caponnetto and De Vito (2007), as cited by PK."""
    return 2 * source / (2 * source + capacity)


def mixed_capacity(source: float, capacity: float, compatibility: float) -> float:
    """gamma_alpha of PK Theorem 17."""
    return (2 * source - 1) * capacity + (2 - 2 * source) * compatibility


def _at_least_one(num_samples: ArrayLike, epsilon: ArrayLike):
    """n and n epsilon as arrays, after a check."""
    samples = host_array("num_samples", num_samples)
    product = samples * host_array("epsilon", epsilon)
    if not ((samples >= 1).all() and (product >= 1).all()):
        raise ValueError("expected num_samples >= 1 and epsilon >= 1/num_samples")
    return samples, product


def check_exponents(source: float, capacity: float, **at_least_capacity: float) -> None:
    """ValueError unless r is in [1/2, 1], gamma in [0, 1] and the others in [gamma, 1]."""
    if not 0.5 <= host_number("source", source) <= 1:
        raise ValueError(f"expected source in [1/2, 1], got {source}")
    if not 0 <= host_number("capacity", capacity) <= 1:
        raise ValueError(f"expected capacity in [0, 1], got {capacity}")
    for name, value in at_least_capacity.items():
        if not capacity <= host_number(name, value) <= 1:
            raise ValueError(f"expected {name} in [capacity, 1] = [{capacity:g}, 1], got {value}")
