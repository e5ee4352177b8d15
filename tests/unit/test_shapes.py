"""The checker of shapes: what it lets through, what it does not, and when it is on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, TypeCheckError, jaxtyped
from shapes import checked

from jaxdp.core.numerics.counter_normals import key_words


@jaxtyped(typechecker=checked)
def _product(
    matrix: Float[Array, "rows dim"], vector: Float[Array, " dim"] | float, *, count: int = 1
) -> tuple[Float[Array, " rows"], int]:
    if np.ndim(matrix) != 2:
        raise ValueError("expected a matrix")
    return matrix @ (vector * jnp.ones(matrix.shape[1])), count


@jaxtyped(typechecker=checked)
def _flattened(values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return jnp.ravel(values)


MATRIX = jax.device_put(np.ones((3, 2), np.float32))
VECTOR = jax.device_put(np.ones(2, np.float32))


@pytest.mark.parametrize("matrix", [MATRIX, np.ones((3, 2)), np.ones((3, 2), np.float32)])
@pytest.mark.parametrize("vector", [VECTOR, np.ones(2), 1, 1.0, np.float64(1)])
def test_arrays_and_numbers_of_the_shapes_that_are_annotated_pass(matrix, vector):
    assert _product(matrix, vector, count="not looked at")[0].shape == (3,)


@pytest.mark.parametrize(
    ("matrix", "vector"),
    [
        (MATRIX, jax.device_put(np.ones(1, np.float32))),
        (np.ones((3, 2)), np.ones(1)),
        (jax.device_put(np.ones((3, 2), np.int32)), 1.0),
        (np.ones((3, 2), int), 1.0),
        (MATRIX, jax.device_put(np.ones(2, np.int32))),
    ],
)
def test_other_shapes_and_types_do_not(matrix, vector):
    with pytest.raises(TypeCheckError):
        _product(matrix, vector)


def test_results_are_looked_at():
    assert _flattened(jnp.ones(4)).shape == (4,)
    with pytest.raises(TypeCheckError):
        _flattened(jnp.ones((2, 2)))


def test_the_option_switches_the_checker_on(request):
    assert hasattr(key_words, "__wrapped__") == request.config.getoption("check_shapes")
