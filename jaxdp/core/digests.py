"""Digests of traced programs and of plain values, which are equal in every process.

A program's digest covers its operations in order, their inputs and all constants. Printed programs
would shorten arrays and hold addresses. Source lines, names of functions and variables, and unused
rules of differentiation do not count. Calls of the host have no digest, except Equinox's checks,
which stop a program or let it pass.
"""

import dataclasses
import enum
import functools
import hashlib
import inspect
import pathlib
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive

from jaxdp.core.packages import version_of

# Parameters with the name and the source of a program within another.
_NAMES = {"name", "name_and_src_info", "debug_info"}
# Operations that call Python on the host or a foreign library.
_OUTSIDE = re.compile("callback|debug_print|ffi_call")
_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_threefry_partitionable")
# Libraries whose arrays hold nothing but their numbers.
_OWNERS = {"jax", "jaxlib", "numpy", "ml_dtypes"}
_ADDRESS = re.compile(" at 0x[0-9a-f]+")
_LIBRARIES = ("numpy", "equinox", "diffrax", "optax")
_PACKAGE = pathlib.Path(__file__).parents[1]
_INSTALLED = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"))


class UnreadableError(Exception):
    """Raised for a value that has no digest; the message names the value."""


def versions_of_results() -> dict[str, Any]:
    """Versions of libraries and settings of JAX on which a program's results depend."""
    return {
        "jax": jax.__version__,
        "jaxlib": version_of("jaxlib"),
        "jaxdp": version_of("jaxdp-lab"),
        **{name: str(getattr(jax.config, name, None)) for name in _SETTINGS},
    }


def digest(value: Any) -> str:
    """Digest a program of `jax.make_jaxpr`, or a plain value.

    Plain values are arrays, numbers, texts, dataclasses, and tuples, lists, dicts and sets of them.
    UnreadableError for any other value, and for a program that calls the host.
    """
    return _hashed(_Reading().of(value))


def name_of(function: Any) -> str:
    """Name a function or callable, with its module."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return name_of(function.func)
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def label(value: Any) -> str:
    """Describe a value in one line of at most 60 characters."""
    name = getattr(value, "__qualname__", None) or (value if type(value) is str else repr(value))
    name = " ".join(_ADDRESS.sub("", name).split())
    return name if len(name) <= 60 else f"{name[:57]}..."


def sources_of(function: Callable, arguments: Any = ()) -> str | None:
    """Digest the sources and values behind a function, to recognise it without tracing.

    The digest covers the source files of jaxdp and of all loaded modules that are not installed,
    the values that the function holds or names, and its arguments. None if a value has no digest,
    or the function is not in a file. A value that a module reads elsewhere, such as a command line,
    is not covered.
    """
    given = [arguments]
    if isinstance(function, functools.partial):
        given += [function.args, function.keywords]
        function = function.func
    if not isinstance(function, types.FunctionType) or "__file__" not in function.__globals__:
        return None
    paths = {
        str(path)
        for name, module in sys.modules.items()
        # jaxdp loads its parts lazily, so all of its files are read instead.
        if name.partition(".")[0] != "jaxdp" and (path := getattr(module, "__file__", None))
    }
    own = [path for path in sorted(paths) if not any(part in path for part in _INSTALLED)]
    files = [pathlib.Path(path).read_bytes() for path in own if path.endswith(".py")]
    named = inspect.getclosurevars(function)
    values = {name: _known(value) for name, value in {**named.nonlocals, **named.globals}.items()}
    held = name_of(function), given, function.__defaults__, function.__kwdefaults__, values
    try:
        return digest((held, files, _own_sources(), [version_of(name) for name in _LIBRARIES]))
    except UnreadableError:
        return None


def _known(value: Any) -> Any:
    """The value, or the name of a module, class or function, which its source file describes."""
    is_function = isinstance(value, types.FunctionType) and not value.__closure__
    if is_function or isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    return value


@functools.cache
def _own_sources() -> str:
    return digest(tuple(path.read_bytes() for path in sorted(_PACKAGE.rglob("*.py"))))


class _Reading:
    """Represents a value as nested tuples of text, which are equal for equal values."""

    def __init__(self):
        # Shared programs are read once. Their values are kept, because a freed id can return.
        self._programs: dict[int, tuple[str, Any]] = {}

    def of(self, value: Any) -> Any:
        kind = type(value).__qualname__
        if isinstance(value, enum.Enum):
            return kind, value.name
        if value is None or isinstance(value, (int, float, complex, str, bytes)):
            # JAX's literals have a dtype. Python refuses long ints in decimal.
            text = format(int(value), "x") if isinstance(value, int) else repr(value)
            return str(getattr(value, "dtype", kind)), text
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            return self._program(value)
        if isinstance(value, Literal):
            return str(value.aval), *self.of(value.val)
        owner = type(value).__module__.partition(".")[0]
        is_array = isinstance(value, jax.Array) or hasattr(value, "__array__")
        # A user's subclass of an array may hold more than numbers.
        if is_array and owner in _OWNERS and not isinstance(value, np.ma.MaskedArray):
            return _array(value)
        if isinstance(value, (tuple, list)):
            return kind, *map(self.of, value)
        if isinstance(value, Mapping):
            return kind, *((self.of(key), self.of(item)) for key, item in value.items())
        if isinstance(value, (set, frozenset)):
            return kind, *sorted(_hashed(self.of(item)) for item in value)
        if isinstance(value, type):
            return "type", f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, Primitive):
            return "primitive", value.name
        if isinstance(value, np.dtype):
            return "dtype", str(value)
        if isinstance(value, jax.tree_util.PyTreeDef):
            return "tree", _ADDRESS.sub("", str(value))
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            return kind, *((name, self.of(getattr(value, name))) for name in names)
        if type(value) is object:
            return kind
        # JAX's own objects without arrays, such as shardings, are identified by their repr.
        text = repr(value)
        is_jaxs = owner in ("jax", "jaxlib") and jax.tree_util.all_leaves([value])
        if is_array or not is_jaxs or " at 0x" in text:
            raise UnreadableError(f"{type(value).__module__}.{kind}")
        return kind, text

    def _program(self, value: Any) -> str:
        if id(value) not in self._programs:
            # From JAX 0.11 on a program holds its constants itself.
            program = getattr(value, "jaxpr", value)
            numbers: dict[Any, int] = {}
            variables = (*getattr(program, "constvars", ()), *program.invars)
            parts = (
                _numbered(variables, numbers),
                self.of(tuple(getattr(value, "consts", ()))),
                *(self._equation(equation, numbers) for equation in program.eqns),
                self._inputs(program.outvars, numbers),
            )
            self._programs[id(value)] = _hashed(parts), value
        return self._programs[id(value)][0]

    def _equation(self, equation: Any, numbers: dict[Any, int]) -> Any:
        name = equation.primitive.name
        if _OUTSIDE.search(name):
            if not _only_raises(equation):
                raise UnreadableError(f"a call of the host or of another library, {name},")
            inputs = self._inputs(equation.invars, numbers)
            return "error_if", inputs, _numbered(equation.outvars, numbers)
        has_program = any(map(_has_program, equation.params.values()))
        parts = []
        for part, value in sorted(equation.params.items()):
            # The type of a key includes the generator.
            if (has_program and part in _NAMES) or (part == "impl" and name.startswith("random_")):
                continue
            try:
                parts.append((part, self.of(value)))
            except UnreadableError:
                # In an equation with a program, a function is only a rule of differentiation.
                if not has_program or _has_program(value):
                    raise
        inputs = self._inputs(equation.invars, numbers)
        return name, inputs, tuple(parts), _numbered(equation.outvars, numbers)

    def _inputs(self, variables: Sequence[Any], numbers: dict[Any, int]) -> Any:
        return tuple(
            self.of(variable) if isinstance(variable, Literal) else numbers[variable]
            for variable in variables
        )


def _numbered(variables: Sequence[Any], numbers: dict[Any, int]) -> Any:
    """Number new variables, and return their types."""
    for variable in variables:
        numbers[variable] = len(numbers)
    return tuple(str(variable.aval) for variable in variables)


def _only_raises(equation: Any) -> bool:
    """Return True for a call of the host by `equinox.error_if`, as in every diffrax solve."""
    function = getattr(equation.params.get("callback"), "callback_func", None)
    return getattr(function, "__module__", None) == "equinox._errors"


def _has_program(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_program, value))
    return isinstance(value, (Jaxpr, ClosedJaxpr))


def _array(value: Any) -> Any:
    try:
        is_key = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(value) if is_key else value)
    except Exception as error:
        # Traced, deleted or on another machine.
        raise UnreadableError(f"an array without values here ({type(error).__name__})") from error
    if array.dtype.hasobject:
        raise UnreadableError("an array of objects")
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return str(value.dtype), array.shape, hashlib.sha256(content.data).hexdigest()


def _hashed(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
