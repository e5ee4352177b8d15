"""Roots of a kernel matrix, on the host in float64: what turns it into a few features a row."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

# Of the entries of a kernel of infinite width, relative to the largest.
KERNEL_ACCURACY = 1e-11


def split_factor(factor: Any, num_train: int) -> tuple[Any, Any, Any]:
    """L, M and N from a lower-triangular root of the kernel of all rows, (rows, columns)."""
    seen = min(num_train, factor.shape[1])
    train, test = factor[:num_train], factor[num_train:]
    return train[:, :seen], test[:, :seen], test[:, seen:]


def triangular_root(kernel: np.ndarray, accuracy: float) -> np.ndarray:
    """A lower-triangular R with R R^T = kernel, also where the kernel is singular.

    Directions in which the kernel is not above its own rounding (duplicate rows, zero rows) are
    left out: their root would be 10^4 to 10^8 times that rounding.

    Args:
        kernel: symmetric, (rows, rows).
        accuracy: of its entries, relative to the largest one.
    """
    size = max(len(kernel), 1)
    floor = 4 * accuracy * math.sqrt(size) * kernel.diagonal().max(initial=0)
    try:
        root = np.linalg.cholesky(kernel)
        if root.diagonal().min() ** 2 > floor:
            return root
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(kernel)
    if values[0] < -max(floor, 1e-5 * np.abs(values).max()):
        raise ValueError(
            f"expected a positive semi-definite kernel, got an eigenvalue {values[0]:.3g} beside "
            f"the largest {values[-1]:.3g}"
        )
    values = np.where(values > floor, values, 0)
    upper: Any = np.linalg.qr((vectors * np.sqrt(values)).T, mode="r")
    return upper.T


def kernel_accuracy(kernel: Any) -> float:
    """Of a kernel's entries: its type's rounding, or that of the infinite-width series."""
    dtype = getattr(kernel, "dtype", np.dtype(np.float64))
    return max(float(jnp.finfo(dtype).eps) if dtype.kind == "f" else 0.0, KERNEL_ACCURACY)


def largest_eigenvalue(features: np.ndarray) -> float:
    r"""The largest eigenvalue of $\Phi\Phi^\top$, to about 1e-4, by Lanczos iterations."""
    from scipy.sparse.linalg import svds

    if min(features.shape) < 3:
        return float(np.linalg.norm(features, 2) ** 2)
    start = np.random.default_rng(0).standard_normal(min(features.shape))
    if not features.any():
        return 0.0
    solve: Any = svds
    found = solve(features, k=1, tol=1e-5, v0=start, return_singular_vectors=False)
    return float(found[0]) ** 2
