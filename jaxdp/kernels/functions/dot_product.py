"""Kernels of the inner product: linear and polynomial."""

import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float, plain_number
from jaxdp.core.checks import require_count, require_non_negative
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, as_rows, check_draws, row_pair


class InnerProduct(AbstractKernel):
    r"""The inner product as a kernel, $k(x, y) = x \cdot y$: linear learning.

    Sample paths are random projections Rx.

    Source: PK Definition 6 and Appendix B.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import InnerProduct
        >>> InnerProduct()(2 * np.eye(2), np.eye(2)).tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """

    @eqx.filter_jit
    def __call__(self, first, second):
        return _products(*row_pair(first, second))

    def diagonal(self, inputs):
        return _squared_norms(as_rows("inputs", inputs))

    def bound(self, radius=math.inf):
        return float(radius)

    def features(self, num_features, dim, *, key):
        del num_features, key
        return IdentityFeatures(dim)


class IdentityFeatures(AbstractFeatureMap):
    """z(x) = x, the exact features of `InnerProduct`.

    Args:
        num_inputs: d.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import IdentityFeatures
        >>> IdentityFeatures(2)(2 * np.eye(2)).tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """

    num_inputs: int = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        require_count("num_inputs", self.num_inputs)

    def __call__(self, inputs):
        return as_rows("inputs", inputs, self.num_inputs)

    @property
    def dim(self):
        return self.num_inputs

    @property
    def num_outputs(self):
        return self.num_inputs


class Polynomial(AbstractKernel):
    r"""The polynomial kernel, $k(x, y) = (x \cdot y + c)^p$.

    Args:
        degree: p, a whole number >= 1.
        constant: c >= 0.

    Raises:
        ValueError, TypeError: the degree is not a whole number >= 1, or the constant is negative,
            not finite or not a scalar.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import Polynomial
        >>> Polynomial(degree=2, constant=1.0)(2 * np.eye(2), np.eye(2)).tolist()
        [[9.0, 1.0], [1.0, 9.0]]
    """

    degree: int = eqx.field(static=True, converter=plain_number)
    constant: Float[Array, ""] = eqx.field(converter=as_float)

    def __check_init__(self):
        require_count("degree", self.degree)
        require_non_negative("constant", self.constant)

    @eqx.filter_jit
    def __call__(self, first, second):
        products = _products(*row_pair(first, second))
        return (products + self.constant.astype(products.dtype)) ** self.degree

    def diagonal(self, inputs):
        squares = _squared_norms(as_rows("inputs", inputs))
        return (squares + self.constant.astype(squares.dtype)) ** self.degree

    def bound(self, radius=math.inf):
        return (float(radius) ** 2 + float(self.constant)) ** (self.degree / 2)

    def features(self, num_features, dim, *, key):
        check_draws(num_features, dim, key)
        # Features first, so that the first ones do not depend on how many there are.
        shape = (num_features, self.degree, dim + 1)
        signs = jnp.moveaxis(jr.rademacher(key, shape, jnp.float32), 1, 0)
        offset = jnp.sqrt(self.constant).astype(signs.dtype)
        return ProductFeatures(signs[..., :-1], signs[..., -1] * offset)


class ProductFeatures(AbstractFeatureMap):
    r"""Products of random signs: unbiased features of `Polynomial`.

    $z_l(x) = \prod_{j \le p} (s_{lj} \cdot x + s'_{lj}\sqrt c) / \sqrt L$, random signs s, s'.

    Unbiased for `Polynomial`: each factor is for (x, \sqrt c), and they are independent.
    Source: Kar and Karnick (2012), "Random feature maps for dot product kernels".

    Attributes:
        signs: s, (p, L, d).
        offsets: $s'\sqrt c$, (p, L).

    Example:
        >>> import jax
        >>> from jaxdp.kernels import Polynomial
        >>> features = Polynomial(2, constant=1.0).features(16, dim=3, key=jax.random.key(0))
        >>> type(features).__name__, features.num_outputs
        ('ProductFeatures', 16)
    """

    signs: Float[Array, "degree features dim"]
    offsets: Float[Array, "degree features"]

    @eqx.filter_jit
    def __call__(self, inputs):
        rows = as_rows("inputs", inputs, self.dim)
        total = jnp.full((), 1 / math.sqrt(self.num_outputs), rows.dtype)
        for signs, offsets in zip(self.signs, self.offsets, strict=True):
            total = total * (_products(rows, signs.astype(rows.dtype)) + offsets[None])
        return total

    @property
    def dim(self):
        return self.signs.shape[2]

    @property
    def num_outputs(self):
        return self.signs.shape[1]


def _products(first: Float[Array, "n dim"], second: Float[Array, "m dim"]) -> Float[Array, "n m"]:
    return jnp.matmul(first, second.T, precision=Precision.HIGHEST)


def _squared_norms(rows: Float[Array, "n dim"]) -> Float[Array, " n"]:
    return jnp.einsum("ij,ij->i", rows, rows, precision=Precision.HIGHEST)
