"""Frozen bodies, from images to features, and their images.

Images are arrays (count, side, side, colours) with values in [0, 1]. Labels are -1 and 1: each data
set is split into two groups of classes, so that a plan takes seconds.
"""

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float

from experiments.harness.cifar10 import read_cifar10
from experiments.networks.efficientnet import efficientnet_lite0
from experiments.tables import read_digits

EFFICIENT, SMALL, RANDOM = "EfficientNet-Lite0", "small CNN", "random convolutions"
DIGITS, PHOTOGRAPHS = "MNIST", "CIFAR-10"
# The first group of private and of old digits; the first group of photographs is vehicles.
_NEW_FIRST, _OLD_FIRST, _VEHICLES = (6, 8), (1, 3), (0, 1, 8, 9)
_SIDE, _LARGE_SIDE = 28, 64
_OLD, _NUM_CLASSES, _RATE, _BATCH = 5, 5, 2e-3, 128


class Rows(NamedTuple):
    """Images and their labels, -1 or 1."""

    images: Float[np.ndarray, "rows side side colours"]
    labels: Float[np.ndarray, " rows"]


class Images(NamedTuple):
    """Private rows, and public stand-ins for them.

    Attributes:
        private, alike, other: disjoint rows; `other` has other classes: for digits 0 to 4, the
            training classes of the small CNN; for photographs the digits 5 to 9.
    """

    private: Rows
    alike: Rows
    other: Rows

    @property
    def rotated(self) -> Rows:
        """The alike rows, rotated by 90 degrees."""
        return self.alike._replace(images=np.rot90(self.alike.images, axes=(1, 2)))


def images_of(name: str, data: pathlib.Path | None, num_rows: int) -> Images:
    """Private and public rows, at most `num_rows` of each kind (half of the photographs)."""
    mnist = read_digits(data)
    digits, labels = mnist.train_images.reshape(-1, _SIDE, _SIDE, 1), mnist.train_labels
    is_old = labels < _OLD
    new = _grouped(digits[~is_old], labels[~is_old], _NEW_FIRST)
    if name == DIGITS:
        old = _grouped(digits[is_old], labels[is_old], _OLD_FIRST)
        return Images(_part(new, 0, num_rows), _part(new, num_rows, 2 * num_rows), old)
    photographs = read_cifar10(None if data is None else data / "cifar10")
    all_rows = _grouped(photographs.images / 255, photographs.labels, _VEHICLES)
    half = min(len(all_rows.labels) // 2, num_rows)
    return Images(_part(all_rows, 0, half), _part(all_rows, half, 2 * half), new)


def body_of(name: str, data: pathlib.Path | None, num_steps: int, *, key) -> Callable:
    """A map from an image to features; trains the small CNN on digits 0 to 4, not privately."""
    if name == EFFICIENT:
        network = efficientnet_lite0()

        def features(image):
            shape = (_LARGE_SIDE, _LARGE_SIDE, image.shape[-1])
            large = jax.image.resize(image, shape, "linear")
            return network(jnp.broadcast_to(large, (*shape[:2], 3)).transpose(2, 0, 1))

        return features
    start, order = jr.split(key)
    first = jr.split(start, 4)
    weights: Any = [
        jr.normal(first[0], (5, 5, 1, 8)) / 5,
        jr.normal(first[1], (5, 5, 8, 16)) / 200**0.5,
        jr.normal(first[2], (256, 64)) / 16,
        jnp.zeros((64, _NUM_CLASSES)),
    ]
    if name == SMALL:
        mnist = read_digits(data)
        is_old = mnist.train_labels < _OLD
        images = jnp.asarray(mnist.train_images[is_old].reshape(-1, _SIDE, _SIDE, 1))
        labels = jnp.asarray(mnist.train_labels[is_old])
        weights = _trained(weights, images, labels, num_steps, key=order)
    return SmallNetwork(weights[:-1])


def features_of(body: Callable, images: np.ndarray) -> np.ndarray:
    """The features of all images, in batches."""
    in_batches = eqx.filter_jit(lambda rows: lax.map(body, rows, batch_size=64))
    return np.asarray(in_batches(jnp.asarray(images, jnp.float32)))


class SmallNetwork(eqx.Module):
    """Two convolutions of stride 2 and a dense layer with tanh; colours are averaged."""

    weights: list[Array]

    def __call__(self, image: Float[Array, "side side colours"]) -> Array:
        image = jax.image.resize(image.mean(-1, keepdims=True), (_SIDE, _SIDE, 1), "linear")[None]
        for kernel in self.weights[:2]:
            kinds = ("NHWC", "HWIO", "NHWC")
            image = jnp.tanh(
                lax.conv_general_dilated(image, kernel, (2, 2), "VALID", dimension_numbers=kinds)
            )
        return jnp.tanh(image.reshape(-1) @ self.weights[2])


@eqx.filter_jit
def _trained(weights, images, labels, num_steps: int, *, key):
    """The weights after Adam on batches drawn with replacement."""
    optimiser = optax.adam(_RATE)

    def loss(weights, rows):
        logits = jax.vmap(SmallNetwork(weights[:-1]))(images[rows]) @ weights[-1]
        labels_here = labels[rows].astype(jnp.int32)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels_here).mean()

    def step(carry, key):
        weights, state = carry
        rows = jr.randint(key, (_BATCH,), 0, len(labels))
        change, state = optimiser.update(jax.grad(loss)(weights, rows), state)
        return (optax.apply_updates(weights, change), state), None

    carry = weights, optimiser.init(weights)
    (weights, _), _ = lax.scan(step, carry, jr.split(key, num_steps))
    return weights


def _grouped(images: np.ndarray, labels: np.ndarray, first: tuple[int, ...]) -> Rows:
    return Rows(images, np.where(np.isin(labels, first), 1.0, -1.0).astype(np.float32))


def _part(rows: Rows, start: int, stop: int) -> Rows:
    return Rows(*(part[start:stop] for part in rows))
