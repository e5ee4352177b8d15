r"""Random-features regression: $f(x) = \phi(Vx)^\top\theta$ with V fixed and theta learnt.

Source: PF (1.2). Without weights V it is the limit of infinite width, known through its kernel.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.lax import Precision
from jaxtyping import Array, Float, Key, Shaped

from jaxdp.core.arrays import as_wide_float, float_dtype
from jaxdp.core.checks import (
    NotCoveredError,
    require_callable,
    require_count,
    require_finite,
    require_key,
    require_shape,
)
from jaxdp.core.keys import purpose_key, stream_key
from jaxdp.core.numerics.hermite import evaluate_on_host
from jaxdp.losses import AbstractLoss
from jaxdp.problems.rows.features import (
    SQUARED,
    AbstractFeatureProblem,
    require_arrays,
    require_filled,
    require_labels,
    require_loss,
    seen_on_host,
    wide_array,
)
from jaxdp.problems.rows.infinite_width import infinite_width_kernel
from jaxdp.problems.rows.kernel_factors import KERNEL_ACCURACY, split_factor, triangular_root

_BLOCK_FEATURES = 4096
_HOST_BLOCK = 8192
_ROOT_ACCURACY = 1e-9

Inputs = Callable[..., Float[Array, "count dim"]]


def gaussian_inputs(count: int, dim: int, *, key: Key[Array, ""]) -> Float[Array, "count dim"]:
    """Rows of N(0, I), (count, dim), as in the paper's experiments."""
    require_key(key)
    shape = require_count("count", count), require_count("dim", dim)
    return jr.normal(key, shape)


def sphere_inputs(count: int, dim: int, *, key: Key[Array, ""]) -> Float[Array, "count dim"]:
    r"""Rows uniform on the sphere of radius $\sqrt{d}$, PF Assumption 1.

    Args:
        count: number of rows.
        dim: d.
        key: a `jax.random.key`.

    Returns:
        The rows, (count, dim).

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.problems import sphere_inputs
        >>> rows = sphere_inputs(2, 5, key=jax.random.key(0))
        >>> (np.asarray(rows) ** 2).sum(axis=1).round(3).tolist()
        [5.0, 5.0]
    """
    normal = gaussian_inputs(count, dim, key=key)
    return normal * jnp.sqrt(dim) / jnp.linalg.norm(normal, axis=1, keepdims=True)


class RandomFeatures(AbstractFeatureProblem):
    r"""A linear model on the features $\phi(Vx)$; the risk is the mean test loss.

    Use `from_arrays` or `sample`. With weights = None it is the limit of infinitely many features,
    with the kernel $E\,\phi(v\cdot x)\phi(v\cdot x')$, v ~ N(0, I/d), in units that do not depend
    on p: an algorithm's learning rate is $\eta p$, its clip norm $C/\sqrt p$, its noise scale
    $\sigma\sqrt p$.

    Attributes:
        train_inputs, test_inputs: x, (n, d) and (m, d).
        train_labels, test_labels: y.
        weights: V, (num_features, d), entries of variance 1/d; None for infinite width.
        activation: phi, elementwise.
        loss: loss of a row, $(f - y)^2$ or another of `jaxdp.losses`.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> problem.num_train, problem.num_test, problem.num_features
        (40, 20, 200)
        >>> problem.train_features().shape
        (40, 200)
    """

    train_inputs: Float[Array, "train dim"] = eqx.field(converter=wide_array("train_inputs"))
    train_labels: Float[Array, " train"] = eqx.field(converter=wide_array("train_labels"))
    test_inputs: Float[Array, "test dim"] = eqx.field(converter=wide_array("test_inputs"))
    test_labels: Float[Array, " test"] = eqx.field(converter=wide_array("test_labels"))
    weights: Float[Array, "features dim"] | None = eqx.field(
        converter=lambda value: None if value is None else as_wide_float(value, "weights")
    )
    activation: Callable[[Array], Array] = eqx.field(static=True)
    loss: AbstractLoss = SQUARED

    def __check_init__(self):
        require_loss(self.loss)
        require_callable("activation", self.activation, "a callable")
        require_arrays(
            ("train_inputs", self.train_inputs, self.train_labels),
            ("test_inputs", self.test_inputs, self.test_labels),
        )
        if self.weights is not None:
            require_shape("weights", self.weights, (None, self.dim))
            require_filled("weights", self.weights)
        require_labels(self)

    @classmethod
    def from_arrays(
        cls,
        train_inputs: Shaped[Any, "train dim"],
        train_labels: Shaped[Any, " train"],
        test_inputs: Shaped[Any, "test dim"],
        test_labels: Shaped[Any, " test"],
        weights: Float[Any, "features dim"] | None,
        activation: Callable[[Array], Array] = jnp.tanh,
        *,
        loss: AbstractLoss = SQUARED,
    ) -> "RandomFeatures":
        """The problem of given rows and weights.

        Args:
            train_inputs, train_labels: arrays of shapes (n, d) and (n,).
            test_inputs, test_labels: arrays of shapes (m, d) and (m,).
            weights: V, (num_features, d), or None for infinite width.
            activation: phi, any elementwise traceable function, default tanh.
            loss: loss of a row, one of `jaxdp.losses`, default `Squared()`.

        Raises:
            TypeError, ValueError: shapes do not match, a number is not finite, or a label is
                invalid for the loss.
        """
        return cls(
            train_inputs=train_inputs,
            train_labels=train_labels,
            test_inputs=test_inputs,
            test_labels=test_labels,
            weights=weights,
            activation=activation,
            loss=loss,
        )

    @classmethod
    def sample(
        cls,
        num_train: int,
        num_test: int,
        dim: int,
        num_features: int | None,
        *,
        activation: Callable[[Array], Array] = jnp.tanh,
        inputs: Inputs = gaussian_inputs,
        loss: AbstractLoss = SQUARED,
        key: Key[Array, ""],
    ) -> "RandomFeatures":
        """Sampled rows with labels sign(u.x), u uniform on the unit sphere, and sampled weights.

        For a loss of k outputs there are k such directions, and the label is the index of the
        largest u.x. A key gives the same rows at every width.

        Args:
            num_train, num_test, dim: n, m, d.
            num_features: p; None for infinite width.
            activation: phi, elementwise, default tanh.
            inputs: sampler of rows: `gaussian_inputs` (default, the paper's experiments),
                `jaxdp.problems.sphere_inputs`, or a function with their signature.
            loss: loss of a row, one of `jaxdp.losses`, default `Squared()`.
            key: a `jax.random.key`.
        """
        require_key(key)
        require_callable("inputs", inputs, "a function such as jaxdp.problems.sphere_inputs")
        require_loss(loss)
        num_train = require_count("num_train", num_train)
        num_test = require_count("num_test", num_test)
        dim = require_count("dim", dim)
        # Apart from the keys of simulators, so that a problem and its runs can share one.
        key = stream_key(key, "RandomFeatures")
        teacher_key, train_key, test_key = jr.split(purpose_key(key, "data"), 3)
        outputs = loss.num_outputs
        teacher = jr.normal(teacher_key, (dim,) if outputs is None else (dim, outputs))
        teacher = teacher / jnp.linalg.norm(teacher, axis=0, keepdims=True)
        train = inputs(num_train, dim, key=train_key)
        test = inputs(num_test, dim, key=test_key)

        def labels(rows):
            found = jnp.matmul(rows, teacher, precision=Precision.HIGHEST)
            return jnp.sign(found) if outputs is None else jnp.argmax(found, axis=1)

        weights = None
        if num_features is not None:
            shape = (require_count("num_features", num_features), dim)
            weights = jr.normal(purpose_key(key, "init"), shape) / jnp.sqrt(dim)
        rows = train, labels(train), test, labels(test)
        return cls.from_arrays(*rows, weights, activation, loss=loss)

    @property
    def dim(self) -> int:
        """d, the number of inputs."""
        return self.train_inputs.shape[1]

    @property
    def num_features(self):
        return None if self.weights is None else self.weights.shape[0]

    def train_features(self):
        return self._features(self.train_inputs)

    def test_features(self):
        return self._features(self.test_inputs)

    def joint_kernel(self) -> np.ndarray | Float[Array, "rows rows"]:
        r"""The kernel of all rows, training rows first, (n + m, n + m).

        Explicit features: $\sum_j\phi(v_j\cdot x)\phi(v_j\cdot x')$, so kernels of two sets of
        weights add up. Infinite width: the mean instead of the sum, in float64.
        """
        inputs = (self.train_inputs, self.test_inputs)
        if self.weights is None:
            if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
                raise TypeError(
                    "expected inputs with known values for the kernel of infinite width, got "
                    "traced ones; build the problem outside jit and vmap, or give it weights"
                )
            return infinite_width_kernel(self.activation, np.concatenate(inputs))
        return _gram(self.activation, jnp.concatenate(inputs), self.weights)

    def host_features(self):
        if self.weights is None:
            root = triangular_root(np.asarray(self.joint_kernel()), KERNEL_ACCURACY)
            return split_factor(root, self.num_train)[:2]
        inputs = np.asarray(self.train_inputs), np.asarray(self.test_inputs)
        rows = np.concatenate(inputs).astype(np.float64)
        weights = np.asarray(self.weights, np.float64)
        blocks = np.split(weights, range(_HOST_BLOCK, len(weights), _HOST_BLOCK))
        found = [evaluate_on_host(self.activation, rows @ block.T) for block in blocks]
        both = np.concatenate(found, axis=1)
        require_finite("features", both)
        return seen_on_host(both[: self.num_train], both[self.num_train :])

    @property
    def host_accuracy(self):
        # Directions that a kernel's root keeps are far longer than this, the others far shorter.
        return _ROOT_ACCURACY if self.weights is None else 0.0

    def _features(self, inputs):
        if self.weights is None:
            raise NotCoveredError(
                "infinitely many features cannot be written down; use FunctionSpace() or a theory"
            )
        products = jnp.matmul(inputs, self.weights.T, precision=Precision.HIGHEST)
        features = self.activation(products)
        require_shape("features", features, products.shape)
        require_finite("features", features)
        return features.astype(products.dtype)


@eqx.filter_jit
def _gram(activation, inputs, weights):
    count, dim = weights.shape
    size = min(count, _BLOCK_FEATURES)
    num_blocks = -(-count // size)
    padded = jnp.pad(weights, ((0, num_blocks * size - count), (0, 0)))
    is_feature = jnp.arange(num_blocks * size) < count
    dtype = float_dtype(inputs, weights)

    def add(total, block):
        weights, is_feature = block
        products = jnp.matmul(inputs, weights.T, precision=Precision.HIGHEST)
        features = jnp.where(is_feature, activation(products), 0).astype(dtype)
        return total + jnp.matmul(features, features.T, precision=Precision.HIGHEST), None

    blocks = padded.reshape(num_blocks, size, dim), is_feature.reshape(num_blocks, size)
    total, _ = lax.scan(add, jnp.zeros((len(inputs),) * 2, dtype), blocks)
    return total
