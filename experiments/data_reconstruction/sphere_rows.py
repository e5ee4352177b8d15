"""DR's synthetic task: rows uniform on the sphere, noisy linear labels, V of every seed's own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from jaxdp.attacks import RandomFeaturesTarget, minimum_norm_parameters, reconstruction_error
from jaxdp.problems import sphere_inputs

# DR Section 5.1: variance 0.25.
LABEL_NOISE = 0.5
_CHANCE_DRAWS = 50


class Trained(NamedTuple):
    """A trained model, what an attacker sees of it, and the rows to find.

    Attributes:
        inputs: X, (n, d).
        target: features and trained parameters, as the attacker sees them.
        train_loss: mean squared error of theta* = pinv(Phi) Y.
    """

    inputs: Float[np.ndarray, "n dim"]
    target: RandomFeaturesTarget
    train_loss: float


def train(
    num_samples: int,
    dim: int,
    num_features: int,
    seed: int,
    activation: Callable[[Array], Array] = jax.nn.relu,
) -> Trained:
    """theta* of DR Section 5.1; rows, labels and V all depend on the seed."""
    of_rows, of_slope, of_noise, of_weights = jr.split(jr.key(seed), 4)
    inputs = sphere_inputs(num_samples, dim, key=of_rows)
    slope = jr.normal(of_slope, (dim,)) / dim**0.5
    labels = inputs @ slope + LABEL_NOISE * jr.normal(of_noise, (num_samples,))
    weights = jr.normal(of_weights, (num_features, dim)) / dim**0.5
    features = np.asarray(activation(inputs @ weights.T), np.float64)
    if num_features > num_samples:
        parameters = minimum_norm_parameters(inputs, labels, weights, activation)
    else:
        # So few ReLUs may all be silent on a row.
        parameters, *_ = np.linalg.lstsq(features, np.asarray(labels, np.float64))
    residuals = features @ np.asarray(parameters, np.float64) - np.asarray(labels)
    target = RandomFeaturesTarget(weights, activation, jnp.asarray(parameters))
    return Trained(np.asarray(inputs), target, float(np.mean(residuals**2)))


def attack_key(seed: int) -> Any:
    """Key of the start and the optimiser, independent of the data's."""
    return jr.fold_in(jr.key(seed), 1)


def chance_error(num_samples: int, dim: int, *, allow_sign_flips: bool = False) -> float:
    """The mean error of points drawn without looking at the model."""
    keys = jr.split(jr.key(0), (_CHANCE_DRAWS, 2))
    errors = []
    for true, guess in keys:
        rows = [np.asarray(sphere_inputs(num_samples, dim, key=key)) for key in (true, guess)]
        errors.append(reconstruction_error(*rows, allow_sign_flips=allow_sign_flips))
    return float(np.mean(errors))


def least_width(dim: int, num_samples: int, num_known: int = 0, *, has_dead_half: bool) -> float:
    r"""The number of features above which the true rows are an isolated zero of the loss.

    Counting has u = n - m rows to find among m known ones: $m + du$ unknowns (for every known row
    a coefficient, for every other one a coefficient and a direction) in p equations. A ReLU says
    nothing about a row on which it is dead. Only $1 - 2^{-u}$ of all neurons see any of u rows, and
    the equations of these must fix the $du$ numbers. Derived: ranks of the Jacobian in
    tests/papers/test_reconstruction_figures.py.

    Args:
        dim, num_samples: d and n.
        num_known: m.
        has_dead_half: True if the activation is zero on one half of the line, as the ReLU is.
    """
    unknown = num_samples - num_known
    counted = num_known + dim * unknown
    return max(counted, dim * unknown / (1 - 2.0**-unknown)) if has_dead_half else counted
