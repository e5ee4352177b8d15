"""Is the step small enough? Said before a run, because afterwards it is only a large number."""

import warnings

import jax
from jax.core import Tracer

from jaxdp.algorithms.base import AbstractFullBatchAlgorithm
from jaxdp.problems.features import AbstractFeatureProblem


def warn_if_unstable(
    problem: AbstractFeatureProblem, algorithm: AbstractFullBatchAlgorithm
) -> None:
    r"""Warn when the learning rate is not below $n/\lambda_{max}(K)$.

    From there on unclipped gradient descent diverges, and clipped descent does not settle. An
    activation of non-zero mean (ReLU) has one eigenvalue of about $n\mu_0^2 p$, which sets the
    limit $1/(\mu_0^2 p)$. Nothing is said of traced values.
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((problem, algorithm))):
        return
    if algorithm.learning_rate.ndim:
        return
    limit = problem.reduced().stability_limit()
    if float(algorithm.learning_rate) >= limit:
        warnings.warn(
            f"expected learning_rate < {limit:.4g} = n / (largest eigenvalue of the kernel), the "
            f"stability limit of gradient descent, got {float(algorithm.learning_rate):.4g}",
            UserWarning,
            stacklevel=4,
        )
