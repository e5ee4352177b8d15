import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.core.numerics.batching import cholesky, one_at_a_time, solve_positive
from jaxdp.core.numerics.precision import x64

FACTORS = np.random.default_rng(0).normal(size=(2, 5, 3, 7))
MATRICES = FACTORS @ FACTORS.swapaxes(-1, -2)


def _lapack_shapes(function, *values):
    """The shapes of what LAPACK is given by the program of a CPU."""
    text = jax.jit(function).lower(*values).as_text()
    calls = [line for line in text.splitlines() if "lapack_" in line and "custom_call" in line]
    # "... : (tensor<5x3x3xf32>) -> (tensor<5x3x3xf32>, tensor<5xi32>)"
    return [line.split(" : (tensor<")[1].split(">")[0].split("x")[:-1] for line in calls]


@pytest.mark.parametrize("decompose", [jnp.linalg.cholesky, jnp.linalg.qr, jnp.linalg.eigh])
def test_a_batch_is_decomposed_matrix_by_matrix_to_the_same_bits(decompose):
    matrices = jnp.asarray(MATRICES, jnp.float32)
    safe, plain = (jax.vmap(jax.vmap(f)) for f in (one_at_a_time(decompose), decompose))
    jax.tree.map(np.testing.assert_array_equal, jax.jit(safe)(matrices), jax.jit(plain)(matrices))
    assert {len(shape) for shape in _lapack_shapes(safe, matrices)} == {2}
    assert {len(shape) for shape in _lapack_shapes(plain, matrices)} == {4}


def test_what_has_no_leading_axis_is_shared_by_all():
    right = jnp.asarray(FACTORS[..., 0], jnp.float32)[0]
    one = jnp.asarray(MATRICES[0, 0], jnp.float32)
    found = jax.vmap(solve_positive, (None, 0))(one, right)
    np.testing.assert_allclose(found @ one, right, rtol=1e-4, atol=1e-4)
    assert one_at_a_time(jnp.linalg.eigvalsh)(one).shape == (3,)
    assert jax.vmap(one_at_a_time(jnp.linalg.eigvalsh))(jnp.zeros((0, 3, 3))).shape == (0, 3)


@pytest.mark.parametrize("derive", [jax.grad, jax.hessian], ids=lambda d: d.__name__)
def test_roots_and_their_derivatives(derive):
    with x64():
        matrices = jnp.asarray(MATRICES) + jnp.triu(jnp.ones((3, 3)))
        found, expected = (
            jax.jit(jax.vmap(derive(lambda given, root=root: jnp.sum(root(given) ** 3))))(matrices)
            for root in (cholesky, jnp.linalg.cholesky)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_first_derivatives_of_batches_are_made_matrix_by_matrix_too():
    matrices = jnp.asarray(MATRICES, jnp.float32)
    for way in (jax.grad(lambda given: jnp.sum(cholesky(given))), jax.jacfwd(cholesky)):
        assert {len(shape) for shape in _lapack_shapes(jax.vmap(way), matrices)} == {2}


def test_a_matrix_that_is_not_positive_has_no_root():
    found = cholesky(jnp.asarray([[[1.0, 2.0], [2.0, 1.0]], [[4.0, 0.0], [0.0, 9.0]]]))
    assert np.isnan(found[0]).any()
    np.testing.assert_array_equal(found[1], [[2.0, 0.0], [0.0, 3.0]])
