"""The loss of one sample, traced, and refused if it may mix the samples of a batch.

Clipping needs gradients of one sample each. `jax.vmap` of JAX's operations gives that; operations
whose batching someone else wrote are refused. The memory of a callback cannot be seen.
"""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal
from jax.interpreters import batching
from jaxtyping import PyTree

from jaxdp.clipping.ghost.loops import open_scan
from jaxdp.clipping.ghost.program import Program, all_equations, trace

# Packages whose batching rules are known to treat each sample alone.
_TRUSTED = ("jax", "jaxlib", "equinox", "lineax", "optimistix", "diffrax")


def trace_loss(loss: Callable[..., Any], model: PyTree, inputs: PyTree, targets: PyTree) -> Program:
    """Trace a loss at one sample's shape; ValueError unless a real scalar that reads one sample."""
    leaves, structure = jax.tree.flatten(eqx.filter(model, eqx.is_inexact_array))
    static = eqx.filter(model, eqx.is_inexact_array, inverse=True)
    batch, sample_structure = jax.tree.flatten((inputs, targets))
    sample = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in batch]

    def of_leaves(leaves, sample):
        whole = eqx.combine(jax.tree.unflatten(structure, leaves), static)
        record = jax.tree.unflatten(sample_structure, sample)
        value = _of_one(loss, whole, record)
        expected = "expected loss(model, input, target) of one sample to be a real scalar"
        if not eqx.is_array_like(value):
            came = type(value).__name__
            if isinstance(value, (tuple, list)):
                came = f"a {came} of {len(value)}: return the loss alone, without auxiliary outputs"
            raise ValueError(f"{expected}, got {came}")
        value = jnp.asarray(value)
        if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(f"{expected}, got {value.dtype} of shape {value.shape}")
        return value

    try:
        program = trace(of_leaves, leaves, sample, open_scan)
    except NameError as error:
        if "axis name" not in str(error):
            raise
        came = f"got one that reaches others: {error}"
        raise ValueError(f"expected a loss of one sample alone, {came}") from error
    refuse_mixing_operations(program.closed, len(leaves))
    return program


def _of_one(loss: Callable[[Any, Any, Any], Any], model: PyTree, record: Any) -> Any:
    """The loss at one record, traced, with a note or a clearer message if it raises."""
    try:
        return loss(model, *record)
    except Exception as error:
        if _takes_batches(loss, model, record):
            raise ValueError(
                "expected loss(model, input, target) of one record, got the loss of a batch: leave "
                "out jax.vmap and the mean over records"
            ) from error
        # A message of Equinox.
        if "requires a key" in str(error):
            raise ValueError(
                "expected a key for every Dropout, got none: give each record one, inputs = "
                "(images, jax.random.split(key, len(images))), and in loss(model, input, target) "
                "call model(input[0], key=input[1]); or train eqx.nn.inference_mode(model)"
            ) from error
        shapes = [jax.tree.map(lambda leaf: leaf.shape, part) for part in record]
        error.add_note(
            "raised by loss(model, input, target) at one record: inputs and targets are cut "
            f"along their leading axis, here into an input of shape {shapes[0]} and a target "
            f"of shape {shapes[1]}"
        )
        raise


def _takes_batches(loss: Callable[[Any, Any, Any], Any], model: PyTree, record: Any) -> bool:
    """Whether the loss of a stack of two such records is one number."""
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), record)
    try:
        return jax.tree.leaves(jax.eval_shape(lambda: loss(model, *two)))[0].shape == ()
    except Exception:
        return False


def require_gradient(loss: Callable, model: PyTree, inputs: PyTree, targets: PyTree) -> None:
    """Raise ValueError if the traced loss of one record has no derivative by any weight."""
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    sample = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), (inputs, targets)
    )

    def gradient(cotangent, weights, sample):
        value, pull_back = jax.vjp(lambda w: _of_one(loss, eqx.combine(w, rest), sample), weights)
        return pull_back(cotangent.astype(value.dtype))

    one = jax.ShapeDtypeStruct((), jnp.float32)
    jaxpr = jax.make_jaxpr(gradient)(one, weights, sample).jaxpr
    # A gradient is linear in the cotangent: values that do not depend on it are zero.
    reached = set(jaxpr.invars[:1])
    for equation in jaxpr.eqns:
        if any(not isinstance(v, Literal) and v in reached for v in equation.invars):
            reached.update(equation.outvars)
    if not any(not isinstance(v, Literal) and v in reached for v in jaxpr.outvars):
        raise ValueError(
            "expected a loss with a gradient by the model's weights, got one that ignores them "
            "(or has stop_gradient, argmax or rounding between): training would follow the noise "
            "alone"
        )


def refuse_mixing_layers(model: PyTree) -> None:
    """Raise ValueError if a layer of the model normalises over the batch."""

    def is_mixing(node):
        return isinstance(node, eqx.nn.BatchNorm) and not node.inference

    for path, node in jax.tree_util.tree_flatten_with_path(model, is_leaf=is_mixing)[0]:
        if is_mixing(node):
            where = f"model{jax.tree_util.keystr(path)}"
            raise ValueError(
                f"expected layers that treat each sample alone, got BatchNorm at {where}, which "
                "mixes samples, so that clipping bounds nothing; use GroupNorm or LayerNorm"
            )


def refuse_mixing_operations(closed: ClosedJaxpr, num_weights: int) -> None:
    """Raise ValueError if an operation of a traced loss or its derivative may mix samples."""
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
            came = f"{name} over the axis {', '.join(axes)}"
            raise ValueError(f"expected a loss of one sample alone, got one that reaches {came}")
        if reason := _own_batching(equation):
            came = f"{name} {reason}, which may mix samples"
            raise ValueError(f"expected operations that treat each sample alone, got {came}")


def _own_batching(equation: JaxprEqn) -> str:
    """The batching rule of an operation if someone else wrote it, in words; else empty."""
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
    """The module that defines a primitive's batching rule; empty if unknown."""
    rule = None
    for name in ("fancy_primitive_batchers", "primitive_batchers", "axis_primitive_batchers"):
        rules = getattr(batching, name, None)
        if isinstance(rules, dict):
            rule = rule or rules.get(primitive)
    # The registry wraps the given rule.
    for cell in getattr(rule, "__closure__", None) or ():
        if callable(cell.cell_contents) and rule.__module__.startswith("jax."):
            rule = cell.cell_contents
            break
    while (inner := getattr(rule, "func", None)) is not None:
        rule = inner
    return getattr(rule, "__module__", None) or ""


def _named_axes(params: dict[str, Any]) -> list[str]:
    """The axes bound outside the loss over which an operation runs."""
    axes = [params.get("axes", ()), params.get("axis_name", ())]
    flat = [axis for group in axes for axis in (group if isinstance(group, tuple) else (group,))]
    return [str(axis) for axis in flat if not isinstance(axis, (int, np.integer))]
