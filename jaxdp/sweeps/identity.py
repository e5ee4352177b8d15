"""Which sweep a store belongs to: digests of functions and values that another process repeats.

Of a function is seen: its source, defaults, closure, the constants of its module that it names and,
likewise, the functions of its module that it names. What other modules do is not seen.
"""

import dataclasses
import dis
import functools
import hashlib
import inspect
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.sweeps.axes import Axes, is_x64


def identity_of(function: Any, axes: Axes, key: Any, version: str | None) -> dict[str, Any]:
    """What must agree for a store to be resumed, as JSON: a digest and a description each.

    Raises:
        ValueError: the function's source cannot be read, and no version is given.
    """
    if version is not None:
        described = {"version": version, "digest": digest(version)}
    else:
        described = {"name": name_of(function), "digest": _of_function(function)}
    return {
        "function": described,
        # A list: their order decides the cells' keys.
        "axes": [
            {
                "name": name,
                "length": axes.length(name),
                "kind": "tuple" if name in axes.looped else "array",
                "digest": digest(axes.looped[name] if name in axes.looped else axes.mapped[name]),
            }
            for name in axes.names
        ],
        "key": {"digest": digest(key)},
        "jax_enable_x64": is_x64(),
        "jax_threefry_partitionable": jax.config.values.get("jax_threefry_partitionable"),
    }


def name_of(function: Any) -> str:
    """The name of a function or callable, with its module."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return f"partial of {name_of(function.func)}"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def digest(value: Any) -> str:
    """A digest of a value, equal in every process where the value is."""
    state = hashlib.sha256()
    _feed(state, value, set())
    return state.hexdigest()


def _of_function(function: Any) -> str:
    # Of an object that can be called, what it holds and what calling it does.
    call = inspect.getattr_static(type(inspect.unwrap(function)), "__call__", None)
    own_call = call if isinstance(call, types.FunctionType) else None
    try:
        return digest((function, own_call))
    except OSError as error:
        raise ValueError(
            f"expected a function whose source can be read, got {name_of(function)}; give "
            "version=, a name that changes whenever the function does"
        ) from error


def _feed(state: Any, value: Any, seen: set[int]) -> None:
    """Feed a value to the hash; `seen` holds what is being fed already."""

    def put(kind: str, text: str) -> None:
        state.update(f"{kind}:{len(text)}:{text};".encode())

    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        put(type(value).__name__, repr(value))
    elif isinstance(value, (np.ndarray, np.generic, jax.Array)):
        _feed_array(state, put, value)
    elif id(value) in seen:
        put("again", "")
    else:
        seen = seen | {id(value)}
        put("type", _name_of_type(value))
        for part in _parts(put, value):
            _feed(state, part, seen)
        put("end", "")


def _feed_array(state: Any, put: Any, value: Any) -> None:
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        put("key", str(value.dtype))
        value = jax.random.key_data(value)
    array = np.ascontiguousarray(value)
    put("array", f"{array.dtype} {array.shape}")
    state.update(array.tobytes())


def _name_of_type(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _parts(put: Any, value: Any) -> list[Any]:
    """What else tells a value from others of its type."""
    if isinstance(value, (tuple, list)):
        return list(value)
    if isinstance(value, (set, frozenset)):
        return sorted(digest(item) for item in value)
    if isinstance(value, dict):
        return [item for pair in value.items() for item in pair]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, (type, types.BuiltinFunctionType, types.ModuleType)):
        put("name", f"{getattr(value, '__module__', '')}.{value.__name__}")
        return []
    wrapped = inspect.unwrap(value) if callable(value) else value
    if isinstance(wrapped, types.FunctionType):
        put("name", name_of(wrapped))
        put("source", inspect.getsource(wrapped))
        return _beside_the_source(wrapped)
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    members = getattr(value, "__dict__", None)
    if members:
        return [members]
    text = repr(value)
    # An address would differ in every process.
    put("repr", "" if " at 0x" in text else text)
    return []


def _beside_the_source(function: types.FunctionType) -> list[Any]:
    """What a function's result depends on beside its source, as far as its module holds it."""
    code, scope = function.__code__, function.__globals__
    changed = _names_changed(code)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closure = [
        cell.cell_contents for name, cell in cells if name not in changed and _is_filled(cell)
    ]
    named = [scope[name] for name in sorted(_names(code) - changed) if name in scope]
    of_the_module = [
        value
        for value in named
        if not isinstance(value, types.FunctionType) or value.__module__ == function.__module__
    ]
    return [
        function.__defaults__,
        function.__kwdefaults__,
        *filter(_is_constant, closure + of_the_module),
    ]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _names(code: types.CodeType) -> set[str]:
    """The names that code and the functions inside it look up."""
    return set(code.co_names).union(*map(_names, _inner(code)))


def _names_changed(code: types.CodeType) -> set[str]:
    """The names outside a function that it, or a function inside it, binds anew: a counter."""
    stores = {"STORE_GLOBAL", "STORE_DEREF"}
    own = {item.argval for item in dis.get_instructions(code) if item.opname in stores}
    return own.union(*map(_names_changed, _inner(code)))


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _is_constant(value: Any) -> bool:
    """Whether a value is one that does not change; a list may be a log that the function keeps."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    if isinstance(value, types.FunctionType):
        return True
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return value.__dataclass_params__.frozen  # pyright: ignore[reportAttributeAccessIssue]
    simple = (bool, int, float, complex, str, bytes, np.ndarray, np.generic, jax.Array)
    return value is None or isinstance(value, (*simple, functools.partial))
