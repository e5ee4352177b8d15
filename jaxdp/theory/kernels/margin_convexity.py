r"""How convex the risk of a margin loss with a curved middle is near its best prediction."""

import math

from jaxdp.core.checks import require_host, require_positive


def local_convexity(
    curvatures: tuple[float, float],
    corner: tuple[float, float],
    target: tuple[float, float],
    reach: float,
) -> float:
    r"""$c_{lsc}$: how convex a loss with a curved middle is, for predictions within a reach.

    For a margin loss that is $c_3$-strongly convex and $c_4$-smooth on [a, b] and less curved
    outside, with targets in $[a', b'] \subset [a, b]$ and $|f| \le R_\infty$: the loss at f exceeds
    its tangent at the target by $\frac12c_{lsc}(f - f^*)^2$ at least,

    $$ c_{lsc} = c_3 - c_4\max\Bigl\{\Bigl(\frac{a + R_\infty}{a' + R_\infty}\Bigr)^2,
       \Bigl(\frac{R_\infty - b}{R_\infty - b'}\Bigr)^2\Bigr\}. $$

    It is positive for the Huber hinge ($c_3 = c_4 = 1/2h$, a, b = 1 - h, 1 + h) whatever the reach,
    if a < a' and b' < b: PK Assumption 11, and where the probability of a label whose margin lies
    in [a, b] is at least $\eta$, with $\mu = \eta c_{lsc}$. Source: PK Lemma 77.

    Args:
        curvatures: $(c_3, c_4)$, > 0.
        corner: (a, b), a < 0 < b.
        target: (a', b'), within the corner.
        reach: $R_\infty > \max(|a|, |b|)$.

    Returns:
        The constant, which may be negative: then nothing is said.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> from jaxdp.theory import local_convexity
        >>> corner, target = (-1.0, 3.0), (0.0, 1.0)
        >>> print(f"{local_convexity((0.25, 0.25), corner, target, reach=5.0):.3f}")
        0.090
    """
    require_host("arguments", (curvatures, corner, target, reach))
    for value in curvatures:
        require_positive("curvatures", value)
    (low, high), (first, last) = corner, target
    if not low < 0 < high:
        raise ValueError(f"expected a corner (a, b) with a < 0 < b, got {corner}")
    if not low <= first <= last <= high:
        raise ValueError(f"expected target within corner = {corner}, got {target}")
    if not max(-low, high) < reach < math.inf:
        raise ValueError(f"expected finite reach > {max(-low, high):g}, got {reach}")
    below = (low + reach) / (first + reach)
    above = (reach - high) / (reach - last)
    return float(curvatures[0] - curvatures[1] * max(below, above) ** 2)
