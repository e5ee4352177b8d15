r"""An attack that is given what DR's Theorems 1 and 2 assume: the span of the rows' features.

The theorems assume of a guess that the features $\varphi(x_i)$ of every training row lie in the
span of the guess's features. An attack on trained parameters knows less: one vector of the span of
the training rows' features, for each output. Here the assumption itself is turned into a loss,
$\sum_i|P^\perp_{\hat\Phi}\varphi(x_i)|^2/\sum_i|\varphi(x_i)|^2$, which is that of a target whose n
outputs are the rows' features. It has n (p - n) equations for n (d - 1) unknowns, so that the rows
are determined from about p = n + d on. The law p = dn is that of the attack which knows one vector.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.attacks.random_features_target import RandomFeaturesTarget
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import require_shape


def span_target(
    inputs: Float[Array, "n dim"],
    weights: Float[Array, "features dim"],
    activation: Callable[[Array], Array],
) -> RandomFeaturesTarget:
    r"""A target that holds the span of the training rows' features, as Theorem 1's hypothesis does.

    `reconstruct(target, n, key=key)` minimises the share of the rows' features that the guess does
    not span; a `converged` answer meets the hypothesis of Theorem 1.

    Source: DR Theorem 1, Theorem 2 and (16).

    Args:
        inputs: the training rows X.
        weights: V in memory.
        activation: phi, elementwise.

    Returns:
        A target with n outputs.

    Raises:
        ValueError: shapes do not match.
        TypeError: an argument is of another kind.

    Example:
        >>> import jax
        >>> from jaxdp.attacks import reconstruct, reconstruction_error, span_target
        >>> from jaxdp.problems import sphere_inputs
        >>> rows = sphere_inputs(3, 4, key=jax.random.key(0))
        >>> weights = jax.random.normal(jax.random.key(1), (40, 4)) / 2
        >>> target = span_target(rows, weights, jax.nn.relu)
        >>> found = reconstruct(target, 3, key=jax.random.key(2))
        >>> reconstruction_error(rows, found.inputs) < 0.01
        True
    """
    rows, neurons = as_wide_float(inputs, "inputs"), as_wide_float(weights, "weights")
    require_shape("weights", neurons, (None, None))
    require_shape("inputs", rows, (None, neurons.shape[1]))
    features = activation(jnp.matmul(neurons, rows.T, precision=Precision.HIGHEST))
    return RandomFeaturesTarget(neurons, activation, features)
