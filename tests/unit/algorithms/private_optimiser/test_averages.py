"""Averages of iterates: against NumPy, in training and on rows; planted mistakes are seen."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.algorithms import train
from jaxdp.algorithms.private_optimiser.state import AbstractAverage
from jaxdp.algorithms.transformations.transformation import Transformation
from jaxdp.privacy import PoissonSampler, SecretNoise

ROWS, STEPS, RATE, MOMENTUM = 12, 7, 0.1, 0.8


@functools.cache
def _problem():
    return jaxdp.RandomFeatures.sample(ROWS, 8, 4, 6, key=jr.key(5))


@functools.cache
def _features():
    return np.asarray(_problem().train_features(), np.float64)


@functools.cache
def _labels():
    return np.asarray(_problem().train_labels, np.float64)


# average: (what is tested, and its definition: of iterates 0 to t, t > 0, of T in all)
AVERAGES = {
    "polyak": (jaxdp.PolyakAverage(), lambda iterates, num_steps: iterates[1:].mean(axis=0)),
    "tail": (jaxdp.TailAverage(), lambda iterates, num_steps: _tail_mean(iterates, num_steps)),
    "exponential": (
        jaxdp.algorithms.ExponentialAverage(0.75),
        lambda iterates, num_steps: (
            0.75 ** (len(iterates) - 1) * iterates[0]
            + 0.25 * 0.75 ** np.arange(len(iterates) - 1)[::-1] @ iterates[1:]
        ),
    ),
}


@functools.cache
def _data():
    return _problem().train_features(), _problem().train_labels


@functools.cache
def _start():
    return jnp.zeros(_features().shape[1])


def loss(weights, x, y):
    return (weights @ x - y) ** 2


def _optimiser(average=None, num_steps=STEPS, **changes):
    """Full batches without clipping and without noise: gradient descent with momentum."""
    given = {"learning_rate": RATE, "clip_norm": 1e6, "noise_multiplier": 0.0}
    given |= {"sampler": PoissonSampler(ROWS, 1.0), "num_steps": num_steps, **changes}
    factory = functools.partial(optax.sgd, momentum=MOMENTUM)
    return jaxdp.PrivateOptimiser(factory, average=average, **given)


def _iterates(num_steps=STEPS):
    """The weights after 0, ..., T steps of heavy ball, in float64."""
    weights, velocity = np.zeros(_features().shape[1]), 0.0
    found = [weights]
    for _ in range(num_steps):
        gradient = 2 * _features().T @ (_features() @ weights - _labels()) / ROWS
        velocity = MOMENTUM * velocity + gradient
        weights = weights - RATE * velocity
        found.append(weights)
    return np.asarray(found)


def _tail_mean(iterates, num_steps):
    return iterates[min(num_steps // 2 + 1, len(iterates) - 1) :].mean(axis=0)


def _averages(name, num_steps=STEPS):
    """The average after 0, ..., T steps, from its definition."""
    iterates, (_, mean) = _iterates(num_steps), AVERAGES[name]
    later = [mean(iterates[: step + 1], num_steps) for step in range(1, num_steps + 1)]
    return np.asarray([iterates[0], *later])


def _train(average, **options):
    return train(_optimiser(average), loss, _start(), *_data(), key=jr.key(0), **options)


def _assert_trains(name):
    run = _train(AVERAGES[name][0], evaluate=lambda model: {"weights": model}, every=1)
    records = run.records["weights"]
    np.testing.assert_allclose(records, _averages(name), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(run.model, records[-1])
    iterate: Any = run.state.iterate
    np.testing.assert_allclose(iterate, _iterates()[-1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", AVERAGES)
def test_training_ends_with_the_average_and_keeps_the_iterate(name):
    _assert_trains(name)


def _simulated(average, **options):
    options = {"key": jr.key(0), "records": STEPS, **options}
    return jaxdp.simulate(_problem(), _optimiser(average), simulator=jaxdp.Iterates(), **options)


def _assert_simulates(name):
    run: Any = _simulated(AVERAGES[name][0], keep_parameters=True)
    expected = _averages(name)
    np.testing.assert_allclose(run.parameters[0], expected[-1], rtol=1e-4, atol=1e-6)
    labels = np.asarray(_problem().test_labels)
    residuals = expected @ np.asarray(_problem().test_features()).T - labels
    np.testing.assert_allclose(run.risk[0], np.mean(residuals**2, axis=1), rtol=1e-4)


@pytest.mark.parametrize("name", AVERAGES)
def test_a_simulation_on_rows_has_the_risk_of_the_average(name):
    _assert_simulates(name)


def _ignore_the_average(patch):
    patch.setattr(AbstractAverage, "after", lambda self, average, iterate, *_: iterate)


def _begin_the_tail_late(patch):
    def late(self, step, num_steps):
        return 1 / jnp.maximum(step - num_steps // 2 - 1, 1)

    patch.setattr(jaxdp.TailAverage, "weight", late)


def _forget_the_momentum(patch):
    honest = Transformation.update

    def forgets(self, updates, state, weights):
        return honest(self, updates, self.init(weights), weights)

    patch.setattr(Transformation, "update", forgets)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "mistake"),
    [
        (_assert_simulates, _begin_the_tail_late),
        (_assert_trains, _forget_the_momentum),
        (_assert_simulates, _ignore_the_average),
    ],
)
def test_planted_mistakes_are_seen(mistake, check):
    jax.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        mistake(patch)
        with pytest.raises(AssertionError):
            check("tail")
    jax.clear_caches()


def test_a_run_of_any_length_has_its_own_tail():
    """Lengths share what is compiled, which must not keep the middle of the first."""
    for num_steps in (4, 9):
        made = _optimiser(jaxdp.TailAverage(), num_steps)
        run = train(made, loss, _start(), *_data(), key=jr.key(0))
        expected = _averages("tail", num_steps)[-1]
        np.testing.assert_allclose(run.model, expected, rtol=1e-4, atol=1e-6)


def test_secret_noise_averages_as_simulated_noise_does():
    """Noise so small that it does not show; the parts of the step are compiled by themselves."""
    average = jaxdp.TailAverage()
    secret = {"noise": SecretNoise(2**200), "noise_multiplier": 1e-6, "clip_norm": 30.0}
    run = train(_optimiser(average, **secret), loss, _start(), *_data(), key=jr.key(0))
    np.testing.assert_allclose(run.model, _averages("tail")[-1], rtol=1e-3, atol=1e-4)


def test_decays_are_batched_and_bad_ones_are_void():
    def run(decay):
        found = _simulated(jaxdp.algorithms.ExponentialAverage(decay))
        return found.final_risk, found.status

    risk, status = jax.vmap(run)(jnp.array([0.75, 0.0, 1.0]))
    np.testing.assert_allclose(risk[0], run(0.75)[0], rtol=1e-5)
    np.testing.assert_allclose(risk[1], _simulated(None).final_risk, rtol=1e-5)
    assert status[:, 0].tolist() == [jaxdp.Status.OK, jaxdp.Status.OK, jaxdp.Status.INVALID]
