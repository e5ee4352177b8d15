import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from jaxdp.attacks import RegeneratedWeights, gradient_descent_parameters, minimum_norm_parameters

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.standard_normal((5, 4))
LABELS = GENERATOR.standard_normal(5)
COLUMNS = GENERATOR.standard_normal((5, 3))
WEIGHTS = GENERATOR.standard_normal((60, 4)) / 2
FEATURES = np.maximum(INPUTS @ WEIGHTS.T, 0)


@pytest.fixture(scope="module", autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


# Source: DR (2).
@pytest.mark.parametrize("labels", [LABELS, COLUMNS], ids=["one output", "three"])
def test_parameters_are_the_pseudoinverse_times_the_labels(labels):
    found = minimum_norm_parameters(INPUTS, labels, WEIGHTS, jax.nn.relu)
    assert found.dtype == jnp.float64
    np.testing.assert_allclose(found, np.linalg.pinv(FEATURES) @ labels, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(FEATURES @ found, labels, rtol=1e-11)


def test_too_few_features_give_the_least_squares_solution():
    found = minimum_norm_parameters(INPUTS, LABELS, WEIGHTS[:3], jnp.tanh)
    features = np.tanh(INPUTS @ WEIGHTS[:3].T)
    np.testing.assert_allclose(found, np.linalg.pinv(features) @ LABELS, rtol=1e-9)
    assert np.linalg.norm(features @ found - LABELS) > 0.1


def test_regenerated_weights_give_what_the_same_dense_ones_give():
    weights = RegeneratedWeights(jr.key(3), 70, 4, block_size=16)
    found = minimum_norm_parameters(INPUTS, COLUMNS, weights, jnp.cos)
    dense = minimum_norm_parameters(INPUTS, COLUMNS, weights.materialise(), jnp.cos)
    np.testing.assert_allclose(found, dense, rtol=1e-6, atol=1e-7)


def _descended(labels=LABELS, **how):
    return gradient_descent_parameters(INPUTS, labels, WEIGHTS, jax.nn.relu, **how)


@pytest.mark.parametrize("clip_norm", [None, 5.0, 0.1])
@pytest.mark.parametrize("labels", [LABELS, COLUMNS], ids=["one output", "three"])
def test_descent_in_the_span_is_descent_in_all_parameters(labels, clip_norm):
    columns = labels.reshape(5, -1)
    parameters = np.zeros((60, columns.shape[1]))
    for _ in range(7):
        change = 0
        for row, label in zip(FEATURES, columns, strict=True):
            gradient = 2 * np.outer(row, row @ parameters - label)
            change = change + gradient * min(1, (clip_norm or np.inf) / np.linalg.norm(gradient))
        parameters = parameters - 0.04 / 5 * change
    found = _descended(labels, learning_rate=0.04, num_steps=7, clip_norm=clip_norm)
    np.testing.assert_allclose(found, parameters.reshape(found.shape), rtol=1e-9, atol=1e-14)


# Source: DR (2).
def test_long_descent_ends_at_the_minimum_norm_solution():
    found = _descended(learning_rate=0.05, num_steps=5000)
    expected = minimum_norm_parameters(INPUTS, LABELS, WEIGHTS, jax.nn.relu)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_steps_that_diverge_are_refused_with_a_rate_that_does_not():
    limit = 5 / np.linalg.eigvalsh(FEATURES @ FEATURES.T)[-1]
    with pytest.raises(ValueError, match=f"learning_rate < n / lambda_max = {limit:.3g}"):
        _descended(learning_rate=1.05 * limit, num_steps=20_000)
    found = _descended(learning_rate=0.95 * limit, num_steps=20_000)
    assert np.isfinite(found).all()
