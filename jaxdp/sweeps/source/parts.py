"""The parts of an object that go into its digest.

- Of a user's function: its compiled code, its defaults and attributes, and the values of the names
  that it uses from outside itself (`outside`).
- Of a user's class: its members and bases.
- Of any other object: its type, and what it would give to pickle, with the attributes that a class
  derived from another package's adds. What refuses that, such as an open file, cannot be read.
- Of what belongs to jaxdp, to an installed package or to Python itself: its name, and what its
  objects and closures hold. Its source is not looked at; versions stand for it (`owners`).

Comments and blank lines are not part of compiled code, names of variables and docstrings are.
"""

import copyreg
import dataclasses
import functools
import inspect
import sys
import types
import weakref
from collections.abc import Iterable
from typing import Any

import jax

from jaxdp.sweeps.source.outside import UnreadableError, filled, outside
from jaxdp.sweeps.source.owners import Owner, described, is_users, owner_of

_WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
# What things are called, and what Python keeps in them for itself.
_NOT_READ = {"__doc__", "__module__", "__name__", "__qualname__", "__annotations__", "_abc_impl"}
_NOT_READ |= {"__annotate__", "__annotate_func__", "__dict__", "__weakref__"}
_WITH_CACHES = {"PjitFunction", "_lru_cache_wrapper"}
_MEMBER = types.MemberDescriptorType
_SLOTS = (types.GetSetDescriptorType, _MEMBER)
_COMPILED = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


@dataclasses.dataclass
class Parts:
    """What an object consists of.

    Attributes:
        kind: what it is, in words that tell it from others of equal parts.
        items: its parts, each with a name or none.
        read: of a function: where the names lie that it reads.
        changed: of a function: where the names lie that it changes, in words.
    """

    kind: str
    items: list[tuple[str, Any]]
    read: set[Any] = dataclasses.field(default_factory=set)
    changed: dict[Any, str] = dataclasses.field(default_factory=dict)


def parts_of(value: Any, name: str) -> Parts:
    """The parts of an object that is neither a number, text, a tuple, an array nor a set.

    Args:
        value: the object.
        name: where it was found, for the error.

    Raises:
        UnreadableError: it cannot be read.
    """
    if type(value) is list:
        return Parts("list", _unnamed(value))
    if type(value) in (dict, types.MappingProxyType):
        return Parts("dict", _unnamed(value.items()))
    if isinstance(value, types.FunctionType):
        return _of_function(value, name)
    if isinstance(value, types.CodeType):
        return Parts("code", _unnamed(_of_code(value)))
    if isinstance(value, type):
        return _of_class(value)
    if isinstance(value, types.ModuleType):
        return _of_module(value)
    if isinstance(value, _COMPILED):
        return _of_compiled(value, name)
    at_its_name = _its_name(value)
    return Parts(f"at {at_its_name}", []) if at_its_name else _of_object(value, name)


def _unnamed(items: Iterable[Any]) -> list[tuple[str, Any]]:
    return [("", item) for item in items]


def _of_function(function: types.FunctionType, name: str) -> Parts:
    code, module = function.__code__, function.__globals__.get("__name__")
    if is_users(module):
        parts = Parts("function", [])
        found, parts.read, parts.changed = outside(function, name)
        items: dict[str, Any] = {"code": code} | {
            f"{'.'.join(path)}": found[path] for path in sorted(found)
        }
    else:
        at_its_name = _its_name(function)
        parts = Parts(f"function {at_its_name or f'{described(module)} {code.co_qualname}'}", [])
        if at_its_name:
            return parts
        items = filled(function)
    parts.items = [
        *items.items(),
        ("", function.__defaults__),
        ("", function.__kwdefaults__),
        *_state(vars(function)),
    ]
    return parts


def _of_code(code: types.CodeType) -> list[Any]:
    return [
        *(code.co_name, code.co_code, code.co_exceptiontable, code.co_consts, code.co_flags),
        *(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
    ]


def _of_class(value: type) -> Parts:
    if not is_users(value.__module__):
        return Parts(f"class {described(value.__module__)} {value.__qualname__}", [])
    held = [
        (part, item)
        for part, item in _state(vars(value))
        if not part.startswith("__")
        or part == "__dataclass_fields__"
        or callable(item)
        or isinstance(item, (staticmethod, classmethod, property))
    ]
    bases = _unnamed((type(value), *value.__bases__))
    return Parts(f"class {value.__qualname__} ({_annotations(value)})", bases + held)


def _of_module(value: types.ModuleType) -> Parts:
    held = sorted(vars(value).items()) if is_users(value.__name__) else []
    return Parts(
        f"module {described(value.__name__)}",
        [(part, item) for part, item in held if not part.startswith("__")],
    )


def _of_compiled(value: Any, name: str) -> Parts:
    """A function that is not Python's is known by its name, with what it is bound to."""
    bound = getattr(value, "__self__", None)
    if bound is not None and not isinstance(bound, types.ModuleType):
        return Parts(f"bound {value.__name__}", [("", bound)])
    home = getattr(value, "__objclass__", value).__module__
    if owner_of(home) in (Owner.USER, Owner.COMPILED_BY_USER) and home is not None:
        raise UnreadableError(f"{name}, which is compiled")
    return Parts(f"compiled {described(home)} {value.__qualname__}", [])


def _of_object(value: Any, name: str) -> Parts:
    if isinstance(value, types.MethodType):
        return Parts("method", _unnamed((value.__func__, value.__self__)))
    if isinstance(value, (staticmethod, classmethod)):
        return Parts(type(value).__name__, [("", value.__func__)])
    if isinstance(value, property):
        return Parts("property", _unnamed((value.fget, value.fset, value.fdel)))
    if isinstance(value, functools.cached_property):
        return Parts("cached property", [("", value.func)])
    if isinstance(value, functools.partial):
        items = _unnamed((type(value), value.func, value.args, value.keywords))
        return Parts("partial", items + _state(vars(value)))
    if isinstance(value, dataclasses.Field):
        given = (value.default, value.default_factory, value.init, value.metadata)
        return Parts("field", _unnamed(given))
    if isinstance(value, _SLOTS):
        return Parts(f"slot {value.__name__}", [])
    if isinstance(value, _WEAK):
        return Parts("cache", [])
    if isinstance(value, jax.Device):
        return Parts(f"device {value}", [])
    if isinstance(value, jax.tree_util.PyTreeDef):
        return Parts("tree", _unnamed((value.node_data(), *value.children())))
    if type(value).__name__ in _WITH_CACHES and not is_users(type(value).__module__):
        return Parts(f"wrapper {type(value).__name__}", [("", value.__wrapped__)])
    return _of_pickled(value, name)


def _of_pickled(value: Any, name: str) -> Parts:
    """An object by what it would give to pickle."""
    kind = type(value)
    what = f"{name}, of the type {kind.__module__}.{kind.__qualname__}"
    if owner_of(kind.__module__) is Owner.COMPILED_BY_USER:
        raise UnreadableError(f"{what}, which is compiled")
    try:
        registered = copyreg.dispatch_table.get(kind)
        reduced = registered(value) if registered else value.__reduce_ex__(2)
        if not isinstance(reduced, str):
            make, arguments, *rest = reduced
    except Exception as error:
        raise UnreadableError(f"{what} ({error})") from error
    if isinstance(reduced, str):
        return Parts(f"global {reduced}", [("", kind)])
    state, items, pairs, *_ = (*rest, None, None, None)
    parts = Parts("object", _unnamed((kind, make, arguments)))
    # Of a class with slots: its attributes, and its slots.
    states = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    for held in (*states, _unpickled(value)):
        if held is None:
            continue
        is_named = type(held) is dict and all(isinstance(part, str) for part in held)
        parts.items += _state(held, kind) if is_named else [("", held)]
    parts.items += [("", tuple(items or ())), ("", tuple(pairs or ()))]
    if isinstance(value, (set, frozenset)):
        # Pickle lists its items in an order that differs between processes.
        parts.items[2] = ("", frozenset(value))
    return parts


def _unpickled(value: Any) -> dict[str, Any] | None:
    """The attributes that a class derived from another package's adds, which pickle may not see.

    The arrays and numbers of NumPy, dates, decimals and counters say what they are given to pickle
    in a way of their own, in which an attribute of a derived class has no place.
    """
    kind = type(value)
    ways = ("__reduce_ex__", "__reduce__")
    sayer = next(base for base in kind.__mro__ if any(way in vars(base) for way in ways))
    if sayer is object or _package(sayer) == _package(kind):
        return None
    held = dict(getattr(value, "__dict__", {}))
    for base in kind.__mro__[: kind.__mro__.index(sayer)]:
        slots = [part for part, slot in vars(base).items() if isinstance(slot, _MEMBER)]
        held |= {part: getattr(value, part) for part in slots if hasattr(value, part)}
    return held


def _package(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


def _state(held: Any, kind: type = object) -> list[tuple[str, Any]]:
    """The attributes that count: neither names nor what a cached property has computed."""
    return [
        (part, value)
        for part, value in sorted(held.items())
        if part not in _NOT_READ
        and not isinstance(inspect.getattr_static(kind, part, None), functools.cached_property)
    ]


def _annotations(value: type) -> str:
    """The fields of a class by name, in their order; some libraries read their types."""
    held = vars(value).get("__annotations__", {})
    return ", ".join(f"{part}: {_type_name(kind)}" for part, kind in held.items())


def _type_name(kind: Any) -> str:
    text = kind.__qualname__ if isinstance(kind, type) else str(kind)
    return "" if " at 0x" in text else text


def _its_name(value: Any) -> str | None:
    """The name at which jaxdp, Python or an installed package holds an object; else None."""
    try:
        module = getattr(value, "__module__", None)
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    # A user's class may answer for any name as it likes.
    except Exception:
        return None
    if not (isinstance(module, str) and isinstance(name, str) and module in sys.modules):
        return None
    if owner_of(module) in (Owner.USER, Owner.COMPILED_BY_USER):
        return None
    held: Any = sys.modules[module]
    for part in name.split("."):
        held = getattr(held, part, None)
    return f"{described(module)} {name}" if held is value else None
