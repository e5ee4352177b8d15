r"""Trained parameters of random features in closed form, as victims of attacks.

They lie in the span of the n training rows' features, $\theta = \Phi^\top c$; c follows from the
Gram matrix $K = \Phi\Phi^\top$, on the host in float64. V is read block by block.
"""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from jaxdp.attacks.base import require_activation
from jaxdp.attacks.random_features_target import RegeneratedWeights
from jaxdp.core.arrays import as_wide_float, float_dtype
from jaxdp.core.checks import require_count, require_finite, require_positive, require_shape
from jaxdp.core.numerics.hermite import evaluate_on_host
from jaxdp.losses import Squared

# Numbers in a copy of a block of V in float64.
_BLOCK_NUMBERS = 2**23
# Least eigenvalue of a Gram matrix, relative to its trace, that rounding cannot explain.
_SINGULAR = 1e-14


def minimum_norm_parameters(
    inputs: Float[Any, "n dim"],
    labels: Float[Any, " n"] | Float[Any, "n outputs"],
    weights: Float[Any, "features dim"] | RegeneratedWeights,
    activation: Callable[[Array], Array],
) -> Float[Array, " features"] | Float[Array, "features outputs"]:
    r"""The least-squares fit of least norm, $\theta^* = \Phi^+ Y$; it interpolates for p > n.

    Gradient descent from 0 converges to it. Source: DR (2).

    Args:
        inputs: X, (n, d). For p > n their features must be linearly independent, else ValueError:
            no two rows are equal, and none is zero.
        labels: Y, (n,), or (n, k) for k outputs.
        weights, activation: V, (p, d), or `RegeneratedWeights`, and phi, elementwise.

    Returns:
        The parameters, (p,) or (p, k), in the precision of the arguments.

    Raises:
        ValueError: p > n and the rows' features are linearly dependent, for example two equal rows.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import minimum_norm_parameters
        >>> weights = np.random.default_rng(0).normal(size=(40, 3))
        >>> minimum_norm_parameters(np.eye(3)[:2], np.ones(2), weights, jax.nn.relu).shape
        (40,)
    """
    features, columns, finish = _prepared(inputs, labels, weights, activation)
    if features.shape[1] <= len(features):
        return finish(np.linalg.lstsq(features, columns)[0])
    gram = features @ features.T
    values, vectors = np.linalg.eigh(gram)
    if not values[0] > _SINGULAR * np.trace(gram):
        involved = np.flatnonzero(np.abs(vectors[:, 0]) > 0.1)
        raise ValueError(
            "expected rows with linearly independent features, got dependent ones, in rows "
            f"{', '.join(map(str, involved))}: are two rows equal, or one constant and scaled to "
            "zero?"
        )
    return finish(features.T @ scipy.linalg.cho_solve((np.linalg.cholesky(gram), True), columns))


def gradient_descent_parameters(
    inputs: Float[Any, "n dim"],
    labels: Float[Any, " n"] | Float[Any, "n outputs"],
    weights: Float[Any, "features dim"] | RegeneratedWeights,
    activation: Callable[[Array], Array],
    *,
    learning_rate: float,
    num_steps: int,
    clip_norm: float | None = None,
) -> Float[Array, " features"] | Float[Array, "features outputs"]:
    r"""Parameters after some steps of full-batch clipped gradient descent from 0, as in `DPGD`.

    Without noise: $\theta \leftarrow \theta - \frac\eta n\sum_i \min(1, C/|g_i|)\, g_i$ with $g_i$
    the gradient of $|\theta^\top\varphi(x_i) - y_i|^2$, a multiple of $\varphi(x_i)$, so the n
    coefficients of the rows follow an exact recursion. Derived: test_interpolation, against the
    recursion in p dimensions.

    Args:
        inputs, labels, weights, activation: the arguments of `minimum_norm_parameters`.
        learning_rate, num_steps: eta > 0, and T; steps that diverge raise ValueError.
        clip_norm: C > 0, bound on the (Frobenius) norm of one row's gradient; None for no clipping.

    Returns:
        The parameters, (p,) or (p, k), in the precision of the arguments.

    Raises:
        ValueError: the steps diverged because the learning rate is too large.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import gradient_descent_parameters
        >>> victim = np.eye(2), np.ones(2), np.ones((40, 2)), jax.nn.relu
        >>> gradient_descent_parameters(*victim, learning_rate=0.02, num_steps=100).shape
        (40,)
    """
    require_positive("learning_rate", learning_rate)
    clip_norm = np.inf if clip_norm is None else clip_norm
    require_positive("clip_norm", clip_norm, infinite=True)
    num_steps = require_count("num_steps", num_steps)
    features, columns, finish = _prepared(inputs, labels, weights, activation)
    gram = features @ features.T
    lengths = np.sqrt(np.diag(gram))
    coefficients = np.zeros_like(columns)
    steepness, rate = Squared().curvature_bound, float(learning_rate) / len(columns)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(num_steps):
            slopes = steepness * (gram @ coefficients - columns)
            norms = np.linalg.norm(slopes, axis=1) * lengths
            factors = np.minimum(1, clip_norm / np.maximum(norms, np.finfo(float).tiny))
            coefficients = coefficients - rate * factors[:, None] * slopes
        parameters = features.T @ coefficients
    if not np.isfinite(parameters).all():
        raise ValueError(
            f"gradient descent diverged: expected learning_rate < n / lambda_max = "
            f"{len(gram) / np.linalg.eigvalsh(gram)[-1]:.3g}, got {learning_rate}"
        )
    return finish(parameters)


def _prepared(inputs, labels, weights, activation):
    """Features (n, p), labels (n, k), and a function from (p, k) to the caller's shape and type."""
    require_activation(activation)
    inputs, labels = as_wide_float(inputs, "inputs"), as_wide_float(labels, "labels")
    if not isinstance(weights, RegeneratedWeights):
        weights = as_wide_float(weights, "weights")
    require_shape("inputs", inputs, (None, None))
    require_shape("weights", weights, (None, inputs.shape[1]))
    require_shape("labels", labels, (len(inputs), None)[: max(labels.ndim, 1)])
    for name, value in (("inputs", inputs), ("labels", labels), ("weights", weights)):
        if not isinstance(value, RegeneratedWeights):
            require_finite(name, value)
        if 0 in value.shape:
            raise ValueError(f"expected non-empty {name}, got shape {value.shape}")
    rows = np.asarray(inputs, np.float64)
    blocks = [evaluate_on_host(activation, rows @ block.T) for block in _blocks(weights)]
    features = np.concatenate(blocks, axis=1)
    require_finite("features", features)
    dtype, shape = float_dtype(inputs, labels, weights), (features.shape[1], *labels.shape[1:])
    columns = np.asarray(labels, np.float64).reshape(len(rows), -1)
    return features, columns, lambda found: jnp.asarray(found.reshape(shape), dtype)


def _blocks(weights) -> Iterator[Float[np.ndarray, "rows dim"]]:
    count, dim = weights.shape
    if isinstance(weights, RegeneratedWeights):
        for index in range(weights.num_blocks):
            left = count - index * weights.block_size
            yield np.asarray(_compiled_block(weights, jnp.asarray(index)), np.float64)[:left]
        return
    size = max(_BLOCK_NUMBERS // dim, 1)
    for start in range(0, count, size):
        yield np.asarray(weights[start : start + size], np.float64)


_compiled_block = eqx.filter_jit(RegeneratedWeights.block)
