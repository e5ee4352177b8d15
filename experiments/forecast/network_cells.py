"""Networks, their rows and how they are trained, for forecasts of private training.

Labels of logistic and squared losses are 1 for odd digits, vehicles, the digits 6 and 8, and
targets above the median, and -1 for others. Softmax losses have the ten digits.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array

import jaxdp
from experiments import tables
from experiments.forecast.bodies import DIGITS, PHOTOGRAPHS, SMALL, body_of, images_of
from jaxdp.privacy import PoissonSampler

NEW_DIGITS, ARM = "digits 5 to 9", "kin8nm"
STUDY, NEW, EDGE = "study", "new", "edge"
_NUM_CLASSES, _BODY_STEPS = 10, 1000
_LOSSES = {
    "logistic": jaxdp.losses.Logistic(),
    "squared": jaxdp.losses.Squared(),
    "softmax": jaxdp.losses.Softmax(_NUM_CLASSES),
}
_ACTIVATIONS = {"tanh": jnp.tanh, "ReLU": jax.nn.relu}
_OPTIMISERS = {
    "momentum": functools.partial(optax.sgd, momentum=0.9),
    "Nesterov": functools.partial(optax.sgd, momentum=0.9, nesterov=True),
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A network and its private training.

    Attributes:
        name, kind: words in the table; kind of the cell: of the study, new, or at the edge.
        activation, hidden, loss: multilayer perceptron's activation, widths and loss.
        num_train, sampling_rate, num_steps, epsilon, rate, clip_norm: training's numbers.
        data: images or table; with "digits 5 to 9" the network is a CNN with a new last layer.
        optimiser: "descent", "momentum" (0.9), "Nesterov", or "average" of all iterates.
        bias: number added to the biases of the first layer; far below 0 most units are dead.
        seed: seed for rows, weights and runs.
    """

    name: str
    kind: str
    activation: str
    hidden: tuple[int, ...]
    loss: str
    num_train: int
    sampling_rate: float
    num_steps: int
    epsilon: float
    rate: float
    clip_norm: float = 1.0
    data: str = DIGITS
    optimiser: str = "descent"
    bias: float = 0.0
    seed: int = 0


_CNN = ("tanh", (64,), "logistic", 2000, 0.1, 100, 2.0)
CELLS = (
    Cell("tanh, logistic", STUDY, "tanh", (100,), "logistic", 1000, 0.2, 40, 8.0, 0.5),
    Cell("ReLU, logistic", STUDY, "ReLU", (100,), "logistic", 1000, 0.2, 60, 2.0, 0.3),
    Cell("tanh, squared", STUDY, "tanh", (100,), "squared", 1000, 1.0, 40, 8.0, 0.05),
    Cell("ReLU, squared", STUDY, "ReLU", (100,), "squared", 2000, 1.0, 60, 8.0, 0.05),
    Cell("tanh, softmax", STUDY, "tanh", (100,), "softmax", 1000, 0.2, 40, 8.0, 1.0),
    Cell("ReLU, softmax", STUDY, "ReLU", (100,), "softmax", 1000, 0.2, 60, 8.0, 0.3),
    Cell("tanh, softmax, full", STUDY, "tanh", (100,), "softmax", 2000, 1.0, 40, 2.0, 1.0),
    Cell("ReLU, softmax, n = 4000", STUDY, "ReLU", (100,), "softmax", 4000, 0.1, 60, 2.0, 0.3),
    Cell("CNN, new head", STUDY, *_CNN, 0.06, data=NEW_DIGITS, seed=11),
    Cell("CNN, another head", STUDY, *_CNN, 0.06, data=NEW_DIGITS, seed=13),
    Cell("CNN, larger rate", STUDY, *_CNN, 0.2, data=NEW_DIGITS, seed=11),
    Cell("two tanh layers, softmax", NEW, "tanh", (64, 64), "softmax", 2000, 0.1, 60, 4.0, 0.5),
    Cell("two ReLU layers, logistic", NEW, "ReLU", (50, 50), "logistic", 1000, 0.2, 50, 1.0, 0.2),
    Cell("400 tanh units, logistic", NEW, "tanh", (400,), "logistic", 1000, 0.2, 40, 3.0, 0.3),
    Cell("20 ReLU units, softmax", NEW, "ReLU", (20,), "softmax", 2000, 0.1, 80, 3.0, 0.3),
    Cell(
        *("photographs, logistic", NEW, "tanh", (50,), "logistic", 800, 0.2, 50, 8.0, 0.1),
        data=PHOTOGRAPHS,
    ),
    Cell(
        *("table, two tanh layers", NEW, "tanh", (50, 50), "logistic", 4000, 0.05, 100, 1.0, 0.3),
        data=ARM,
    ),
    Cell(
        *("momentum, softmax", NEW, "tanh", (100,), "softmax", 1000, 0.2, 40, 8.0, 0.1),
        optimiser="momentum",
    ),
    Cell(
        *("Nesterov, ReLU", NEW, "ReLU", (100,), "logistic", 2000, 0.1, 60, 2.0, 0.03),
        optimiser="Nesterov",
    ),
    Cell(
        *("average, tanh", NEW, "tanh", (100,), "logistic", 1000, 0.2, 60, 1.0, 0.5),
        optimiser="average",
    ),
    Cell("ε = 0.5, tanh", NEW, "tanh", (100,), "logistic", 2000, 0.1, 60, 0.5, 0.3, seed=7),
    Cell("mostly noise, tanh", EDGE, "tanh", (100,), "logistic", 1000, 0.2, 200, 0.2, 1.0),
    Cell("mostly noise, ReLU", EDGE, "ReLU", (100,), "softmax", 1000, 0.2, 60, 0.5, 1.0),
    Cell("dead units", EDGE, "ReLU", (100,), "softmax", 1000, 0.2, 60, 8.0, 0.3, bias=-0.4),
    Cell("edge of stability", EDGE, "tanh", (100,), "squared", 1000, 1.0, 40, 8.0, 0.07, 20.0),
)


# Each takes minutes.
class _Headed(eqx.Module):
    """A trained body with a new last layer of one output."""

    body: Callable
    head: Array

    def __call__(self, image):
        return self.body(image) @ self.head


def problem_of(cell: Cell, data: pathlib.Path | None, num_test: int) -> jaxdp.Linearised:
    """The network at its initial weights, with training rows and at most `num_test` test rows."""
    loss, (rows, key) = _LOSSES[cell.loss], (_rows(cell, data, num_test), jr.key(cell.seed))
    if cell.data == NEW_DIGITS:
        model = _Headed(_body(data), jr.normal(key, cell.hidden) / math.sqrt(*cell.hidden))
        return jaxdp.Linearised(model, *rows, loss=loss)
    (width, *others), outputs = cell.hidden, _NUM_CLASSES if cell.loss == "softmax" else 1
    if others not in ([], [width]):
        raise ValueError(f"expected one or two equal widths, got {cell.hidden}")
    depth, activation = len(cell.hidden), _ACTIVATIONS[cell.activation]
    model = eqx.nn.MLP(rows[0].shape[1], outputs, width, depth, activation, key=key)
    model = eqx.tree_at(lambda mlp: mlp.layers[0].bias, model, replace_fn=lambda b: b + cell.bias)
    return jaxdp.Linearised(model, *rows, loss=loss)


@functools.cache
def _body(data: pathlib.Path | None) -> Callable:
    """A CNN without its last layer, trained on the digits 0 to 4: one for all cells."""
    return body_of(SMALL, data, _BODY_STEPS, key=jr.key(0))


def algorithm_of(cell: Cell, delta: float) -> jaxdp.PrivateOptimiser:
    """The cell's private training, with the noise of its budget."""
    return jaxdp.PrivateOptimiser.calibrated(
        _OPTIMISERS.get(cell.optimiser, optax.sgd),
        cell.epsilon,
        delta,
        learning_rate=cell.rate,
        clip_norm=cell.clip_norm,
        num_steps=cell.num_steps,
        sampler=PoissonSampler(cell.num_train, cell.sampling_rate),
        average=jaxdp.PolyakAverage() if cell.optimiser == "average" else None,
    )


def _rows(cell: Cell, data: pathlib.Path | None, num_test: int) -> tuple[np.ndarray, ...]:
    """Training rows and labels, test rows and labels."""
    count = cell.num_train
    if cell.data == DIGITS:
        mnist = tables.read_digits(data)
        order = np.random.default_rng(cell.seed).permutation(len(mnist.train_labels))[:count]
        found = mnist.train_images[order], mnist.train_labels[order]
        found += mnist.test_images[:num_test], mnist.test_labels[:num_test]
        if cell.loss == "softmax":
            return found
        return found[0], _signs(found[1] % 2 == 1), found[2], _signs(found[3] % 2 == 1)
    if cell.data == ARM:
        if data is None:
            raise ValueError("expected --data with uci/kin8nm.txt, which is not fetched")
        table = tables.read(data, cell.data)
        rows = (table.inputs - table.inputs.mean(axis=0)) / table.inputs.std(axis=0)
        labels = _signs(table.labels > np.median(table.labels))
    else:
        name = DIGITS if cell.data == NEW_DIGITS else PHOTOGRAPHS
        images = images_of(name, data, count + num_test)
        parts = (images.private,) if name == DIGITS else (images.private, images.alike)
        rows, labels = (np.concatenate(of) for of in zip(*parts, strict=True))
        rows = rows if name == DIGITS else rows.reshape(len(rows), -1) - 0.5
    order = np.random.default_rng(cell.seed).permutation(len(labels))[: count + num_test]
    rows, labels = rows[order].astype(np.float32), labels[order]
    return rows[:count], labels[:count], rows[count:], labels[count:]


def _signs(is_first: np.ndarray) -> np.ndarray:
    return np.where(is_first, 1.0, -1.0).astype(np.float32)
