r"""Trained networks as targets: their layers, and what training changed in the last one.

Source: DR Section 5.2. The attacker holds the trained weights of every layer and the last layer's
first weights. Where only the last layer was trained its change lies in the span of the rows'
features; where all layers were, it does so only as far as the features kept still, and the true
rows have a loss above zero. It does not at all after Adam, whose steps scale each weight by itself,
or after a decay of the weights.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.network_target import NetworkTarget
from jaxdp.attacks.random_features_target import RandomFeaturesTarget
from jaxdp.attacks.victims.last_layer import IntoLastLayer, LastLayer, last_layer_of
from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_count, require_shape


def two_layer_target(trained: eqx.nn.MLP, last_start: Any) -> AbstractTarget:
    r"""What the attacker of a two-layer network holds.

    The trained $W_1$ as V, and $(W_2 - W_{2,0})^\top$, (h, k), as the parameters.

    It has p(L) = k h parameters, and a span of k directions among h features.

    Args:
        trained: after training, an `eqx.nn.MLP` of depth 1.
        last_start: its last layer before: the weights, (k, h), or the `eqx.nn.Linear`.

    Returns:
        A `RandomFeaturesTarget`; of an MLP whose hidden layer has biases, or an activation with
        parameters of its own, the `NetworkTarget` of the same features.

    Raises:
        TypeError: `trained` is none.
        ValueError: `last_start` is of another shape, the last layer has not moved, a weight is not
            finite, or there are several hidden layers.

    Example:
        >>> import equinox as eqx, jax
        >>> from jaxdp.attacks import two_layer_target
        >>> network = eqx.nn.MLP(3, 2, 40, depth=1, key=jax.random.key(0))
        >>> target = two_layer_target(network, last_start=0.5 * network.layers[-1].weight)
        >>> target.num_features, target.num_outputs
        (40, 2)
    """
    if not isinstance(trained, eqx.nn.MLP):
        raise TypeError(
            "expected trained to be an eqx.nn.MLP of depth 1, "
            f"got {_kind_of(trained)}; network_target takes other models"
        )
    if trained.depth != 1:
        raise ValueError(
            f"expected an eqx.nn.MLP of one hidden layer, depth=1, got depth={trained.depth}; "
            "network_target takes any depth"
        )
    hidden, last = trained.layers
    has_parameters = jax.tree.leaves(eqx.filter(trained.activation, eqx.is_array))
    if hidden.bias is not None or has_parameters:
        return network_target(trained, last_start)
    return RandomFeaturesTarget(hidden.weight, trained.activation, _change(last.weight, last_start))


def network_target(
    trained: eqx.Module,
    last_start: Any,
    *,
    last: LastLayer | None = None,
    dim: int | None = None,
) -> NetworkTarget:
    r"""What the attacker of any Equinox model holds: the trained layers up to the last linear one.

    What comes after that layer (a bias, a final activation, the loss) does not matter, and a bias
    is not looked at: the change of the weights alone lies in the span of what came in.

    Args:
        trained: after training, from one flat input (d,): an `eqx.nn.MLP`, an `eqx.nn.Sequential`
            that ends in an `eqx.nn.Linear`, or any module together with `last`. Layers that need a
            key or a state, such as dropout, come in inference mode (`eqx.nn.inference_mode`).
        last_start: the last layer before: its weights, (k, p), or the `eqx.nn.Linear`.
        last: from the model to its last `eqx.nn.Linear`, as `lambda model: model.head`; None where
            it can be told.
        dim: d; None for what the first layer of an MLP or Sequential takes.

    Returns:
        The target of `reconstruct`.

    Raises:
        TypeError: `trained` is no module, `last` leads to no `eqx.nn.Linear`, or `dim` is no whole
            number.
        ValueError: the last layer is not linear or cannot be told, as d, `last_start` is of another
            shape, the last layer has not moved, or a weight is not finite.

    Example:
        >>> import equinox as eqx, jax
        >>> from jaxdp.attacks import network_target
        >>> network = eqx.nn.MLP(3, 2, 40, depth=1, key=jax.random.key(0))
        >>> target = network_target(network, last_start=0.5 * network.layers[-1].weight)
        >>> target.num_features, target.num_outputs, target.dim
        (40, 2, 3)
    """
    last = last_layer_of(trained, last)
    change = _change(last(trained).weight, last_start)
    size = _input_size(trained) if dim is None else require_count("dim", dim)
    return NetworkTarget(IntoLastLayer(trained, last), change, size)


def _input_size(model) -> int:
    first = model
    while isinstance(first, (eqx.nn.MLP, eqx.nn.Sequential)):
        first = first.layers[0]
    if isinstance(first, eqx.nn.Linear) and first.in_features != "scalar":
        return int(first.in_features)
    raise ValueError(
        f"expected dim, the length d of an input: it cannot be told from {type(model).__name__}, "
        f"whose first layer is no eqx.nn.Linear of vectors"
    )


def _kind_of(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _change(after: Array, before: Any) -> Float[Array, "features outputs"]:
    before = before.weight if isinstance(before, eqx.nn.Linear) else before
    before = as_float(before).astype(after.dtype)
    require_shape("last_start", before, after.shape)
    return (jnp.asarray(after) - before).T
