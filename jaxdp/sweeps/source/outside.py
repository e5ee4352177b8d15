"""The values that a user's function reads from outside itself: globals, closure variables, imports.

They are found by the names in the function's compiled code. The identity of a sweep has their
digest in it, so that a store notices when a constant or a helper function has changed.
"""

import builtins
import collections
import importlib
import importlib.util
import types
from typing import Any

import numpy as np

from jaxdp.sweeps.source.names_used import Effect, Import, attribute_names, imports, uses
from jaxdp.sweeps.source.owners import described, is_users

_CONTAINERS = (list, dict, set, collections.deque, np.ndarray)
# Through these a function finds what its code does not name.
_LOOKUPS = {
    each.__name__: each for each in (eval, exec, globals, __import__, importlib.import_module)
}


class UnreadableError(Exception):
    """Something that a digest should depend on cannot be read; the message names it."""


def outside(
    function: types.FunctionType, name: str
) -> tuple[dict[tuple[str, ...], Any], set[Any], dict[Any, str]]:
    """What stands under the names that a function uses, in its closure and its modules.

    Args:
        function: one of the user's.
        name: where it was found, for the error.

    Returns:
        The values by their names, with the attributes that lead through the user's modules; where
        the names lie that it reads; where those lie that it changes, in words.

    Raises:
        UnreadableError: it looks up what its code does not name.
    """
    scope, cells = function.__globals__, filled(function)
    found, read, changed = {}, set(), {}
    for use in uses(function.__code__):
        held = cells if use.is_free else scope
        if use.name not in held:
            if use.effect is Effect.READ and not use.is_free:
                _require_named(vars(builtins).get(use.name), name)
            continue
        value = held[use.name]
        place = _cell(function, use.name) if use.is_free else (id(scope), use.name)
        # What the methods of other classes do is theirs to say.
        if use.effect is Effect.BIND or (use.effect is Effect.FILL and type(value) in _CONTAINERS):
            changed[place] = f"{use.name}, in {name}"
            continue
        read.add(place)
        taken, value = _followed(value, use.attributes)
        _require_named(value, name)
        found[(use.name, *taken)] = value
    for one in imports(function.__code__):
        found |= _imported(one, function, name)
    return found, read, changed


def filled(function: types.FunctionType) -> dict[str, Any]:
    """What a function's closure holds, by name; a name that is bound later is not there yet."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def _cell(function: types.FunctionType, name: str) -> int:
    return id((function.__closure__ or ())[function.__code__.co_freevars.index(name)])


def _require_named(value: Any, name: str) -> None:
    call = next((call for call, each in _LOOKUPS.items() if value is each), None)
    if call is not None:
        raise UnreadableError(f"what {name} looks up by {call}")


def _followed(value: Any, attributes: tuple[str, ...]) -> tuple[list[str], Any]:
    """Where attributes lead from a value through the user's modules, and which were taken."""
    taken = []
    for name in attributes:
        is_module = isinstance(value, types.ModuleType)
        if not (is_module and hasattr(value, name)):
            break
        if not is_users(value.__name__) and value is not importlib:
            break
        value = getattr(value, name)
        taken.append(name)
    return taken, value


def _imported(one: Import, function: types.FunctionType, name: str) -> dict[tuple[str, ...], Any]:
    """What an import inside a function takes from the user's modules."""
    try:
        package = function.__globals__.get("__package__")
        module = importlib.util.resolve_name("." * one.level + one.module, package)
    except ImportError as error:
        raise UnreadableError(f"what {name} imports ({error})") from error
    if not is_users(module):
        return {(module,): described(module)}
    if one.names is not None:
        return {(module, part): _taken(module, part) for part in one.names}
    used = attribute_names(function.__code__)
    # `import a.b` binds a.
    parents = module.split(".")
    chain = [".".join(parents[:count]) for count in range(1, len(parents) + 1)]
    modules = {each: _module(each) for each in chain}
    if used & {"getattr", "vars"}:
        return {(each,): held for each, held in modules.items()}
    return {
        (each, part): value
        for each, held in modules.items()
        for part, value in sorted(vars(held).items() if held else ())
        if part in used and not any(value is other for other in modules.values())
    }


def _taken(module: str, name: str) -> Any:
    held = _module(module)
    return getattr(held, name) if hasattr(held, name) else _module(f"{module}.{name}")


def _module(name: str) -> types.ModuleType | None:
    """A module that a function would import; None where it cannot be, which it may provide for."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
