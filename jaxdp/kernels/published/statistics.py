r"""Noisy sufficient statistics as the paper prints them: two releases, each with half the budget.

The averages $C = \frac1n\sum z z^\top$ and $u = \frac1n\sum y z$ each get noise of their own, and
what a ridge regression makes of them is post-processing. $C + \lambda I$ is often indefinite, and
is inverted all the same: the peaks of PK's Figure 2 are its resonances.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.kernels.published.learner import scaled_down
from jaxdp.kernels.release.joint_release import joint_sensitivity
from jaxdp.privacy.secret.secret_noise import SecretNoise

# Of the formulas for mu. That of the sums in float64 is left to the statement's assumptions.
_ROUNDING = 1e-9


class Statistics(NamedTuple):
    """The averages C and u, or the standard deviations of their noise."""

    covariance: Float[np.ndarray, "outputs outputs"]
    correlation: Float[np.ndarray, " outputs"]


def averaged_statistics(
    blocks: Iterable[Float[np.ndarray, "rows outputs"]],
    labels: Float[np.ndarray, " n"],
    *,
    num_outputs: int,
    norm_bound: float = math.inf,
) -> Statistics:
    """C and u in float64, over consecutive blocks of rows of features.

    Args:
        blocks: features of all records, in their order.
        labels: one for each record.
        num_outputs: M.
        norm_bound: what the features' norm is in exact arithmetic; where rounding took a row
            beyond it, it is scaled back.
    """
    covariance, correlation = np.zeros((num_outputs, num_outputs)), np.zeros(num_outputs)
    start = 0
    for block in blocks:
        rows = scaled_down(np.asarray(block, np.float64), norm_bound)
        covariance += rows.T @ rows
        correlation += labels[start : start + len(rows)] @ rows
        start += len(rows)
    return Statistics(covariance / len(labels), correlation / len(labels))


def perturbed(statistics: Statistics, stds: dict[str, float], source: SecretNoise) -> Statistics:
    r"""C plus $\sigma_C (E + E^\top)/2$ and u plus $\sigma_u e$, all entries standard normal.

    On the diagonal of C the noise has the standard deviation $\sigma_C$, off it $\sigma_C/\sqrt2$.

    Args:
        statistics: C and u.
        stds: "C" and "u", in the units of the averages.
        source: of the noise.
    """
    size = len(statistics.correlation)
    source = source.hiding(*statistics, stds["C"], stds["u"])
    square, vector = source.normals((size, size), "C"), source.normals(size, "u")
    return Statistics(
        statistics.covariance + stds["C"] * (square + square.T) / 2,
        statistics.correlation + stds["u"] * vector,
    )


def ridge_solution(statistics: Statistics, ridge: float) -> Float[np.ndarray, " outputs"]:
    r"""$(C + \lambda I)^{-1} u$, whether or not that matrix is positive definite.

    Raises:
        np.linalg.LinAlgError: it is singular, which noise makes impossible.
    """
    size = len(statistics.correlation)
    return np.linalg.solve(statistics.covariance + ridge * np.eye(size), statistics.correlation)


def joint_mu(
    stds: dict[str, float], *, norm_bound: float, label_bound: float, num_samples: int
) -> float:
    r"""mu of both releases together when $|z| \le B$ and $|y| \le T$ for every record: exact.

    Two Gaussian releases are one of (C, w u) with $w = \sigma_C/\sigma_u$; `joint_sensitivity`
    has the largest step that a replaced record makes, attained for M >= 2 at a cosine of
    $\min(a/2, 1)$, $a = (wT/B)^2$.

    Args:
        stds: "C" and "u", of the averages.
        norm_bound: B; infinite gives infinity.
        label_bound: T.
        num_samples: n.
    """
    if not math.isfinite(norm_bound):
        return math.inf
    weight = stds["C"] / stds["u"]
    step = joint_sensitivity(input_bound=norm_bound, label_bound=label_bound, weight=weight)
    return step / (num_samples * stds["C"]) * (1 + _ROUNDING)
