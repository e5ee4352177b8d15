"""Checks of arguments: one clear error that says what was expected and what came.

Values that are traced (under `jit`, `vmap` or `grad`) cannot be looked at; they pass, and a run
that they spoil ends with a status instead.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


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


def _known_scalar(name: str, value: Any) -> np.ndarray | None:
    known = concrete(value, name)
    if known is not None and known.shape != ():
        raise ValueError(
            f"expected {name} to be a scalar, got shape {known.shape}; "
            "make a batch with vmap over the constructor"
        )
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
    """Raise ValueError where a concrete array is not finite; one on an accelerator stays there."""
    count = _num_not_finite(name, value)
    if count:
        raise ValueError(f"expected finite {name}, got {count} entries that are not")


def is_on_accelerator(value: Any) -> bool:
    """Whether a concrete JAX array lies elsewhere than in the memory of the CPU."""
    is_known = isinstance(value, jax.Array) and not isinstance(value, Tracer)
    return is_known and any(device.platform != "cpu" for device in value.devices())


def _num_not_finite(name: str, value: Any) -> int:
    if isinstance(value, Tracer):
        return 0
    if is_on_accelerator(value):
        return int(_count_not_finite(value))
    if isinstance(value, (jax.Array, np.ndarray)) and np.dtype(value.dtype).kind == "f":
        # In its own type, without a copy.
        known = np.asarray(value)
    else:
        known: Any = concrete(value, name)
    return int(np.count_nonzero(~np.isfinite(known)))


@jax.jit
def _count_not_finite(value: Any) -> Any:
    return jnp.sum(~jnp.isfinite(value))
