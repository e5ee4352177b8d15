"""Fully-connected ReLU classifiers without biases, their loss and their accuracy.

Source: PF Section 5, which trains two layers; here any number.
"""

import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import optax
from jax import lax
from jaxtyping import Array, Float, Int, Key

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


def cross_entropy(
    model: eqx.nn.MLP, input: Float[Array, " in"], label: Int[Array, ""]
) -> Float[Array, ""]:
    """Minus the log of the softmax probability of one record's label, in nats."""
    return optax.softmax_cross_entropy_with_integer_labels(model(input), label)


def accuracy(
    model: eqx.nn.MLP, inputs: Float[Array, "records in"], labels: Int[Array, " records"]
) -> Float[Array, ""]:
    """The share of records whose largest logit is their label's, some records at a time.

    Ties go to the first class; a record whose logits are not finite counts as wrong.
    """
    inputs, labels = jnp.asarray(inputs), jnp.asarray(labels)
    return _accuracy(model, inputs, labels)


@eqx.filter_jit
def _accuracy(model, inputs, labels):
    def is_right(record):
        logits = model(record[0])
        return (jnp.argmax(logits) == record[1]) & jnp.all(jnp.isfinite(logits))

    return jnp.mean(lax.map(is_right, (inputs, labels), batch_size=_BATCH), dtype=float)
