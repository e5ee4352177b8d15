"""How many updates an algorithm makes: known when a loop is compiled, or traced."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxdp.core.checks import concrete, require_count


class Length(eqx.Module):
    """A number of steps that is known when a loop is compiled."""

    value: int = eqx.field(static=True)


def as_length(num_steps: Any) -> Length | Int[Array, ""]:
    """A Python int as a `Length`, anything else as a scalar array of whole numbers.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is below 1, too large, or not a scalar.
    """
    if isinstance(num_steps, (int, np.integer)):
        if num_steps >= 2**31:
            raise ValueError(f"expected num_steps < 2^31, got {num_steps}")
        return Length(require_count("num_steps", num_steps))
    dtype = getattr(num_steps, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.integer):
        raise TypeError(f"expected num_steps to be a whole number, got {num_steps!r}")
    # Of one type, not weak, so that no kind of whole number compiles a program of its own.
    array = jnp.asarray(num_steps).astype(int)
    if array.shape != ():
        raise ValueError(
            f"expected num_steps to be a scalar, got shape {array.shape}; "
            "make a batch with vmap over the constructor"
        )
    known = concrete(array)
    if known is not None and known < 1:
        raise ValueError(f"expected num_steps >= 1, got {int(known)}")
    return array
