"""Maps and kernels on the host: a block of rows at a time, or in float64.

A block takes the memory of one block and one compilation; a Gram matrix that is to be factorised
would lose its small eigenvalues in float32.
"""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.arrays import gathered
from jaxdp.core.checks import (
    described,
    given_array,
    refuse_collections,
    require_count,
    require_shape,
)
from jaxdp.core.numerics.precision import in_float64
from jaxdp.kernels.base import AbstractKernel

ROWS = 2048


def row_blocks(
    function: Callable[[Array], Array], inputs: Any, *, rows: int = ROWS
) -> Iterator[np.ndarray]:
    """The function's values at consecutive rows, block after block, on the host.

    Every block has the same shape, the last one padded and cut off again: one compilation. The next
    block is computed while the caller looks at the last one.

    Args:
        function: of rows, one row at a time: a feature map, or anything that `equinox.filter_jit`
            takes as an argument.
        inputs: (n, d), with n >= 0; read a block at a time, so it may be a memory map.
        rows: how many at once; fewer where there are fewer, rounded up to a power of two.

    Yields:
        Arrays of `rows` values each, the last of what is left; nothing when n = 0.

    Raises:
        ValueError, TypeError: inputs are not a matrix, or `rows` is not a whole number >= 1.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import IdentityFeatures, row_blocks
        >>> [len(block) for block in row_blocks(IdentityFeatures(2), np.ones((5, 2)), rows=2)]
        [2, 2, 1]
    """
    if not callable(function) or isinstance(function, type):
        came = described(function)
        raise TypeError(f"expected function to be a feature map or a function, got {came}")
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
    """The function at all rows, computed in blocks.

    Args:
        function, inputs, rows: as for `row_blocks`.

    Returns:
        A value for each row, (n, ...).

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import IdentityFeatures, blockwise
        >>> blockwise(IdentityFeatures(2), np.ones((5, 2)), rows=2).shape
        (5, 2)
    """
    blocks = list(row_blocks(function, inputs, rows=rows))
    if blocks:
        return np.concatenate(blocks)
    shape = eqx.filter_eval_shape(function, jnp.zeros((1, *np.shape(inputs)[1:])))
    return np.zeros((0, *shape.shape[1:]), shape.dtype)


def host_gram(
    kernel: AbstractKernel, first: Float[np.ndarray, "n dim"], second: Float[np.ndarray, "m dim"]
) -> Float[np.ndarray, "n m"]:
    """The kernel in float64, whatever precision JAX is set to: on the host if the device lacks it.

    The kernel's own numbers (its scale) stay as they were given, in float32 by default.
    """
    with in_float64():
        rows = (jnp.asarray(each, jnp.float64) for each in (first, second))
        gram = np.asarray(kernel(*rows), np.float64)
    if not np.isfinite(gram).all():
        raise ValueError("expected a kernel with finite values, got NaN or infinite ones")
    return gram


@eqx.filter_jit
def _evaluate(function, block):
    return function(block)
