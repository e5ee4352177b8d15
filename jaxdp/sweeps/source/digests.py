"""Digests of functions and values that come out the same in every process.

A digest covers everything that can be reached from a value, part by part; `parts` says what the
parts of an object are. Neither addresses in memory nor the order of sets enter a digest. The order
of dicts does, because a function may depend on it.
"""

import collections
import functools
import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdp.sweeps.source.parts import UnreadableError, parts_of

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented))


def digest(value: Any, name: str = "the value") -> str:
    """A digest of a value, equal in every process where the value is.

    Args:
        value: a function or any other object.
        name: of the value, for the error.

    Raises:
        UnreadableError: something that it reaches cannot be read.
    """
    walk = _Walk(set(), _NamesOfFunctions())
    try:
        found = walk.digest(value, name)
    except RecursionError:
        raise UnreadableError(f"{name}, which is nested too deeply") from None
    walk.names.require_unchanged()
    return found


class _NamesOfFunctions:
    """Which names outside themselves the functions read, and which they change."""

    def __init__(self):
        self.read: set[Any] = set()
        self.changed: dict[Any, str] = {}

    def require_unchanged(self) -> None:
        """Raise UnreadableError where a name is changed here and read there."""
        for place, name in self.changed.items():
            if place in self.read:
                raise UnreadableError(f"{name}, which is both used and changed while it runs")


class _Walk:
    """A walk through objects: each is read once, and its number stands for it wherever it comes.

    Args:
        sets: the sets that are being read by the walks around this one.
        names: shared with them.
    """

    def __init__(self, sets: set[int], names: _NamesOfFunctions):
        self._state = hashlib.sha256()
        self._sets, self.names = sets, names
        self._numbers: dict[int, int] = {}
        self._waiting: collections.deque[tuple[Any, str]] = collections.deque()
        # What is made for the walk must not leave its address to others.
        self._alive: list[Any] = []

    def digest(self, value: Any, name: str) -> str:
        """The digest of a value, and of all that it reaches."""
        self._read(value, name)
        while self._waiting:
            found, name = self._waiting.popleft()
            parts = parts_of(found, name)
            self._alive.append(parts)
            self.names.read |= parts.read
            self.names.changed |= parts.changed
            self._put(parts.kind, str(len(parts.items)))
            for part, item in parts.items:
                self._put("part", part)
                self._read(item, f"{name}.{part}" if part else name)
        return self._state.hexdigest()

    def _put(self, kind: str, text: str) -> None:
        data = f"{len(kind)}:{kind}:".encode(), text.encode("utf-8", "surrogatepass")
        self._state.update(data[0] + str(len(data[1])).encode() + b":" + data[1])

    def _read(self, value: Any, name: str) -> None:
        kind = type(value)
        if kind in _SIMPLE:
            # Large ints have no decimal digits.
            self._put(kind.__name__, format(value, "x") if kind is int else repr(value))
        elif kind is tuple:
            # By value: whether equal constants are one object differs between processes.
            self._put("tuple", str(len(value)))
            for item in value:
                self._read(item, name)
        elif kind is np.ndarray or isinstance(value, jax.Array) or _is_numpys_scalar(value):
            self._read_array(value, name)
        elif kind in (set, frozenset):
            self._read_set(value, name)
        else:
            if id(value) not in self._numbers:
                self._numbers[id(value)] = len(self._numbers)
                self._alive.append(value)
                self._waiting.append((value, name))
            self._put("object", str(self._numbers[id(value)]))

    def _read_array(self, value: Any, name: str) -> None:
        if isinstance(value, Tracer):
            raise UnreadableError(f"{name}, which is traced")
        if isinstance(value, jax.Array):
            # Another result may come of a weak type.
            self._put("jax", f"{value.dtype} {getattr(value, 'weak_type', False)}")
            try:
                is_key = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
                value = np.asarray(jax.random.key_data(value) if is_key else value)
            except RuntimeError as error:
                raise UnreadableError(f"{name}, an array of JAX: {error}") from error
        array = np.asarray(value)
        self._put("array", f"{array.dtype} {array.shape}")
        if array.dtype.metadata is not None:
            self._read(dict(array.dtype.metadata), f"{name}.dtype.metadata")
        if array.dtype.hasobject:
            self._read(tuple(array.ravel().tolist()), name)
        else:
            self._state.update(array.tobytes())

    def _read_set(self, value: Any, name: str) -> None:
        """Read each item by a walk of its own, so that their order does not count."""
        found = []
        # Where a set holds what reaches the set, its length stands for it.
        if id(value) not in self._sets:
            self._sets.add(id(value))
            walks = functools.partial(_Walk, self._sets, self.names)
            found = sorted(walks().digest(item, name) for item in value)
            self._sets.remove(id(value))
        self._put(type(value).__name__, f"{len(value)} {' '.join(found)}")


def _is_numpys_scalar(value: Any) -> bool:
    """Whether it is a number of NumPy's own, and not of a class derived from one."""
    return isinstance(value, np.generic) and type(value) is value.dtype.type
