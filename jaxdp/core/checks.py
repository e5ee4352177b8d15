"""Checks of arguments: clear errors that say what was expected and what came.

Traced values (under `jit`, `vmap` or `grad`) pass; a run that they spoil ends with a status.
"""

import functools
import numbers
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

# The most bits of a number that errors show: seeds of secret noise have more.
SHOWN_BITS = 64
# The most axes that a NumPy array may have.
_MOST_AXES = 64


def given_array(name: str, value: Any) -> np.ndarray:
    """A user's data as a NumPy array; TypeError if NumPy makes none.

    Every function that takes data begins here, or in `refuse_collections` if JAX's arrays stay as
    they are, so that the same data are refused in the same words everywhere. The caller checks the
    dtype.
    """
    refuse_collections(name, value)
    kind = type(value).__name__
    try:
        array = np.asarray(value)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        require_host(name, value)
        # Other libraries raise errors of many kinds, some of which show a cell.
        came = f"{kind}, of which NumPy makes none ({type(error).__name__})"
        came = "rows of different lengths" if isinstance(value, (list, tuple)) else came
        raise TypeError(f"expected {name} to be an array of numbers, got {came}") from None
    if not array.ndim and not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(f"expected {name} to be an array, got {kind}")
    return array


def refuse_collections(name: str, value: Any) -> None:
    """Raise TypeError for data that NumPy would misread, also within nested lists.

    These are masked arrays, whose masks `numpy.asarray` drops, sparse matrices, and arrays by name:
    a dict of splits, an `h5py.File`.
    """
    for leaf in leaves_of(value):
        kind = type(leaf)
        if kind in (int, float, np.ndarray) or issubclass(kind, np.generic):
            continue
        # An array of dask holds an empty one of its kind; astropy has masked arrays of its own.
        kinds = kind, type(getattr(leaf, "_meta", None))
        if any(issubclass(each, np.ma.MaskedArray) or hasattr(each, "unmasked") for each in kinds):
            came = "a masked one: fill in what is missing first"
        elif hasattr(kind, "toarray") or hasattr(kind, "todense"):
            method = "toarray" if hasattr(kind, "toarray") else "todense"
            came = f"a sparse {kind.__name__}: its method {method}() makes an array"
        elif isinstance(leaf, Mapping):
            came = f"arrays by name ({kind.__name__}): give one of them"
        else:
            continue
        wanted = name if name == "real numbers" else f"{name} to be an array of numbers"
        raise TypeError(f"expected {wanted}, got {came}")


def leaves_of(value: Any, depth: int = 0) -> Iterator[Any]:
    """The items of nested lists and tuples, to the depth that an array can have."""
    if not isinstance(value, (list, tuple)) or depth > _MOST_AXES:
        yield value
    elif any(issubclass(kind, (list, tuple)) for kind in set(map(type, value))):
        for part in value:
            yield from leaves_of(part, depth + 1)
    else:
        yield from value


def concrete(value: Any, name: str = "real numbers") -> np.ndarray | None:
    """The value as a float64 NumPy array, or None if traced; TypeError if it is not a number."""
    if isinstance(value, Tracer):
        return None
    require_real(name, value)
    return np.asarray(value).astype(np.float64)


def require_real(name: str, value: Any) -> None:
    """Raise TypeError unless the value is made of real numbers; nothing is copied off a device.

    Text is refused, as NumPy would read "1" as 1, and so is a single True or False; arrays of
    booleans pass, as labels or masks.
    """
    refuse_collections(name, value)
    dtype = getattr(value, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind == "O":
        dtype = _dtype_of(value)
    # "V" are the types of eight and sixteen bits that NumPy does not know.
    if dtype.kind not in "biufV" or is_boolean(value):
        wanted = name if name == "real numbers" else f"{name} to be a real number"
        raise TypeError(f"expected {wanted}, got {described(value)}")


def is_boolean(value: Any) -> bool:
    """Whether the value is one True or False, of Python, NumPy or JAX, traced or not."""
    is_array = getattr(value, "shape", None) == () and getattr(value, "dtype", None) == np.bool_
    return isinstance(value, bool) or is_array


def _dtype_of(value: Any) -> np.dtype:
    try:
        array = np.asarray(value)
    except (MemoryError, OSError):
        raise
    # Rows of unequal length, arrays without numbers such as keys, errors of other libraries.
    except Exception:
        return np.dtype(object)
    # A data frame's columns of different types, where None is a missing number.
    if array.dtype.kind == "O" and array.ndim:
        is_real = all(item is None or isinstance(item, numbers.Real) for item in array.flat)
        return np.dtype(float if is_real else object)
    return array.dtype


class Condition(NamedTuple):
    """A condition on an argument: expected and given value in words, and whether it holds."""

    expected: str
    got: Any
    holds: Any  # True or False, as an array or traced where the argument is


def require_conditions(conditions: Iterable[Condition]) -> None:
    """Raise ValueError for a concrete condition that does not hold; traced ones pass."""
    for expected, got, holds in conditions:
        if not isinstance(holds, Tracer) and not np.all(holds):
            raise ValueError(f"expected {expected}, got {got}")


def all_hold(conditions: Iterable[Condition]) -> Any:
    """Whether all conditions hold, traced if one of them is."""
    return functools.reduce(operator.and_, (one.holds for one in conditions), np.asarray(True))


def require_scalar(name: str, value: Any) -> None:
    """Raise TypeError or ValueError unless the value is one real number, traced or not."""
    require_real(name, value)
    if np.ndim(value):
        came = f"got shape {np.shape(value)}; make a batch with vmap over the constructor"
        raise ValueError(f"expected {name} to be a scalar, {came}")


def require_host(name: str, value: Any) -> None:
    """Raise TypeError if a pytree holds a traced value, for computations on the host."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value)):
        raise TypeError(
            f"expected concrete {name}, got a traced one: it is read on the host, so call this "
            "outside jit, vmap and grad"
        )


def host_array(name: str, value: Any) -> Float[np.ndarray, "*shape"]:
    """A concrete argument as a float64 array; TypeError if it is traced or not real."""
    require_host(name, value)
    require_real(name, value)
    return np.asarray(value, np.float64)


def require_callable(name: str, value: Any, expected: str = "a function") -> None:
    """Raise TypeError unless the value can be called; `expected` describes it for the user."""
    if not callable(value):
        raise TypeError(f"expected {name} to be {expected}, got {described(value)}")


def require_function(name: str, value: Any, expected: str) -> None:
    """Raise TypeError unless the value can be called and is no class."""
    if not callable(value) or isinstance(value, type):
        raise TypeError(f"expected {name} to be {expected}, got {described(value)}")


def require_kind(name: str, value: Any, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise TypeError unless the value is of the kind; `expected` describes it for the user."""
    if not isinstance(value, kind):
        is_class = isinstance(value, type) and issubclass(value, kind)
        came = f"the class {value.__name__} itself; call it" if is_class else described(value)
        raise TypeError(f"expected {name} to be {expected}, got {came}")


def _no_numbers(value: Any) -> str:
    """The names of a data frame's columns without numbers; names are public."""
    kinds = getattr(value, "dtypes", None)
    if kinds is None or not hasattr(kinds, "items"):
        return ""
    names = [repr(name) for name, kind in kinds.items() if kind.kind not in "biuf"]
    return f", without numbers in {', '.join(names[:5])}" if names else ""


def described(value: Any) -> str:
    """A wrong argument in words, for an error that shows no records, keys or seeds of noise.

    Arrays, tables and lists may hold private records, and a number of more than 64 bits may be a
    misplaced seed of secret noise; errors end up in logs.
    """
    if value is None:
        return "None"
    name = type(value).__name__
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return "a jax.random.key"
    if isinstance(value, int) and value.bit_length() > SHOWN_BITS:
        return f"{name} of {value.bit_length()} bits"
    if getattr(value, "ndim", 0) and (shape := getattr(value, "shape", None)):
        is_text = getattr(getattr(value, "dtype", None), "kind", "") in ("U", "S")
        return f"{name}{' of texts' if is_text else ''} of shape {tuple(shape)}{_no_numbers(value)}"
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return f"{name} of {len(value)} items"
    is_text = isinstance(value, (str, bytes))
    if hasattr(type(value), "__getitem__") and not (is_text or hasattr(value, "dtype")):
        # The repr of a data set may show records.
        return name
    method = getattr(getattr(value, "__func__", None), "__name__", None)
    if method is not None and hasattr(value, "__self__"):
        return f"the method {method} itself; call it"
    return f"{name}: {' '.join(repr(value).split())[:80]}"


def require_positive(name: str, value: Any, *, infinite: bool = False) -> None:
    """Raise ValueError unless a concrete scalar is positive, and finite unless `infinite`."""
    known = _known_scalar(name, value)
    if known is not None and not (known > 0 and (infinite or np.isfinite(known))):
        raise ValueError(f"expected {'' if infinite else 'finite '}{name} > 0, got {known}")


def require_non_negative(name: str, value: Any) -> None:
    """Raise ValueError unless a concrete scalar is finite and at least zero."""
    known = _known_scalar(name, value)
    if known is not None and not (known >= 0 and np.isfinite(known)):
        raise ValueError(f"expected finite {name} >= 0, got {known}")


def _known_scalar(name: str, value: Any) -> np.ndarray | None:
    known = concrete(value, name)
    if known is not None:
        require_scalar(name, known)
    return known


def host_number(name: str, value: Any) -> float:
    """A concrete scalar as a Python float; `float(value)` alone would read the text "1" as 1."""
    array = host_array(name, value)
    if array.ndim:
        raise ValueError(f"expected {name} to be one number, got shape {array.shape}")
    return float(array)


def require_count(name: str, value: Any, *, least: int = 1) -> int:
    """The value as a Python int; ValueError or TypeError unless it is an integer >= least."""
    require_whole(name, value)
    if value < least:
        raise ValueError(f"expected {name} >= {least}, got {value}")
    return int(value)


def require_whole(name: str, value: Any) -> None:
    """Raise TypeError unless the value is an integer, of any sign."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"expected {name} to be a Python int, got {described(value)}")


def require_key(key: Any) -> None:
    """Raise TypeError unless `key` is one `jax.random.key`."""
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)):
        is_old = getattr(key, "dtype", None) == np.uint32
        came = "a key of the old kind, PRNGKey" if is_old else type(key).__name__
        raise TypeError(
            f"expected key to be a jax.random.key, such as jax.random.key(0), got {came}"
        )
    if key.shape != ():
        raise ValueError(f"expected one key, got an array of keys of shape {key.shape}")


def concrete_key_data(key: Any) -> np.ndarray | None:
    """The words of a `jax.random.key`, or None if it is traced."""
    return None if isinstance(key, Tracer) else np.asarray(jax.random.key_data(key))


def require_shape(name: str, value: Any, shape: tuple[int | None, ...]) -> None:
    """Raise ValueError unless the value has this shape; None allows any length."""
    pairs = zip(shape, value.shape, strict=False)
    if value.ndim != len(shape) or not all(want in (None, have) for want, have in pairs):
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"expected {name} of shape ({wanted}), got {value.shape}")


def require_finite(name: str, value: Any) -> None:
    """Raise ValueError if a concrete array is not finite; the check runs on the array's device."""
    if isinstance(value, Tracer):
        return
    if is_on_accelerator(value):
        count = int(_count_not_finite(value))
    else:
        # A floating-point array keeps its own type, without a copy.
        is_float = isinstance(value, (jax.Array, np.ndarray)) and np.dtype(value.dtype).kind == "f"
        known: Any = np.asarray(value) if is_float else concrete(value, name)
        count = int(np.count_nonzero(~np.isfinite(known)))
    if count:
        raise ValueError(f"expected finite {name}, got {count} entries that are not")


def is_on_accelerator(value: Any) -> bool:
    """Whether a concrete JAX array lies outside the memory of the CPU."""
    is_known = isinstance(value, jax.Array) and not isinstance(value, Tracer)
    return is_known and any(device.platform != "cpu" for device in value.devices())


@jax.jit
def _count_not_finite(value: Any) -> Any:
    return jnp.sum(~jnp.isfinite(value))


class NotCoveredError(Exception):
    """A theory or simulator does not cover a problem and algorithm; raised before any work.

    The message names the theory or simulator, the violated assumption, and an alternative.

    Example:
        >>> import jax, jaxdp
        >>> stream = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 1000)
        >>> try:
        ...     jaxdp.predict(stream, algorithm, theory=jaxdp.GaussianClosure())
        ... except jaxdp.NotCoveredError as error:
        ...     print(str(error).partition(":")[0])
        GaussianClosure
    """
