"""Fully-connected ReLU classifiers without biases, their loss and their accuracy.

Source: PF Section 5, which trains two layers; here any number.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jax import lax
from jaxtyping import Array, Float, Int, Key

from jaxdp.core.arrays import as_numbers
from jaxdp.core.checks import require_callable, require_count, require_key
from jaxdp.core.keys import purpose_key
from jaxdp.core.meshes import on_auto_axes

_BATCH = 1000


def relu_network(
    in_size: int, width: int, num_classes: int, *, num_hidden: int = 1, key: Key[Array, ""]
) -> eqx.nn.MLP:
    r"""A network of `num_hidden` ReLU layers of one width and a linear last layer, no biases.

    Weights are independent $N(0, 2/\text{fan-in})$ in every layer.
    Source: He et al. (2015), "Delving deep into rectifiers", equation (10).

    Args:
        in_size: number of inputs.
        width: of each hidden layer.
        num_classes: number of outputs, the logits.
        num_hidden: how many hidden layers, >= 1.
        key: of the weights.

    Returns:
        An Equinox model of one input.

    Raises:
        ValueError, TypeError: a size is not a whole number >= 1.

    Example:
        >>> import jax
        >>> from jaxdp.networks import num_parameters, relu_network
        >>> num_parameters(relu_network(3, 40, 2, key=jax.random.key(0)))
        200
    """
    sizes = {"in_size": in_size, "width": width, "num_classes": num_classes}
    sizes["num_hidden"] = num_hidden
    for name, value in sizes.items():
        require_count(name, value)
    require_key(key)
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


def num_parameters(model: eqx.Module) -> int:
    """p, how many weights a model has.

    Args:
        model: any pytree; its inexact arrays are the weights.

    Returns:
        Their number.

    Raises:
        TypeError: it is no model: it has none.

    Example:
        >>> import numpy as np
        >>> from jaxdp.networks import num_parameters
        >>> num_parameters([np.zeros((3, 4)), np.zeros(3)])
        15
    """
    leaves = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    if not leaves:
        raise TypeError(f"expected model to hold floating-point arrays, got {type(model).__name__}")
    return sum(leaf.size for leaf in leaves)


def cross_entropy(
    model: eqx.nn.MLP, input: Float[Array, " in"], label: Int[Array, ""]
) -> Float[Array, ""]:
    """Minus the log of the softmax probability of one record's label.

    Args:
        model: from one input to its logits.
        input: of the record.
        label: its class, from 0.

    Returns:
        The loss, in nats.

    Example:
        >>> import numpy as np
        >>> from jaxdp.networks import cross_entropy
        >>> print(f"{cross_entropy(lambda row: row, np.array([2.0, 0.0, 0.0]), 0):.3f}")
        0.240
    """
    return optax.softmax_cross_entropy_with_integer_labels(model(input), label)


def accuracy(
    model: eqx.nn.MLP, inputs: Float[Array, "records in"], labels: Int[Array, " records"]
) -> Float[Array, ""]:
    """The share of records whose largest logit is their label's, some records at a time.

    Ties go to the first class; a record whose logits are not finite counts as wrong.

    Args:
        model: from one input to its logits.
        inputs: of all records.
        labels: of all records, from 0.

    Returns:
        A share, between 0 and 1.

    Raises:
        TypeError: the model cannot be called, or inputs or labels are no numbers.
        ValueError: there is not one label a record.

    Example:
        >>> import numpy as np
        >>> from jaxdp.networks import accuracy
        >>> logits = np.array([[2.0, 1.0], [0.0, 1.0], [3.0, 1.0]])
        >>> print(f"{accuracy(lambda row: row, logits, np.array([0, 1, 1])):.3f}")
        0.667
    """
    require_callable("model", model, "a model, a function of one input")
    inputs = jnp.asarray(as_numbers(inputs, "inputs"))
    labels = jnp.asarray(as_numbers(labels, "labels"))
    if inputs.ndim < 2 or labels.shape != inputs.shape[:1]:
        raise ValueError(
            f"expected inputs of shape (records, ...) and one of labels each, got {inputs.shape} "
            f"and {labels.shape}"
        )
    return _accuracy(model, inputs, labels)


@eqx.filter_jit
@on_auto_axes
def _accuracy(model, inputs, labels):
    def is_right(record):
        logits = model(record[0])
        return (jnp.argmax(logits) == record[1]) & jnp.all(jnp.isfinite(logits))

    return jnp.mean(lax.map(is_right, (inputs, labels), batch_size=_BATCH), dtype=float)
