"""Kernels on the circle with a chosen spectrum, for which learning rates can be checked exactly."""

import math
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import (
    concrete,
    require_count,
    require_finite,
    require_positive,
    require_shape,
)
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, as_rows, row_pair


class TorusKernel(AbstractKernel):
    r"""A kernel $k(x, y) = \sum_{l \le L} \mu_l \varphi_l(x) \varphi_l(y)$ for numbers modulo 1.

    The eigenfunctions are $1, \sqrt2\cos 2\pi x, \sqrt2\sin 2\pi x, \sqrt2\cos 4\pi x, \dots$.

    Args:
        eigenvalues: $\mu$, (L,), L >= 1 finite numbers >= 0.

    Raises:
        ValueError: the coefficients are not a vector of finite numbers >= 0, or there are none.

    Example:
        >>> from jaxdp.kernels import TorusKernel
        >>> TorusKernel.power_law(5, capacity=0.5).eigenvalues.tolist()
        [1.0, 0.25, 0.25, 0.0625, 0.0625]
    """

    eigenvalues: Float[Array, " eigenvalues"] = eqx.field(converter=as_float)

    def __check_init__(self):
        require_shape("eigenvalues", self.eigenvalues, (None,))
        require_finite("eigenvalues", self.eigenvalues)
        known = concrete(self.eigenvalues)
        if known is not None and not (known.size and known.min() >= 0):
            raise ValueError(f"expected at least one eigenvalue and none below 0, got {known}")

    @classmethod
    def power_law(cls, num_eigenvalues: int, *, capacity: float) -> "TorusKernel":
        r"""Eigenvalues $\mu_1 = 1$, $\mu_{2j} = \mu_{2j+1} = (2j)^{-1/\gamma}$: PK Assumption 3.

        Args:
            num_eigenvalues: L >= 1.
            capacity: $\gamma > 0$; below 1 the trace converges as L grows.
        """
        require_positive("capacity", capacity)
        index = jnp.arange(1, require_count("num_eigenvalues", num_eigenvalues) + 1)
        return cls(jnp.maximum(index // 2 * 2, 1).astype(float) ** (-1 / capacity))

    def eigenfunctions(self, inputs: Float[Array, "n 1"]) -> Float[Array, "n eigenvalues"]:
        r"""The eigenfunctions $\varphi_l(x)$, orthonormal for x uniform on [0, 1)."""
        return _fourier_basis(as_rows("inputs", inputs, 1), len(self.eigenvalues))

    @eqx.filter_jit
    def __call__(self, first, second):
        first, second = (self.eigenfunctions(rows) for rows in row_pair(first, second))
        weighted = first * self.eigenvalues.astype(first.dtype)[None]
        return jnp.matmul(weighted, second.T, precision=Precision.HIGHEST)

    def diagonal(self, inputs):
        values = self.eigenfunctions(inputs)
        weights = self.eigenvalues.astype(values.dtype)
        return jnp.matmul(values**2, weights, precision=Precision.HIGHEST)

    def bound(self, radius=math.inf):
        r"""At most $(\mu_1 + 2\sum_j \max(\mu_{2j}, \mu_{2j+1}))^{1/2}$, whatever the radius."""
        return _norm_bound(self.eigenvalues)

    def features(self, num_features, dim, *, key):
        """The exact features, `MercerFeatures`; no draws."""
        if dim != 1:
            raise ValueError(f"expected dim = 1, for the circle, got {dim}")
        return MercerFeatures(self.eigenvalues)


class MercerFeatures(AbstractFeatureMap):
    r"""Exact features $\sqrt{\mu_l}\,\varphi_l(x)$ of a `TorusKernel`. Source: PK (1) and (2)."""

    dim: ClassVar[int] = 1

    eigenvalues: Float[Array, " eigenvalues"]

    @eqx.filter_jit
    def __call__(self, inputs):
        values = _fourier_basis(as_rows("inputs", inputs, 1), len(self.eigenvalues))
        return values * jnp.sqrt(self.eigenvalues).astype(values.dtype)[None]

    @property
    def num_outputs(self):
        return len(self.eigenvalues)

    @property
    def norm_bound(self):
        return _norm_bound(self.eigenvalues)


def _fourier_basis(rows: Float[Array, "n 1"], size: int) -> Float[Array, "n size"]:
    """1 and pairs of cosine and sine; numbers are reduced modulo 1 before they become angles."""
    turns = (rows - jnp.floor(rows)) * jnp.arange(1, size // 2 + 1, dtype=rows.dtype)[None]
    angles = 2 * math.pi * (turns - jnp.round(turns))
    waves = math.sqrt(2) * jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)
    return jnp.concatenate([jnp.ones_like(rows), waves.reshape(len(rows), -1)], axis=1)[:, :size]


def _norm_bound(eigenvalues: Float[Array, " eigenvalues"]) -> float:
    pairs = jnp.pad(eigenvalues[1:], (0, (len(eigenvalues) - 1) % 2)).reshape(-1, 2)
    return float(jnp.sqrt(eigenvalues[0] + 2 * jnp.sum(jnp.max(pairs, axis=1))))
