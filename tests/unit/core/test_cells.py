"""Cells side by side give what `vmap` gives, in any nesting."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.core.numerics.batching import side_by_side

SHAPES = []


def _one(scale, values):
    return side_by_side(_scaled)(scale, values)


def _scaled(scale, values):
    cells = max(len(scale), len(values))
    SHAPES.append((len(scale), len(values)))
    return jnp.broadcast_to(scale[:, None] * jnp.sin(values), (cells, values.shape[1]))


def _plain(scale, values):
    return scale * jnp.sin(values)


SCALES = np.arange(1, 4, dtype=np.float32)
VALUES = np.arange(10, dtype=np.float32).reshape(5, 2)


@pytest.mark.parametrize(
    ("transform", "arguments", "seen"),
    [
        (lambda f: f, (SCALES[0], VALUES[0]), (1, 1)),
        (lambda f: jax.vmap(f, (0, None)), (SCALES, VALUES[0]), (3, 1)),
        (lambda f: jax.vmap(jax.vmap(f, (None, 0)), (0, None)), (SCALES, VALUES), (15, 15)),
        (lambda f: jax.jit(jax.vmap(f, (0, None), out_axes=1)), (SCALES, VALUES[1]), (3, 1)),
    ],
)
def test_cells_are_one_axis_and_the_result_is_that_of_vmap(transform, arguments, seen):
    SHAPES.clear()
    found = transform(_one)(*arguments)
    np.testing.assert_allclose(found, transform(_plain)(*arguments), rtol=1e-6)
    assert SHAPES[-1] == seen


def test_derivatives_are_those_of_the_plain_function():
    def total(function, scale):
        return jnp.sum(jax.vmap(function, (None, 0))(scale, VALUES) ** 2)

    for derivative in (jax.grad, jax.jacfwd):
        found, expected = (
            jax.jit(derivative(lambda s, f=f: total(f, s)))(2.0) for f in (_one, _plain)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-6)
