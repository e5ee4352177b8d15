"""Shared by the figures on photographs: frogs and trucks as rows, a network's parameters, a run.

The parameters have a closed form, theta* = pinv(Phi) Y: gradient descent from 0 ends there.
"""

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from experiments.harness.cifar10 import Cifar10, read_cifar10
from experiments.harness.images import ImageRows, first_of_classes, on_sphere, pooled
from jaxdp.attacks import (
    AbstractOptimiser,
    RandomFeaturesTarget,
    RegeneratedWeights,
    matching,
    minimum_norm_parameters,
    reconstruct,
    row_errors,
)
from jaxdp.attacks.base import AbstractTarget
from jaxdp.problems import sphere_inputs

FOLDERS = {
    "data": "folder whose folder cifar10 has the binary batches or an .npz; without it "
    "scikit-learn fetches the images"
}
FROG, TRUCK = 6, 9
_SIDE = 32
# DR stops at 1e-7; an image of little weight may be missing there. Rounding leaves some 1e-9.
_TOLERANCE = 1e-8


@dataclasses.dataclass(frozen=True)
class Images:
    """Which images: the first n/2 frogs and n/2 trucks, pooled to `side`.

    `made_up` takes smooth random fields instead, for which no file is needed.
    """

    num_samples: int
    side: int = 8
    made_up: bool = False

    @property
    def dim(self) -> int:
        return 3 * self.side**2


class Pictures(NamedTuple):
    """Images (pixels in [0, 1]) as rows of norm sqrt(d), with labels, -1 and 1 or one-hot."""

    rows: ImageRows
    labels: np.ndarray

    @property
    def inputs(self) -> jax.Array:
        return jnp.asarray(self.rows.inputs, jnp.float32)


def frogs_and_trucks(wanted: Images, data: pathlib.Path | None) -> Pictures:
    """The images, frogs first, of the folder's `cifar10/` or fetched."""
    chosen = original_images(wanted, data)
    rows = on_sphere(pooled(chosen.images, wanted.side) / 255)
    return Pictures(rows, np.where(chosen.labels == FROG, -1.0, 1.0))


def original_images(wanted: Images, data: pathlib.Path | None) -> Cifar10:
    """The images as they are stored, 32 x 32."""
    if wanted.num_samples % 2:
        raise ValueError(f"expected an even number of images, got {wanted.num_samples}")
    if wanted.made_up:
        stored = made_up_images(wanted.num_samples)
    else:
        stored = read_cifar10(None if data is None else data / "cifar10")
    return first_of_classes(stored, (FROG, TRUCK), wanted.num_samples // 2)


def made_up_images(count: int, seed: int = 1) -> Cifar10:
    """Smooth random fields in three colours that go together, as in photographs; `count` even."""
    random = np.random.default_rng(seed)
    frequency = np.hypot(*np.meshgrid(*[np.fft.fftfreq(_SIDE) * _SIDE] * 2))
    amplitude = 1 / np.maximum(frequency, 1) ** 1.2
    waves = np.fft.fft2(random.normal(size=(count, 4, _SIDE, _SIDE)))
    fields = np.fft.ifft2(waves * amplitude).real
    fields = 1.5 * fields[:, :1] + fields[:, 1:]
    # Photographs differ in contrast.
    fields *= np.geomspace(0.5, 1.5, count)[:, None, None, None]
    pixels = 127 + 50 * fields / fields.std()
    images = np.moveaxis(np.clip(pixels, 0, 255).astype(np.uint8), 1, -1)
    return Cifar10(images, np.where(np.arange(count) % 2, TRUCK, FROG).astype(np.int32))


class Model(NamedTuple):
    """A trained model as the attacker holds it, and its mean squared error on the training set."""

    target: RandomFeaturesTarget
    train_loss: float


def train(
    pictures: Pictures,
    num_features: int,
    activation: Callable,
    *,
    key: jax.Array,
    block_size: int | None = None,
) -> Model:
    """Fresh weights, N(0, 1/d), and the parameters of least norm that fit the labels best.

    Weights are made again, `block_size` of them together, whenever needed; None keeps them.
    """
    dim = pictures.inputs.shape[1]
    if block_size is None:
        weights = jr.normal(key, (num_features, dim)) / jnp.sqrt(dim)
    else:
        weights = RegeneratedWeights(key, num_features, dim, block_size=block_size)
    labels = jnp.asarray(pictures.labels, jnp.float32)
    if num_features > 2 * len(labels):
        parameters = minimum_norm_parameters(pictures.inputs, labels, weights, activation)
    else:
        # About p = n neurons that are off for every row may leave the features without full rank.
        made = isinstance(weights, RegeneratedWeights)
        rows = weights.materialise() if made else weights
        features = np.asarray(activation(pictures.inputs @ rows.T), np.float64)
        solution = np.linalg.lstsq(features, pictures.labels)[0]
        parameters = jnp.asarray(solution, jnp.float32)
    target = RandomFeaturesTarget(weights, activation, parameters)
    gaps = np.asarray(_outputs(target, pictures.inputs), np.float64) - pictures.labels
    return Model(target, float(np.mean(gaps**2)))


@eqx.filter_jit
def _outputs(target: RandomFeaturesTarget, inputs: jax.Array) -> jax.Array:
    def add(total, index):
        block = target.block(index)
        return total + block.features(inputs) @ block.parameters[:, 0], None

    return jax.lax.scan(add, jnp.zeros(len(inputs)), jnp.arange(target.num_blocks))[0]


class Attacked(NamedTuple):
    """Rows that an attack found, in its own order.

    Attributes:
        inputs: the rows.
        loss: final loss over |theta|^2, in float64.
        converged: True if the loss says that nothing is left to find.
        num_passes: full passes over the features.
        seconds: time of the attack, compilation included.
    """

    inputs: np.ndarray
    loss: float
    converged: bool
    num_passes: float
    seconds: float


def attack(
    target: AbstractTarget,
    num_samples: int,
    *,
    key: jax.Array,
    max_passes: int,
    optimiser: AbstractOptimiser | None = None,
) -> Attacked:
    """Reconstruct; if p <= n, and every point has loss 0, guess."""
    if target.num_features <= num_samples:
        guess = np.asarray(sphere_inputs(num_samples, target.dim, key=key))
        return Attacked(guess, 0.0, False, 0.0, 0.0)
    started = time.perf_counter()
    options: Any = {"optimiser": optimiser, "max_passes": max_passes, "tolerance": _TOLERANCE}
    found = reconstruct(target, num_samples, key=key, **options)
    seconds = time.perf_counter() - started
    inputs = np.asarray(found.inputs)
    return Attacked(inputs, found.loss, found.converged, float(found.num_passes), seconds)


class Matched(NamedTuple):
    """Found rows in the order of the true ones, as they were found: none is negated.

    Attributes:
        inputs: the rows.
        errors: each row's error, up to its sign if sign flips were allowed.
        signs: -1 if the negative of the row is closer and sign flips were allowed.
    """

    inputs: np.ndarray
    errors: np.ndarray
    signs: np.ndarray


def match(pictures: Pictures, found: np.ndarray, *, allow_sign_flips: bool = False) -> Matched:
    """Found rows in the order of the true ones."""
    true = pictures.rows.inputs
    order, signs = matching(true, found, allow_sign_flips=allow_sign_flips)
    return Matched(found[order], row_errors(true, found, allow_sign_flips=allow_sign_flips), signs)


def stacked(pictures: Pictures, found: np.ndarray) -> np.ndarray:
    """True images and found ones in the same order: bytes, (2, images, side, side, colours)."""
    images = [pictures.rows.images_of(rows) for rows in (pictures.rows.inputs, found)]
    return np.stack([as_bytes(one) for one in images])


def as_bytes(images: np.ndarray) -> np.ndarray:
    """Pixels in [0, 1] as whole numbers from 0 to 255; those beyond are cut."""
    return np.round(255 * np.clip(images, 0, 1)).astype(np.uint8)
