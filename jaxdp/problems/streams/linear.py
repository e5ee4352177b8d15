"""Linear regression on Gaussian or elliptical inputs, in the eigenbasis of their covariance.

Clipping by norm, the adaptive step and isotropic private noise are rotation invariant, so the
eigenbasis loses nothing. Source: AC section 2 and Assumption 1.
"""

import functools
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.core import Tracer
from jax.lax import Precision
from jaxtyping import Array, ArrayLike, Bool, Float, Shaped

from jaxdp.core.arrays import as_float, in_jax, in_numpy
from jaxdp.core.checks import (
    concrete,
    require_count,
    require_kind,
    require_non_negative,
    require_positive,
    require_scalar,
)
from jaxdp.core.keys import numbered_key
from jaxdp.data.standardisation import Table, standardise
from jaxdp.losses import AbstractResidualLoss, HalfSquared
from jaxdp.problems.base import AbstractLinearModelProblem, Samples
from jaxdp.problems.streams.input_scales import InputScales, estimated_scales

_MEAN_TOLERANCE = 1e-5
# Directions with less than this share of the largest variance carry rounding, not data.
_RANK_TOLERANCE = 1e-10
_LEAST_SQUARES = HalfSquared()


class CovarianceBasis(NamedTuple):
    """Eigenvalues of the covariance, its eigenvectors in columns, and least squares therein."""

    spectrum: np.ndarray
    rotation: np.ndarray
    solution: np.ndarray


def covariance_basis(table: Table) -> CovarianceBasis:
    """Eigendecomposition of the inputs' covariance and the least-squares solution in that basis.

    Directions without variance get eigenvalue 0 and coefficient 0.
    """
    rows, dim = table.inputs.shape
    values, rotation = np.linalg.eigh(table.inputs.T @ table.inputs / rows)
    values, rotation = values[::-1], rotation[:, ::-1]
    values = np.where(values > _RANK_TOLERANCE * values[0], values, 0.0)
    values *= dim / values.sum()
    correlation = rotation.T @ (table.inputs.T @ table.labels) / rows
    solution = np.divide(correlation, values, out=np.zeros(dim), where=values > 0)
    return CovarianceBasis(values, rotation, solution)


class Blocks(eqx.Module):
    """The distinct eigenvalues of a covariance, and how much of the target lies in each block."""

    eigenvalues: Float[Array, " blocks"]  # the distinct values
    sizes: tuple[int, ...] = eqx.field(static=True)  # their multiplicities
    squared_target: Float[Array, " blocks"]  # squared norm of the target within each block
    is_valid: Bool[Array, ""]  # whether the values of a traced spectrum are equal within each block


def multiplicities_of(spectrum: Float[Array, " dim"]) -> tuple[int, ...] | None:
    """The multiplicity of each distinct eigenvalue, rising; None for a traced spectrum."""
    if isinstance(spectrum, Tracer):
        return None
    _, counts = np.unique(np.asarray(spectrum), return_counts=True)
    return tuple(counts.tolist())


def blocks_of(
    spectrum: Float[Array, " dim"],
    target: Float[Array, " dim"],
    multiplicities: tuple[int, ...] | None,
) -> Blocks:
    """The blocks of a spectrum with these multiplicities; one block per coordinate for None."""
    if multiplicities is None:
        ones = (1,) * len(spectrum)
        return Blocks(spectrum, ones, target**2, in_jax(np.True_))
    of = _traced_blocks if isinstance(spectrum, Tracer) else _known_blocks
    return of(spectrum, target, multiplicities)


def _known_blocks(spectrum, target, sizes: tuple[int, ...]) -> Blocks:
    values, member, counts = np.unique(
        np.asarray(spectrum), return_inverse=True, return_counts=True
    )
    if tuple(counts.tolist()) != sizes:
        raise ValueError(
            f"expected eigenvalues of multiplicities {_few(sizes)}, as the problem was made with, "
            f"got {_few(counts.tolist())}; use problem.replace(spectrum=...), which groups anew"
        )
    squared = _squares(target, member, len(sizes))
    return Blocks(as_float(values), sizes, squared, in_jax(np.True_))


@functools.partial(jax.jit, static_argnums=2)
def _squares(target, member, num_blocks: int) -> Float[Array, " blocks"]:
    return jax.ops.segment_sum(target**2, member, num_segments=num_blocks)


def _traced_blocks(spectrum, target, sizes: tuple[int, ...]) -> Blocks:
    """The blocks of a traced spectrum: equal values are neighbours once it is sorted."""
    # One block is in any order, and a sort is compiled as long as all the rest.
    order = np.arange(len(spectrum)) if len(sizes) == 1 else jnp.argsort(spectrum)
    member = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    values = spectrum[order]
    firsts = values[np.cumsum((0, *sizes[:-1]))]
    apart = values - firsts[member]
    sums = jax.ops.segment_sum(apart, member, num_segments=len(sizes))
    # Zero, but each coordinate of a block has its share of the derivative.
    shares = sums / np.asarray(sizes, spectrum.dtype)
    blocks = jnp.zeros(len(member), jnp.int32).at[order].set(member)
    squared = jax.ops.segment_sum(target**2, blocks, num_segments=len(sizes))
    return Blocks(firsts + shares, sizes, squared, jnp.all(apart == 0))


def _few(counts) -> str:
    shown = ", ".join(str(count) for count in counts[:6])
    return f"({shown}, ...)" if len(counts) > 6 else f"({shown})"


class LinearRegression(AbstractLinearModelProblem):
    r"""Linear regression on a stream of fresh samples.

    Labels $y = x^\top\theta^* + z$ with $x \sim N(0, \Sigma)$, $z \sim N(0, \zeta^2)$.

    The risk is the excess risk $R(\theta) = \|\Sigma^{1/2}(\theta - \theta^*)\|^2 / 2$ for every
    loss. With `input_scales` the inputs are elliptical: $x = \sqrt s\,\Sigma^{1/2} g$ with g
    standard normal and a scale s drawn for each sample.

    Args:
        spectrum: eigenvalues of Sigma, (dim,), >= 0, of mean 1 (AC Assumption 1: tr Sigma = d).
        target: theta* in that eigenbasis, (dim,).
        label_noise: zeta, a standard deviation, >= 0.
        input_scales: distribution of s; None (default) for s = 1, Gaussian inputs.
        loss: loss that is minimised, a loss of residuals of `jaxdp.losses` with a halved square:
            `HalfSquared()` (default), or `Huber(width)`, which cuts the residual at its width.

    Raises:
        TypeError: the loss is of another kind.
        ValueError: shapes differ, an eigenvalue is negative, or the mean is not 1.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> problem.dim, problem.spectrum.shape
        (100, (100,))
        >>> problem.replace(label_noise=0.1).blocks.sizes
        (100,)
    """

    spectrum: Float[Array, " dim"]
    target: Float[Array, " dim"]
    label_noise: Float[Array, ""]
    input_scales: InputScales | None
    loss: AbstractResidualLoss
    # Multiplicities of the distinct eigenvalues, which set shapes; None if traced.
    _multiplicities: tuple[int, ...] | None = eqx.field(static=True, init=False)

    def __init__(
        self,
        spectrum: Float[Any, " dim"],
        target: Float[Any, " dim"],
        label_noise: ArrayLike,
        *,
        input_scales: InputScales | None = None,
        loss: Any = _LEAST_SQUARES,
    ):
        self.spectrum = as_float(spectrum, "spectrum")
        self.target = as_float(target, "target")
        self.label_noise = as_float(label_noise, "label_noise")
        if input_scales is not None:
            require_kind("input_scales", input_scales, InputScales, "jaxdp.InputScales or None")
        self.input_scales = input_scales
        examples = "jaxdp.losses.HalfSquared() or jaxdp.losses.Huber(width)"
        expected = f"a loss of residuals, such as {examples}"
        require_kind("loss", loss, AbstractResidualLoss, expected)
        if loss.square_curvature not in (None, 1):
            raise TypeError(f"expected loss to be {expected}, got {loss!r}: the square is halved")
        self.loss = loss
        _check(self.spectrum, self.target, self.label_noise)
        self._multiplicities = multiplicities_of(self.spectrum)

    @classmethod
    def isotropic(
        cls,
        dim: int,
        *,
        label_noise: ArrayLike,
        initial_risk: ArrayLike = 0.5,
        input_scales: InputScales | None = None,
        loss: Any = _LEAST_SQUARES,
    ) -> "LinearRegression":
        """Identity covariance; the target is flat, with $R(0)$ = `initial_risk`.

        Args:
            dim: number of inputs d.
            label_noise: zeta, a standard deviation.
            initial_risk: R at theta = 0, > 0, default 0.5.
            input_scales, loss: see the constructor.
        """
        spectrum = np.ones(require_count("dim", dim))
        return cls._flat(spectrum, label_noise, initial_risk, input_scales, loss)

    @classmethod
    def power_law(
        cls,
        dim: int,
        *,
        condition_number: ArrayLike,
        label_noise: ArrayLike,
        initial_risk: ArrayLike = 0.5,
        input_scales: InputScales | None = None,
        loss: Any = _LEAST_SQUARES,
    ) -> "LinearRegression":
        r"""Eigenvalues $\lambda_i \propto i^{-\ln\kappa/\ln d}$ of mean 1; the target is flat.

        As d grows at fixed kappa this tends to the identity: tr(Sigma^2)/d is 1.024, 1.012, 1.0066
        for d = 10^2, 10^3, 10^4 and kappa = 2. Source: AC Figure 2, made specific.

        Args:
            dim: number of inputs d, >= 2 when kappa > 1.
            condition_number: kappa = lambda_max / lambda_min, >= 1.
            label_noise: zeta, a standard deviation.
            initial_risk: R at theta = 0, > 0, default 0.5.
            input_scales, loss: see the constructor.
        """
        dim = require_count("dim", dim)
        require_scalar("condition_number", condition_number)
        known = concrete(condition_number)
        if known is not None and not (known >= 1 and np.isfinite(known)):
            raise ValueError(f"expected finite condition_number >= 1, got {known}")
        if dim == 1:
            if known is None or known > 1:
                raise ValueError("expected dim >= 2 for a condition_number > 1, got dim = 1")
            return cls._flat(np.ones(1), label_noise, initial_risk, input_scales, loss)
        ranks = np.arange(1, dim + 1)
        if known is not None:
            values = ranks ** (-math.log(known) / math.log(dim))
        else:
            exponent = -jnp.log(as_float(condition_number)) / math.log(dim)
            values = jnp.exp(exponent * jnp.log(as_float(ranks)))
        return cls._flat(values / values.mean(), label_noise, initial_risk, input_scales, loss)

    @classmethod
    def from_data(
        cls,
        inputs: Shaped[Any, "rows dim"],
        labels: Shaped[Any, " rows"],
        *,
        input_scales: bool = False,
        loss: Any = _LEAST_SQUARES,
    ) -> "LinearRegression":
        """The surrogate of a table: its covariance, least squares and residual variance.

        Inputs are centred and scaled by one number to trace = dim, labels are centred, both
        non-privately: the surrogate is for analysis, not a private release. The target is the
        least-squares solution itself, so R(0) is about zeta^2 d / (2 n) too large.

        Args:
            inputs: table of shape (rows, dim), with rows > dim + 1.
            labels: array of shape (rows,).
            input_scales: True adds the rows' scales, estimated from their lengths
                (`jaxdp.problems.streams.input_scales`); False (default) gives Gaussian inputs.
            loss: see the constructor; the target is that of least squares in any case.

        Raises:
            ValueError: shapes differ, values are missing, rows are too few, or a column is
                constant.
        """
        require_kind("input_scales", input_scales, bool, "True or False")
        table = standardise(inputs, labels)
        basis = covariance_basis(table)
        rank = int((basis.spectrum > 0).sum())
        residual = table.labels - table.inputs @ (basis.rotation @ basis.solution)
        variance = residual @ residual / (len(table.labels) - rank - 1)
        scales = None
        if input_scales:
            seen = basis.rotation[:, basis.spectrum > 0]
            spread = np.sqrt(basis.spectrum[basis.spectrum > 0])
            scales = estimated_scales(table.inputs @ seen / spread)
        noise = math.sqrt(variance)
        return cls(basis.spectrum, basis.solution, noise, input_scales=scales, loss=loss)

    @classmethod
    def _flat(cls, spectrum, label_noise, initial_risk, scales, loss) -> "LinearRegression":
        require_positive("initial_risk", initial_risk)
        square = 2 * in_numpy(as_float(initial_risk)) / len(spectrum)
        root = jnp.sqrt if isinstance(square, jax.Array) else np.sqrt
        target = root(square) * np.ones(len(spectrum))
        return cls(spectrum, target, label_noise, input_scales=scales, loss=loss)

    @property
    def blocks(self) -> Blocks:
        """The distinct eigenvalues and the target's parts, from `spectrum` and `target` as set now.

        One block per coordinate if the constructor was given a traced spectrum. ValueError if the
        multiplicities have changed since then, by `equinox.tree_at` for instance.
        """
        return blocks_of(self.spectrum, self.target, self._multiplicities)

    @property
    def initial_risk(self) -> Float[Array, ""]:
        """R(0), the excess risk at zero parameters."""
        return jnp.sum(self.spectrum * self.target**2) / 2

    def _derived(self):
        return "dim", "initial_risk"

    @property
    def dim(self):
        return self.spectrum.shape[0]

    @property
    def max_samples(self):
        return None

    @property
    def is_valid(self):
        bounds = self.loss.slope_bound, self.loss.curvature_bound
        spectrum, target, label_noise, slope_bound, curvature_bound = in_numpy(
            (self.spectrum, self.target, self.label_noise, *bounds)
        )
        # The mean of a traced float32 spectrum is known to rounding.
        mean_is_one = abs(spectrum.mean() - 1) < 10 * _MEAN_TOLERANCE
        positive = (spectrum >= 0).all() & (label_noise >= 0) & (slope_bound > 0)
        positive = positive & (curvature_bound > 0)
        if self.input_scales is not None:
            positive = positive & self.input_scales.is_valid
        return mean_is_one & positive & (abs(target) < math.inf).all()

    def prepare(self, key):
        return None

    def draw(self, prepared: Any, key, index):
        own_key = numbered_key(key, index)
        inputs_key, label_key = jr.split(own_key)
        dtype = jnp.result_type(self.spectrum, self.target, self.label_noise)
        inputs = jnp.sqrt(self.spectrum) * jr.normal(inputs_key, (self.dim,), dtype)
        if self.input_scales is not None:
            # The third of three keys: directions and label noise are those of Gaussian inputs.
            scale = self.input_scales.draw(jr.split(own_key, 3)[2])
            inputs = jnp.sqrt(scale).astype(dtype) * inputs
        noise = self.label_noise * jr.normal(label_key, (), dtype)
        # A product, not a sum over a fused draw: XLA would draw the inputs twice.
        return Samples(inputs, jnp.matmul(inputs, self.target, precision=Precision.HIGHEST) + noise)

    def risk(self, prepared, parameters):
        return jnp.sum(self.spectrum * (parameters - self.target) ** 2) / 2

    def observables(self, parameters):
        return {"distance": jnp.sum((parameters - self.target) ** 2)}

    def in_input_coordinates(self, parameters):
        return parameters


def _check(spectrum, target, label_noise):
    if spectrum.ndim != 1 or spectrum.shape != target.shape or spectrum.size == 0:
        shapes = f"{spectrum.shape} and {target.shape}"
        raise ValueError(f"expected spectrum and target of one shape (dim,), got {shapes}")
    require_non_negative("label_noise", label_noise)
    values = concrete(spectrum)
    if values is not None:
        if not np.all(np.isfinite(values)) or values.min() < 0:
            least = values.min()
            raise ValueError(f"expected a spectrum of finite eigenvalues >= 0, got one of {least}")
        if abs(values.mean() - 1) > _MEAN_TOLERANCE:
            raise ValueError(
                f"expected a spectrum of mean 1, got mean {values.mean():.6g}; divide it by its "
                "mean and multiply the target by the square root of that mean"
            )
    known_target = concrete(target)
    if known_target is not None and not np.all(np.isfinite(known_target)):
        raise ValueError("expected a finite target, got one with NaN or infinite entries")
