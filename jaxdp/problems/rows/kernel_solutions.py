"""What training without privacy reaches: what private training is compared with.

That is interpolation and ridge regression, and the spectrum of the kernel on which they depend.
Everything is computed in float64 on the host, from the features themselves where there are any;
their Gram matrix would square the condition number, which is unbounded at p = n.
"""

from typing import NamedTuple

import numpy as np

from jaxdp.core.checks import require_count
from jaxdp.losses import Squared


class SpectralGap(NamedTuple):
    r"""Two neighbouring eigenvalues of the kernel, and what lies between them.

    A ridge between the two keeps the modes above the gap and damps those below; gradient flow,
    which learns a mode at the rate $\kappa\lambda/n$, does the same when it is stopped between the
    two times. Source: PF (6.116) and the text around it, Lemma C.5.

    Attributes:
        rank: how many eigenvalues lie above.
        above, below: eigenvalues number `rank` and `rank + 1`.
        num_train: n.
        curvature: $\kappa$ of the loss: 2 of `Squared`, PF's; 1 of `HalfSquared`.

    Example:
        >>> from jaxdp.problems import SpectralGap
        >>> gap = SpectralGap(rank=2, above=4.0, below=1.0, num_train=16)
        >>> gap.ridge, gap.stopping_times
        (2.0, (2.0, 8.0))
    """

    rank: int
    above: float
    below: float
    num_train: int
    curvature: float = Squared().curvature_bound

    @property
    def ridge(self) -> float:
        """The geometric mean of the two eigenvalues: a ridge between them."""
        return float(np.sqrt(self.above * self.below))

    @property
    def stopping_times(self) -> tuple[float, float]:
        r"""Times $n/(\kappa\lambda)$ at which the modes above, and those below, are learnt."""
        above, below = (
            self.num_train / (self.curvature * value) if value > 0 else np.inf
            for value in (self.above, self.below)
        )
        return above, below


def ridge_coefficients(
    features: np.ndarray, labels: np.ndarray, ridge: float, accuracy: float
) -> np.ndarray:
    r"""$(\Phi^\top\Phi + \lambda I)^{-1}\Phi^\top Y$; at $\lambda = 0$ the limit $\Phi^+ Y$.

    Singular values below the accuracy of the features, relative to their norm, count as 0.
    """
    left, values, right = np.linalg.svd(features, full_matrices=False)
    rounding = max(max(features.shape) * np.finfo(np.float64).eps, 4 * accuracy)
    kept = values > (rounding * values.max(initial=0) if ridge == 0 else 0)
    values = np.where(kept, values, 1)
    factors = np.where(kept, values / (values**2 + ridge), 0)
    return right.T @ (factors * (left.T @ labels))


def kernel_eigenvalues(features: np.ndarray) -> np.ndarray:
    r"""Eigenvalues of $\Phi\Phi^\top$, (num_train,), falling; zeros where p < n."""
    values = np.linalg.svd(features, compute_uv=False) ** 2
    return np.pad(values, (0, len(features) - len(values)))


def spectral_gap(
    eigenvalues: np.ndarray, rank: int, num_train: int, curvature: float
) -> SpectralGap:
    rank = require_count("rank", rank)
    if rank >= len(eigenvalues):
        raise ValueError(f"expected rank < {len(eigenvalues)}, the number of rows, got {rank}")
    above, below = float(eigenvalues[rank - 1]), float(eigenvalues[rank])
    return SpectralGap(rank, above, below, num_train, curvature)
