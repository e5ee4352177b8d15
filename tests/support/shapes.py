"""The checker of jaxtyping's import hook: arrays are as jaxdp's annotations say.

It looks at arrays alone, and only when a function has returned: a bad argument is for the function
to refuse. What NumPy makes an array of may stand for a JAX array of its shape.
"""

import functools
import inspect
import numbers
import types
import typing
from typing import Any

import numpy as np
from jaxtyping import AbstractArray, Shaped

_UNIONS = (typing.Union, types.UnionType)


def checked(function):
    """The function, raising TypeError where an array is not as annotated.

    Jaxtyping asks for a check before the call, where `Any` may be returned: that is not made.
    """
    signature = inspect.signature(function)
    hints = {name: hint for name, hint in function.__annotations__.items() if _has_array(hint)}
    result_hint = hints.pop("return", None)
    if function.__annotations__.get("return") is Any or not (hints or result_hint):
        return function

    @functools.wraps(function)
    def check(*args, **kwargs):
        result = function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name in hints:
                kind = signature.parameters[name].kind
                values = value if kind is inspect.Parameter.VAR_POSITIONAL else [value]
                for each in values:
                    _require(name, each, hints[name])
        if result_hint is not None:
            _require("the result", result, result_hint)
        return result

    return check


def _require(name, value, hint):
    if not _fits(value, hint):
        raise TypeError(f"expected {name} to be {hint}, got {_description(value)}")


def _description(value):
    shaped = hasattr(value, "shape") and hasattr(value, "dtype")
    return f"{type(value).__name__} {value.dtype}{value.shape}" if shaped else repr(value)


def _is_array(hint):
    return inspect.isclass(hint) and issubclass(hint, AbstractArray)


def _has_array(hint):
    if typing.get_origin(hint) in (*_UNIONS, tuple):
        return any(map(_has_array, typing.get_args(hint)))
    return _is_array(hint)


@functools.cache
def _in_numpy(hint, is_typed):
    return (hint.dtype if is_typed else Shaped)[np.ndarray, hint.dim_str]


def _fits(value, hint):
    """Whether a value is of a type; of hints without arrays the plain classes are looked at."""
    if _is_array(hint):
        if isinstance(value, hint):
            return True
        if isinstance(value, (np.ndarray, np.generic)):
            return isinstance(np.asarray(value), _in_numpy(hint, True))
        if hasattr(value, "columns"):
            return isinstance(np.empty(value.shape), _in_numpy(hint, False))
        if isinstance(value, (numbers.Number, list, tuple)):
            return isinstance(np.asarray(value), _in_numpy(hint, False))
        return False
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return any(_fits(value, each) for each in arguments)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            arguments = (arguments[0],) * len(value)
        pairs = zip(value, arguments, strict=True)
        return all(_fits(each, kind) for each, kind in pairs if _has_array(kind))
    if hint is float:
        return isinstance(value, numbers.Real)
    return isinstance(value, hint) if inspect.isclass(hint) else True
