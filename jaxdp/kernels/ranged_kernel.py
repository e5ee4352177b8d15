"""A kernel of inputs whose columns are brought from public ranges to [-1, 1]."""

import math

import equinox as eqx
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_count
from jaxdp.kernels.base import AbstractKernel, require_kernel
from jaxdp.kernels.bounded import RangeScaling
from jaxdp.kernels.dot_product import IdentityFeatures


class RangedKernel(AbstractKernel):
    r"""$k(s(x), s(y))$, with s the clipping to public ranges that are then mapped to $[-1, 1]^d$.

    It stands in for standardisation, which would let the features of every record depend on every
    other record. A kernel that is bounded on balls is bounded here.

    Args:
        kernel: k.
        low, high: the ranges, (d,), known without the data.

    Raises:
        ValueError: not d finite numbers each, or a range is empty.
    """

    kernel: AbstractKernel
    low: Float[Array, " dim"] = eqx.field(converter=as_float)
    high: Float[Array, " dim"] = eqx.field(converter=as_float)

    def __check_init__(self):
        require_kernel(self.kernel)
        self._scaling()

    def __call__(self, first, second):
        scaling = self._scaling()
        return self.kernel(scaling(first), scaling(second))

    def diagonal(self, inputs):
        return self.kernel.diagonal(self._scaling()(inputs))

    def bound(self, radius=math.inf):
        del radius
        return self.kernel.bound(math.sqrt(self.low.size))

    def features(self, num_features, dim, *, key):
        if require_count("dim", dim) != self.low.size:
            raise ValueError(f"expected dim = {self.low.size}, one for each range, got {dim}")
        return RangeScaling(self.kernel.features(num_features, dim, key=key), self.low, self.high)

    def _scaling(self) -> RangeScaling:
        return RangeScaling(IdentityFeatures(self.low.size), self.low, self.high)
