r"""Orders of the excess risk of private linear learning, whatever the dimension: PK Appendix B."""

import math

from jaxdp.core.checks import require_host, require_positive


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

    Args:
        num_samples: n.
        epsilon: > 0.
        trace: t = tr(Sigma), the mean of |x|^2.
        rank: k, of Sigma.

    Returns:
        The order, without its constant.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> from jaxdp.theory import lipschitz_linear_risk_order
        >>> print(f"{lipschitz_linear_risk_order(10_000, epsilon=1.0, rank=10):.5f}")
        0.01032
    """
    private = _private_order(num_samples, epsilon, trace, rank)
    return 1 / math.sqrt(num_samples) + private


def _private_order(num_samples: float, epsilon: float, trace: float, rank: float) -> float:
    require_host("arguments", (num_samples, epsilon, trace, rank))
    for name, value in (("num_samples", num_samples), ("epsilon", epsilon), ("trace", trace)):
        require_positive(name, value)
    require_positive("rank", rank, infinite=True)
    product = num_samples * epsilon
    return min(math.sqrt(rank) / product, (trace / product**2) ** (1 / 3))
