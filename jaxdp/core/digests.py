"""Digests of programs and of plain values, equal in every process: what tells two calls apart.

A program is what JAX traced, read part by part: its operations in order, what goes into each, and
every constant by the bytes of its array. Printed programs would not do: they shorten arrays, and
hold addresses and names. The sources' lines, the names of functions and of variables, and the
rules by which JAX derives functions (derivatives have been taken when a program is whole) do not
count. A function on the host is no part of a program, unless it is one of Equinox's checks, which
stop a program or let it pass.
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

# Parameters that name a program within another, and where its source stands.
_NAMES = {"name", "name_and_src_info", "debug_info"}
# Operations that leave the program: for Python on the host, or a library that somebody compiled.
_OUTSIDE = re.compile("callback|debug_print|ffi_call")
_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_threefry_partitionable")
# Libraries whose arrays and numbers are all that NumPy makes of them.
_OWNERS = {"jax", "jaxlib", "numpy", "ml_dtypes"}
# Addresses differ from process to process.
_ADDRESS = re.compile(" at 0x[0-9a-f]+")
_LIBRARIES = ("numpy", "equinox", "diffrax", "optax")
_PACKAGE = pathlib.Path(__file__).parents[1]
_INSTALLED = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"))


class UnreadableError(Exception):
    """A value cannot be told from others of its kind; the message says which value."""


def versions_of_results() -> dict[str, Any]:
    """What results depend on beside a program: the libraries' versions and JAX's settings."""
    return {
        "jax": jax.__version__,
        "jaxlib": version_of("jaxlib"),
        "jaxdp": version_of("jaxdp-lab"),
        **{name: str(getattr(jax.config, name, None)) for name in _SETTINGS},
    }


def digest(value: Any) -> str:
    """A digest of a program of `jax.make_jaxpr` or a plain value, equal in every process.

    Plain values are arrays, numbers, text, dataclasses, and tuples, lists, dicts and sets of these.
    UnreadableError where something is none of these, or a program that calls the host.
    """
    return _hashed(_Reading().of(value))


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
    name = " ".join(_ADDRESS.sub("", name).split())
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def sources_of(function: Callable, arguments: Any = ()) -> str | None:
    """A digest by which a function is known without a call: nothing that it is made of has changed.

    Read are the source files of jaxdp and of all modules that are loaded and not installed, the
    values that the function holds or names, and its arguments. None if these cannot be read, or if
    the function stands in no file, as in a notebook. What a module that the function calls takes
    from outside of its source, such as a command line, is not seen.
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
        # Parts of jaxdp are loaded when they are needed; all of its files are read.
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
    """A value, or the name of what its source file tells: a module, a class, a function."""
    is_function = isinstance(value, types.FunctionType) and not value.__closure__
    if is_function or isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    return value


@functools.cache
def _own_sources() -> str:
    return digest(tuple(path.read_bytes() for path in sorted(_PACKAGE.rglob("*.py"))))


class _Reading:
    """The parts of a value as nested tuples of text, in which equal values are equal."""

    def __init__(self):
        # A program that several equations share is read once; it is kept, so that its id stays its.
        self._programs: dict[int, tuple[str, Any]] = {}

    def of(self, value: Any) -> Any:
        kind = type(value).__qualname__
        if isinstance(value, enum.Enum):
            return kind, value.name
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            # JAX has numbers with a type of their own; long ints have no decimal digits.
            text = format(int(value), "x") if isinstance(value, int) else repr(value)
            return str(getattr(value, "dtype", kind)), text
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            return self._program(value)
        if isinstance(value, Literal):
            return str(value.aval), *self.of(value.val)
        owner = type(value).__module__.partition(".")[0]
        is_array = isinstance(value, jax.Array) or hasattr(value, "__array__")
        # A class that somebody derives from an array may hold more than its numbers.
        if is_array and owner in _OWNERS and not isinstance(value, np.ma.MaskedArray):
            return _array(value)
        if isinstance(value, (tuple, list)):
            return kind, *map(self.of, value)
        if isinstance(value, Mapping):
            return kind, *((self.of(key), self.of(item)) for key, item in value.items())
        if isinstance(value, (set, frozenset)):
            return kind, *sorted(_hashed(self.of(item)) for item in value)
        if isinstance(value, type):
            return "type", f"{value.__module__}.{kind}"
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
        # A thing of JAX's own without arrays, such as a placement, is told by how it is printed.
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
            # How a key is drawn from is part of the key's type.
            if (has_program and part in _NAMES) or (part == "impl" and name.startswith("random_")):
                continue
            try:
                parts.append((part, self.of(value)))
            except UnreadableError:
                # Beside a program of its own a function is a rule to derive another one.
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
    """The types of new variables, which are known by their numbers from here on."""
    for variable in variables:
        numbers[variable] = len(numbers)
    return tuple(str(variable.aval) for variable in variables)


def _only_raises(equation: Any) -> bool:
    """Whether a call of the host is one of `equinox.error_if`, which no result depends on.

    Every solution of diffrax has some, since times are checked when they are known.
    """
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
        # A traced array, a deleted one, or one that lies on another machine.
        raise UnreadableError(f"an array without values here ({type(error).__name__})") from error
    if array.dtype.hasobject:
        raise UnreadableError("an array of objects")
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return str(value.dtype), array.shape, hashlib.sha256(content.data).hexdigest()


def _hashed(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
