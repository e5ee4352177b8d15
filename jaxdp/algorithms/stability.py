"""The warning, before a run, that a learning rate is beyond gradient descent's stability limit."""

import math
import warnings
from collections.abc import Callable

from jaxdp.algorithms.base import AbstractFullBatchAlgorithm
from jaxdp.core.checks import concrete


def warn_if_unstable(
    algorithm: AbstractFullBatchAlgorithm,
    stability_limit: Callable[[], float],
    *,
    stacklevel: int = 5,
) -> None:
    r"""Warn when the learning rate is not below $2n/(c\lambda_{max}(K))$, c the loss's curvature.

    From there on unclipped gradient descent diverges with the squared loss (c = 2), and clipped
    descent does not settle; a loss that curves less than its bound may still do. An
    activation of non-zero mean (ReLU) has one eigenvalue of about $n\mu_0^2 p$, which sets the
    limit $1/(\mu_0^2 p)$. Nothing is said of traced values. The default `stacklevel` is that of the
    line that asks for the run where `simulate` or `predict` of a class calls this.
    """
    rate = concrete(algorithm.learning_rate)
    if rate is None or rate.shape != ():
        return
    limit = stability_limit()
    if not math.isnan(limit) and rate >= limit:
        warnings.warn(
            f"expected learning_rate < {limit:.4g} = 2 n / (largest eigenvalue of the kernel times "
            "the loss's curvature, 2 for the squared loss), the stability limit of gradient "
            f"descent, got {rate:.4g}",
            UserWarning,
            stacklevel=stacklevel,
        )
