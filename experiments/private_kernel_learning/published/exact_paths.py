r"""Gaussian-process sample paths at given points, exactly, by Cholesky factors: $O(n^3)$.

Source: PK Definition 5, drawn jointly at the points. The value at one point depends on all points
drawn before it. So with a public seed a record's features depend on other records, and no guarantee
that needs them to depend on one record holds. With a secret seed the values and the points must
stay secret, and so must everything that reveals them, such as a kernel expansion on the points.
`SamplePaths`, which are functions of one input each, have neither restriction.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jaxtyping import Array, Float, Key

from experiments.private_kernel_learning.published.learner import host_rows
from jaxdp.core.checks import require_count, require_key
from jaxdp.core.numerics.precision import in_float64
from jaxdp.kernels.base import AbstractKernel, require_kernel
from jaxdp.kernels.evaluation import host_gram

# Share of the variance at each point: far above the rounding of a factorisation, some 1e-16 times
# the number of points, and too small to be seen in any number of paths.
NUGGET = 1e-10


def exact_sample_paths(
    kernel: AbstractKernel, points: Float[Any, "n dim"], num_paths: int, *, key: Key[Array, ""]
) -> Float[np.ndarray, "n paths"]:
    """The values of exact sample paths, $h_M$ with M = `num_paths`, at the points.

    Args:
        kernel, points, num_paths, key: the arguments of `ExactPaths.sample`.

    Returns:
        A row for each point and a column for each path, in float64.

    Example:
        >>> import jax, numpy as np
        >>> from experiments.private_kernel_learning.published import exact_sample_paths
        >>> from jaxdp.kernels import Gaussian
        >>> exact_sample_paths(Gaussian(1.0), np.eye(2), 3, key=jax.random.key(0)).shape
        (2, 3)
    """
    return ExactPaths.sample(kernel, points, num_paths, key=key).values


class ExactPaths(eqx.Module):
    r"""M sample paths of GP(0, k) over $\sqrt M$, known at some points, to be continued to others.

    The distribution of the values at all points, in whatever order: independent columns,
    Gaussian, of mean 0 and covariance $(k(x_i, x_j) + 10^{-10} k(x_i, x_i) 1_{i = j}) / M$. The
    nugget is a part of each point's own variance, so it depends on no other point. A
    point that is asked for twice gets two values, some $10^{-5}$ standard deviations apart.

    This is secret state: it holds the points, and the values reveal them. Never release it.

    Attributes:
        kernel: k.
        points: x, (n, d), float64.
        deviations: $k(x_i, x_i)^{1/2}$, (n,).
        factor: lower Cholesky factor of the points' correlations, (n, n).
        normals: standard normals, multiplied by the factor, (n, M).

    Example:
        >>> import jax, numpy as np
        >>> from experiments.private_kernel_learning.published import ExactPaths
        >>> from jaxdp.kernels import Gaussian
        >>> paths = ExactPaths.sample(Gaussian(1.0), np.eye(2), 3, key=jax.random.key(0))
        >>> further = paths.continued(2 * np.eye(2), key=jax.random.key(1))
        >>> paths.values.shape, further.values.shape
        ((2, 3), (4, 3))
    """

    kernel: AbstractKernel
    points: Float[np.ndarray, "n dim"]
    deviations: Float[np.ndarray, " n"]
    factor: Float[np.ndarray, "n n"]
    normals: Float[np.ndarray, "n paths"]

    @classmethod
    def sample(
        cls, kernel: AbstractKernel, points: Any, num_paths: int, *, key: Key[Array, ""]
    ) -> "ExactPaths":
        """Paths at the points.

        Args:
            kernel: k, positive semi-definite.
            points: x, (n, d).
            num_paths: M >= 1.
            key: random key of the normals, for NumPy's generator, which is not cryptographic;
                those of the first points do not depend on how many there are.

        Raises:
            ValueError: the kernel is not positive semi-definite at the points.
        """
        require_count("num_paths", num_paths)
        require_key(key)
        require_kernel(kernel)
        rows = host_rows("points", points)
        deviations = _deviations(kernel, rows)
        gram = host_gram(kernel, rows, rows) * _inverse_outer(deviations, deviations)
        factor = _factor(kernel, gram, np.zeros(len(rows)))
        return cls(kernel, rows, deviations, factor, _normals(len(rows), num_paths, key))

    @property
    def values(self) -> Float[np.ndarray, "n paths"]:
        """$h_M$ at the points, in their order."""
        paths = self.factor @ self.normals / np.sqrt(self.normals.shape[1])
        return self.deviations[:, None] * paths

    def continued(self, points: Any, *, key: Key[Array, ""]) -> "ExactPaths":
        """The paths with their values at further points too, drawn given those known already.

        All values are distributed as if drawn at once; `key` must be a new one.
        """
        require_key(key)
        rows = host_rows("points", points)
        if rows.shape[1] != self.points.shape[1]:
            raise ValueError(
                f"expected points of {self.points.shape[1]} numbers, got {rows.shape[1]}"
            )
        deviations = _deviations(self.kernel, rows)
        cross = host_gram(self.kernel, rows, self.points)
        cross = cross * _inverse_outer(deviations, self.deviations)
        gram = host_gram(self.kernel, rows, rows) * _inverse_outer(deviations, deviations)
        # Rows of the joint factor: [[L, 0], [B, C]].
        beside = scipy.linalg.solve_triangular(self.factor, cross.T, lower=True).T
        below = _factor(self.kernel, gram - beside @ beside.T, np.sum(beside**2, axis=1))
        empty = np.zeros((len(self.points), len(rows)))
        normals = _normals(len(rows), self.normals.shape[1], key)
        return ExactPaths(
            self.kernel,
            np.concatenate([self.points, rows]),
            np.concatenate([self.deviations, deviations]),
            np.block([[self.factor, empty], [beside, below]]),
            np.concatenate([self.normals, normals]),
        )


def _deviations(kernel, points):
    with in_float64():
        rows = jnp.asarray(points, jnp.float64)
        diagonal = np.asarray(eqx.filter_jit(kernel.diagonal)(rows), np.float64)
    if not np.isfinite(diagonal).all():
        raise ValueError("expected a kernel with finite values, got NaN or infinite ones")
    if diagonal.min() < -1e-12 * np.abs(diagonal).max():
        raise _indefinite(kernel)
    return np.sqrt(np.maximum(diagonal, 0))


def _inverse_outer(first, second):
    """Factors from covariances to correlations; 0 if a point has no variance."""
    inverses = [np.divide(1, x, where=x > 0, out=np.zeros_like(x)) for x in (first, second)]
    return inverses[0][:, None] * inverses[1]


def _factor(kernel, correlations, explained):
    """The factor of correlations with the nugget, less the explained variance of each point."""
    np.fill_diagonal(correlations, 1 + NUGGET - explained)
    try:
        return np.linalg.cholesky(correlations)
    except np.linalg.LinAlgError:
        raise _indefinite(kernel) from None


def _indefinite(kernel):
    return ValueError(
        f"expected a positive semi-definite kernel, {type(kernel).__name__} is not at these points"
    )


def _normals(num_points, num_paths, key):
    generator = np.random.default_rng(np.asarray(jr.key_data(key)))
    return generator.standard_normal((num_points, num_paths))
