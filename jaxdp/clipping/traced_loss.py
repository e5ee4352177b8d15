"""The loss of one sample, traced: what the rest of the folder reads."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxdp.clipping.program import Program, trace


def batch_size(inputs: PyTree[Array], targets: PyTree[Array]) -> int:
    """The length of the leading axis that every leaf shares.

    Raises:
        TypeError: a leaf is not an array.
        ValueError: there is no leaf, or the leading axes differ.
    """
    sizes = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path((inputs, targets))[0]:
        name = ("inputs", "targets")[path[0].idx] + jax.tree_util.keystr(path[1:])
        if not eqx.is_array_like(leaf) or not hasattr(leaf, "shape"):
            raise TypeError(f"expected {name} to be an array, got {type(leaf).__name__}")
        if not leaf.shape:
            raise ValueError(f"expected {name} to have a leading batch axis, got a scalar")
        sizes[name] = leaf.shape[0]
    if len(set(sizes.values())) != 1:
        found = ", ".join(f"{name}: {size}" for name, size in sizes.items()) or "no arrays"
        raise ValueError(f"expected one leading batch axis of inputs and targets, got {found}")
    return next(iter(sizes.values()))


def refuse_mixing_layers(model: PyTree) -> None:
    """Raise ValueError if a layer of the model normalises over the batch."""

    def is_mixing(node):
        return isinstance(node, eqx.nn.BatchNorm) and not node.inference

    for path, node in jax.tree_util.tree_flatten_with_path(model, is_leaf=is_mixing)[0]:
        if is_mixing(node):
            raise ValueError(
                "expected layers that treat each sample alone, got BatchNorm at "
                f"model{jax.tree_util.keystr(path)}: it mixes samples, so that no clipping of "
                "one sample's gradient bounds its influence; use GroupNorm or LayerNorm"
            )


def trace_loss(
    loss: Callable[[Any, Any, Any], Any],
    model: PyTree,
    inputs: PyTree[Array],
    targets: PyTree[Array],
) -> Program:
    """Trace the loss at one sample of the batch's shape; weights are the inexact arrays.

    Raises:
        ValueError: the loss is not a real scalar, or reaches other samples by a named axis.
    """
    leaves, structure = jax.tree.flatten(eqx.filter(model, eqx.is_inexact_array))
    static = eqx.filter(model, eqx.is_inexact_array, inverse=True)
    batch, sample_structure = jax.tree.flatten((inputs, targets))
    sample = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in batch]

    def of_leaves(leaves, sample):
        whole = eqx.combine(jax.tree.unflatten(structure, leaves), static)
        value = jnp.asarray(loss(whole, *jax.tree.unflatten(sample_structure, sample)))
        if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(
                "expected loss(model, input, target) of one sample to be a real scalar, "
                f"got {value.dtype} of shape {value.shape}"
            )
        return value

    try:
        program = trace(of_leaves, leaves, sample)
    except NameError as error:
        if "axis name" not in str(error):
            raise
        raise ValueError(
            f"expected a loss of one sample alone, got one that reaches others: {error}"
        ) from error
    for step in program.steps:
        for equation in step.equations():
            if names := _named_axes(equation.params):
                raise ValueError(
                    "expected a loss of one sample alone, got one that reaches other samples by "
                    f"{equation.primitive.name} over the axis {', '.join(names)}"
                )
    return program


def _named_axes(params: dict[str, Any]) -> list[str]:
    """The axes bound outside the loss that an operation runs over."""
    axes = [params.get("axes", ()), params.get("axis_name", ())]
    flat = [axis for group in axes for axis in (group if isinstance(group, tuple) else (group,))]
    return [str(axis) for axis in flat if not isinstance(axis, (int, np.integer))]
