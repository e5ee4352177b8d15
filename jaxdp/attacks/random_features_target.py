r"""Random features $\phi(Vx)$ as a target; V is in memory, or regenerated from a key in blocks.

At the full size of DR Figure 1, V takes 37.7 GB. With several outputs the target is a two-layer
network too: the parameters are the change of the last layer. Source: DR (1) and Section 5.2.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.lax import Precision
from jaxtyping import Array, Bool, Float, Int, Key

from jaxdp.attacks.base import (
    AbstractBlock,
    AbstractTarget,
    Linearisation,
    as_parameters,
    require_activation,
)
from jaxdp.core.arrays import as_float, as_wide_float
from jaxdp.core.checks import require_count, require_key, require_shape
from jaxdp.core.description import AbstractDescription
from jaxdp.core.numerics.counter_normals import key_words, normal_pairs

# So a block with its hash takes 1 % of the matrix; fewer rows would make products inefficient.
_MOST_BLOCKS, _LEAST_ROWS = 200, 256
# Counters of rows are signed 32-bit integers.
_MOST_ROWS = 2**31 - 1


class RegeneratedWeights(AbstractDescription):
    """A matrix V with independent entries N(0, 1/d), made block by block from a key.

    It stands in for the weights of a `RandomFeaturesTarget`, and is never in memory whole.

    Each entry is a function of the key, its row and its column, so V is the same for any block
    size, device or transformation, up to the rounding of erf^-1. Entries are float32 numbers even
    in float64 arithmetic, so that a loss recomputed in float64 sees the same V.

    Args:
        key: a `jax.random.key`; the only array that is stored.
        num_features, dim: p < 2^31 rows of V, and d columns.
        block_size: rows of a block; None for blocks of about p / 200 rows, at least 256.

    Raises:
        TypeError, ValueError: the key is not a key, or a size is not a whole number >= 1.

    Example:
        >>> import jax
        >>> from jaxdp.attacks import RegeneratedWeights
        >>> RegeneratedWeights(jax.random.key(0), num_features=10**6, dim=3072).num_blocks
        200
    """

    key: Key[Array, ""]
    num_features: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    block_size: int = eqx.field(static=True)

    def __init__(self, key: Any, num_features: int, dim: int, *, block_size: int | None = None):
        require_key(key)
        self.key = key
        self.num_features = require_count("num_features", num_features)
        self.dim = require_count("dim", dim)
        if self.num_features > _MOST_ROWS:
            raise ValueError(f"expected num_features < 2^31, got {num_features}")
        if block_size is None:
            largest = max(_LEAST_ROWS, self.num_features // _MOST_BLOCKS)
            # Blocks of equal size: the padding of the last one is less than a row per block.
            count = -(-self.num_features // min(largest, self.num_features))
            block_size = -(-self.num_features // count)
        self.block_size = min(require_count("block_size", block_size), self.num_features)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of V, (p, d)."""
        return self.num_features, self.dim

    @property
    def ndim(self) -> int:
        """The number of axes of V, 2."""
        return 2

    @property
    def dtype(self) -> np.dtype:
        """The type of every block, float32."""
        return np.dtype(np.float32)

    @property
    def num_blocks(self) -> int:
        """The number of blocks of V."""
        return -(-self.num_features // self.block_size)

    def block(self, index: Int[Any, ""]) -> Float[Array, "rows dim"]:
        """Rows `index` x `block_size` onward; rows of the last block beyond p are zeros."""
        start = jnp.asarray(index, jnp.int32) * self.block_size
        rows = (start + jnp.arange(self.block_size, dtype=jnp.int32))[:, None]
        half = -(-self.dim // 2)
        pairs = jnp.arange(half, dtype=jnp.int32)[None]
        left, right = normal_pairs(key_words(self.key), rows, pairs, jnp.float32)
        normals = jnp.concatenate([left, right[:, : self.dim - half]], axis=1)
        scale = jnp.where(rows < self.num_features, np.float32(self.dim**-0.5), 0)
        # Without the barrier, fusion would recompute the hash for each use of a block.
        return lax.optimization_barrier(normals * scale)

    @eqx.filter_jit
    def materialise(self) -> Float[Array, "features dim"]:
        """V as one array, for tests and small problems."""
        blocks = lax.map(self.block, jnp.arange(self.num_blocks, dtype=jnp.int32))
        return blocks.reshape(-1, self.dim)[: self.num_features]


class NeuronBlock(AbstractBlock):
    parameters: Float[Array, "rows outputs"]
    weights: Float[Array, "rows dim"]
    is_used: Bool[Array, " rows"]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def features(self, inputs):
        return jnp.where(self.is_used, self.activation(self._arguments(inputs)), 0)

    def linearised(self, inputs):
        features, slopes = self._values_and_slopes(inputs)
        return Linearisation(
            features,
            lambda directions: slopes * (directions @ self.weights.T),
            lambda cotangents: (slopes * cotangents) @ self.weights,
        )

    def row_coupling(self, inputs, *, key):
        # The rows of V have similar norms.
        _, slopes = self._values_and_slopes(inputs)
        return slopes @ slopes.T * (jnp.mean(self.weights**2))

    def _arguments(self, inputs):
        # At full precision: accelerators' default products leave a loss of 1e-6 at the truth.
        return jnp.matmul(inputs, self.weights.T, precision=Precision.HIGHEST)

    def _values_and_slopes(self, inputs):
        arguments = self._arguments(inputs)
        values, slopes = jax.jvp(self.activation, (arguments,), (jnp.ones_like(arguments),))
        return jnp.where(self.is_used, values, 0), jnp.where(self.is_used, slopes, 0)


class RandomFeaturesTarget(AbstractTarget):
    r"""The target of an attack on $f(x) = \phi(Vx)^\top\theta$.

    Args:
        weights: V, (p, d), or `RegeneratedWeights`.
        activation: phi, elementwise.
        parameters: $\theta$ (minus its value before training), (p,) or (p, k), not all zero.
        block_size: number of features per block of a V in memory; None for all.

    Raises:
        ValueError, TypeError: shapes do not match, all parameters are zero, or the activation is
            not a function of numbers.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import RandomFeaturesTarget
        >>> target = RandomFeaturesTarget(np.ones((40, 3)), jax.nn.relu, np.ones(40))
        >>> target.num_features, target.dim
        (40, 3)
    """

    parameters: Float[Array, "..."]
    weights: Any
    activation: Callable[[Array], Array] = eqx.field(static=True)
    block_size: int = eqx.field(static=True)

    def __init__(
        self,
        weights: Float[Any, "features dim"] | RegeneratedWeights,
        activation: Callable[[Array], Array],
        parameters: Float[Any, "..."],
        *,
        block_size: int | None = None,
    ):
        _require_elementwise(activation)
        self.parameters = as_parameters(parameters)
        self.activation = activation
        if hasattr(weights, "block"):
            count, self.block_size = weights.num_features, weights.block_size
        else:
            weights = as_float(weights, "weights")
            require_shape("weights", weights, (None, None))
            if not isinstance(weights, Tracer):
                # On the device and without a copy, because V may fill its memory.
                with jax.ensure_compile_time_eval():
                    is_finite = bool(_are_finite(weights))
                if not is_finite:
                    raise ValueError("expected finite weights, got entries that are not")
            count = len(weights)
            rows = count if block_size is None else require_count("block_size", block_size)
            self.block_size = min(rows, count)
        self.weights = weights
        if count != self.num_features:
            raise ValueError(
                f"expected one row of parameters for each of the {count} features, "
                f"got shape {self.parameters.shape}"
            )

    @property
    def dim(self):
        return self.weights.dim if self._is_regenerated else self.weights.shape[1]

    @property
    def num_blocks(self):
        return -(-self.num_features // self.block_size)

    def block(self, index):
        positions = self._positions(index)
        rows = (
            self.weights.block(index)
            if self._is_regenerated
            else jax.lax.dynamic_slice_in_dim(self.weights, self._start(index), self.block_size)
        )
        columns = self.parameters.reshape(self.num_features, self.num_outputs)
        return NeuronBlock(
            jnp.take(columns, positions, axis=0, mode="fill", fill_value=0),
            rows.astype(self.parameters.dtype),
            positions < self.num_features,
            self.activation,
        )

    def in_blocks(self, num_rows):
        if self._is_regenerated:
            return self
        return dataclasses.replace(self, block_size=min(num_rows, self.num_features))

    def widened(self):
        # Weights are widened block by block, because V in float64 may not fit.
        return dataclasses.replace(self, parameters=self.parameters.astype(jnp.float64))

    @property
    def _is_regenerated(self) -> bool:
        return hasattr(self.weights, "block")

    def _start(self, index: Int[Array, ""] | int):
        """The first row of a block; the last block starts early, so that V needs no padding."""
        return jnp.minimum(index * self.block_size, self.num_features - self.block_size)

    def _positions(self, index: Any):
        begin = index * self.block_size
        if self._is_regenerated:
            return begin + jnp.arange(self.block_size)
        positions = self._start(index) + jnp.arange(self.block_size)
        return jnp.where(positions >= begin, positions, self.num_features)


def _require_elementwise(activation: Any) -> None:
    require_activation(activation)
    sample = np.linspace(0.5, 1.5, 6, dtype=np.float32).reshape(2, 3)
    try:
        with jax.ensure_compile_time_eval():
            values: Any = activation(jnp.asarray(sample))
            first: Any = activation(jnp.asarray(sample[:1, :1]))
        jax.eval_shape(activation, sample)
    except TypeError as error:
        raise TypeError(
            f"expected activation to be made of jax.numpy operations, got {activation!r}: "
            f"{str(error).splitlines()[0]}"
        ) from None
    values, first = jnp.asarray(values), jnp.asarray(first)
    is_elementwise = values.shape == sample.shape
    if is_elementwise and not isinstance(values, Tracer):
        is_elementwise = np.allclose(np.asarray(values)[:1, :1], first, equal_nan=True)
    if not is_elementwise:
        raise ValueError(
            f"expected an activation that acts on each number alone, got {activation!r}"
        )


@jax.jit
def _are_finite(weights):
    return jnp.isfinite(weights).all()


def span_target(
    inputs: Float[Array, "n dim"],
    weights: Float[Array, "features dim"],
    activation: Callable[[Array], Array],
) -> RandomFeaturesTarget:
    r"""A target that holds the whole span of the training rows' features (DR Theorem 1).

    The theorem's hypothesis is that the guess's features span every $\varphi(x_i)$. As a loss it is
    $\sum_i|P^\perp_{\hat\Phi}\varphi(x_i)|^2/\sum_i|\varphi(x_i)|^2$, that of a target whose n
    outputs are the rows' features. There are n (p - n) equations for n (d - 1) unknowns, so the
    rows are determined from about p = n + d on. An attack on trained parameters knows one vector of
    the span per output; then the law is p = dn. Source: DR Theorem 1, Theorem 2 and (16).

    Args:
        inputs: the training rows X, (n, d).
        weights, activation: V, (p, d), in memory, and phi, elementwise.

    Returns:
        A target with n outputs.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import span_target
        >>> span_target(np.eye(3, 4), np.ones((40, 4)), jax.nn.relu).num_outputs
        3
    """
    rows, neurons = as_wide_float(inputs, "inputs"), as_wide_float(weights, "weights")
    require_shape("weights", neurons, (None, None))
    require_shape("inputs", rows, (None, neurons.shape[1]))
    require_activation(activation)
    features = activation(jnp.matmul(neurons, rows.T, precision=Precision.HIGHEST))
    return RandomFeaturesTarget(neurons, activation, features)
