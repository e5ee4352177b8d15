"""What a random-features problem holds, how it is sampled, and what it refuses."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp.problems import sphere_inputs

SIZES = {"num_train": 30, "num_test": 20, "dim": 5}


def test_a_sampled_problem_is_labelled_by_a_linear_teacher():
    problem = jaxdp.RandomFeatures.sample(2000, 10, 3, 7, key=jr.key(0))
    assert problem.train_features().shape == (2000, 7)
    sizes = problem.num_train, problem.num_test, problem.dim, problem.num_features
    assert sizes == (2000, 10, 3, 7)
    assert set(np.asarray(problem.train_labels)) == {-1.0, 1.0}
    # A half-space: least squares finds its normal.
    inputs = np.asarray(problem.train_inputs)
    normal = np.linalg.lstsq(inputs, np.asarray(problem.train_labels), rcond=None)[0]
    assert np.mean(np.sign(inputs @ normal) == problem.train_labels) > 0.95


# Source: PF (1.2).
@pytest.mark.slow
def test_inputs_and_weights_have_the_stated_laws():
    problem = jaxdp.RandomFeatures.sample(2000, 5, 10, 3000, key=jr.key(1))
    # Variances of 20,000 and 30,000 normals: relative errors of .01 and .008.
    assert np.var(problem.train_inputs) == pytest.approx(1.0, rel=5 * 0.01)
    assert np.var(problem.weights) == pytest.approx(0.1, rel=5 * 0.0082)
    on_sphere = jaxdp.RandomFeatures.sample(50, 5, 10, None, inputs=sphere_inputs, key=jr.key(1))
    norms = np.linalg.norm(on_sphere.train_inputs, axis=1)
    np.testing.assert_allclose(norms, np.sqrt(10), rtol=1e-6)


def test_rows_teacher_and_weights_are_independent():
    problem = jaxdp.RandomFeatures.sample(500, 500, 50, 500, key=jr.key(4))
    arrays = [problem.train_inputs, problem.test_inputs, problem.weights]
    train, test, weights = (np.asarray(array, float).ravel() for array in arrays)
    for first, second in ((train, test), (train, weights), (test, weights)):
        # 25,000 pairs: a standard error of .0063.
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 * 0.0063
    teacher = np.asarray(problem.test_labels) @ np.asarray(problem.test_inputs)
    for rows in (problem.train_inputs[0], problem.test_inputs[0], problem.weights[0]):
        # One cosine in 50 dimensions: a standard deviation of .14.
        cosine = teacher @ np.asarray(rows) / np.linalg.norm(teacher) / np.linalg.norm(rows)
        assert abs(cosine) < 5 * 0.14


def test_one_key_gives_the_same_rows_whatever_the_width():
    narrow = jaxdp.RandomFeatures.sample(**SIZES, num_features=4, key=jr.key(2))
    wide = jaxdp.RandomFeatures.sample(**SIZES, num_features=None, key=jr.key(2))
    np.testing.assert_array_equal(narrow.train_inputs, wide.train_inputs)
    np.testing.assert_array_equal(narrow.test_labels, wide.test_labels)


def test_infinitely_many_features_cannot_be_written_down():
    problem = jaxdp.RandomFeatures.sample(**SIZES, num_features=None, key=jr.key(0))
    with pytest.raises(jaxdp.NotCoveredError, match=r"use FunctionSpace\(\)"):
        problem.train_features()
    with pytest.raises(TypeError, match="known values for the kernel"):
        jax.jit(lambda problem: problem.reduced())(problem)


def test_the_activation_keeps_the_type_of_the_inputs():
    rows = np.ones((4, 3)), np.ones(4), np.ones((2, 3)), np.ones(2)
    problem = jaxdp.RandomFeatures.from_arrays(*rows, np.ones((5, 3)), lambda x: x > 0)
    assert problem.train_features().dtype == jnp.float32
