"""A public function of one row as a feature map."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import described, require_count
from jaxdp.kernels.base import AbstractFeatureMap, as_rows


class FunctionFeatures(AbstractFeatureMap):
    """Any function of one row as a feature map.

    The function sees one row at a time, so that the features of a record depend on that record
    alone. Nothing bounds them: wrap the map in `ClippedFeatures`. A user's function has no written
    form: what is released with it is not saved.

    Args:
        function: public function from one row, (d,), to its features, (M,); traceable by JAX, and
            chosen without looking at the data.
        num_inputs: number of columns d.

    Raises:
        TypeError: the function is not callable.
        ValueError: its value is no vector.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from jaxdp.kernels import FunctionFeatures
        >>> features = FunctionFeatures(lambda row: jnp.append(row, row[0] * row[1]), 2)
        >>> features(np.array([[2.0, 3.0], [1.0, 0.5]])).tolist()
        [[2.0, 3.0, 6.0], [1.0, 0.5, 0.5]]
    """

    function: Callable[[Float[Array, " dim"]], Float[Array, " outputs"]]
    num_inputs: int = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        require_function(self.function)
        require_count("num_inputs", self.num_inputs)
        _ = self.num_outputs

    @eqx.filter_jit
    def __call__(self, inputs):
        rows = as_rows("inputs", inputs, self.num_inputs)
        return jnp.asarray(jax.vmap(self.function)(rows), rows.dtype)

    @property
    def dim(self):
        return self.num_inputs

    @property
    def num_outputs(self):
        row = jax.ShapeDtypeStruct((self.num_inputs,), jnp.float32)
        shape = getattr(eqx.filter_eval_shape(self.function, row), "shape", None)
        if shape is None or len(shape) != 1 or shape[0] < 1:
            raise ValueError(
                f"expected a function of one row, of shape ({self.num_inputs},), to a vector of "
                f"features, got one to {'no array' if shape is None else f'shape {shape}'}"
            )
        return shape[0]


def require_function(function: Any, name: str = "function") -> None:
    """Raise TypeError unless it can be called, and is no class."""
    if not callable(function) or isinstance(function, type):
        raise TypeError(
            f"expected {name} to be a feature map or a function of one row, got "
            f"{described(function)}"
        )
