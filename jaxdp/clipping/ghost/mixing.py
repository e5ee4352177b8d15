"""Layers and operations that may mix the samples of a batch, refused by name.

Clipping bounds what a sample adds to a sum only if its gradient is a function of that sample
alone. A loss of one sample is turned into one of a batch by `jax.vmap`, and nearly every operation
of JAX then does to each sample what it did to one. Those refused here do what somebody else wrote
for them. What a callback remembers from one call to the next nobody can see.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.interpreters import batching
from jaxtyping import PyTree

from jaxdp.clipping.ghost.program import all_equations

# Their batching rules are read and known to treat each sample alone.
_TRUSTED = ("jax", "jaxlib", "equinox", "lineax", "optimistix", "diffrax")


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


def refuse_mixing_operations(closed: ClosedJaxpr, num_weights: int) -> None:
    """Raise ValueError if a traced loss, or its derivative, has an operation that may mix samples.

    The derivative is looked at too, because a rule of one's own for it (`jax.custom_vjp`) shows
    only there.

    Args:
        closed: the loss of one sample as a function of its weights and the sample.
        num_weights: how many of its arguments are weights.
    """
    _refuse(all_equations(closed.jaxpr))

    def gradient(arguments):
        def loss(weights):
            return eval_jaxpr(closed.jaxpr, closed.consts, *weights, *arguments[num_weights:])[0]

        return jax.grad(loss)(arguments[:num_weights])

    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals]
    _refuse(all_equations(jax.make_jaxpr(gradient)(shapes).jaxpr))


def _refuse(equations: Iterator[JaxprEqn]) -> None:
    for equation in equations:
        name, params = equation.primitive.name, equation.params
        if axes := _named_axes(params):
            raise ValueError(
                "expected a loss of one sample alone, got one that reaches other samples by "
                f"{name} over the axis {', '.join(axes)}"
            )
        if reason := _own_batching(equation):
            raise ValueError(
                f"expected operations that treat each sample alone, got {name} {reason}, "
                "which may mix samples"
            )


def _own_batching(equation: JaxprEqn) -> str:
    """How somebody else says what an operation does to a batch; empty if nobody does."""
    params = equation.params
    method = params.get("vmap_method")
    if method is None and params.get("vectorized"):
        method = "legacy_vectorized"
    if method not in (None, "sequential", "sequential_unrolled"):
        return f"with vmap_method={method!r} (use 'sequential')"
    if equation.primitive.name == "custom_vmap_call":
        rule = params["rule"]
        names = getattr(rule, "__module__", ""), getattr(rule, "__qualname__", "")
        if names != ("jax._src.custom_batching", "sequential_vmap.<locals>.rule"):
            return f"with the rule {names[1] or rule} (use jax.custom_batching.sequential_vmap)"
        return ""
    module = _module_of_rule(equation.primitive)
    if module and module.split(".")[0] not in _TRUSTED:
        return f"with a batching rule from {module}"
    return ""


def _module_of_rule(primitive: Any) -> str:
    """Where the batching rule of a primitive was written; empty if that cannot be seen."""
    rule = None
    for name in ("fancy_primitive_batchers", "primitive_batchers", "axis_primitive_batchers"):
        rules = getattr(batching, name, None)
        if isinstance(rules, dict):
            rule = rule or rules.get(primitive)
    # The registry wraps the rule that it is given.
    for cell in getattr(rule, "__closure__", None) or ():
        if callable(cell.cell_contents) and rule.__module__.startswith("jax."):
            rule = cell.cell_contents
            break
    while (inner := getattr(rule, "func", None)) is not None:
        rule = inner
    return getattr(rule, "__module__", None) or ""


def _named_axes(params: dict[str, Any]) -> list[str]:
    """The axes bound outside the loss that an operation runs over."""
    axes = [params.get("axes", ()), params.get("axis_name", ())]
    flat = [axis for group in axes for axis in (group if isinstance(group, tuple) else (group,))]
    return [str(axis) for axis in flat if not isinstance(axis, (int, np.integer))]
