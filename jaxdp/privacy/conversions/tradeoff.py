r"""The trade-off curve of Gaussian differential privacy: a lower bound on every test's errors.

A membership test has a rate of false positives and one of false negatives. Under $\mu$-GDP no test
lies below this curve of the one over the other.
"""

import math

import numpy as np
import scipy
from jaxtyping import ArrayLike, Float

from jaxdp.core.checks import host_array
from jaxdp.privacy.arguments import check_non_negative


def gaussian_tradeoff(mu: ArrayLike, false_positive_rate: ArrayLike) -> Float[np.ndarray, "..."]:
    r"""The least rate of false negatives of any test for a record, given its false positives.

    $G_\mu(\alpha) = \Phi(\Phi^{-1}(1 - \alpha) - \mu)$: of a test that sees what a $\mu$-GDP
    mechanism released and is to say which of two neighbouring data sets it came from.

    Source: Dong, Roth and Su (2022).

    Args:
        mu: of Gaussian DP, >= 0.
        false_positive_rate: alpha, in [0, 1].

    Returns:
        The rate of false negatives, of the arguments' common shape.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> from jaxdp.privacy import gaussian_tradeoff
        >>> gaussian_tradeoff(1.0, [0.01, 0.1, 0.5]).round(3).tolist()
        [0.908, 0.611, 0.159]
    """
    check_non_negative("mu", mu)
    rate = np.asarray(host_array("false_positive_rate", false_positive_rate), np.float64)
    if not np.all((rate >= 0) & (rate <= 1)):
        raise ValueError(f"expected false-positive rates in [0, 1], got {false_positive_rate}")
    distance = np.asarray(mu, np.float64)
    with np.errstate(invalid="ignore"):
        place = -scipy.special.ndtri(rate) - distance
    # No false positives at all: an infinite mu separates, and allows no false negatives either.
    return scipy.special.ndtr(np.where(np.isposinf(distance), -math.inf, place))
