"""Learning rates as data: the runs of optax, one compilation for all rates, and what is refused."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.algorithms import NonPrivateOptimiser, train
from jaxdp.algorithms.transformations.transformation import Factory, Transformation
from jaxdp.privacy import PoissonSampler, SecretNoise

ROWS, DIM, STEPS = 12, 3, 6
RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(ROWS, DIM)).astype(np.float32)
TARGETS = RANDOM.normal(size=ROWS).astype(np.float32)


@functools.cache
def _problem():
    return jaxdp.RandomFeatures.sample(ROWS, 8, 4, 6, key=jr.key(5))


MOMENTUM: Any = functools.partial(optax.sgd, momentum=0.9)
COSINE = optax.cosine_decay_schedule(0.3, 5)


def loss(weights, x, y):
    return (weights @ x - y) ** 2 / 2


def _private(optimiser=MOMENTUM, learning_rate: Any = None, num_steps=STEPS, **changes):
    given = {"clip_norm": 0.7, "noise_multiplier": 1.0, "sampler": PoissonSampler(ROWS, 0.5)}
    given |= {"learning_rate": learning_rate, "num_steps": num_steps, **changes}
    return jaxdp.PrivateOptimiser(optimiser, **given)


def _trained(optimiser):
    return train(optimiser, loss, jnp.zeros(DIM), INPUTS, TARGETS, key=jr.key(0)).model


def _simulated(optimiser):
    runs = jaxdp.simulate(
        _problem(), optimiser, simulator=jaxdp.Iterates(), num_runs=2, records=3, key=jr.key(1)
    )
    return runs.final_risk


@pytest.mark.parametrize(
    ("factory", "rate", "plain"),
    [
        (optax.adam, jaxdp.Constant(0.2), optax.adam(0.2)),
        pytest.param(
            MOMENTUM,
            jaxdp.FromSteps(COSINE, STEPS),
            optax.sgd(COSINE, momentum=0.9),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["Adam", "schedule"],
)
def test_a_factory_trains_as_its_transformation_does(factory, rate, plain):
    expected = _trained(_private(plain))
    np.testing.assert_allclose(_trained(_private(factory, rate)), expected, rtol=1e-6)
    baseline = _trained(NonPrivateOptimiser(plain, STEPS))
    found = _trained(NonPrivateOptimiser(factory, STEPS, learning_rate=rate))
    np.testing.assert_allclose(found, baseline, rtol=1e-6)
    secret = _trained(_private(factory, rate, noise=SecretNoise(3), noise_multiplier=1.0))
    again = _trained(_private(plain, noise=SecretNoise(3), noise_multiplier=1.0))
    np.testing.assert_allclose(secret, again, rtol=1e-6)


def test_a_schedule_is_read_at_the_share_of_the_steps_that_are_made():
    schedule = jaxdp.Polynomial(0.4, 0.5)
    optimiser = Transformation(optax.sgd, schedule, 4)
    weights = jnp.zeros(())
    state = optimiser.init(weights)
    for step in range(4):
        update, state = optimiser.update(jnp.ones(()), state, weights)
        np.testing.assert_allclose(-update, 0.4 * np.sqrt(1 - step / 4), rtol=1e-6)


@pytest.mark.slow
def test_rates_are_batched_and_differentiated():
    close = {"rtol": 2e-2, "atol": 2e-3}
    for run in (_trained, _simulated):

        def final(rate, run=run):
            return run(_private(optax.sgd, rate))

        found = jax.vmap(final)(jnp.array([0.1, 0.2]))
        for one, rate in zip(found, (0.1, 0.2), strict=True):
            np.testing.assert_allclose(one, final(rate), rtol=1e-5, atol=1e-6)
        slope = jax.jacfwd(final)(0.2)
        difference = (np.asarray(final(0.21)) - np.asarray(final(0.19))) / 0.02
        np.testing.assert_allclose(slope, difference, **close)
        with pytest.raises(AssertionError):
            np.testing.assert_allclose(1.3 * slope, difference, **close)


def test_a_traced_rate_that_is_none_voids_the_run():
    def status(rate):
        return jaxdp.simulate(
            _problem(), _private(optax.sgd, rate), simulator=jaxdp.Iterates(), key=jr.key(0)
        ).status

    found = jax.vmap(status)(jnp.array([0.1, -0.1, jnp.nan]))[:, 0].tolist()
    assert found == [jaxdp.Status.OK, jaxdp.Status.INVALID, jaxdp.Status.INVALID]


def test_partials_are_equal_by_content():
    def one(**keywords):
        return Factory(optax.sgd, **keywords)

    assert one(momentum=0.9) == one(momentum=0.9)
    assert hash(one(momentum=0.9)) == hash(one(momentum=0.9))
    assert one(momentum=0.9) != one(momentum=0.8)
    assert one(nesterov=True) != one(nesterov=1)
    assert one(momentum=0.9) != Factory(optax.rmsprop, momentum=0.9)
    # What has no hash equals itself alone.
    held = one(momentum=np.ones(2))
    assert held == held
    assert held != one(momentum=np.ones(2))


@pytest.mark.parametrize(
    ("optimiser", "rate", "error", "message"),
    [
        (optax.sgd, None, TypeError, "GradientTransformation.*or give learning_rate= for the fac"),
        (optax.sgd(0.1), 0.1, TypeError, "expected optimiser to be a function from a learning"),
        (lambda rate: rate, 0.1, TypeError, "to make a transformation.*made"),
        (lambda rate: 1 / 0, 0.1, TypeError, "to make .* got one that raised ZeroDivisionError"),
        (optax.sgd, -0.1, ValueError, "expected finite learning_rate >= 0, got -0.1"),
        (optax.sgd, COSINE, TypeError, "got a schedule of optax.* use jaxdp.FromSteps"),
        (optax.sgd, lambda time: 0.3 - time, ValueError, "finite and >= 0 at every step.*step 2"),
    ],
)
def test_wrong_optimisers_and_rates_are_refused(optimiser, rate, error, message):
    with pytest.raises(error, match=message):
        _private(optimiser, rate)
    with pytest.raises(error, match=message):
        NonPrivateOptimiser(optimiser, STEPS, learning_rate=rate)
