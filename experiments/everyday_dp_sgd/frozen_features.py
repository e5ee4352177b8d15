"""Features of digits that no private row has shaped: random ones, and a network's trained body.

The first rows of MNIST's training set are public, the private rows come after them. The mean of the
public rows is subtracted from both kinds of features, and each row is scaled to unit norm: a
constant direction would make the largest stable step many times smaller.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Key

import jaxdp
from experiments.harness.mnist import Mnist
from experiments.networks.classifiers import accuracy, cross_entropy, relu_network
from jaxdp.problems.rows.features import ReducedFeatures

NUM_CLASSES = 10
FOLDERS = {
    "data": "folder whose folder mnist has the four IDX files; without it scikit-learn fetches them"
}
Map = Callable[[np.ndarray], np.ndarray]


class Body(NamedTuple):
    """Training of the network on the public rows; its hidden layers are the body."""

    width: int = 64
    num_hidden: int = 2
    num_steps: int = 1500
    batch_size: int = 128
    learning_rate: float = 2e-3


class Features(NamedTuple):
    """A map from images to rows of unit norm, and the accuracy of its network, if it has one."""

    map: Map
    accuracy: float = float("nan")


def random_relu(mnist: Mnist, num_public: int, num_features: int, *, key) -> Features:
    """ReLU of Gaussian projections of the images."""
    images = mnist.train_images[:num_public]
    weights = np.asarray(jr.normal(key, (images.shape[1], num_features)))
    return Features(_of_unit_norm(lambda rows: np.maximum(rows @ weights, 0), images))


def pretrained(mnist: Mnist, num_public: int, body: Body, *, key) -> Features:
    """The last hidden layer of a network that was trained on the public rows."""
    images, labels = mnist.train_images[:num_public], mnist.train_labels[:num_public]
    network = _trained(jnp.asarray(images), jnp.asarray(labels), body, key=key)
    weights = [np.asarray(layer.weight).T for layer in network.layers[:-1]]

    def hidden(rows):
        return functools.reduce(lambda values, part: np.maximum(values @ part, 0), weights, rows)

    right = accuracy(network, jnp.asarray(mnist.test_images), jnp.asarray(mnist.test_labels))
    return Features(_of_unit_norm(hidden, images), float(right))


def private_problem(
    mnist: Mnist, features: Features, num_public: int, num_train: int
) -> ReducedFeatures:
    """The last layer on the first private rows, reduced once for all later uses.

    Raises:
        ValueError: there are too few rows.
    """
    first, last = num_public, num_public + num_train
    if len(mnist.train_images) < last:
        raise ValueError(
            f"expected at least {num_public} public and {num_train} private images, got "
            f"{len(mnist.train_images)}"
        )
    return jaxdp.FixedFeatures.from_arrays(
        features.map(mnist.train_images[first:last]),
        mnist.train_labels[first:last],
        features.map(mnist.test_images),
        mnist.test_labels,
        loss=jaxdp.losses.Softmax(NUM_CLASSES),
    ).reduced()


def _of_unit_norm(raw: Map, public: np.ndarray) -> Map:
    mean = raw(public).mean(axis=0)

    def scaled(rows):
        centred = raw(rows) - mean
        norms = np.linalg.norm(centred, axis=1, keepdims=True)
        return (centred / np.where(norms > 0, norms, 1)).astype(np.float32)

    return scaled


@eqx.filter_jit
def _trained(
    images: Float[Array, "rows pixels"],
    labels: Float[Array, " rows"],
    body: Body,
    *,
    key: Key[Array, ""],
) -> eqx.nn.MLP:
    """A network trained by Adam on batches drawn with replacement; not private."""
    first, order = jr.split(key)
    size = images.shape[1]
    network = relu_network(size, body.width, NUM_CLASSES, num_hidden=body.num_hidden, key=first)
    weights, rest = eqx.partition(network, eqx.is_inexact_array)
    optimiser = optax.adam(body.learning_rate)

    def loss(weights, inputs, targets):
        model = eqx.combine(weights, rest)
        return jnp.mean(jax.vmap(functools.partial(cross_entropy, model))(inputs, targets))

    def step(carry, key):
        weights, state = carry
        rows = jr.randint(key, (body.batch_size,), 0, len(labels))
        change, state = optimiser.update(jax.grad(loss)(weights, images[rows], labels[rows]), state)
        return (eqx.apply_updates(weights, change), state), None

    start = weights, optimiser.init(weights)
    (weights, _), _ = jax.lax.scan(step, start, jr.split(order, body.num_steps))
    return eqx.combine(weights, rest)
