"""Checks of epsilon, delta and similar arguments, and the choice of host or traced formulas."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import concrete, host_array, require_real

# Noise for a smaller delta could not be represented in float64.
_LEAST_DELTA = 1e-300


def check_delta(delta: Any) -> None:
    """Raise ValueError unless a concrete delta lies in [1e-300, 1)."""
    known = concrete(delta, "delta")
    if known is not None and not np.all((known > 0) & (known < 1)):
        raise ValueError(f"expected 0 < delta < 1, got {delta}")
    if known is not None and np.any(known < _LEAST_DELTA):
        raise ValueError(f"expected delta of at least {_LEAST_DELTA:g}, got {delta}")


def check_budget(epsilon: Any, delta: Any) -> None:
    """Raise unless epsilon and delta are scalars with 0 < epsilon < infinity and a valid delta."""
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        require_real(name, value)
        if np.ndim(value):
            came = f"shape {np.shape(value)}; make one call for each budget, or use vmap"
            raise ValueError(f"expected {name} to be one number, got {came}")
    known = concrete(epsilon, "epsilon")
    if known is not None and not 0 < known < math.inf:
        raise ValueError(f"expected 0 < epsilon < infinity, got {epsilon}")
    check_delta(delta)


def warn_of_large_delta(delta: Any, num_records: int | None, *, stacklevel: int) -> None:
    """Warn if a concrete delta is at least 1/n, for a known and public number n of records."""
    known = concrete(delta)
    if num_records is not None and known is not None and np.any(known >= 1 / num_records):
        found = (
            f"delta = {delta:g} is at least 1/n = {1 / num_records:.2g}: such a budget allows to"
        )
        advice = "publish a record drawn at random; choose delta far below 1/n"
        warnings.warn(f"{found} {advice}", UserWarning, stacklevel=stacklevel + 1)


def persons(num_records: int | None, records_per_person: int) -> int | None:
    """The least number of persons who have a known number of records."""
    return None if num_records is None else -(-num_records // records_per_person)


def check_non_negative(name: str, value: Any) -> None:
    """Raise ValueError for negative concrete values; infinity is allowed."""
    known = concrete(value, name)
    if known is not None and not np.all(known >= 0):
        raise ValueError(f"expected {name} >= 0, got {value}")


def false_positive_rates(value: Any) -> Float[np.ndarray, "..."]:
    """The rates as a host array; ValueError unless all are in [0, 1]."""
    rates = host_array("false_positive_rate", value)
    if not np.all((rates >= 0) & (rates <= 1)):
        raise ValueError(f"expected false-positive rates in [0, 1], got {value}")
    return rates


def host_scalar(name: str, value: Any) -> Any:
    """A non-negative concrete scalar as a Python float; a traced one unchanged."""
    check_non_negative(name, value)
    if np.ndim(value):
        raise ValueError(
            f"expected {name} to be a scalar, got shape {np.shape(value)}; make a batch with vmap "
            "over the constructor, and use vmap over account for its cost"
        )
    known = concrete(value)
    return value if known is None else float(known)


def answer(host: Callable[..., float], traced: Callable[..., Any], *values: Any) -> Any:
    """host(*values) for each element in float64 if all values are concrete, else traced(*values).

    Traced values are answered by JAX in their own precision, float32 at least.
    """
    try:
        shape = np.broadcast_shapes(*(np.shape(value) for value in values))
    except ValueError:
        shapes = ", ".join(str(np.shape(value)) for value in values)
        raise ValueError(f"expected shapes that broadcast, got {shapes}") from None
    known = [value for value in map(concrete, values) if value is not None]
    if len(known) < len(values):
        dtype = jnp.promote_types(jnp.result_type(*values, float), jnp.float32)
        return traced(*(jnp.broadcast_to(jnp.asarray(value, dtype), shape) for value in values))
    if shape == ():
        return host(*(float(value) for value in known))
    columns = (np.broadcast_to(value, shape).ravel().tolist() for value in known)
    return np.asarray([host(*row) for row in zip(*columns, strict=True)]).reshape(shape)


def is_probability(delta: Any) -> Any:
    """True where a traced delta lies strictly between 0 and 1 and is not subnormal."""
    return (delta >= jnp.finfo(delta.dtype).tiny) & (delta < 1)
