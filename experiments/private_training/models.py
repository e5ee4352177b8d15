r"""Three models of digits, two of them with published private training, and their features.

The convolutional network is from Papernot et al. (2021), the linear model on scattering features
from Tramer and Boneh (2021). Features and their normalisation depend on one image alone: neither
costs privacy.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from experiments.networks.classifiers import DigitNetwork
from experiments.networks.efficientnet import efficientnet_lite0

CNN, SCATTERING, EFFICIENT = "CNN", "scattering, linear", "EfficientNet-Lite0, linear"
NUM_CLASSES = 10
# Scattering transform: octaves, angles, and mirrored pixels at each edge.
_OCTAVES, _ANGLES, _MARGIN = 2, 8, 4
# Groups of its channels, normalised one by one, and the epsilon, as in torch.
_GROUPS, _EPS = 27, 1e-5
_LARGE_SIDE, _AT_ONCE = 64, 64


def model_of(name: str, num_features: int, *, key: PRNGKeyArray) -> Callable:
    """A new network, or a new linear model with `num_features` inputs."""
    if name == CNN:
        return DigitNetwork(jnp.tanh, key=key)
    return eqx.nn.Linear(num_features, NUM_CLASSES, key=key)


@eqx.filter_jit
def answers(model, rows: Array) -> Int[Array, " rows"]:
    """The predicted label of each row."""
    return jnp.argmax(jax.vmap(model)(rows), axis=1)


def features_of(name: str, images: Float[np.ndarray, "rows 784"]) -> np.ndarray:
    """A model's inputs: the images themselves, or the normalised features of each image."""
    images = images.reshape(-1, 28, 28)
    if name == CNN:
        return images[:, None]
    body, groups = (scattering, _GROUPS) if name == SCATTERING else (_efficient(), 1)

    @eqx.filter_jit
    def in_batches(rows):
        return lax.map(lambda image: _normalised(body(image), groups), rows, batch_size=_AT_ONCE)

    # In parts: intermediate arrays are many times as large as the features.
    parts = np.array_split(images, math.ceil(len(images) / 2000))
    return np.concatenate([np.asarray(in_batches(part)) for part in parts])


def _efficient() -> Callable:
    network = efficientnet_lite0()

    def features(image):
        large = jax.image.resize(image, (_LARGE_SIDE, _LARGE_SIDE), "linear")
        return network(jnp.broadcast_to(large, (3, *large.shape)))

    return features


def _normalised(features: Array, groups: int) -> Float[Array, " features"]:
    """The features of one image with mean 0 and variance 1 in each group of channels."""
    parts = features.reshape(groups, -1)
    centred = parts - parts.mean(axis=1, keepdims=True)
    return (centred / jnp.sqrt(parts.var(axis=1, keepdims=True) + _EPS)).ravel()


def scattering(image: Float[Array, "side side"]) -> Float[Array, "81 places places"]:
    r"""Scattering coefficients of orders 0, 1 and 2: 81 channels, each sampled every 4 pixels.

    Order 1 is $|x * \psi_{j,\theta}| * \phi$, order 2 $||x * \psi_{0,\theta}| * \psi_{1,\theta'}| *
    \phi$ with Morlet wavelets $\psi$ of two octaves j and eight angles, and a Gaussian $\phi$.
    Source: Bruna and Mallat (2013); with the constants of Tramer and Boneh's `kymatio`.

    Args:
        image: (side, side), a multiple of 4 pixels.
    """
    step = 2**_OCTAVES
    padded = jnp.pad(image, _MARGIN, mode="reflect")
    wavelets = _wavelets(len(padded))
    means = _means(len(padded), step)[_MARGIN // step : -(_MARGIN // step)]

    def moduli(of, kernels):
        """|of * kernel| by Fourier transforms, (kernels, side, side)."""
        return jnp.abs(jnp.fft.ifft2(jnp.fft.fft2(of) * kernels))

    first = moduli(padded, wavelets.reshape(-1, *padded.shape))
    second = jax.vmap(moduli, (0, None))(first[:_ANGLES], wavelets[1])
    found = [padded[None], first, second.reshape(-1, *padded.shape)]
    # The Gaussian is a product of two, one along each axis, evaluated at the sampled places.
    return jnp.asarray(means) @ jnp.concatenate(found) @ means.T


def _wavelets(side: int) -> Float[np.ndarray, "octaves angles side side"]:
    """Real Fourier transforms of Morlet wavelets, made on the host once per program."""
    found = np.empty((_OCTAVES, _ANGLES, side, side), np.float32)
    for octave in range(_OCTAVES):
        for place in range(_ANGLES):
            angle = (_ANGLES // 2 - 1 - place) * math.pi / _ANGLES
            width, frequency = 0.8 * 2**octave, 0.75 * math.pi / 2**octave
            envelope = _periodic(side, width, angle, 0.0)
            wave = _periodic(side, width, angle, frequency)
            # Subtract a multiple of the envelope that makes the mean 0.
            wave = wave - wave.sum() / envelope.sum() * envelope
            found[octave, place] = np.fft.fft2(wave).real
    return found


def _periodic(side: int, width: float, angle: float, frequency: float) -> np.ndarray:
    """A Gaussian wave with an elongated envelope, summed over copies of the torus."""
    slant = 4.0 / _ANGLES
    steps = np.arange(-2 * side, 3 * side)
    rows, columns = np.meshgrid(steps, steps, indexing="ij")
    along = math.cos(angle) * rows + math.sin(angle) * columns
    across = -math.sin(angle) * rows + math.cos(angle) * columns
    exponent = -(along**2 + (slant * across) ** 2) / (2 * width**2) + 1j * frequency * along
    wave = np.exp(exponent) * slant / (2 * math.pi * width**2)
    return wave.reshape(5, side, 5, side).sum(axis=(0, 2))


def _means(side: int, step: int) -> Float[np.ndarray, "places side"]:
    """Gaussian averages along one axis, around every `step`-th pixel of the torus."""
    gaps = (
        np.arange(side) - np.arange(0, side, step)[:, None] + side * np.arange(-2, 3)[:, None, None]
    )
    width = 0.8 * 2 ** (_OCTAVES - 1)
    weights = np.exp(-(gaps**2) / (2 * width**2)).sum(axis=0)
    return (weights / (math.sqrt(2 * math.pi) * width)).astype(np.float32)
