"""The networks whose last layer is attacked: their form, their first weights, their derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, assert_variance

from experiments.networks.last_layer import TwoLayerNetwork
from experiments.networks.residual import ResidualNetwork


def _correlated(image, kernel):
    """A convolution as networks have it, stride 1 and padding 1, by its definition."""
    rows, columns, _, outer = kernel.shape
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    height, width = padded.shape[0] - rows + 1, padded.shape[1] - columns + 1
    result = np.zeros((height, width, outer))
    for row in range(rows):
        for column in range(columns):
            patch = padded[row : row + height, column : column + width]
            result += np.tensordot(patch, kernel[row, column], axes=1)
    return result


def _reference_features(model, input):
    """DR (165) and (166) in NumPy."""
    stem, blocks = (np.asarray(value, np.float64) for value in (model.stem, model.blocks))
    maps = _correlated(input.reshape(model.side, model.side, -1), stem)
    if model.stem_relu:
        maps = np.maximum(maps, 0)
    for first, second in blocks:
        inner = np.maximum(_correlated(maps, first), 0)
        maps = np.maximum(maps + _correlated(inner, second), 0)
    return maps.ravel()


_both = eqx.filter_jit(lambda model, input: (model.features(input), model(input)))


@pytest.fixture(scope="module")
def residual_networks():
    """Without and with a ReLU after the stem."""
    without, with_relu = (
        ResidualNetwork(5, 3, 2, num_blocks=2, stem_relu=one, key=jr.key(0))
        for one in (False, True)
    )
    return without, with_relu


@pytest.fixture(scope="module")
def two_layer_network():
    return TwoLayerNetwork(75, 40, 30, key=jr.key(7))


# Source: DR (165), (166).
def test_a_residual_network_is_the_one_printed(residual_networks):
    x = np.random.default_rng(1).normal(size=75)
    found = []
    for model in residual_networks:
        assert model.stem.shape == (4, 4, 3, 3)
        assert model.last.shape == (2, 3 * 4**2)
        assert model.in_size == 75
        expected = _reference_features(model, x)
        features, outputs = _both(model, jnp.asarray(x))
        np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)
        last = np.asarray(model.last, np.float64)
        np.testing.assert_allclose(outputs, last @ expected, rtol=1e-4, atol=1e-5)
        found.append(expected)
    # The stem's ReLU makes a difference to the same weights.
    np.testing.assert_array_equal(*(model.stem for model in residual_networks))
    assert np.abs(found[0] - found[1]).max() > 0.1


def test_the_papers_network_has_maps_of_seven_by_seven():
    model = jax.eval_shape(lambda: ResidualNetwork(32, 4, 1, key=jr.key(0)))
    assert model.stem.shape == (28, 28, 3, 4)
    assert model.blocks.shape == (4, 2, 3, 3, 4, 4)
    assert model.last.shape == (1, 4 * 7 * 7)
    assert model.in_size == 3072


def test_a_two_layer_network_is_products_and_positive_parts(two_layer_network):
    model = two_layer_network
    hidden, last = (np.asarray(value, np.float64) for value in (model.hidden, model.last))
    assert (hidden.shape, last.shape) == ((40, 75), (30, 40))
    assert model.in_size == 75
    x = np.linspace(-1, 1, 75)
    expected = np.maximum(hidden @ x, 0)
    features, outputs = _both(model, jnp.asarray(x))
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs, last @ expected, rtol=1e-5, atol=1e-6)


def test_the_first_weights_are_independent_and_have_the_published_variances(two_layer_network):
    two, residual = two_layer_network, ResidualNetwork(8, 24, 12, num_blocks=2, key=jr.key(8))
    last_size = 24 * 4**2
    # Of its 192 inputs the stem's kernel sees 147: enough numbers to tell these apart.
    known = [(two.hidden, 75, 1.5), (two.last, 40, 1.5), (residual.stem, 3 * 8**2, 192 / 147)]
    known += [(residual.blocks, 9 * 24, 1.5), (residual.last, last_size, 1.5)]
    layers = [np.asarray(weights, np.float64).ravel() for weights, *_ in known]
    size = min(map(len, layers))
    between = np.corrcoef([layer[:size] for layer in layers])[np.triu_indices(len(layers), 1)]
    assert np.abs(between).max() < 5 / np.sqrt(size)
    for values, (_, inverse_variance, wrong) in zip(layers, known, strict=True):
        assert_mean_close(values, 0.0)
        assert_variance(values, 1 / inverse_variance)
        with pytest.raises(AssertionError):
            assert_variance(values, 1 / (wrong * inverse_variance))
