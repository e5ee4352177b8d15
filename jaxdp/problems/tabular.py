r"""Linear regression on a real table: the same algorithm, on rows that nobody made Gaussian.

Each run passes once over a random half of the rows; the other half measures the risk. Risk against
a fit of the same rows would be in-sample and too small.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jax.lax import Precision
from jaxtyping import Array, Float, Int

from jaxdp.core.arrays import as_float
from jaxdp.problems.base import AbstractProblem, Samples
from jaxdp.problems.linear import LinearRegression
from jaxdp.problems.standardisation import covariance_basis, standardise

# A held-out half that has fewer than this share of a direction's variance says nothing about it.
_SEEN = 1e-4


class Split(eqx.Module):
    """One run's halves: the order of its pass, and the quadratic form that is its risk.

    In coordinates where the whole table's covariance is the identity, the risk is
    (w - optimum)' covariance (w - optimum) / 2 - bias.
    """

    order: Int[Array, " rows"]
    covariance: Float[Array, "dim dim"]
    optimum: Float[Array, " dim"]
    bias: Float[Array, ""]


class TabularRegression(AbstractProblem):
    r"""A table as a regression problem.

    The inputs are centred and scaled by one number to trace of covariance = dim, the labels
    centred, both from the whole table and without privacy: what a run costs in privacy is counted
    from the rows as standardised. The rows are kept in the eigenbasis of their covariance, which
    changes the law of no run.

    The risk of a run is the held-out half's excess squared error over its own least squares,
    $(\theta-\hat\theta)^\top \hat\Sigma (\theta-\hat\theta)/2$, minus $\zeta^2 r/(2 n_h)$, what
    the n_h held-out rows' fit of rank r is expected to gain by overfitting them. It estimates the
    excess risk without bias when the linear model holds, and can be slightly negative.

    Args:
        inputs: shape (rows, dim), rows >= 2 (dim + 2).
        labels: shape (rows,).

    Attributes:
        surrogate: the `LinearRegression` with this table's covariance, least squares and residual
            variance, for `predict` and for Gaussian simulation beside the table.
        num_steps: the length of one pass, half the rows.

    Raises:
        ValueError: shapes, missing values, constant columns or too few rows.
    """

    inputs: Float[Array, "rows dim"]
    labels: Float[Array, " rows"]
    surrogate: LinearRegression
    rotation: Float[Array, "dim dim"]

    def __init__(self, inputs, labels):
        table = standardise(inputs, labels)
        basis = covariance_basis(table)
        self.inputs = as_float(table.inputs @ basis.rotation)
        self.labels = as_float(table.labels)
        self.rotation = as_float(basis.rotation)
        self.surrogate = LinearRegression.from_data(inputs, labels)

    def __repr__(self):
        rows, dim = self.inputs.shape
        return (
            f"TabularRegression({rows} rows, dim {dim}; inputs centred and scaled to trace = dim, "
            "labels centred, non-privately; risk on a held-out half, less the bias of its fit)"
        )

    @property
    def num_steps(self) -> int:
        """Length of one pass: half the rows."""
        return self.inputs.shape[0] // 2

    @property
    def dim(self):
        return self.inputs.shape[1]

    @property
    def max_samples(self):
        return self.num_steps

    def prepare(self, key):
        rows = self.inputs.shape[0]
        order = jr.permutation(key, rows)
        held_out = order[self.num_steps :]
        whitened = self.inputs[held_out] * self._whitening
        labels = self.labels[held_out]
        count = rows - self.num_steps
        covariance = jnp.matmul(whitened.T, whitened, precision=Precision.HIGHEST) / count
        correlation = jnp.matmul(whitened.T, labels, precision=Precision.HIGHEST) / count
        values, vectors = jnp.linalg.eigh(covariance)
        seen = values > _SEEN
        inverse = jnp.where(seen, 1 / jnp.where(seen, values, 1), 0)
        optimum = vectors @ (inverse * (vectors.T @ correlation))
        residuals = labels - jnp.matmul(whitened, optimum, precision=Precision.HIGHEST)
        rank = seen.sum()
        variance = jnp.sum(residuals**2) / (count - rank)
        return Split(
            order=order[: self.num_steps],
            covariance=covariance,
            optimum=optimum,
            bias=variance * rank / (2 * count),
        )

    def draw(self, prepared, key, index):
        row = prepared.order[index]
        return Samples(self.inputs[row], self.labels[row])

    def gradient(self, parameters, samples):
        return self.surrogate.gradient(parameters, samples)

    def smoothness(self, samples):
        return self.surrogate.smoothness(samples)

    def risk(self, prepared, parameters):
        offset = jnp.sqrt(self.surrogate.spectrum) * parameters - prepared.optimum
        form = jnp.matmul(prepared.covariance, offset, precision=Precision.HIGHEST)
        return jnp.sum(offset * form) / 2 - prepared.bias

    def in_input_coordinates(self, parameters):
        return jnp.matmul(self.rotation, parameters, precision=Precision.HIGHEST)

    @property
    def _whitening(self):
        spectrum = self.surrogate.spectrum
        return jnp.where(spectrum > 0, 1 / jnp.sqrt(jnp.where(spectrum > 0, spectrum, 1)), 0)
