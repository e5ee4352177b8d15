"""The penultimate layer of a trained network as a target, whatever its layers are.

Source: DR Section 5.3: the last layer's change lies in the span of the penultimate features.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from jaxdp.attacks.base import AbstractBlock, AbstractTarget, Linearisation, as_parameters
from jaxdp.core.checks import require_count, require_finite
from jaxdp.core.numerics.precision import full_products

# Independent directions that the Jacobians' inner products are averaged over.
_PROBES = 4


class NetworkBlock(AbstractBlock):
    """All features of a network."""

    parameters: Float[Array, "rows outputs"]
    network: Callable[[Array], Array]

    def features(self, inputs):
        # Accelerators' default products leave a loss of 1e-6 at the truth.
        with full_products():
            return jax.vmap(self.network)(inputs)

    def linearised(self, inputs):
        features, push_forward = jax.linearize(self.features, inputs)
        transposed = jax.linear_transpose(push_forward, inputs)
        return Linearisation(features, push_forward, lambda cotangents: transposed(cotangents)[0])

    def row_coupling(self, inputs, *, key):
        # E <J_i^T z, J_j^T z> = tr(J_i J_j^T) for the same standard normal z in every row.
        features, pull_back = jax.vjp(self.features, inputs)

        def probed(key):
            probe = jr.normal(key, features.shape[1:], features.dtype)
            (pulled,) = pull_back(jnp.broadcast_to(probe, features.shape))
            return pulled @ pulled.T

        products = jax.lax.map(probed, jr.split(key, _PROBES))
        return products.mean(0) / inputs.shape[1]


class NetworkTarget(AbstractTarget):
    r"""What the attacker of a network holds: its trained layers, and the last one's change.

    Args:
        features: an Equinox module (or any callable pytree) from one input (d,) to the penultimate
            layer (p,).
        parameters: $\theta - \theta_0$ of the last layer, (p,) or (p, k).
        dim: d.

    Raises:
        ValueError: the features are not (p,), something is not finite, or all parameters are zero.
        TypeError: `features` is no callable, or `dim` no whole number.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import NetworkTarget
        >>> weights = np.ones((5, 3), np.float32)
        >>> body = jax.tree_util.Partial(lambda weights, x: jax.nn.relu(weights @ x), weights)
        >>> target = NetworkTarget(body, np.ones((5, 2), np.float32), dim=3)
        >>> target.num_features, target.num_outputs, target.dim
        (5, 2, 3)
    """

    parameters: Float[Array, "..."]
    network: Callable[[Array], Array]
    input_size: int = eqx.field(static=True)

    def __init__(self, features: Any, parameters: Float[Any, "..."], dim: int):
        self.network = features
        if not callable(features) or isinstance(features, type):
            raise TypeError(f"expected features to be a callable, got {features!r}")
        self.parameters = as_parameters(parameters)
        self.input_size = require_count("dim", dim)
        for leaf in jax.tree.leaves(eqx.filter(features, eqx.is_inexact_array)):
            require_finite("weights of the network", leaf)
        shape = _feature_shape(features, jnp.zeros(self.input_size, self.parameters.dtype))
        if shape != (self.num_features,):
            is_transposed = self.parameters.shape[1:] == shape
            raise ValueError(
                f"expected features of shape ({self.num_features},), one for each row of the "
                f"parameters, got {shape}"
                + ("; transpose the parameters to (p, k)" if is_transposed else "")
            )

    def _argument(self, name):
        # The constructor's `features` are of one input, the target's own of many.
        return self.network if name == "features" else getattr(self, name)

    @property
    def dim(self):
        return self.input_size

    @property
    def num_blocks(self):
        return 1

    def block(self, index):
        return NetworkBlock(
            self.parameters.reshape(self.num_features, self.num_outputs), self.network
        )

    def in_blocks(self, num_rows):
        return self

    def widened(self):
        return jax.tree.map(
            lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf, self
        )

    def _positions(self, index):
        return jnp.arange(self.num_features)


def _feature_shape(features, input):
    """The shape of one input's features, None where they are no array."""
    try:
        made = eqx.filter_eval_shape(features, input)
    # Whatever the network raises: shapes, host arrays, dropout without a key.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"expected features that map one input of shape {input.shape} by JAX operations, "
            f"got {type(error).__name__}: {reason}"
        ) from error
    return getattr(made, "shape", None)
