"""Classifiers of images, their loss and their accuracy: layers without biases, convolutions.

Source: PF Section 5, which trains two layers; here any number.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import optax
from jax import lax
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxdp.core.keys import purpose_key

_BATCH = 1000


def relu_network(
    in_size: int, width: int, num_classes: int, *, num_hidden: int = 1, key: Key[Array, ""]
) -> eqx.nn.MLP:
    r"""A network of `num_hidden` ReLU layers of one width and a linear last layer, no biases.

    Weights are independent $N(0, 2/\text{fan-in})$ in every layer.
    Source: He et al. (2015), "Delving deep into rectifiers", equation (10).
    """
    # Only its shapes: Equinox's own first weights are of another law.
    shapes = eqx.filter_eval_shape(
        eqx.nn.MLP,
        in_size,
        num_classes,
        width,
        num_hidden,
        use_bias=False,
        use_final_bias=False,
        key=key,
    )
    old = [layer.weight for layer in shapes.layers]
    keys = jr.split(purpose_key(key, "init"), len(old))
    new = [
        math.sqrt(2 / weight.shape[1]) * jr.normal(key, weight.shape, weight.dtype)
        for key, weight in zip(keys, old, strict=True)
    ]
    return eqx.tree_at(lambda model: [layer.weight for layer in model.layers], shapes, new)


class DigitNetwork(eqx.Module):
    """Two convolutions with max-pooling and two dense layers, usual for private learning on digits.

    Source: Papernot et al. (2021), Table 1: 16 kernels of 8 x 8 and 32 of 4 x 4, of stride 2, with
    tanh between them; for h in place of 16 the second convolution has 2 h kernels.
    """

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    hidden: eqx.nn.Linear
    last: eqx.nn.Linear
    activation: Callable = eqx.field(static=True)

    def __init__(self, activation: Callable, channels: int = 16, *, key: Key[Array, ""]):
        keys = jr.split(key, 4)
        self.first = eqx.nn.Conv2d(1, channels, 8, stride=2, padding=3, key=keys[0])
        self.second = eqx.nn.Conv2d(channels, 2 * channels, 4, stride=2, key=keys[1])
        self.hidden = eqx.nn.Linear(32 * channels, 32, key=keys[2])
        self.last = eqx.nn.Linear(32, 10, key=keys[3])
        self.activation = activation

    def __call__(self, image: Float[Array, "1 28 28"]) -> Float[Array, " classes"]:
        found = _pooled(self.activation(self.first(image)))
        found = _pooled(self.activation(self.second(found)))
        return self.last(self.activation(self.hidden(found.ravel())))


def digit_layers(nn, activation: Callable, channels: int = 16) -> list:
    """The network from `torch.nn`, its parameters in the order of the leaves of `DigitNetwork`."""
    return [
        *(nn.Conv2d(1, channels, 8, 2, padding=3), activation(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(channels, 2 * channels, 4, 2), activation(), nn.MaxPool2d(2, 1)),
        *(nn.Flatten(), nn.Linear(32 * channels, 32), activation(), nn.Linear(32, 10)),
    ]


def _pooled(found: Float[Array, "channels side side"]) -> Float[Array, "channels less less"]:
    """The largest of every 2 x 2 places, at stride 1."""
    return lax.reduce_window(found, -jnp.inf, lax.max, (1, 2, 2), (1, 1, 1), "VALID")


def cross_entropy(model: PyTree, input: Array, label: Int[Array, ""]) -> Float[Array, ""]:
    """Minus the log of the softmax probability of one record's label, in nats."""
    return optax.softmax_cross_entropy_with_integer_labels(model(input), label)


@eqx.filter_jit
def accuracy(
    model: eqx.nn.MLP, inputs: Float[Array, "records in"], labels: Int[Array, " records"]
) -> Float[Array, ""]:
    """The share of records whose largest logit is their label's, some records at a time.

    Ties go to the first class; a record whose logits are not finite counts as wrong.
    """

    def is_right(record):
        logits = model(record[0])
        return (jnp.argmax(logits) == record[1]) & jnp.all(jnp.isfinite(logits))

    return jnp.mean(lax.map(is_right, (inputs, labels), batch_size=_BATCH), dtype=float)
