r"""The last linear layer of any Equinox model, and the features that enter it.

A step of gradient descent adds $\sum_i r_i\varphi(x_i)^\top$ to the weights of a linear layer, with
$\varphi(x_i)$ the features of row i, which enter the layer, and $r_i$ proportional to the
derivative of the loss in the layer's output. A bias, a final activation and the choice of the loss
change $r_i$ alone: the change of the weights lies in the span of the rows' features whatever they
are.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.core.checks import require_kind

LastLayer = Callable[[Any], eqx.nn.Linear]


class IntoLastLayer(eqx.Module):
    """A model as a function of one input to what comes into its last layer.

    Args:
        model: the whole model; everything behind the last layer is computed and not used.
        last: from the model to that layer.
    """

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
    """The layer itself, that also tells what it is called with."""

    layer: eqx.nn.Linear
    tell: Callable[[Any], None] = eqx.field(static=True)

    def __call__(self, input, *, key=None):
        self.tell(input)
        return self.layer(input, key=key)


def last_layer_of(model: Any, last: LastLayer | None) -> LastLayer:
    """The selector that was given, or the one of an MLP or Sequential that ends in a Linear.

    Raises:
        TypeError: the model is no Equinox module, or `last` does not lead to an `eqx.nn.Linear`.
        ValueError: the last layer is not linear, or cannot be told.
    """
    expected = "an Equinox model, such as eqx.nn.MLP(...)"
    require_kind("trained", model, eqx.Module, expected)
    if last is None:
        return _found(model)
    if not callable(last):
        raise TypeError(f"expected last to be a function, lambda model: model.head, got {last!r}")
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
        named = [f"model{jax.tree_util.keystr(path)}" for path, _ in linear_layers(model)]
        has = f"its eqx.nn.Linear layers are {', '.join(named)}" if named else "it has no Linear"
        raise ValueError(
            f"expected last, from the model to its last linear layer, such as lambda model: "
            f"model.head, for {type(model).__name__}: {has}"
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


def linear_layers(model: Any) -> list[tuple[Any, eqx.nn.Linear]]:
    """All linear layers of a model with their places, in the order of its fields."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(
        model, is_leaf=lambda node: isinstance(node, eqx.nn.Linear)
    )
    return [(path, leaf) for path, leaf in leaves if isinstance(leaf, eqx.nn.Linear)]
