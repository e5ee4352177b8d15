"""Published private training: the scattering transform, features of one image, and the goals."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from experiments import made_up
from experiments.networks.classifiers import digit_layers
from experiments.private_training import models, published_digits


def _images(count):
    return np.asarray(jr.uniform(jr.key(3), (count, 28, 28)))


def _convolved(image, kernel):
    """The circular convolution of an image with a kernel that is given by its transform."""
    return np.fft.ifft2(np.fft.fft2(image) * kernel)


def test_scattering_is_averaged_moduli_of_wavelet_transforms():
    (image,) = _images(1).astype(np.float64)
    found = np.asarray(models.scattering(jnp.asarray(image)))
    assert found.shape == (81, 7, 7)
    padded = np.pad(image, 4, mode="reflect")
    offsets = (np.arange(36) + 18) % 36 - 18
    squares = offsets[:, None] ** 2 + offsets**2
    # A Gaussian of standard deviation 1.6, of which 18 pixels away nothing is left.
    average = np.fft.fft2(np.exp(-squares / (2 * 1.6**2)) / (2 * np.pi * 1.6**2))
    wavelets = models._wavelets(36).astype(np.float64)

    def sampled(values):
        return _convolved(values, average).real[4:-4, 4:-4][::4, ::4]

    first = np.abs(_convolved(padded, wavelets[0, 2]))
    second = np.abs(_convolved(first, wavelets[1, 5]))
    for place, values in ((0, padded), (1 + 2, first), (17 + 8 * 2 + 5, second)):
        np.testing.assert_allclose(found[place], sampled(values), atol=2e-5)
    assert np.abs(found[1 + 3] - sampled(first)).max() > 1e-3


def test_the_network_is_the_published_one():
    network = models.model_of(models.CNN, 28, key=jr.key(0))
    sizes = [leaf.size for leaf in jax.tree.leaves(network)]
    # Kernels and biases: 8 x 8 x 16, 4 x 4 x 16 x 32, 512 x 32, 32 x 10.
    assert sizes == [1024, 16, 8192, 32, 16384, 32, 320, 10]
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(*digit_layers(torch.nn, torch.nn.Tanh))
    with torch.no_grad():
        for parameter, leaf in zip(module.parameters(), jax.tree.leaves(network), strict=True):
            parameter.copy_(torch.tensor(np.asarray(leaf)).reshape(parameter.shape))
        expected = module(torch.tensor(_images(1)[:, None])).numpy()[0]
    np.testing.assert_allclose(network(_images(1)), expected, atol=1e-5)


@pytest.mark.slow
def test_a_smoke_version_trains_at_its_budget_and_goes_on_from_what_it_kept(tmp_path):
    made_up.digits(tmp_path)
    config, kept = published_digits.Config.smoke(), tmp_path / "kept"
    dataset = published_digits.run(config, tmp_path, kept)
    assert published_digits.run(config, tmp_path, kept).identical(dataset)
    assert np.all((0.99 * config.epsilon < dataset.epsilon) & (dataset.epsilon <= config.epsilon))
    assert np.all(dataset.accuracy.isel(stop=-1) > 0.9)
    assert np.all(dataset.seconds > 0)
    assert np.all(dataset.peak_bytes > 1e8)
    assert all(published_digits.claims(dataset).values())
