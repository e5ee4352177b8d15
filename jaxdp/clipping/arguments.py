"""The arguments of per-sample clipping, checked: one clear error for each wrong one."""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from jaxdp.core.arrays import as_numbers
from jaxdp.core.checks import concrete, is_boolean, refuse_collections, require_callable


def require_loss(loss: Any) -> None:
    """Raise TypeError unless the loss can be called with model, input and target."""
    require_callable("loss", loss, "a function of model, input and target")
    try:
        signature = inspect.signature(loss)
    # Some functions written in C have none.
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, None, None)
    except TypeError:
        expected = "loss to be a function of model, input and target"
        raise TypeError(f"expected {expected}, got one of {signature}") from None


def records_of(
    inputs: PyTree[Any], targets: PyTree[Any], *, keep: Callable[[Any], bool] = lambda leaf: False
) -> tuple[PyTree[Array], PyTree[Array]]:
    """Inputs and targets with tables and lists as arrays, but not leaves to `keep`."""

    def as_arrays(name, part):
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: (
                leaf if keep(leaf) else as_numbers(leaf, name + jax.tree_util.keystr(path))
            ),
            part,
            # A sparse array of JAX is a pytree whose leaves are not rows.
            is_leaf=lambda node: _is_list_of_scalars(node) or hasattr(type(node), "todense"),
        )

    return as_arrays("inputs", inputs), as_arrays("targets", targets)


def _is_list_of_scalars(node: Any) -> bool:
    """A list that holds no array, which as a pytree would have no batch axis."""
    if not isinstance(node, (list, tuple)):
        return False
    leaves = jax.tree.leaves(node, is_leaf=lambda leaf: leaf is None)
    arrays = (isinstance(leaf, jax.Array) or getattr(leaf, "shape", ()) for leaf in leaves)
    return bool(leaves) and not any(arrays)


def num_rows_of(inputs: PyTree[Array], targets: PyTree[Array]) -> int:
    """The length of the leading axis that all leaves share; TypeError or ValueError without one."""
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


def clip_norms(value: Any, size: int) -> Float[Array, " batch"]:
    """A clip norm for each of `size` samples, from one number or as many."""
    if isinstance(value, (str, bytes)) or value is None or is_boolean(value):
        raise TypeError(f"expected clip_norm to be a number, got {value!r}")
    refuse_collections("clip_norm", value)
    try:
        array = value if eqx.is_array(value) else np.asarray(value)
    except Exception:
        array = None
    if array is None or (isinstance(array, np.ndarray) and array.dtype.kind not in "biufV"):
        came = type(value).__name__
        raise TypeError(f"expected clip_norm to be a number or an array, got {came}")
    if not (jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer)):
        raise TypeError(f"expected clip_norm to be real, got {array.dtype}")
    known = concrete(array)
    if array.shape not in ((), (size,)) or (known is not None and not (known >= 0).all()):
        found = value if known is not None and not known.shape else f"one of shape {array.shape}"
        expected = f"clip_norm >= 0, a scalar or one for each of {size} samples"
        raise ValueError(f"expected {expected}, got {found}")
    # A clip norm beyond the largest float32 clips nothing.
    with np.errstate(over="ignore"):
        return jnp.broadcast_to(jnp.asarray(array, float), (size,))


def mask_of(value: Any, size: int) -> Bool[Array, " batch"]:
    """A mask of `size` samples, in which None counts all of them."""
    if value is None:
        return jnp.ones(size, bool)
    refuse_collections("mask", value)
    try:
        mask = value if eqx.is_array(value) else np.asarray(value)
    # Other libraries raise errors of many types, some of which show private data.
    except Exception:
        mask = None
    if mask is None:
        raise TypeError(f"expected mask to be an array of booleans, got {type(value).__name__}")
    if mask.shape != (size,) or mask.dtype != bool:
        came = f"{mask.dtype} of shape {mask.shape}"
        raise ValueError(f"expected mask to be {size} booleans, got {came}")
    return jnp.asarray(mask)


def weights_of(model: PyTree, name: str = "model") -> PyTree[Array]:
    """The inexact arrays of a model, which are differentiated; TypeError unless real and some."""
    weights = eqx.filter(model, eqx.is_inexact_array)
    if not jax.tree.leaves(weights):
        came = f"the class {model.__name__} itself" if isinstance(model, type) else "none in a "
        came += "" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"expected {name} to hold floating-point arrays, its weights, got {came}")
    for leaf in jax.tree.leaves(weights):
        refuse_collections(name, leaf)
    if any(jnp.iscomplexobj(leaf) for leaf in jax.tree.leaves(weights)):
        raise TypeError("expected real weights, got a complex one")
    return weights


def refuse_varying(arrays: PyTree) -> None:
    """Refuse arrays that vary over the devices of a checked `shard_map`, which sums derivatives."""
    for leaf in jax.tree.leaves(eqx.filter(arrays, eqx.is_array)):
        kind = jax.typeof(leaf)
        # Newer releases of jax keep the set one level deeper.
        axes = getattr(kind, "vma", None) or getattr(getattr(kind, "mat", None), "varying", None)
        if axes:
            raise ValueError(
                f"expected shard_map(..., check_vma=False), got a checked one over {set(axes)}: "
                "it sums derivatives over devices, so that no sample's gradient would be known"
            )
