r"""The penultimate layer of a trained network as a target, whatever its layers are.

A step of gradient descent adds $\sum_i r_i\varphi(x_i)^\top$ to the weights of a linear layer, with
$\varphi(x_i)$ its input for row i, whatever the loss. So if the last layer alone was trained, the
change of its weights lies in the span of the rows' features; if all layers were trained, only as
far as the features did not change, and the true rows have a loss above zero; after Adam, which
scales each weight's step, or weight decay, not at all. Source: DR Sections 5.2 and 5.3.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from jaxdp.attacks.base import AbstractBlock, AbstractTarget, Linearisation, as_parameters
from jaxdp.attacks.random_features_target import RandomFeaturesTarget
from jaxdp.core.arrays import as_float
from jaxdp.core.checks import (
    require_callable,
    require_count,
    require_finite,
    require_function,
    require_kind,
    require_shape,
)
from jaxdp.core.numerics.precision import full_products

# Random directions over which the Jacobians' inner products are averaged.
_PROBES = 4


class NetworkBlock(AbstractBlock):
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
    r"""The target of an attack on a network: its trained layers, and the last layer's change.

    Args:
        features: a callable pytree, such as an Equinox module, from one input (d,) to (p,).
        parameters: $\theta - \theta_0$ of the last layer, (p,) or (p, k), not all zero.
        dim: d.

    Raises:
        ValueError, TypeError: the features are not (p,), something is not finite, or all
            parameters are zero.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from jaxdp.attacks import NetworkTarget
        >>> body = jax.tree_util.Partial(jnp.matmul, jnp.ones((5, 3)))
        >>> NetworkTarget(body, jnp.ones((5, 2)), dim=3).num_features
        5
    """

    num_blocks: ClassVar[int] = 1
    parameters: Float[Array, "..."]
    network: Callable[[Array], Array]
    input_size: int = eqx.field(static=True)

    def __init__(self, features: Any, parameters: Float[Any, "..."], dim: int):
        self.network = features
        require_function("features", features, "a callable")
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
        # The constructor's `features` map one input, the method maps many.
        return self.network if name == "features" else getattr(self, name)

    @property
    def dim(self):
        return self.input_size

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
    """The shape of one input's features; None if they are not an array."""
    try:
        made = eqx.filter_eval_shape(features, input)
    # The network may raise anything: shapes, host arrays, dropout without a key.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"expected features that map one input of shape {input.shape} by JAX operations, "
            f"got {type(error).__name__}: {reason}"
        ) from error
    return getattr(made, "shape", None)


LastLayer = Callable[[Any], eqx.nn.Linear]


class _IntoLastLayer(eqx.Module):
    """A model as a function from one input to the input of its last layer."""

    model: Any
    last: LastLayer = eqx.field(static=True)

    def __call__(self, input: Float[Array, " dim"]) -> Float[Array, " features"]:
        seen: list[Any] = []
        heard = _Heard(self.last(self.model), seen.append)
        eqx.tree_at(self.last, self.model, heard)(input)
        if len(seen) != 1:
            raise ValueError(
                f"expected a model that calls its last layer once for an input, got {len(seen)} "
                "calls"
            )
        return jnp.ravel(seen[0])

    def __repr__(self):
        return f"{type(self.model).__name__} up to its last layer"


class _Heard(eqx.Module):
    """A layer that also passes its input to `tell`."""

    layer: eqx.nn.Linear
    tell: Callable[[Any], None] = eqx.field(static=True)

    def __call__(self, input, *, key=None):
        self.tell(input)
        return self.layer(input, key=key)


def _last_layer_of(model: Any, last: LastLayer | None) -> LastLayer:
    require_kind("trained", model, eqx.Module, "an Equinox model, such as eqx.nn.MLP(...)")
    if last is None:
        return _found(model)
    require_callable("last", last, "a function, lambda model: model.head")
    expected = "a function from the model to an eqx.nn.Linear"
    try:
        layer = last(model)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise TypeError(
            f"expected last to be {expected}, got {type(error).__name__}: {error}"
        ) from None
    if not isinstance(layer, eqx.nn.Linear):
        raise TypeError(f"expected last to be {expected}, it leads to {type(layer).__name__}")
    return last


def _found(model) -> LastLayer:
    if isinstance(model, eqx.nn.Linear):
        raise ValueError("expected layers before the last one, got one eqx.nn.Linear")
    if not isinstance(model, (eqx.nn.MLP, eqx.nn.Sequential)):
        raise ValueError(
            f"expected last, from the model to its last linear layer, such as lambda model: "
            f"model.head, for {type(model).__name__}"
        )
    if not model.layers:
        raise ValueError(f"expected a {type(model).__name__} with layers, got none")
    end = model.layers[-1]
    if isinstance(end, eqx.nn.Linear):
        return _last_of_layers
    if isinstance(end, (eqx.nn.MLP, eqx.nn.Sequential)):
        inner = _found(end)
        return lambda model: inner(model.layers[-1])
    raise ValueError(
        f"expected a model whose last layer is an eqx.nn.Linear, got {type(end).__name__}; where a "
        "linear layer comes before it, name it: last=lambda model: model.layers[...]"
    )


def _last_of_layers(model) -> eqx.nn.Linear:
    return model.layers[-1]


def two_layer_target(trained: eqx.nn.MLP, last_start: Any) -> AbstractTarget:
    r"""The target of a two-layer network: $W_1$ as V, $(W_2 - W_{2,0})^\top$ as the parameters.

    The rows' hidden features span the change of the last layer, if gradient descent without weight
    decay trained it. With h hidden units and k outputs the target has k h parameters.

    Args:
        trained: the trained network, an `eqx.nn.MLP` of depth 1, else ValueError or TypeError.
        last_start: its last layer before training: the weights, (k, h), or the `eqx.nn.Linear`.

    Returns:
        A `RandomFeaturesTarget`, or the `NetworkTarget` of the same features if the hidden layer
        has biases or the activation has parameters.

    Example:
        >>> import equinox as eqx, jax
        >>> from jaxdp.attacks import two_layer_target
        >>> network = eqx.nn.MLP(3, 2, 40, depth=1, key=jax.random.key(0))
        >>> two_layer_target(network, last_start=0.5 * network.layers[-1].weight).num_outputs
        2
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
    trained: eqx.Module, last_start: Any, *, last: LastLayer | None = None, dim: int | None = None
) -> NetworkTarget:
    """The target of any Equinox model: the trained layers up to the last linear one.

    Args:
        trained: the trained model of one flat input (d,): an `eqx.nn.MLP`, an `eqx.nn.Sequential`
            that ends in an `eqx.nn.Linear`, or any module together with `last`. Layers that need a
            key or a state, such as dropout, must be in inference mode (`eqx.nn.inference_mode`).
        last_start: the last layer before training: its weights, (k, p), or the `eqx.nn.Linear`. If
            it has not moved, or is no linear layer, a ValueError or TypeError is raised.
        last, dim: the selector of the last `eqx.nn.Linear`, such as `lambda model: model.head`, and
            d; None if an MLP or Sequential determines them.

    Returns:
        The target for `reconstruct`.

    Raises:
        ValueError, TypeError: the last layer is not an `eqx.nn.Linear`, cannot be found, or has not
            moved.

    Example:
        >>> import equinox as eqx, jax
        >>> from jaxdp.attacks import network_target
        >>> network = eqx.nn.MLP(3, 2, 40, depth=2, key=jax.random.key(0))
        >>> network_target(network, last_start=0.5 * network.layers[-1].weight).num_features
        40
    """
    last = _last_layer_of(trained, last)
    change = _change(last(trained).weight, last_start)
    size = _input_size(trained) if dim is None else require_count("dim", dim)
    return NetworkTarget(_IntoLastLayer(trained, last), change, size)


def _input_size(model) -> int:
    first = model
    while isinstance(first, (eqx.nn.MLP, eqx.nn.Sequential)):
        first = first.layers[0]
    if isinstance(first, eqx.nn.Linear) and first.in_features != "scalar":
        return int(first.in_features)
    raise ValueError(
        f"expected dim, the length d of an input, for {type(model).__name__}, whose first layer is "
        "not an eqx.nn.Linear of vectors"
    )


def _kind_of(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _change(after: Array, before: Any) -> Float[Array, "features outputs"]:
    before = before.weight if isinstance(before, eqx.nn.Linear) else before
    if isinstance(before, eqx.Module):
        raise TypeError(
            "expected last_start to be the last layer before training, its weights or the "
            f"eqx.nn.Linear, got {_kind_of(before)}"
        )
    before = as_float(before, "last_start").astype(after.dtype)
    require_shape("last_start", before, after.shape)
    return (jnp.asarray(after) - before).T
