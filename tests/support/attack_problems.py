"""Victims to attack: random features on the sphere whose parameters interpolate, in NumPy."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp.attacks import RandomFeaturesTarget

ACTIVATIONS = {
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "relu_tanh": lambda z: np.maximum(z, 0) + np.tanh(z),
    "linear": lambda z: z,
}
JAX_ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "relu_tanh": lambda z: jax.nn.relu(z) + jnp.tanh(z),
}


class Victim(NamedTuple):
    """The training rows, the features' weights, and the parameters."""

    inputs: np.ndarray
    weights: np.ndarray
    parameters: np.ndarray


class OwnModel(eqx.Module):
    """A user's model: what stands last is not what is declared last."""

    head: eqx.nn.Linear
    body: eqx.nn.Linear

    def __call__(self, input):
        return jax.nn.sigmoid(self.head(jnp.tanh(self.body(input))))


def sphere_rows(generator, *shape):
    """Rows uniform on the sphere of radius sqrt(d), d the last length of the shape."""
    rows = generator.standard_normal(shape)
    return rows * np.sqrt(shape[-1]) / np.linalg.norm(rows, axis=-1, keepdims=True)


def relu_problem(inputs, labels, weights):
    """Random ReLU features on these rows."""
    rows = inputs, labels, inputs, labels
    return jaxdp.RandomFeatures.from_arrays(*rows, weights, jax.nn.relu)


def random_victim(seed, dim, count, num_features, *, activation="relu", outputs=None):
    """Labels Xg + noise of variance 1/4; parameters Phi^T K^-1 Y, (p,) or (p, outputs)."""
    generator = np.random.default_rng(seed)
    inputs = sphere_rows(generator, count, dim)
    weights = generator.standard_normal((num_features, dim)) / np.sqrt(dim)
    shape = (outputs,) if outputs else ()
    signal = inputs @ generator.standard_normal((dim, *shape)) / np.sqrt(dim)
    labels = signal + 0.5 * generator.standard_normal(signal.shape)
    features = ACTIVATIONS[activation](inputs @ weights.T)
    parameters = features.T @ np.linalg.solve(features @ features.T, labels)
    return Victim(inputs, weights, parameters)


def single_target(victim, activation="relu"):
    """What the attacker of a victim holds, in float32."""
    weights, parameters = (np.float32(part) for part in victim[1:])
    return RandomFeaturesTarget(weights, JAX_ACTIVATIONS[activation], parameters)


def projector_loss(features, parameters):
    """The loss by a least-squares solver, nothing shared with jaxdp."""
    found, *_ = np.linalg.lstsq(features.T, parameters, rcond=None)
    return np.sum((parameters - features.T @ found) ** 2) / np.sum(parameters**2)


def kaufman_jacobian(weights, parameters, rows):
    """Kaufman's Jacobian of the residual of tanh features, (features, outputs, rows, dim)."""
    features = np.tanh(rows @ weights.T)
    pseudoinverse = np.linalg.pinv(features)
    alpha = pseudoinverse.T @ parameters
    columns = np.zeros((*parameters.shape, *rows.shape))
    for place, row in enumerate(rows):
        tangent = np.eye(len(row)) - np.outer(row, row) / len(row)
        slopes = (1 - features[place] ** 2)[:, None] * weights @ tangent
        kept = slopes - pseudoinverse @ (features @ slopes)
        columns[:, :, place] = kept[:, None] * alpha[place][:, None]
    return columns
