"""The number of updates that an algorithm makes: a Python int, or a traced whole number.

A Python int sets the length of compiled loops; with a traced one a compiled function serves all.
"""

from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxdp.core.arrays import in_jax
from jaxdp.core.checks import concrete, require_count
from jaxdp.core.description import AbstractDescription


class Length(eqx.Module):
    """A number of steps that is known when a loop is compiled."""

    value: int = eqx.field(static=True)


class AbstractStepwise(AbstractDescription):
    """Whatever makes a number of steps."""

    _length: eqx.AbstractVar[Length | Int[Array, ""]]

    @property
    def num_steps(self) -> int | Int[Array, "*batch"]:
        """How many updates it makes."""
        return self._length.value if isinstance(self._length, Length) else self._length

    def with_traced_length(self) -> Self:
        """The algorithm with `num_steps` as an array, which no compilation depends on."""
        return eqx.tree_at(
            lambda tree: tree._length,
            self,
            in_jax(self.num_steps),
            is_leaf=lambda node: isinstance(node, Length),
        )


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
