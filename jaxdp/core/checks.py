"""Checks of arguments: one clear error that says what was expected and what came.

Values that are traced (under `jit`, `vmap` or `grad`) cannot be looked at; they pass, and a run
that they spoil ends with a status instead.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float


def concrete(value: Any, name: str = "real numbers") -> np.ndarray | None:
    """The value as a float64 NumPy array, or None when it is traced.

    Args:
        value: what was given.
        name: of the argument, for the error.

    Raises:
        TypeError: it is not made of numbers; NumPy would read the text "1" as 1.
    """
    if isinstance(value, Tracer):
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "biufV":
        wanted = name if name == "real numbers" else f"{name} to be a real number"
        raise TypeError(f"expected {wanted}, got {_described(value)}")
    return array.astype(np.float64)


def require_kind(name: str, value: Any, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise TypeError unless the argument is an instance of the kind.

    Args:
        name: of the argument.
        value: what was given.
        kind: as `isinstance` takes it.
        expected: what a user would pass, in words: "a problem, such as LinearRegression".
    """
    if not isinstance(value, kind):
        is_class = isinstance(value, type) and issubclass(value, kind)
        came = f"the class {value.__name__} itself; call it" if is_class else _described(value)
        raise TypeError(f"expected {name} to be {expected}, got {came}")


def _described(value: Any) -> str:
    text = repr(value)
    return "None" if value is None else f"{type(value).__name__}: {text[:80]}"


def require_positive(name: str, value: Any, *, infinite: bool = False) -> None:
    """Raise ValueError unless the concrete scalar `value` is positive (and finite)."""
    known = _known_scalar(name, value)
    if known is not None and not (known > 0 and (infinite or np.isfinite(known))):
        raise ValueError(f"expected {'' if infinite else 'finite '}{name} > 0, got {known}")


def require_non_negative(name: str, value: Any) -> None:
    """Raise ValueError unless the concrete scalar `value` is finite and at least zero."""
    known = _known_scalar(name, value)
    if known is not None and not (known >= 0 and np.isfinite(known)):
        raise ValueError(f"expected finite {name} >= 0, got {known}")


def require_scalar(name: str, value: Any) -> None:
    """Raise ValueError unless the value, traced or not, is a single number."""
    if np.ndim(value):
        raise ValueError(
            f"expected {name} to be a scalar, got shape {np.shape(value)}; "
            "make a batch with vmap over the constructor"
        )


def _known_scalar(name: str, value: Any) -> np.ndarray | None:
    known = concrete(value, name)
    if known is not None:
        require_scalar(name, known)
    return known


def host_number(name: str, value: Any) -> float:
    """The value as a Python float; TypeError unless it is a number that is known, ValueError else.

    `float(value)` would read the text "1" as 1.
    """
    known = _known_scalar(name, value)
    if known is None:
        raise TypeError(f"expected {name} to be a known number, got a traced one; call outside jit")
    return float(known)


def host_array(name: str, value: Any) -> Float[np.ndarray, "*shape"]:
    """The value as a float64 NumPy array; TypeError unless it is made of numbers that are known."""
    known = concrete(value, name)
    if known is None:
        raise TypeError(f"expected known {name}, got a traced array; call outside jit")
    return known


def require_count(name: str, value: Any) -> int:
    """The value as a Python int; ValueError or TypeError unless it is a whole number >= 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"expected {name} to be a Python int, got {type(value).__name__}: {value}")
    if value < 1:
        raise ValueError(f"expected {name} >= 1, got {value}")
    return int(value)


def require_key(key: Any) -> None:
    """Raise TypeError unless `key` is one `jax.random.key`."""
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)):
        is_old = getattr(key, "dtype", None) == np.uint32
        raise TypeError(
            f"expected key to be a jax.random.key, for example jax.random.key(0), "
            f"got {'a key of the old kind, PRNGKey' if is_old else type(key).__name__}"
        )
    if key.shape != ():
        raise ValueError(f"expected one key, got an array of keys of shape {key.shape}")


def concrete_key_data(key: Any) -> np.ndarray | None:
    """The words of a `jax.random.key`, or None when it is traced."""
    return None if isinstance(key, Tracer) else np.asarray(jax.random.key_data(key))


def require_shape(name: str, value: Any, shape: tuple[int | None, ...]) -> None:
    """Raise ValueError unless the value's shape is the one given; None stands for any length."""
    fits = value.ndim == len(shape) and all(
        want in (None, have) for want, have in zip(shape, value.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"expected {name} of shape ({wanted}), got {value.shape}")


def require_finite(name: str, value: Any) -> None:
    """Raise ValueError where a concrete array is not finite."""
    known = concrete(value, name)
    if known is not None and not np.isfinite(known).all():
        count = int((~np.isfinite(known)).sum())
        raise ValueError(f"expected finite {name}, got {count} entries that are not")
