r"""Trained networks as targets: their layers, and what training changed in the last one.

Source: DR Section 5.2. The attacker holds the trained weights of every layer and the last layer's
first weights. Where only the last layer was trained its change lies in the span of the rows'
features; where all layers were, it does so only as far as the features kept still, and the true
rows have a loss above zero.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.attacks.network_target import NetworkTarget
from jaxdp.attacks.random_features_target import RandomFeaturesTarget
from jaxdp.core.checks import require_shape
from jaxdp.networks import AbstractLastLayerNetwork, TwoLayerNetwork


def two_layer_target(
    trained: TwoLayerNetwork, last_start: Float[Array, "outputs width"]
) -> RandomFeaturesTarget:
    r"""The trained $W_1$ as V, and $(W_2 - W_{2,0})^\top$, (h, k), as the parameters.

    It has p(L) = k h parameters, and a span of k directions among h features.

    Args:
        trained: after training.
        last_start: its last layer before.

    Raises:
        ValueError: `last_start` is of another shape, the last layer has not moved, or a weight is
            not finite.
    """
    return RandomFeaturesTarget(trained.hidden, jax.nn.relu, _change(trained, last_start))


def network_target(
    trained: AbstractLastLayerNetwork, last_start: Float[Array, "outputs features"]
) -> NetworkTarget:
    """The trained layers up to the last, of any network; arguments as `two_layer_target`."""
    return NetworkTarget(trained.features, _change(trained, last_start), trained.in_size)


def _change(trained, last_start) -> Float[Array, "features outputs"]:
    last_start = jnp.asarray(last_start, trained.last.dtype)
    require_shape("last_start", last_start, trained.last.shape)
    return (trained.last - last_start).T
