"""Released functions as files: a NumPy .npz archive of arrays and a JSON header; no code.

The header states the class of every part, field by field; anything else is refused. Checksums
detect accidental damage only: deliberate changes can come with matching checksums.
"""

import importlib
import os
from dataclasses import fields
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.core.checks import require_kind
from jaxdp.core.files import (
    HEADER,
    DamagedError,
    archived,
    as_header,
    header_of,
    read_arrays,
    write_whole,
)
from jaxdp.core.terminals import printable

_FORMAT, _VERSION = "jaxdp released function", 6
# Larger than any useful function of features.
_MOST_BYTES = 2**32


def written(path: str | os.PathLike, function: eqx.Module, *, replace: bool = True) -> None:
    arrays: dict[str, np.ndarray] = {}
    header = {"format": _FORMAT, "version": _VERSION, "function": encoded(function, arrays)}
    content = archived(arrays | {HEADER: as_header(header)})
    if len(content) > _MOST_BYTES:
        raise ValueError(f"expected a function of at most 4 GiB, got {len(content)} bytes")
    try:
        write_whole(path, content, replace=replace)
    except FileExistsError:
        raise FileExistsError(
            f"{os.fspath(path)} exists; a release that was paid for is not overwritten: choose "
            "another file, or say overwrite=True"
        ) from None


def load(path: str | os.PathLike) -> Any:
    """Load a released function that `ReleasedFunction.save` wrote, cost included, bit-identical.

    Args:
        path: path of the file; OSError if it cannot be read.

    Returns:
        The `ReleasedFunction`.

    Raises:
        ValueError: the file is damaged, foreign, of another version, or needs x64.

    Example:
        >>> import pathlib, tempfile
        >>> from jaxdp.kernels import InnerProduct, PrivateKernelRidge, load
        >>> learner = PrivateKernelRidge(InnerProduct(), 4, label_bound=1.0, input_bound=1.0)
        >>> budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "model.npz"
        ...     learner.fit([[1.0], [0.0]], [1.0, 0.0], **budget).save(path)
        ...     load(path).coefficients.shape
        (4,)
    """
    require_kind("path", path, (str, bytes, os.PathLike), "the path of a file")
    try:
        return _unpacked(read_arrays(path, largest=_MOST_BYTES))
    except DamagedError as reason:
        raise ValueError(f"{os.fspath(path)}: {printable(str(reason))}") from None
    except MemoryError:
        raise ValueError(f"{os.fspath(path)}: more than this machine's memory holds") from None


def _unpacked(arrays: dict[str, np.ndarray]) -> eqx.Module:
    header = header_of(arrays)
    if not isinstance(header, dict) or list(header) != ["format", "version", "function"]:
        raise DamagedError("not a file of a released function: its header is of something else")
    kind, version, parts = header.values()
    if kind != _FORMAT:
        raise DamagedError(f"not a file of a released function, but of {kind!r}")
    if type(version) is not int or version != _VERSION:
        raise DamagedError(
            f"expected version {_VERSION} of the format, got {version!r}: fit again with this "
            "version of jaxdp, or load it with the one that wrote it"
        )
    try:
        function = decoded(parts, arrays)
    except RecursionError:
        raise DamagedError("parts within parts without end") from None
    if arrays:
        raise DamagedError(f"entries that belong to nothing: {', '.join(sorted(arrays))}")
    check(function)
    return function


# Classes that may be written, by module. A written name, such as "kernels.Gaussian", never changes
# its meaning, because saved models must still load; new classes are added.
_MODULES = {
    "jaxdp.kernels": "ClippedFeatures CosineFeatures FourierFeatures Gaussian "
    "IdentityFeatures InnerProduct Laplace Matern NormScaling SamplePaths TorusKernel",
    "jaxdp.kernels.functions.bounded": "RangeScaling",
    "jaxdp.kernels.functions.torus": "MercerFeatures",
    "jaxdp.kernels.release.released_function": "FitRecord",
    "jaxdp.regression": "ColumnFeatures Columns WithConstant",
    "jaxdp.regression.features": "ComposedFeatures",
    "jaxdp.privacy": "Composition Release StatedBudget Unproved",
    "jaxdp.privacy.mechanisms": "ZeroConcentrated",
    "jaxdp.privacy.objective_perturbation": "SoftmaxPerturbation",
}
_CLASSES = {
    f"{module.split('.')[1]}.{name}": (module, name)
    for module, names in _MODULES.items()
    for name in names.split()
}
_CLASSES["ReleasedFunction"] = "jaxdp.kernels", "ReleasedFunction"
# Classes whose names have changed since.
_CLASSES["privacy.Gaussian"] = "jaxdp.privacy", "GaussianMechanism"
_CLASSES["privacy.ObjectivePerturbation"] = "jaxdp.privacy", "ObjectivePerturbationMechanism"
_CLASSES["kernels.Columns"] = "jaxdp.kernels", "ColumnNames"


def encoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """JSON for a value; its arrays are put into `arrays` under names of their own."""
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
        raise DamagedError(f"an unknown kind of part, {kind!r}")
    cls = importable().get(value["class"]) if isinstance(value["class"], str) else None
    if cls is None:
        raise DamagedError(f"an unknown class, {value['class']!r}")
    parts = value["fields"]
    if value["class"] == "privacy.Release" and "records_per_person" not in parts:
        # Files of earlier versions are about one record.
        parts = parts | {"records_per_person": None}
    if list(parts) != [field.name for field in fields(cls)]:
        raise DamagedError(f"expected the fields of {value['class']}, got {', '.join(parts)}")
    # As in unflattening a pytree, constructors that draw or compute are not run.
    module = object.__new__(cls)
    for name, part in parts.items():
        object.__setattr__(module, name, decoded(part, arrays))
    return module


def _array(name: Any, arrays: dict[str, np.ndarray]) -> jax.Array:
    found = arrays.pop(name, None) if isinstance(name, str) else None
    if found is None:
        raise DamagedError(f"no array {name!r}")
    # JAX has no arrays of another byte order, or of more than 64 bits.
    is_jaxs = found.dtype.isnative and found.dtype.itemsize <= 8
    if found.dtype.kind not in "fiu" or not is_jaxs:
        raise DamagedError(f"expected {name} to hold numbers, got {found.dtype}")
    if not np.isfinite(found).all():
        raise DamagedError(f"{name} is not finite")
    array = jnp.asarray(found)
    if array.dtype != found.dtype:
        raise DamagedError(f"{name} is {found.dtype}: enable x64 (JAX_ENABLE_X64=1) to load it")
    return array


def check(function: Any) -> None:
    """Refuse a function whose parts have wrong shapes or types, without computing anything."""
    if type(function) is not importable()["ReleasedFunction"]:
        raise DamagedError("what it holds is not a released function")
    try:
        for part in _modules(function):
            hints = get_type_hints(type(part))
            for field in fields(part):
                # Text may pass for a number elsewhere.
                if not _is_of(getattr(part, field.name), hints[field.name]):
                    name = f"{field.name} of {type(part).__name__}"
                    raise TypeError(f"{name} is not {hints[field.name]}")
            for cls in reversed(type(part).__mro__):
                if "__check_init__" in vars(cls):
                    cls.__check_init__(part)
        row = jax.ShapeDtypeStruct((1, function.features.dim), jnp.float32)
        shape = eqx.filter_eval_shape(function, row).shape
        repr((function, function.card))
    except Exception as error:
        # A wrongly written part may raise anything.
        raise DamagedError(f"its parts do not fit together ({error})") from None
    if shape != (1, *function.coefficients.shape[1:]):
        raise DamagedError(f"its parts do not fit together: one input gives {shape}")


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
    # An int is allowed for a float, but True is not a number.
    if kind in (int, float):
        return type(value) in (int, kind)
    return kind is Any or isinstance(value, kind)


def _modules(part: Any) -> list[Any]:
    if isinstance(part, tuple):
        return [module for item in part for module in _modules(item)]
    if not isinstance(part, eqx.Module):
        return []
    inner = [_modules(getattr(part, field.name)) for field in fields(part)]
    return [part, *(module for modules in inner for module in modules)]


def importable() -> dict[str, type]:
    return {
        name: getattr(importlib.import_module(module), attribute)
        for name, (module, attribute) in _CLASSES.items()
    }
