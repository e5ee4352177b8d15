"""Shared by the figures on networks: photographs, networks trained on them, attacks on those.

Networks are trained in two ways: every layer by gradient descent, as in DR, and the last layer
alone, whose change lies exactly in the span of the rows' features.
"""

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.random as jr
import numpy as np

from experiments.data_reconstruction.natural_images import FROG, TRUCK, Pictures, made_up_images
from experiments.harness.cifar10 import read_cifar10
from experiments.harness.images import first_of_classes, on_sphere, pooled
from experiments.networks.gradient_descent import gradient_descent
from experiments.networks.last_layer import AbstractLastLayerNetwork, fit_last_layer
from jaxdp.attacks import AbstractTarget, reconstruct, reconstruction_error, span_residual
from jaxdp.attacks.objective import checked_loss

TRAININGS = ["last layer", "all layers"]
NUM_CLASSES = 10
_FROGS_AND_TRUCKS = (FROG, TRUCK)


@dataclasses.dataclass(frozen=True)
class Task:
    """The first images of every class, or of frogs and trucks, as rows; and how to attack.

    Attributes:
        num_each: images of each class.
        is_binary: frogs (-1) against trucks (1); otherwise ten classes, one-hot.
        side: edge of the pooled images, in pixels.
        is_grey: True to average the colours.
        max_passes: an attack's limit.
        made_up: True for smooth random fields instead of photographs; they need no file.
    """

    num_each: int
    is_binary: bool
    side: int = 8
    is_grey: bool = False
    max_passes: int = 1000
    made_up: bool = False

    @property
    def num_classes(self) -> int:
        return len(_FROGS_AND_TRUCKS) if self.is_binary else NUM_CLASSES

    @property
    def num_samples(self) -> int:
        return self.num_each * self.num_classes

    @property
    def dim(self) -> int:
        return self.side**2 * (1 if self.is_grey else 3)


def photographs(task: Task, data: pathlib.Path | None) -> Pictures:
    """The images of a task, class by class, with labels (n, 1) or one-hot (n, 10)."""
    which = _FROGS_AND_TRUCKS if task.is_binary else range(NUM_CLASSES)
    if task.made_up:
        images = made_up_images(task.num_samples).images
    else:
        stored = read_cifar10(None if data is None else data / "cifar10")
        images = first_of_classes(stored, tuple(which), task.num_each).images
    small = pooled(images, task.side) / 255
    rows = on_sphere(small.mean(axis=-1, keepdims=True) if task.is_grey else small)
    number = np.repeat(np.arange(task.num_classes), task.num_each)
    labels = 2.0 * number[:, None] - 1 if task.is_binary else np.eye(NUM_CLASSES)[number]
    return Pictures(rows, labels)


class Trained(NamedTuple):
    """A network after training, its mean square error, steps (0: closed form) and seconds."""

    network: AbstractLastLayerNetwork
    loss: float
    num_steps: int
    seconds: float


def train(network: AbstractLastLayerNetwork, pictures: Pictures, training: str) -> Trained:
    """Train a network in one of `TRAININGS`."""
    started = time.perf_counter()
    if training == "all layers":
        descent = gradient_descent(network, pictures.inputs, pictures.labels).check()
        seconds = time.perf_counter() - started
        return Trained(descent.model, descent.loss, descent.num_steps, seconds)
    fitted = fit_last_layer(network, pictures.inputs, pictures.labels)
    outputs = np.asarray(jax.vmap(fitted)(pictures.inputs), np.float64)
    loss = float(np.mean((outputs - pictures.labels) ** 2))
    return Trained(fitted, loss, 0, time.perf_counter() - started)


class Found(NamedTuple):
    """The rows that an attack found, and its measurements by name."""

    inputs: np.ndarray
    measures: dict[str, float]


def attack(
    make_target: Callable[..., AbstractTarget],
    start: AbstractLastLayerNetwork,
    trained: Trained,
    pictures: Pictures,
    *,
    max_passes: int,
    key: jax.Array,
) -> Found:
    """Reconstruct from the change that training made to the last layer.

    `make_target` makes the target of the trained network and the last layer before training.
    """
    target = make_target(trained.network, start.last)
    started = time.perf_counter()
    found = reconstruct(target, len(pictures.labels), key=key, max_passes=max_passes)
    seconds = time.perf_counter() - started
    measures = {
        "train_loss": trained.loss,
        "steps": trained.num_steps,
        "train_seconds": trained.seconds,
        "error": reconstruction_error(pictures.rows.inputs, found.inputs),
        "residual": span_residual(pictures.inputs, found.inputs, target),
        "loss": found.loss,
        "true_loss": checked_loss(target, pictures.inputs),
        "passes": float(found.num_passes),
        "attack_seconds": seconds,
    }
    return Found(np.asarray(found.inputs), measures)


def chance(pictures: Pictures, num_guesses: int = 20) -> float:
    """The mean error of independent points on the sphere."""
    count, dim = pictures.rows.inputs.shape
    guesses = np.asarray(jr.normal(jr.key(1), (num_guesses, count, dim)), np.float64)
    guesses *= np.sqrt(dim) / np.linalg.norm(guesses, axis=-1, keepdims=True)
    return float(np.mean([reconstruction_error(pictures.rows.inputs, one) for one in guesses]))
