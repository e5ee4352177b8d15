r"""Exponents beyond PK's theorems, when it is counted that the ridge filters the noise.

Derived to first order from `predicted_excess_risk`; no theorems.
"""

from jaxdp.core.checks import require_host, require_scalar
from jaxdp.theory.kernels.rates import (
    Exponents,
    KernelRate,
    check_exponents,
    mixed_capacity,
    public_exponent,
)


def filtered_noise_rate(
    source: float,
    capacity: float,
    compatibility: float | None = None,
) -> KernelRate:
    r"""What Algorithms 1 to 4 reach when the ridge's filtering of the noise is counted.

    Derived (to first order, not a theorem): noise of standard deviation s on u, or on b/n, adds
    $s^2\operatorname{tr}C(C + \lambda)^{-2} \le s^2N(\lambda)/\lambda$ to the risk, whatever M is;
    PK Lemma 14 bounds it by $s^2M/\lambda$. Balanced with $\lambda^{2r}$ it gives $\lambda =
    (n\epsilon)^{-2/(2r+\gamma+1)}$ and the risk $(n\epsilon)^{-4r/(2r+\gamma+1)}$: the minimax rate
    at beta = 1 for *every* r, where the theorems reach it at r = 1/2 alone. The noise on C asks for
    $M \lesssim (\lambda n\epsilon)^2$, and the projection for $M \gtrsim
    \lambda^{1-2r-\gamma_\alpha}$. Both hold at that ridge if alpha = gamma; otherwise they meet at
    $\lambda = (n\epsilon)^{-2/(2r+\gamma_\alpha+1)}$. Algorithm 4 has no noise on C, and random
    features the rate of random projection. tests/theory/kernels/test_kernel_rates.py minimises the
    predicted risk.

    Args:
        source: r in [1/2, 1].
        capacity: gamma in [0, 1].
        compatibility: alpha in [gamma, 1] where features are random; gamma by default.

    Returns:
        The exponents of the risk, of the ridge and of the number of projections.

    Example:
        >>> from jaxdp.theory import filtered_noise_rate
        >>> print(f"{filtered_noise_rate(source=1.0, capacity=0.5).decay.privacy:.3f}")
        1.143
    """
    compatibility = capacity if compatibility is None else compatibility
    check_exponents(source, capacity, compatibility=compatibility)
    mixed = mixed_capacity(source, capacity, compatibility)
    ridge = Exponents(1 / (2 * source + capacity), 2 / (2 * source + mixed + 1))
    per_ridge = 2 * source - 1 + mixed
    return KernelRate(
        Exponents(public_exponent(source, capacity), 2 * source * ridge.privacy),
        ridge,
        Exponents(per_ridge * ridge.samples, per_ridge * ridge.privacy),
    )


def undersmoothed_rate(source: float, capacity: float, power: float) -> KernelRate:
    r"""The rate of `filtered_noise_rate` with a rougher kernel, of the eigenvalues $\mu_l^b$.

    The eigenfunctions are the same.

    The rougher kernel has capacity gamma/b and source r/b, of which a ridge uses at most 1. The
    risk falls as $(n\epsilon)^{-4r/(2r+\gamma+b)}$ for $r \le b$: the minimax rate as b tends to
    beta, the least power that leaves the kernel bounded (gamma on the torus). A Matern kernel of
    less smoothness is such a kernel up to constants, with no knowledge of P_X but that its density
    is bounded from both sides. Derived, like `filtered_noise_rate`: to first order, no theorem.

    Args:
        source: r in [1/2, 1], of the target with the first kernel.
        capacity: gamma in [0, 1), of the first kernel.
        power: b in (gamma, 1]; ridge and projections are those of the rougher kernel.

    Returns:
        The exponents of the risk, of the ridge and of the number of projections.

    Example:
        >>> from jaxdp.theory import undersmoothed_rate
        >>> undersmoothed_rate(source=0.5, capacity=0.25, power=0.75).decay.privacy
        1.0
    """
    check_exponents(source, capacity)
    require_host("power", power)
    require_scalar("power", power)
    if not capacity < power <= 1:
        raise ValueError(f"expected power in (capacity, 1] = ({capacity:g}, 1], got {power}")
    return filtered_noise_rate(min(source / power, 1), capacity / power)
