r"""Arc-cosine kernels: what infinitely many random step or ReLU units compute.

Source: Cho and Saul (2009), "Kernel methods for deep learning", equations (1) to (6).
"""

import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.core.arrays import plain_number
from jaxdp.core.numerics.safe_sqrt import safe_sqrt
from jaxdp.kernels.base import (
    AbstractFeatureMap,
    AbstractKernel,
    as_rows,
    check_draws,
    row_pair,
    squared_distances,
)


class ArcCosine(AbstractKernel):
    r"""The arc-cosine kernel, of infinitely many random steps or ReLUs.

    $k(x, y) = |x|^n |y|^n J_n(\theta) / \pi$, with $\theta$ the angle of x and y.

    $J_0 = \pi - \theta$, $J_1 = \sin\theta + (\pi - \theta)\cos\theta$; $k(x, x) = |x|^{2n}$. The
    kernel is $2\,E[\phi(w \cdot x)\phi(w \cdot y)]$ for w ~ N(0, I) with $\phi$ a step (n = 0, off
    at 0, so that k(0, .) = 0) or a ReLU (n = 1).

    Args:
        order: n, 0 or 1.

    Raises:
        ValueError: another order.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import ArcCosine
        >>> gram = ArcCosine(order=1)(np.eye(2), np.eye(2))
        >>> print(np.asarray(gram).round(3))
        [[1.    0.318]
         [0.318 1.   ]]
    """

    order: int = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        if self.order not in (0, 1):
            raise ValueError(f"expected order 0 or 1, got {self.order}")

    @eqx.filter_jit
    def __call__(self, first, second):
        first, second = row_pair(first, second)
        (first_norms, first), (second_norms, second) = _polar(first), _polar(second)
        # Half angles keep their digits where arccos loses half of them, near 0 and pi.
        apart = safe_sqrt(squared_distances(first, second))
        together = safe_sqrt(squared_distances(first, -second))
        angle = 2 * jnp.arctan2(apart, together)
        value = math.pi - angle
        if self.order == 1:
            value = jnp.sin(angle) + value * jnp.cos(angle)
        powers = self._power(first_norms)[:, None] * self._power(second_norms)[None]
        return value / math.pi * powers

    def diagonal(self, inputs):
        norms, _ = _polar(as_rows("inputs", inputs))
        return self._power(norms) ** 2

    def bound(self, radius=math.inf):
        return float(radius) if self.order == 1 else 1.0

    def features(self, num_features, dim, *, key):
        check_draws(num_features, dim, key)
        return ArcCosineFeatures(jr.normal(key, (num_features, dim), jnp.float32), self.order)

    def _power(self, norms):
        return norms if self.order == 1 else (norms > 0).astype(norms.dtype)


class ArcCosineFeatures(AbstractFeatureMap):
    r"""Random steps or ReLUs: unbiased features of `ArcCosine`.

    $z(x) = \sqrt{2 / L}\,\phi(w_l \cdot x)_{l \le L}$.

    Steps (order 0) never exceed the norm $\sqrt 2$.

    Attributes:
        weights: w, (L, d).
        order: 0 for steps, 1 for ReLU.

    Example:
        >>> import jax
        >>> from jaxdp.kernels import ArcCosine
        >>> features = ArcCosine(order=1).features(16, dim=3, key=jax.random.key(0))
        >>> features.num_outputs, features.norm_bound
        (16, inf)
    """

    weights: Float[Array, "features dim"]
    order: int = eqx.field(static=True)

    @eqx.filter_jit
    def __call__(self, inputs):
        rows = as_rows("inputs", inputs, self.dim)
        units = jnp.matmul(rows, self.weights.T, precision=Precision.HIGHEST)
        units = jnp.maximum(units, 0) if self.order == 1 else (units > 0).astype(units.dtype)
        return units * math.sqrt(2 / self.num_outputs)

    @property
    def dim(self):
        return self.weights.shape[1]

    @property
    def num_outputs(self):
        return self.weights.shape[0]

    @property
    def norm_bound(self):
        return math.inf if self.order == 1 else math.sqrt(2)


def _polar(rows: Float[Array, "n dim"]) -> tuple[Float[Array, " n"], Float[Array, "n dim"]]:
    """Norms and directions; the direction of 0 is 0."""
    norms = safe_sqrt(jnp.einsum("ij,ij->i", rows, rows, precision=Precision.HIGHEST))
    return norms, rows / jnp.where(norms > 0, norms, 1)[:, None]
