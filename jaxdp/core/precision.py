"""Computing in another precision than the one that is set, for a while."""

import contextlib
from typing import Any

import jax


def x64(is_enabled: bool = True) -> contextlib.AbstractContextManager[Any]:
    """A context in which JAX computes in float64, or, when not enabled, in float32."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(is_enabled)
    from jax.experimental import enable_x64  # pyright: ignore[reportAttributeAccessIssue]

    return enable_x64(is_enabled)
