"""Feature maps that are bounded by what is public: a norm, or the ranges of the columns."""

import equinox as eqx
import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import concrete, require_finite, require_positive, require_shape
from jaxdp.kernels.base import (
    AbstractFeatureMap,
    AbstractInputScaling,
    as_rows,
    require_feature_map,
    safe_sqrt,
)


class ClippedFeatures(AbstractFeatureMap):
    r"""$z(x) \min(1, B / |z(x)|)$: the norm never exceeds B but by rounding.

    The rounding is that of the features' type; where a guarantee rests on B, norms are checked
    once more in float64.

    Args:
        base: z.
        bound: B > 0.

    Raises:
        ValueError: the bound is not positive and finite, or not a scalar.
    """

    base: AbstractFeatureMap
    bound: Float[Array, ""] = eqx.field(converter=as_float)

    def __check_init__(self):
        require_feature_map("base", self.base)
        require_positive("bound", self.bound)

    @eqx.filter_jit
    def __call__(self, inputs):
        features = self.base(inputs)
        # bf16 and TF32 products would clip too little.
        squares = jnp.einsum("ij,ij->i", features, features, precision=Precision.HIGHEST)
        norms, bound = safe_sqrt(squares), self.bound.astype(features.dtype)
        return features * (bound / jnp.maximum(norms, bound))[:, None]

    @property
    def dim(self):
        return self.base.dim

    @property
    def num_outputs(self):
        return self.base.num_outputs

    @property
    def norm_bound(self):
        return min(float(self.bound), self.base.norm_bound)


class RangeScaling(AbstractInputScaling):
    r"""A map of inputs whose columns are clipped to public ranges and brought to [-1, 1].

    Ranges that are read from the table (its minimum and maximum, its standard deviation) would
    make every record's features depend on every other record.

    Args:
        base: z, on $[-1, 1]^d$.
        low, high: the ranges, (d,), known without the data.

    Raises:
        ValueError: not d finite numbers each, or a range is empty.
    """

    low: Float[Array, " dim"] = eqx.field(converter=as_float)
    high: Float[Array, " dim"] = eqx.field(converter=as_float)

    def __check_init__(self):
        require_feature_map("base", self.base)
        for name, value in (("low", self.low), ("high", self.high)):
            require_shape(name, value, (self.base.dim,))
            require_finite(name, value)
        low, high = concrete(self.low), concrete(self.high)
        if low is not None and high is not None and not (low < high).all():
            column = int((low < high).argmin())
            raise ValueError(
                f"expected low < high, got {low[column]} and {high[column]} in column {column}"
            )

    @eqx.filter_jit
    def __call__(self, inputs):
        rows = as_rows("inputs", inputs, self.dim)
        low, high = self.low.astype(rows.dtype), self.high.astype(rows.dtype)
        within = jnp.clip(rows, low, high)
        # Halved first, so that no range overflows.
        return self.base((within / 2 - low / 2) / (high / 2 - low / 2) * 2 - 1)
