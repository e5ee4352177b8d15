"""Plans of noise over the steps: their prices, what they choose, and what they say."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import quick_and_slow

import jaxdp
from jaxdp.losses import HalfSquared, Logistic, Softmax
from jaxdp.planning.features import correlated_training
from jaxdp.planning.features.closure_risk import Draw, closure_risk
from jaxdp.planning.features.correlated_training import noise_weights
from jaxdp.planning.features.search import Point
from jaxdp.planning.features.strategies import least_noise_strategy, rows_of
from jaxdp.privacy import BandedNoise, FixedOrder, PoissonSampler, ScheduledNoise, ShuffledEpochs
from jaxdp.theory.features.linear_recursion import covariance_of
from jaxdp.theory.features.modes import kernel_modes

NUM, DIM, BATCHES, STEPS = 400, 10, 8, 16
HEAVY = functools.partial(optax.sgd, momentum=0.6)


@functools.cache
def _problem(loss=None, num=NUM, width=DIM):
    """Rows with the spectrum 1/j and trace 1."""
    rng, loss = np.random.default_rng(0), loss or HalfSquared()
    scales = np.arange(1, width + 1) ** -0.5
    features = rng.standard_normal((2 * num, width)) * scales / np.linalg.norm(scales)
    if isinstance(loss, Softmax):
        scores = 3 * features @ rng.standard_normal((width, 3))
        labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    else:
        labels = features @ rng.standard_normal(width) + 0.5 * rng.standard_normal(2 * num)
        labels = labels if loss.class_labels is None else np.sign(labels)
    rows = features[:num], labels[:num], features[num:], labels[num:]
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)


# Prices.


def _priced(loss, optimiser=optax.sgd, average=None, batches=4, steps=8, **settings):
    """A risk with banded noise, its draw and a point where most rows are clipped."""
    problem = _problem(loss, 60, 5)
    algorithm = jaxdp.PrivateOptimiser(
        optimiser,
        learning_rate=1.0,
        clip_norm=1.0,
        noise_multiplier=3.0,
        num_steps=steps,
        sampler=FixedOrder(60, batches),
        average=average,
    )
    risk = closure_risk(kernel_modes(problem), [algorithm], is_linear=True, **settings)[0]
    covariance = covariance_of(np.eye(steps) + 0.4 * np.eye(steps, k=-1))
    risk = dataclasses.replace(risk, noise=jnp.asarray(covariance))
    return risk, Draw.of(algorithm), Point(np.log(0.4), np.log(0.4), 0.0, True)


@pytest.mark.parametrize(
    "name",
    quick_and_slow(("momentum, average", "logistic", "softmax", "full batches"), "momentum, average"),
)
def test_weights_are_derivatives_of_the_predicted_risk_in_the_covariance(name):
    given = {
        "momentum, average": dict(loss=HalfSquared(), optimiser=HEAVY, average=jaxdp.TailAverage()),
        "logistic": dict(loss=Logistic(), optimiser=HEAVY),
        "softmax": dict(loss=Softmax(3), criterion="accuracy"),
        "full batches": dict(loss=Logistic(), batches=1),
    }[name]
    with jax.enable_x64():
        risk, draw, point = _priced(**given)
        steps = len(risk.noise)

        def value(covariance):
            changed = dataclasses.replace(risk, noise=jnp.asarray(covariance))
            found = changed.value(jnp.asarray(point[:2]), draw, jnp.asarray(steps))
            return float(found[0]), float(found[1])

        weights = noise_weights(risk, draw, point, steps)
        assert value(risk.noise)[1] > 0.4
        rng, size = np.random.default_rng(1), 1e-4
        for _ in range(4):
            change = rng.standard_normal((steps, steps))
            change += change.T
            ends = [value(risk.noise + sign * size * change)[0] for sign in (1, -1)]
            expected = (ends[0] - ends[1]) / (2 * size)
            scale = np.abs(weights * change).sum()
            # Prices below zero, and what the draw of the batches sees of them, are left out.
            assert abs(np.sum(weights * change) - expected) < 3e-3 * scale
            assert abs(np.sum(np.diag(weights) * np.diag(change)) - expected) > 3e-3 * scale
