r"""Shared by the figures on privacy: training whose choices are free of the data; attacks on it.

*Free of the data.* Rows lie on the sphere of radius $\sqrt d$ by construction, so that for ReLU
$|\varphi(x)|^2 \le |V|_{op}^2\,d$, which only the public V enters; the learning rate is
$1/(|V|_{op}^2 d)$ or less, with which no data make gradient descent diverge. The clip norm is a
share of $\sqrt{p/2}$, the mean norm of the features over V. Epsilon is for all iterates
together and replacing one row, by `DPGD`'s own accounting.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import jaxdp
from jaxdp.attacks import (
    LevenbergMarquardt,
    RandomFeaturesTarget,
    reconstruct,
    reconstruction_error,
    row_errors,
    without_known_rows,
)
from jaxdp.problems import sphere_inputs

RELU = jax.nn.relu
DELTA = 1e-5


class Choices(NamedTuple):
    r"""Training: C over $\sqrt{p/2}$, and the learning rate times $|V|_{op}^2 d$, <= 1."""

    clip_share: float = 0.5
    rate_share: float = 1.0


class Attack(NamedTuple):
    """How hard the attack tries."""

    num_starts: int
    max_passes: int


def sampled_problem(num_samples: int, dim: int, num_features: int, *, key: jax.Array):
    """Rows on the sphere, labels sign(u.x), ReLU features."""
    return jaxdp.RandomFeatures.sample(
        num_samples, 1000, dim, num_features, activation=RELU, inputs=sphere_inputs, key=key
    )


def private_algorithm(problem, mu: float, num_steps: int, choices: Choices) -> jaxdp.DPGD:
    r"""T steps that are $\mu$-GDP together; an infinite $\mu$ is no noise."""
    largest = float(jnp.linalg.norm(problem.weights, 2)) ** 2 * problem.dim
    rate = choices.rate_share / largest
    clip_norm = choices.clip_share * math.sqrt(problem.num_features / 2)
    noise_scale = math.sqrt(rate * num_steps) / mu if math.isfinite(mu) else 0.0
    return jaxdp.DPGD(rate, clip_norm, num_steps, noise_scale)


def trained(problem, algorithm: jaxdp.DPGD, *, key: jax.Array) -> jaxdp.Trajectory:
    """One run; its last record is of the released parameters, which are kept."""
    options: Any = {"simulator": jaxdp.Iterates(), "records": 1, "keep_parameters": True}
    return jaxdp.simulate(problem, algorithm, key=key, **options)


def error_of_attack(problem, parameters, attack: Attack, *, key: jax.Array) -> float:
    """rho of the best start, labels and rows unknown."""
    target = RandomFeaturesTarget(problem.weights, problem.activation, parameters)
    found = _attacked(target, problem.num_train, attack, key)
    return reconstruction_error(problem.train_inputs, found.inputs)


def error_near_the_truth(problem, parameters, attack: Attack) -> float:
    """rho of the minimum that is reached from the true rows, as the law predicts it."""
    target = RandomFeaturesTarget(problem.weights, problem.activation, parameters)
    attempt = LevenbergMarquardt().minimise(
        target,
        problem.train_inputs[None],
        key=jr.key(0),
        max_passes=attack.max_passes,
        tolerance=1e-12,
    )
    # Row by row: near the truth no assignment is needed, and where it is lost none should help.
    gaps = np.asarray(attempt.inputs[0] - problem.train_inputs, np.float64)
    return float(np.linalg.norm(gaps, axis=1).mean() / math.sqrt(problem.dim))


def error_of_informed_attack(
    problem, iterates, algorithm: jaxdp.DPGD, attack: Attack, *, key: jax.Array
) -> float:
    """rho of the last row, all others and their labels known; `iterates` begin with 0."""
    known = slice(0, problem.num_train - 1)
    target = without_known_rows(
        iterates,
        problem.weights,
        problem.activation,
        algorithm,
        problem.train_inputs[known],
        problem.train_labels[known],
        num_samples=problem.num_train,
    )
    found = _attacked(target, 1, attack, key)
    return float(row_errors(problem.train_inputs[-1:], found.inputs)[0])


def _attacked(target, num_samples: int, attack: Attack, key: jax.Array):
    options: Any = {"num_starts": attack.num_starts, "max_passes": attack.max_passes}
    options |= {"optimiser": LevenbergMarquardt(), "tolerance": 1e-12}
    return reconstruct(target, num_samples, key=key, **options)


def iterates_at(problem, algorithm: jaxdp.DPGD, steps: Sequence[int], *, key: jax.Array):
    """One run's iterates after some of its steps, 0 first: the key fixes each step's noise."""
    found = [jnp.zeros(problem.num_features)]
    for step in steps:
        part = algorithm.replace(num_steps=int(step))
        parameters = trained(problem, part, key=key).parameters
        assert parameters is not None
        found.append(parameters[0])
    return jnp.stack(found)


def strongest_combination(iterates, steps: Sequence[int], noise_std: float) -> jax.Array:
    """The combination of increments that holds the most signal: their first principal component.

    Increments over k steps are divided by sqrt(k), which makes their noise white, and the noise's
    part is taken from the diagonal. An attacker who sees all iterates can do this.
    """
    lengths = jnp.diff(jnp.asarray([0, *steps]))
    increments = jnp.diff(iterates, axis=0) / jnp.sqrt(lengths)[:, None]
    gram = increments @ increments.T - noise_std**2 * iterates.shape[1] * jnp.eye(len(lengths))
    return jnp.linalg.eigh(gram)[1][:, -1] @ increments
