"""A kernel given by any function of two inputs."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Float

from jaxdp.core.arrays import plain_float
from jaxdp.core.checks import require_positive
from jaxdp.core.errors import NotCoveredError
from jaxdp.kernels.base import AbstractKernel, as_rows, row_pair


class CallableKernel(AbstractKernel):
    r"""A kernel that is given as a function of two inputs, mapped over all pairs of rows.

    Nothing checks that it is positive semi-definite, before a Gram matrix is factorised. A user's
    function has no written form: what is released with it (on Nystrom features) is not saved.

    Args:
        function: of two inputs, (d,) each, to a scalar; traceable by JAX.
        largest_norm: what $\sqrt{k(x, x)}$ never exceeds, for any x; infinite if unknown. The bound
            is believed.

    Raises:
        ValueError: the largest norm is not positive.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import CallableKernel
        >>> kernel = CallableKernel(lambda x, y: (x @ y) ** 2)
        >>> kernel(2 * np.eye(2), np.eye(2)).tolist()
        [[4.0, 0.0], [0.0, 4.0]]
    """

    function: Callable[[Float[Array, " dim"], Float[Array, " dim"]], Float[Array, ""]]
    largest_norm: float = eqx.field(static=True, converter=plain_float, default=math.inf)

    def __check_init__(self):
        if not callable(self.function):
            raise TypeError(f"expected function to be callable, got {self.function!r}")
        require_positive("largest_norm", self.largest_norm, infinite=True)

    def __call__(self, first, second):
        first, second = row_pair(first, second)
        return _pairs(self.function, first, second)

    def diagonal(self, inputs):
        rows = as_rows("inputs", inputs)
        return _checked(jax.vmap(self.function)(rows, rows), (len(rows),))

    def bound(self, radius=math.inf):
        del radius
        return self.largest_norm

    def features(self, num_features, dim, *, key):
        del num_features, dim, key
        raise NotCoveredError(
            "a CallableKernel has no random features, for only its values are known: use "
            "NystromFeatures(kernel, landmarks) on public landmarks"
        )


# Compiled, so that what the function computes for a pair is never held for all pairs.
@eqx.filter_jit
def _pairs(function, first, second):
    row = jax.vmap(function, in_axes=(None, 0))
    values = jax.vmap(row, in_axes=(0, None))(first, second)
    return _checked(values, (len(first), len(second)))


def _checked(values, shape):
    if values.shape != shape:
        raise ValueError(
            f"expected a function of two inputs to a scalar, got one to shape "
            f"{values.shape[len(shape) :]}"
        )
    return values
