"""The loss of one sample, traced: what the rest of the folder reads."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxdp.clipping.ghost.mixing import refuse_mixing_operations
from jaxdp.clipping.ghost.program import Program, trace


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


def trace_loss(
    loss: Callable[[Any, Any, Any], Any],
    model: PyTree,
    inputs: PyTree[Array],
    targets: PyTree[Array],
) -> Program:
    """Trace the loss at one sample of the batch's shape; weights are the inexact arrays.

    Raises:
        ValueError: the loss is not a real scalar, or an operation in it or in its derivative may
            reach other samples.
    """
    leaves, structure = jax.tree.flatten(eqx.filter(model, eqx.is_inexact_array))
    static = eqx.filter(model, eqx.is_inexact_array, inverse=True)
    batch, sample_structure = jax.tree.flatten((inputs, targets))
    sample = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in batch]

    def of_leaves(leaves, sample):
        whole = eqx.combine(jax.tree.unflatten(structure, leaves), static)
        record = jax.tree.unflatten(sample_structure, sample)
        try:
            value = loss(whole, *record)
        except Exception as error:
            shapes = [jax.tree.map(lambda leaf: leaf.shape, part) for part in record]
            error.add_note(
                "raised by loss(model, input, target) at one record: inputs and targets are cut "
                f"along their leading axis, here into an input of shape {shapes[0]} and a target "
                f"of shape {shapes[1]}"
            )
            raise
        if not eqx.is_array_like(value):
            raise ValueError(
                "expected loss(model, input, target) of one sample to be a real scalar, "
                f"got {_described(value)}"
            )
        value = jnp.asarray(value)
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
    refuse_mixing_operations(program.closed, len(leaves))
    return program


def _described(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, (tuple, list)):
        return f"a {kind} of {len(value)}: return the loss alone, without auxiliary outputs"
    return kind
