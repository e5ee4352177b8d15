"""Features and inputs kept within public bounds (a bound from the table mixes the records)."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import concrete, require_finite, require_positive, require_shape
from jaxdp.core.numerics.precision import safe_sqrt
from jaxdp.kernels.base import (
    AbstractInputScaling,
    AbstractWrappedMap,
    as_rows,
    require_feature_map,
)


def in_order(ends: Any) -> Float[Array, " dim"]:
    """Ends of ranges as an array; labels in another order than the columns are refused."""
    labels = getattr(ends, "index", None)
    # Lists have a method of that name. A series that was given no labels has the numbers from 0.
    if labels is not None and not callable(labels) and list(labels) != list(range(len(ends))):
        raise TypeError(
            "expected ends of ranges as an array in the order of the columns, got labelled ones: "
            "only input_range of jaxdp.estimators is matched by name"
        )
    return as_float(ends)


class ClippedFeatures(AbstractWrappedMap):
    r"""A feature map whose norm is clipped at a bound: $z(x) \min(1, B / |z(x)|)$.

    Rounding, in the features' type, may exceed B; private learners check norms again in float64.

    Args:
        base: the map z.
        bound: the bound B > 0, a finite scalar.

    Raises:
        ValueError: the bound is not a positive finite number.

    Example:
        >>> from jaxdp.kernels import ClippedFeatures, IdentityFeatures
        >>> ClippedFeatures(IdentityFeatures(2), bound=1.0)([[0.0, 4.0], [0.5, 0.0]]).tolist()
        [[0.0, 1.0], [0.5, 0.0]]
    """

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
    def norm_bound(self):
        return min(float(self.bound), self.base.norm_bound)


class NormScaling(AbstractInputScaling):
    r"""A feature map of inputs that are scaled down to a public norm: $z(x \min(1, R / |x|))$.

    Args:
        base: the map z, defined on the ball of radius R.
        radius: the radius R > 0, public, a finite scalar.

    Raises:
        ValueError: the radius is not a positive finite number.

    Example:
        >>> from jaxdp.kernels import IdentityFeatures, NormScaling
        >>> NormScaling(IdentityFeatures(2), radius=2.0)([[0.0, 4.0], [0.5, 0.0]]).tolist()
        [[0.0, 2.0], [0.5, 0.0]]
    """

    radius: Float[Array, ""] = eqx.field(converter=as_float)

    def __check_init__(self):
        require_feature_map("base", self.base)
        require_positive("radius", self.radius)

    def __call__(self, inputs):
        rows = as_rows("inputs", inputs, self.dim)
        radius = self.radius.astype(rows.dtype)
        # Divided by the largest entry first, so that no square overflows.
        largest = jnp.maximum(jnp.max(jnp.abs(rows), axis=1, keepdims=True), radius)
        unit = rows / largest
        squares = jnp.einsum("ij,ij->i", unit, unit, precision=Precision.HIGHEST)[:, None]
        return self.base(unit * (radius / jnp.maximum(safe_sqrt(squares), radius / largest)))


class RangeScaling(AbstractInputScaling):
    """A map of inputs whose columns are clipped to public ranges and mapped to [-1, 1].

    Args:
        base: the map z, defined on $[-1, 1]^d$.
        low, high: ends of the ranges, (d,), in the columns' order; not a labelled series.
    """

    low: Float[Array, " dim"] = eqx.field(converter=in_order)
    high: Float[Array, " dim"] = eqx.field(converter=in_order)

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
        low, high = (each.astype(rows.dtype)[None] for each in (self.low, self.high))
        within = jnp.clip(rows, low, high)
        # Halved first, so that no range overflows.
        return self.base((within / 2 - low / 2) / (high / 2 - low / 2) * 2 - 1)
