"""The kernel of the inner product: linear learning."""

import math

import equinox as eqx
import jax.numpy as jnp
from jax.lax import Precision

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import require_count
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, as_rows, row_pair


class InnerProduct(AbstractKernel):
    r"""The inner product as a kernel, $k(x, y) = x \cdot y$, for linear learning.

    Its sample paths are random linear projections of the rows. `features` returns the exact
    `IdentityFeatures`. Source: PK Definition 6 and Appendix B.

    Example:
        >>> from jaxdp.kernels import InnerProduct
        >>> InnerProduct()([[1.0, 2.0]], [[3.0, 4.0]]).item()
        11.0
    """

    @eqx.filter_jit
    def __call__(self, first, second):
        first, second = row_pair(first, second)
        return jnp.matmul(first, second.T, precision=Precision.HIGHEST)

    def diagonal(self, inputs):
        rows = as_rows("inputs", inputs)
        return jnp.einsum("ij,ij->i", rows, rows, precision=Precision.HIGHEST)

    def bound(self, radius=math.inf):
        return float(radius)

    def features(self, num_features, dim, *, key):
        return IdentityFeatures(dim)


class IdentityFeatures(AbstractFeatureMap):
    """The identity map z(x) = x, the exact features of `InnerProduct`.

    Args:
        num_inputs: number of columns, d.

    Example:
        >>> from jaxdp.kernels import IdentityFeatures
        >>> IdentityFeatures(2)([[3.0, 4.0]]).tolist()
        [[3.0, 4.0]]
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
