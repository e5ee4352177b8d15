"""Provenance of numbers: the function's name and sources, versions, devices; no host, no path."""

import functools
import inspect
import pathlib
import platform
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any

import jax

from jaxdp.core.digests import ADDRESS, UnreadableError, digest
from jaxdp.core.version import version_of

_LIBRARIES = ("numpy", "equinox", "diffrax", "optax")
_INSTALLED = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"))


def versions_and_devices() -> dict[str, str]:
    """The provenance of a shard: versions, and the devices of this process."""
    devices = jax.local_devices()
    return {
        "jaxdp": version_of("jaxdp-lab"),
        "jax": jax.__version__,
        "jaxlib": version_of("jaxlib"),
        "python": platform.python_version(),
        "device": f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})",
    }


def name_of(function: Any) -> str:
    """The name of a function or callable, with its module; a partial one has its function's."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return name_of(function.func)
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def label(value: Any, longest: int = 60) -> str:
    """A name of a value, of at most so many letters."""
    name = getattr(value, "__qualname__", None) or (value if type(value) is str else repr(value))
    name = " ".join(ADDRESS.sub("", name).split())
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def sources_of(function: Callable) -> str | None:
    """A digest by which a function is known without a call: nothing that it is made of has changed.

    Read are the source files of all modules that are loaded and not installed, jaxdp's own, and the
    values that the function holds or names. None if these cannot be read, or if the function stands
    in no file, as in a notebook. What a module that the function calls takes from outside of its
    source, such as a command line, is not seen.
    """
    given = ()
    if isinstance(function, functools.partial):
        given, function = (function.args, function.keywords), function.func
    if not isinstance(function, types.FunctionType) or "__file__" not in function.__globals__:
        return None
    named = inspect.getclosurevars(function)
    values = {**named.nonlocals, **named.globals}
    paths = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    files = [
        (name, pathlib.Path(path).read_bytes())
        for name, path in sorted(paths.items())
        if path
        and path.endswith(".py")
        and not any(part in path for part in _INSTALLED)
        # Parts of jaxdp are loaded when they are needed; all of its files are read below.
        and name.partition(".")[0] != "jaxdp"
    ]
    parts = [name_of(function), given, function.__defaults__, function.__kwdefaults__, files]
    parts += [_own_sources(), [version_of(name) for name in _LIBRARIES]]
    try:
        return digest((parts, {name: _known(value) for name, value in values.items()}))
    except UnreadableError:
        return None


def _known(value: Any) -> Any:
    """A value, or the name of what its source file tells: a module, a class, a function."""
    is_function = isinstance(value, types.FunctionType) and not value.__closure__
    if is_function or isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    return value


@functools.cache
def _own_sources() -> str:
    files = sorted(pathlib.Path(__file__).parents[1].rglob("*.py"))
    return digest(tuple(file.read_bytes() for file in files))
