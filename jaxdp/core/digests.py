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
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive

from jaxdp.core.version import version_of

# Parameters that name a program within another, and where its source stands.
_NAMES = {"name", "name_and_src_info", "debug_info"}
# Operations that leave the program: for Python on the host, or a library that somebody compiled.
_OUTSIDE = re.compile("callback|debug_print|ffi_call")
_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_threefry_partitionable")
# Libraries whose arrays and numbers are all that NumPy makes of them.
_OWNERS = {"jax", "jaxlib", "numpy", "ml_dtypes"}
# Addresses differ from process to process.
ADDRESS = re.compile(" at 0x[0-9a-f]+")


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
            return "tree", ADDRESS.sub("", str(value))
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
