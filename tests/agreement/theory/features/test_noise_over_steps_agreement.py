"""Predictions of noise over the steps in a fixed order: dense matrices, and simulated means."""

import functools
import math

import jax
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.losses import HalfSquared, Logistic, Softmax
from jaxdp.privacy import BandedNoise, FixedOrder, ScheduledNoise
from jaxdp.theory.features.modes import kernel_modes

NUM, DIM, CLASSES = 400, 24, 3
HEAVY = functools.partial(optax.sgd, momentum=0.7)


def _banded(steps, bands):
    """A root of prefix sums, cut, whose columns grow: far from independent noise."""
    root = np.concatenate([[1.0], np.cumprod(1 - 0.5 / np.arange(1, bands))])
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    inside = (lag >= 0) & (lag < bands)
    return np.where(inside, root[np.clip(lag, 0, bands - 1)], 0) * np.linspace(0.6, 1.4, steps)


def _algorithm(steps, batches, strategy, factory=optax.sgd, *, num=NUM, **given):
    noise = None
    if strategy is not None:
        is_diagonal = np.array_equal(strategy, np.diag(np.diag(strategy)))
        noise = ScheduledNoise(np.diag(strategy) ** 2) if is_diagonal else BandedNoise(strategy)
    sampler = FixedOrder(num, batches)
    return jaxdp.PrivateOptimiser(factory, num_steps=steps, sampler=sampler, noise=noise, **given)


# Exact values, by dense matrices.


def _dense_risk(modes, algorithm, momentum):
    """Half the mean square of heavy ball without clipping, and the part of the noise in it."""
    steps, strategy = algorithm.num_steps, algorithm.noise.strategy
    batches, rate = algorithm.sampler.num_batches, float(algorithm.learning_rate)
    columns = (strategy**2).sum(axis=0)
    norm = max(columns[first::batches].sum() for first in range(batches))
    size = algorithm.noise_multiplier * algorithm.clip_norm * batches / modes.num_train
    covariance = np.linalg.inv(strategy.T @ strategy) * norm / -(-steps // batches) * size**2
    factor, test = np.asarray(modes.factor), np.asarray(modes.test_factor)
    unseen = np.asarray(modes.unseen_factor)
    labels, test_labels = np.asarray(modes.train_labels), np.asarray(modes.test_labels)
    # The mean squares of the test rows' coordinates, those that training never sees last.
    curvatures = np.append(np.diag(factor.T @ factor) / len(labels), 0)
    heights = np.append((test**2).mean(axis=0), (unseen**2).sum(axis=1).mean())
    pulls = np.append(factor.T @ labels / len(labels), 0)
    # A mean of the iterates after the first half of the steps, or the last iterate.
    kept = steps - (steps // 2 if algorithm.average else steps - 1)

    def released(noise):
        """Released weights, (modes,), of given noise over the steps, (T, 1)."""
        weights, velocity, mean = (np.zeros((len(pulls), noise.shape[1])) for _ in range(3))
        for step in range(steps):
            gradient = curvatures[:, None] * weights - pull[:, None] + noise[step]
            velocity = momentum * velocity + gradient
            weights = weights - rate * velocity
            mean += weights / kept * (step >= steps - kept)
        return mean

    pull = pulls
    mean = released(np.zeros((steps, 1)))[:-1, 0]
    bias = ((test @ mean - test_labels) ** 2).mean()
    pull = np.zeros_like(pulls)
    responses = released(np.eye(steps))
    weights = (responses * heights[:, None]).T @ responses
    return (bias + np.trace(weights @ covariance)) / 2, np.trace(weights @ covariance) / 2


@pytest.mark.parametrize(
    ("batches", "momentum", "average"),
    [(1, 0.6, jaxdp.TailAverage()), (4, 0.0, None), (4, 0.6, jaxdp.TailAverage())],
    ids=["full batches, momentum, average", "bands", "bands, momentum, average"],
)
def test_noise_without_clipping_adds_the_trace_of_dense_matrices(batches, momentum, average):
    """Full batches, or batches of rows that are all alike up to their sign."""
    rng, num, steps = np.random.default_rng(0), 12, 11
    features = rng.standard_normal((2 * num, 4))
    labels = rng.standard_normal(2 * num)
    if batches > 1:
        signs = np.where(np.arange(num) % 3, 1.0, -1.0)
        features[:num], labels[:num] = signs[:, None] * features[0], signs * labels[0]
    strategy = _banded(steps, 3) if batches > 1 else np.diag(np.linspace(0.5, 2.0, steps))
    with jax.enable_x64():
        rows = features[:num], labels[:num], features[num:], labels[num:]
        problem = jaxdp.FixedFeatures.from_arrays(*rows, loss=HalfSquared())
        algorithm = _algorithm(
            steps,
            batches,
            strategy,
            functools.partial(optax.sgd, momentum=momentum) if momentum else optax.sgd,
            num=num,
            learning_rate=0.1,
            clip_norm=1e6,
            noise_multiplier=2e-5,
            average=average,
        )
        found = jaxdp.predict(problem, algorithm, records=1).final_risk
        expected, by_noise = _dense_risk(kernel_modes(problem), algorithm, momentum)
    assert by_noise > 0.1 * expected
    assert float(found) == pytest.approx(expected, rel=1e-9)


# Simulated means.


def _problem(loss):
    """Rows with the spectrum 1/j and trace 1."""
    rng = np.random.default_rng(3)
    scales = np.arange(1, DIM + 1) ** -0.5
    features = rng.standard_normal((2 * NUM, DIM)) * scales / np.linalg.norm(scales)
    if isinstance(loss, Softmax):
        scores = 3 * features @ rng.standard_normal((DIM, CLASSES))
        labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    else:
        labels = 3 * features @ rng.standard_normal(DIM) + 0.3 * rng.standard_normal(2 * NUM)
        labels = labels / 3 if loss.class_labels is None else np.sign(labels)
    rows = features[:NUM], labels[:NUM], features[NUM:], labels[NUM:]
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)


# Loss, strategy, batches, optimiser, average; learning rate, clip norm, noise multiplier. With a
# clip norm of 0.3 or 0.4 at least two of three rows are clipped, with 10 and more no row is.
CELLS = {
    "squared": (HalfSquared(), _banded(32, 4), 8, optax.sgd, None, 1.0, 100.0, 0.2),
    "squared, clipped": (HalfSquared(), _banded(32, 8), 8, optax.sgd, None, 1.5, 0.4, 40.0),
    "squared, a schedule, momentum": (
        *(HalfSquared(), np.diag(np.linspace(0.3, 2.0, 24)), 1, HEAVY, None),
        *(1.0, 0.4, 80.0),
    ),
    "logistic, average": (
        *(Logistic(), _banded(16, 4), 4, optax.sgd, jaxdp.TailAverage()),
        *(4.0, 10.0, 2.4),
    ),
    "logistic, clipped, momentum": (Logistic(), _banded(32, 6), 8, HEAVY, None, 0.6, 0.3, 30.0),
    "softmax, clipped": (Softmax(CLASSES), _banded(24, 6), 8, optax.sgd, None, 2.0, 0.3, 30.0),
    "softmax, a schedule": (
        *(Softmax(CLASSES), np.diag(np.linspace(0.3, 2.0, 16)), 1, optax.sgd, None),
        *(3.0, 0.3, 100.0),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_means_are_predicted_and_differ_from_those_of_independent_noise(name):
    loss, strategy, batches, factory, average, rate, clip_norm, multiplier = CELLS[name]
    problem = _problem(loss)
    given = dict(learning_rate=rate, clip_norm=clip_norm, average=average)
    make = functools.partial(_algorithm, len(strategy), batches, factory=factory, **given)
    algorithm = make(strategy, noise_multiplier=multiplier)
    others = make(None, noise_multiplier=multiplier), make(strategy, noise_multiplier=1e-2)
    found, independent, quiet = (
        float(jaxdp.predict(problem, one, records=1).final_risk) for one in (algorithm, *others)
    )
    runs = jaxdp.simulate(problem, algorithm, num_runs=300, key=jax.random.key(7), records=1)
    risks = np.asarray(runs.final_risk, float)
    mean, error = risks.mean(), risks.std(ddof=1) / math.sqrt(len(risks))
    assert mean - quiet > max(0.2 * quiet, 10 * error)
    assert abs(found - mean) < 0.05 * mean
    assert abs(independent - mean) > 0.05 * mean + 5 * error
