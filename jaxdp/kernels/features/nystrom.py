"""Nystrom features on public landmarks. Source: Williams and Seeger (2001).

Landmarks that are records of the private table make every record's features depend on those.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import require_count
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, as_rows, require_kernel
from jaxdp.kernels.evaluation import host_gram
from jaxdp.kernels.release.tables import host_rows

# Eigenvalues of the landmarks' Gram matrix below so many units of rounding are left out: their
# features would be rounding, enlarged.
_FLOOR = 10
# How far inner products of the outputs in the kernel's space may be from those of unit vectors.
_STALE = 1e-2


class NystromFeatures(AbstractFeatureMap):
    r"""Nystrom features: the kernel at public landmarks, made orthonormal.

    $z(x) = \Lambda^{-1/2} U^\top k(X_m, x)$ with $k(X_m, X_m) = U \Lambda U^\top$.

    $z(x) \cdot z(y) = k(x, X_m)\,k(X_m, X_m)^+ k(X_m, y)$: the kernel where x or y is a landmark,
    an approximation from below elsewhere.

    $|z(x)|^2 \le k(x, x)$ for every x, and with fewer outputs too. For
    $e_j = \lambda_j^{-1/2} \sum_i U_{ij} k(X_i, \cdot)$ are orthonormal in the kernel's space,
    $\langle e_j, e_l \rangle = \lambda_j^{-1/2} \lambda_l^{-1/2} (U^\top k(X_m, X_m) U)_{jl}$, and
    $z_j(x) = e_j(x) = \langle k(x, \cdot), e_j \rangle$: Bessel's inequality.

    A copy in which kernel or landmarks were exchanged (`equinox.tree_at`) has neither property, and
    the private learners refuse it (`require_current`).

    Args:
        kernel: k.
        landmarks: $X_m$, (m, d), public: chosen without looking at private records.
        num_outputs: how many of the leading eigenvectors to keep; None keeps all whose
            eigenvalues are above rounding (in the landmarks' type) of the largest.

    Raises:
        ValueError: the kernel is not positive semi-definite on the landmarks, or has fewer
            eigenvectors than asked for.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import Gaussian, NystromFeatures
        >>> landmarks = np.array([[0.0], [1.0], [2.0]])
        >>> NystromFeatures(Gaussian(1.0), landmarks, num_outputs=2).num_outputs
        2
    """

    kernel: AbstractKernel
    landmarks: Float[Array, "landmarks dim"]
    projection: Float[Array, "landmarks outputs"]

    def __init__(self, kernel: AbstractKernel, landmarks: Any, num_outputs: int | None = None):
        require_kernel(kernel)
        rows = host_rows("landmarks", landmarks)
        self.kernel = kernel
        self.landmarks = as_wide_float(landmarks, "landmarks")
        dtype = self.landmarks.dtype
        floor = _FLOOR * float(jnp.finfo(dtype).eps)
        self.projection = jnp.asarray(_projection(kernel, rows, floor, num_outputs), dtype)

    @eqx.filter_jit
    def __call__(self, inputs):
        rows = as_rows("inputs", inputs, self.dim)
        similarities = self.kernel(rows, self.landmarks)
        return jnp.matmul(similarities, self.projection, precision=Precision.HIGHEST)

    def require_current(self) -> None:
        r"""Raise ValueError where the projection is of another kernel or of other landmarks.

        $P^\top k(X_m, X_m) P$, the inner products of the $e_j$, has to be the identity, to 1 %.
        """
        rows = host_rows("landmarks", self.landmarks)
        projection = np.asarray(self.projection, np.float64)
        products = projection.T @ host_gram(self.kernel, rows, rows) @ projection
        if not np.abs(products - np.eye(self.num_outputs)).max(initial=0) <= _STALE:
            raise ValueError(
                "expected NystromFeatures as they were made, got a kernel or landmarks that were "
                "exchanged afterwards: make them anew, NystromFeatures(kernel, landmarks)"
            )

    @property
    def dim(self):
        return self.landmarks.shape[1]

    @property
    def num_outputs(self):
        return self.projection.shape[1]

    @property
    def norm_bound(self):
        return self.kernel.bound()


def _projection(
    kernel: AbstractKernel, rows: np.ndarray, floor: float, num_outputs: int | None
) -> np.ndarray:
    r"""$U \Lambda^{-1/2}$ of the leading eigenvectors."""
    values, vectors = np.linalg.eigh(host_gram(kernel, rows, rows))
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = values[0]
    # The kernel may compute in float32, whatever it is handed.
    if not largest > 0 or values[-1] < -1e-5 * largest:
        raise ValueError(
            f"expected a positive semi-definite kernel, {type(kernel).__name__} has eigenvalues "
            f"from {values[-1]:.3g} to {largest:.3g} on these landmarks"
        )
    rank = int(np.sum(values > floor * largest))
    kept = rank if num_outputs is None else require_count("num_outputs", num_outputs)
    if kept > rank:
        raise ValueError(
            f"expected num_outputs <= {rank}, the eigenvalues above rounding on these "
            f"{len(rows)} landmarks, got {kept}"
        )
    return vectors[:, :kept] / np.sqrt(values[:kept])
