r"""What is read off the moments of the Gaussian closure: errors of training and test rows.

Test predictions are normal with means $M\mu$ and covariance $MSM^\top + s\,NN^\top$: N belongs to
the coordinates that training never sees, which share one variance s.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.theory.features.closed_moments import Closure, Moments
from jaxdp.theory.features.modes import product


class Weights(eqx.Module):
    """The moments of what is released: one number of each coordinate.

    Attributes:
        mean: of the modes.
        leading, others: covariances of the leading modes, variances of the others.
        unseen: variance of each coordinate that training never sees.
    """

    mean: Float[Array, "modes *outputs"]
    leading: Float[Array, "rank rank"]
    others: Float[Array, " others"]
    unseen: Float[Array, ""]


def released(moments: Moments, unseen: Float[Array, "size size"], output: int) -> Weights:
    """Of the component that is released."""
    return Weights(
        moments.mean[output],
        moments.leading[output, output],
        moments.others[output, output],
        unseen[output, output],
    )


class TestRows(eqx.Module):
    """The test rows' predictions as functions of the moments.

    Attributes:
        factor: M.
        labels: of the test rows.
        unseen_norms: squared norms of the rows of N.
    """

    closure: Closure

    def predictions(self, weights: Weights):
        """Means and variances of the test predictions."""
        modes, rank = self.closure.modes, self.closure.rank
        factor = modes.test_factor
        leading = factor[:, :rank]
        spread = jnp.sum(product(leading, weights.leading) * leading, axis=1)
        spread = spread + product(factor[:, rank:] ** 2, weights.others)
        spread = jnp.maximum(spread, 0) + weights.unseen * modes.unseen_norms
        return product(factor, weights.mean), spread

    def risk(self, weights: Weights) -> Float[Array, ""]:
        """Mean test error."""
        modes = self.closure.modes
        return jnp.mean(modes.loss.expected_value(*self.predictions(weights), modes.test_labels))


def train_risk(closure: Closure, weights: Weights) -> Float[Array, ""]:
    """Mean training error."""
    modes = closure.modes
    mean = product(modes.factor, weights.mean)
    spread = closure.train_variance(weights.leading, weights.others)
    return jnp.mean(modes.loss.expected_value(mean, spread, modes.train_labels))


class SquaredForm(eqx.Module):
    """The covariance of squared test errors, as forms in the moments.

    Attributes:
        form: $H = M^\top M/m$.
        crossed: $M^\top NN^\top M/m^2$.
        unseen: $|NN^\top|^2/m^2$.
    """

    closure: Closure
    form: Float[Array, "modes modes"]
    crossed: Float[Array, "modes modes"]
    unseen: Float[Array, ""]
    unseen_factor: Float[Array, "test unseen"]

    def __init__(self, closure: Closure, unseen_factor: Float[Array, "test unseen"]):
        factor = closure.modes.test_factor
        rows = factor.shape[0]
        seen = product(factor.T, unseen_factor)
        self.closure = closure
        self.form = product(factor.T, factor) / rows
        self.crossed = product(seen, seen.T) / rows**2
        self.unseen = jnp.sum(product(unseen_factor.T, unseen_factor) ** 2) / rows**2
        self.unseen_factor = unseen_factor

    def variance(self, weights: Weights) -> Float[Array, ""]:
        r"""$4b^\top Gb + 2|G|^2/m^2$ with G the covariance of the test predictions."""
        modes, rank = self.closure.modes, self.closure.rank
        factor, rows = modes.test_factor, modes.test_labels.shape[0]
        residual = product(factor, weights.mean) - modes.test_labels
        pull = product(factor.T, residual) / rows
        unseen = product(self.unseen_factor.T, residual) / rows
        linear = pull[:rank] @ product(weights.leading, pull[:rank])
        linear += pull[rank:] ** 2 @ weights.others + weights.unseen * jnp.sum(unseen**2)
        leading = product(self.form[:rank, :rank], weights.leading)
        between = self.form[:rank, rank:]
        squares = jnp.sum(leading * leading.T)
        squares += 2 * jnp.sum(product(between * weights.others[None], between.T) * weights.leading)
        squares += weights.others @ product(self.form[rank:, rank:] ** 2, weights.others)
        squares += 2 * weights.unseen * jnp.sum(self.crossed[:rank, :rank] * weights.leading)
        squares += 2 * weights.unseen * jnp.diagonal(self.crossed)[rank:] @ weights.others
        squares += weights.unseen**2 * self.unseen
        return 4 * linear + 2 * squares
