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
# Number of scales that are estimated for a table.
_NUM_VALUES = 12
# The values span the range between these quantiles of the rows' squares.
_ENDS = (0.002, 0.998)
# The row at the mean has a square of zero, which is not a scale.
_SMALLEST_SHARE = 1e-6
# Most groups of neighbouring squares, which are averaged.
_NUM_GROUPS, _NUM_ITERATIONS = 400, 300
# Largest leverage, of a row that alone spans a direction.
_LARGEST_LEVERAGE = 1 - 1e-6


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
        >>> jaxdp.LinearRegression.isotropic(100, label_noise=0.3, input_scales=scales).dim
        100
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
        wrong = known[~(np.isfinite(known) & (known > 0))][0]
        raise ValueError(f"expected finite values > 0 of the scale, got one of {wrong:g}")
    if shares is not None and not (np.all(np.isfinite(shares)) and shares.min() >= 0):
        wrong = shares[~(np.isfinite(shares) & (shares >= 0))][0]
        raise ValueError(f"expected finite weights >= 0, got one of {wrong:g}")
    if shares is not None and abs(shares.sum() - 1) > _TOLERANCE:
        raise ValueError(f"expected weights of sum 1, got {shares.sum():.6g}")
    if known is not None and shares is not None and abs((mean := known @ shares) - 1) > _TOLERANCE:
        raise ValueError(
            f"expected a scale of mean 1, got mean {mean:.6g}; divide the values by it"
        )


def estimated_scales(whitened: Float[np.ndarray, "rows rank"]) -> InputScales:
    r"""The most likely distribution of the scale, from centred rows with identity covariance.

    In units of the table's own covariance a row $x = \sqrt s\,\Sigma^{1/2} g$ has the square $q =
    x^\top\Sigma^{-1}x = s\,\chi^2_d$. The result makes the observed q most likely on twelve fixed
    values, by expectation-maximisation (the nonparametric maximum likelihood of Kiefer and
    Wolfowitz, 1956). Each q is taken in the covariance of all *other* rows, because its own row
    would reduce it.

    On synthetic tables (8, 50 and 300 columns, 1000 and 20,000 rows, five distributions of s, three
    settings of rate, clip and privacy) the predicted final risk is 1.3 % off on average and 7.1 %
    at most, of which 6.4 % are due to the table's own rows; the Gaussian surrogate is up to 57 %
    off. Derived: test_scale_estimate.
    """
    rows, rank = whitened.shape
    leverage = np.minimum(np.sum(whitened**2, axis=1) / rows, _LARGEST_LEVERAGE)
    # x' S^-1 x with S of the other rows, up to a constant factor.
    squares = np.sort(leverage / (1 - leverage))
    # Without interpolation, so that no row far from all others sets an end.
    low, high = np.quantile(squares, _ENDS, method="lower")
    values = np.geomspace(max(low, _SMALLEST_SHARE * high), high, _NUM_VALUES)
    groups = np.array_split(squares, min(_NUM_GROUPS, rows))
    counts = np.array([len(group) for group in groups]) / rows
    means = np.array([group.mean() for group in groups])
    # The estimated covariance adds its spread to the chi-square's.
    degrees = rank * (1 - rank / rows)
    weights = _most_likely(values, means, counts, degrees)
    return InputScales(values / (values @ weights), weights)


def _most_likely(values, squares, counts, degrees) -> Float[np.ndarray, " values"]:
    logs = -degrees / 2 * (np.log(values)[None] + squares[:, None] / values[None])
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = np.full(len(values), 1 / len(values))
    for _ in range(_NUM_ITERATIONS):
        shares = likelihood * weights
        weights = counts @ (shares / shares.sum(axis=1, keepdims=True))
    return weights / weights.sum()
