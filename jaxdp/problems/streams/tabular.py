"""Linear regression on a real table, with the algorithm of streams."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, Shaped

from jaxdp.core.arrays import as_float, as_wide_float
from jaxdp.core.numerics.batching import one_at_a_time
from jaxdp.core.numerics.precision import product
from jaxdp.data.standardisation import standardise
from jaxdp.problems.base import AbstractLinearModelProblem, Samples
from jaxdp.problems.streams.linear import LinearRegression, covariance_basis

# Least share of a direction's variance in a held-out half that determines it.
_SEEN = 1e-4
# Error of means over many rows in float32.
_ROUNDING = 1e-2


class Split(eqx.Module):
    """One run's halves: the order of its pass, and the quadratic form that is its risk.

    In coordinates where the whole table's covariance is the identity, the risk is (w - optimum)'
    covariance (w - optimum) / 2 - bias.
    """

    order: Int[Array, " rows"]
    covariance: Float[Array, "dim dim"]
    optimum: Float[Array, " dim"]
    bias: Float[Array, ""]


class TabularRegression(AbstractLinearModelProblem):
    r"""A table as a regression problem: each run passes once over a random half of the rows.

    The inputs are centred and scaled by one number to trace of covariance = dim, the labels
    centred, both from the whole table and without privacy; accounts count the standardised rows.
    The rows are kept in the eigenbasis of their covariance, which changes the distribution of no
    run.

    The risk of a run is the held-out half's excess squared error over its own least squares,
    $(\theta-\hat\theta)^\top \hat\Sigma (\theta-\hat\theta)/2$, minus $\zeta^2 r/(2 n_h)$, the
    expected overfitting of a fit of rank r to the n_h held-out rows. The difference estimates the
    excess risk without bias if the linear model holds, and can be slightly negative.

    Args:
        inputs: table of shape (rows, dim), rows >= 2 (dim + 2).
        labels: array of shape (rows,).

    Attributes:
        rows, centred_labels: the table centred, scaled and rotated into the eigenbasis of its
            covariance by `rotation`.
        surrogate: the `LinearRegression` with this table's covariance, least squares and residual
            variance, for `predict` and Gaussian simulation.
        num_steps: length of one pass, half the rows.

    Raises:
        ValueError: wrong shapes, missing values, constant columns or too few rows.

    Example:
        >>> import jax, jaxdp
        >>> inputs = jax.random.normal(jax.random.key(0), (400, 3))
        >>> labels = inputs @ jax.numpy.asarray([1.0, -2.0, 0.5])
        >>> problem = jaxdp.TabularRegression(inputs, labels)
        >>> problem.dim, problem.num_steps
        (3, 200)
        >>> problem.surrogate.dim  # a LinearRegression of the same moments, for `jaxdp.predict`
        3
    """

    surrogate: LinearRegression
    rows: Float[Array, "rows dim"]
    centred_labels: Float[Array, " rows"]
    rotation: Float[Array, "dim dim"]
    _means: tuple[Float[Array, " dim"], Float[Array, ""]]
    _scale: Float[Array, ""]

    def __init__(self, inputs: Shaped[Any, "rows dim"], labels: Shaped[Any, " rows"]):
        table = standardise(inputs, labels)
        basis = covariance_basis(table)
        self.rows = as_float(table.inputs @ basis.rotation)
        self.centred_labels = as_float(table.labels)
        self.rotation = as_float(basis.rotation)
        self._means = as_float(table.input_means), as_float(table.label_mean)
        self._scale = as_float(table.scale)
        self.surrogate = LinearRegression.from_data(inputs, labels)

    @property
    def inputs(self) -> Float[Array, "rows dim"]:
        """The inputs as they were given, to rounding."""
        return product(self.rows, self.rotation.T) / self._scale + self._means[0][None]

    @property
    def labels(self) -> Float[Array, " rows"]:
        """The labels as they were given, to rounding."""
        return self.centred_labels + self._means[1]

    def _shown(self):
        # The given rows are computed from the stored ones.
        return {"rows": self.rows, "labels": self.centred_labels}

    def _derived(self):
        return "dim", "num_steps"

    def _notes(self):
        return (
            "inputs centred and scaled to trace = dim, labels centred, non-privately",
            "risk measured on a held-out half, less the bias of its fit",
        )

    def __repr__(self):
        rows, dim = self.rows.shape
        return f"TabularRegression({rows} rows, dim {dim}; {'; '.join(self._notes())})"

    @property
    def num_steps(self) -> int:
        """Length of one pass: half the rows."""
        return len(self.rows) // 2

    @property
    def dim(self):
        return self.rows.shape[1]

    @property
    def max_samples(self):
        return self.num_steps

    @property
    def why_max_samples(self):
        return "half of the rows are held out to measure the risk"

    @property
    def is_valid(self):
        # `equinox.tree_at` may have set rows or labels that do not fit the surrogate.
        rows, labels = as_wide_float(self.rows), as_wide_float(self.centred_labels)
        spectrum, target = self.surrogate.spectrum, self.surrogate.target
        squares = jnp.mean(rows**2, axis=0)
        products = jnp.mean(rows * labels[:, None], axis=0)
        largest = spectrum.max()
        same_rows = jnp.abs(squares - spectrum) <= _ROUNDING * largest
        scale = jnp.sqrt(largest * jnp.mean(labels**2))
        same_labels = jnp.abs(products - spectrum * target) <= _ROUNDING * scale
        return jnp.all(same_rows & same_labels)

    def prepare(self, key):
        rows, spectrum = len(self.rows), self.surrogate.spectrum
        order = jr.permutation(key, rows)
        held_out, count = order[self.num_steps :], rows - self.num_steps
        scales = jnp.where(spectrum > 0, 1 / jnp.sqrt(jnp.where(spectrum > 0, spectrum, 1)), 0)
        whitened, labels = self.rows[held_out] * scales[None], self.centred_labels[held_out]
        covariance = product(whitened.T, whitened) / count
        correlation = product(whitened.T, labels) / count
        values, vectors = one_at_a_time(jnp.linalg.eigh)(covariance)
        seen = values > _SEEN
        inverse = jnp.where(seen, 1 / jnp.where(seen, values, 1), 0)
        optimum = product(vectors, inverse * product(vectors.T, correlation))
        residuals = labels - product(whitened, optimum)
        rank = seen.sum()
        variance = jnp.sum(residuals**2) / (count - rank)
        bias = variance * rank / (2 * count)
        return Split(order[: self.num_steps], covariance, optimum, bias)

    def draw(self, prepared, key, index):
        row = prepared.order[index]
        return Samples(self.rows[row], self.centred_labels[row])

    @property
    def loss(self):
        """The loss of the surrogate."""
        return self.surrogate.loss

    def risk(self, prepared, parameters):
        offset = jnp.sqrt(self.surrogate.spectrum) * parameters - prepared.optimum
        form = product(prepared.covariance, offset)
        return jnp.sum(offset * form) / 2 - prepared.bias

    def in_input_coordinates(self, parameters):
        return product(self.rotation, parameters)
