"""Maps and kernels on the host: block by block, to save memory; or in float64."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.arrays import gathered
from jaxdp.core.checks import (
    given_array,
    refuse_collections,
    require_count,
    require_function,
    require_shape,
)
from jaxdp.core.numerics.precision import in_float64
from jaxdp.kernels.base import AbstractKernel

ROWS = 2048


def row_blocks(
    function: Callable[[Array], Array], inputs: Any, *, rows: int = ROWS
) -> Iterator[np.ndarray]:
    """Yield a function's values at consecutive rows, block after block, on the host.

    All blocks have one shape, so there is one compilation; blocks are computed one ahead.

    Args:
        function: a map of rows, one by one, that `equinox.filter_jit` takes as an argument.
        inputs: (n, d), with n >= 0; read block by block, so it may be a memory map.
        rows: number >= 1 of rows in a block; for small tables reduced to a power of two.

    Yields:
        The values of each block, the last one shorter; nothing if n = 0.

    Raises:
        ValueError, TypeError: inputs are not a matrix, or `rows` is not a whole number >= 1.

    Example:
        >>> from jaxdp.kernels import IdentityFeatures, row_blocks
        >>> [len(block) for block in row_blocks(IdentityFeatures(1), [[1.0], [2.0], [3.0]], rows=2)]
        [2, 1]
    """
    require_function("function", function, "a feature map or a function")
    refuse_collections("inputs", inputs)
    has_axes = hasattr(inputs, "ndim")
    table: Any = gathered(inputs) if has_axes else given_array("inputs", inputs)
    require_shape("inputs", table, (None, None))
    rows = min(require_count("rows", rows), 1 << max(len(table) - 1, 0).bit_length())
    waiting = None
    for start in range(0, len(table), rows):
        block = np.asarray(table[start : start + rows])
        padded = np.pad(block, ((0, rows - len(block)), (0, 0)))
        values = _evaluate(function, jnp.asarray(padded))
        if waiting is not None:
            yield np.asarray(waiting[0])[: waiting[1]]
        waiting = values, len(block)
    if waiting is not None:
        yield np.asarray(waiting[0])[: waiting[1]]


def blockwise(
    function: Callable[[Array], Array], inputs: Float[Any, "n dim"], *, rows: int = ROWS
) -> np.ndarray:
    """Evaluate a function at all rows, block by block, with `row_blocks`.

    Args:
        function, inputs, rows: the arguments of `row_blocks`.

    Returns:
        The values, (n, ...).

    Example:
        >>> from jaxdp.kernels import IdentityFeatures, blockwise
        >>> blockwise(IdentityFeatures(1), [[1.0], [2.0]]).tolist()
        [[1.0], [2.0]]
    """
    blocks = list(row_blocks(function, inputs, rows=rows))
    if blocks:
        return np.concatenate(blocks)
    shape = eqx.filter_eval_shape(function, jnp.zeros((1, *np.shape(inputs)[1:])))
    return np.zeros((0, *shape.shape[1:]), shape.dtype)


def host_gram(
    kernel: AbstractKernel, first: Float[np.ndarray, "n dim"], second: Float[np.ndarray, "m dim"]
) -> Float[np.ndarray, "n m"]:
    """The Gram matrix in float64, whatever JAX's precision."""
    with in_float64():
        rows = (jnp.asarray(each, jnp.float64) for each in (first, second))
        gram = np.asarray(kernel(*rows), np.float64)
    if not np.isfinite(gram).all():
        raise ValueError("expected a kernel with finite values, got NaN or infinite ones")
    return gram


@eqx.filter_jit
def _evaluate(function, block):
    return function(block)
