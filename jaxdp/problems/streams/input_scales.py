r"""Elliptical inputs $x = \sqrt s\,\Sigma^{1/2} g$, whose lengths vary more than a Gaussian's.

A Gaussian row in high dimension has $\|x\|^2/d = 1$, so every gradient is clipped at the same size
of its residual. Rows of real tables are long or short as a whole, as with a random scale s, drawn
for each sample and independent of g. With $E[s] = 1$ the covariance stays $\Sigma$.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, Key

from jaxdp.core.arrays import as_float, in_numpy
from jaxdp.core.checks import concrete
from jaxdp.core.description import AbstractDescription

# Accepted error of sums that should be 1.
_TOLERANCE = 1e-5


class InputScales(AbstractDescription):
    """The distribution of the scale s of elliptical inputs: finitely many values, of mean 1.

    Args:
        values: s > 0, (levels,).
        weights: probabilities >= 0 of the values, of sum 1; the mean of s is 1.

    Raises:
        ValueError: shapes differ, a value or weight is out of range, or a sum is not 1.

    Example:
        >>> import jaxdp
        >>> scales = jaxdp.InputScales([0.5, 2.0], [2 / 3, 1 / 3])
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3, input_scales=scales)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(3.0), 0.5, 1.0, 1000)
        >>> gaussian = jaxdp.predict(problem.replace(input_scales=None), algorithm)
        >>> bool(jaxdp.predict(problem, algorithm).risk[-1] > gaussian.risk[-1])
        True
    """

    values: Float[Array, " levels"]
    weights: Float[Array, " levels"]

    def __init__(self, values: Float[Any, " levels"], weights: Float[Any, " levels"]):
        self.values = as_float(values, "values")
        self.weights = as_float(weights, "weights")
        _check(self.values, self.weights)

    @property
    def is_valid(self) -> Bool[Array, ""]:
        """Whether traced values and weights satisfy what the constructor requires."""
        values, weights = in_numpy((self.values, self.weights))
        in_range = (values > 0).all() & (weights >= 0).all()
        sums = weights.sum(), (weights * values).sum()
        # Sums of traced float32 numbers are rounded.
        are_one = [abs(total - 1) < 10 * _TOLERANCE for total in sums]
        return in_range & are_one[0] & are_one[1]

    def draw(self, key: Key[Array, ""]) -> Float[Array, ""]:
        """One random scale."""
        return NormalLevels.of(self).at(jr.normal(key, (), self.values.dtype))


class NormalLevels(NamedTuple):
    """The scales as intervals (below, above] of a standard normal."""

    values: Float[Array, "levels *#shape"]
    below: Float[Array, "levels *#shape"]
    above: Float[Array, "levels *#shape"]

    @classmethod
    def of(cls, scales: InputScales) -> "NormalLevels":
        """The intervals whose probabilities are the weights."""
        # Rounding may take a sum beyond 1.
        inner = ndtri(jnp.clip(jnp.cumsum(scales.weights)[:-1], 0, 1))
        end = jnp.full_like(scales.weights[:1], jnp.inf)
        return cls(scales.values, jnp.concatenate([-end, inner]), jnp.concatenate([inner, end]))

    def at(self, normals: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The scale for each standard normal."""
        is_this = (normals[None] > self.below) & (normals[None] <= self.above)
        return jnp.sum(jnp.where(is_this, self.values, 0), axis=0)


def _check(values, weights):
    if values.ndim != 1 or values.shape != weights.shape or values.size == 0:
        shapes = f"{values.shape} and {weights.shape}"
        raise ValueError(f"expected values and weights of one shape (levels,), got {shapes}")
    known, shares = concrete(values), concrete(weights)
    if known is not None and not (np.all(np.isfinite(known)) and known.min() > 0):
        raise ValueError(f"expected finite values > 0 of the scale, got {known}")
    if shares is not None and not (np.all(np.isfinite(shares)) and shares.min() >= 0):
        raise ValueError(f"expected finite weights >= 0, got {shares}")
    if shares is not None and abs(shares.sum() - 1) > _TOLERANCE:
        raise ValueError(f"expected weights of sum 1, got {shares.sum():.6g}")
    if known is not None and shares is not None and abs((mean := known @ shares) - 1) > _TOLERANCE:
        raise ValueError(
            f"expected a scale of mean 1, got mean {mean:.6g}; divide the values by it"
        )
