"""The parts of a released function in JSON and arrays: which class each is, field by field.

A table fixes which classes a file may contain, and under which names: loading a file can build
objects of these classes and nothing else. Whatever else stands in a file is refused.
"""

import importlib
from dataclasses import fields
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

_KERNELS, _PRIVACY = "jaxdp.kernels", "jaxdp.privacy"
# Written name: where the class is. A name never changes its meaning; new classes are added.
_CLASSES = {
    "ReleasedFunction": (_KERNELS, "ReleasedFunction"),
    **{
        f"kernels.{name}": (_KERNELS, name)
        for name in (
            "ArcCosine",
            "ArcCosineFeatures",
            "ClippedFeatures",
            "Columns",
            "CosineFeatures",
            "FourierFeatures",
            "Gaussian",
            "IdentityFeatures",
            "InnerProduct",
            "Laplace",
            "Matern",
            "MercerFeatures",
            "NormScaling",
            "NystromFeatures",
            "OrthogonalFeatures",
            "PathwiseFeatures",
            "Polynomial",
            "ProductFeatures",
            "RangeScaling",
            "RangedKernel",
            "SamplePaths",
            "TorusKernel",
        )
    },
    **{
        f"regression.{name}": ("jaxdp.regression", name)
        for name in ("ColumnFeatures", "Columns", "ComposedFeatures", "WithConstant")
    },
    # What saved models call this class: the name stays, because they must still load.
    "privacy.Gaussian": (_PRIVACY, "GaussianMechanism"),
    **{
        f"privacy.{name}": (_PRIVACY, name)
        for name in (
            "Composition",
            "ObjectivePerturbation",
            "Release",
            "SoftmaxPerturbation",
            "StatedBudget",
            "Unproved",
            "ZeroConcentrated",
        )
    },
}


class Refused(Exception):
    """Why a file is not loaded, in words."""


def encoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """JSON for a value; its arrays are put aside under names of their own."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return {"tuple": [encoded(item, arrays) for item in value]}
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        name = f"array_{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array": name}
    known = {cls: name for name, cls in importable().items()}
    if type(value) not in known:
        raise TypeError(f"a {type(value).__name__} has no written form, so this cannot be saved")
    parts = {field.name: encoded(getattr(value, field.name), arrays) for field in fields(value)}
    return {"class": known[type(value)], "fields": parts}


def decoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    kind, *others = value or [None]
    if kind == "tuple" and not others and isinstance(value[kind], list):
        return tuple(decoded(item, arrays) for item in value[kind])
    if kind == "array" and not others:
        return _array(value[kind], arrays)
    if kind != "class" or others != ["fields"] or not isinstance(value["fields"], dict):
        raise Refused(f"an unknown kind of part, {kind!r}")
    cls = importable().get(value["class"]) if isinstance(value["class"], str) else None
    if cls is None:
        raise Refused(f"an unknown class, {value['class']!r}")
    parts = value["fields"]
    if list(parts) != [field.name for field in fields(cls)]:
        raise Refused(f"expected the fields of {value['class']}, got {', '.join(parts)}")
    # As flattening and unflattening a pytree does: constructors that draw or compute are not run.
    module = object.__new__(cls)
    for name, part in parts.items():
        object.__setattr__(module, name, decoded(part, arrays))
    return module


def _array(name: Any, arrays: dict[str, np.ndarray]) -> jax.Array:
    found = arrays.pop(name, None) if isinstance(name, str) else None
    if found is None:
        raise Refused(f"no array {name!r}")
    if found.dtype.kind not in "fiu":
        raise Refused(f"expected {name} to hold numbers, got {found.dtype}")
    if not np.isfinite(found).all():
        raise Refused(f"{name} is not finite")
    array = jnp.asarray(found)
    if array.dtype != found.dtype:
        raise Refused(f"{name} is {found.dtype}: enable x64 (JAX_ENABLE_X64=1) to load it")
    return array


def check(function: Any) -> None:
    """That all parts are of the right shapes and types, without computing anything."""
    if type(function) is not importable()["ReleasedFunction"]:
        raise Refused("what it holds is not a released function")
    try:
        for part in _modules(function):
            _check_types(part)
            for cls in reversed(type(part).__mro__):
                if "__check_init__" in vars(cls):
                    cls.__check_init__(part)
        row = jax.ShapeDtypeStruct((1, function.features.dim), jnp.float32)
        shape = eqx.filter_eval_shape(function, row).shape
        repr(function)
    except Exception as error:
        # Whatever a part that was written wrongly may raise.
        raise Refused(f"its parts do not fit together ({error})") from None
    if shape != (1, *function.coefficients.shape[1:]):
        raise Refused(f"its parts do not fit together: one input gives {shape}")


def _check_types(part: Any) -> None:
    """That each field is of its kind: text as a number would pass for one in many places."""
    hints = get_type_hints(type(part))
    for field in fields(part):
        if not _is_of(getattr(part, field.name), hints[field.name]):
            raise TypeError(f"{field.name} of {type(part).__name__} is not {hints[field.name]}")


def _is_of(value: Any, kind: Any) -> bool:
    choices = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return any(_is_of(value, choice) for choice in choices)
    if get_origin(kind) is tuple:
        if not isinstance(value, tuple):
            return False
        inner = choices[0] if choices[1:] == (...,) else None
        kinds = choices if inner is None else [inner] * len(value)
        return len(value) == len(kinds) and all(map(_is_of, value, kinds))
    # A whole number may stand for any; but True is no number.
    if kind in (int, float):
        return type(value) in (int, kind)
    return kind is Any or isinstance(value, kind)


def _modules(part: Any) -> list[Any]:
    """A module and all those in its fields."""
    if isinstance(part, tuple):
        return [module for item in part for module in _modules(item)]
    if not isinstance(part, eqx.Module):
        return []
    inner = [_modules(getattr(part, field.name)) for field in fields(part)]
    return [part, *(module for modules in inner for module in modules)]


def importable() -> dict[str, type]:
    """The classes of the table by their written names."""
    return {
        name: getattr(importlib.import_module(module), attribute)
        for name, (module, attribute) in _CLASSES.items()
    }
