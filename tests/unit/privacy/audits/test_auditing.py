"""Audits: how often they fail, how much they find, and what they are told to refuse."""

import functools

import chex
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import FALSE_ALARM
from scipy.stats import norm
from worst_case import assert_rare, optimiser

import jaxdp
from jaxdp.algorithms import train
from jaxdp.privacy import PoissonSampler, SecretNoise, ShuffledEpochs, audit, gaussian_epsilon

MU = {"measure": "mu"}


def _gaussian(shift, key):
    """A Gaussian mechanism on its worst-case pair: inputs 0 and mu, noise of deviation 1."""
    return shift + jr.normal(key)


def _many_audits(first, second, num_audits, **arguments):
    return np.asarray(
        [audit(_gaussian, first, second, key=jr.key(i), **arguments) for i in range(num_audits)]
    )


def _sure(mechanism, first, second, num_trials, **measure):
    """A bound that exceeds the truth under one seed in a million."""
    settings = {"num_trials": num_trials, "confidence": 1 - FALSE_ALARM, "key": jr.key(0)}
    return audit(mechanism, first, second, **settings, **measure)


# Source: AC Definition 8; PF Definition 3.1; PK Definition 1.
@pytest.mark.slow
def test_bounds_exceed_the_truth_no_more_often_than_stated():
    found = _many_audits(0.0, 1.0, 300, num_trials=400, **MU)
    assert_rare(found > 1, 0.05)
    assert np.median(found) > 0.6
    with pytest.raises(AssertionError, match="rate"):
        assert_rare(found > 0.8, 0.05)
    found = _many_audits(0.0, 1.0, 300, num_trials=400, delta=0.1)
    assert_rare(found > gaussian_epsilon(1.0, 0.1), 0.05)
    assert np.median(found) > 0.4


def test_half_the_claimed_noise_refutes_the_claim():
    delta = 1e-2
    claim = gaussian_epsilon(1.0, delta)
    for mu, is_refuted in ((2.0, True), (1.0, False)):
        found = _sure(_gaussian, 0.0, mu, 100_000, delta=delta)
        assert (found > claim) == is_refuted
        assert (_sure(_gaussian, 0.0, mu, 100_000, **MU) > 1) == is_refuted


def _normal_or_odd(data, key):
    odd_one, probability = data
    coin, score = jr.split(key)
    return jnp.where(jr.bernoulli(coin, probability), odd_one, jr.normal(score))


def test_an_atom_inside_a_continuous_score_is_found():
    # Half of the runs on the second input give exactly 1: P[score >= 1] is .579, else .159.
    inputs, truth = ((1.0, 0.0), (1.0, 0.5)), np.log(0.5 / norm.sf(1) + 0.5)
    for pair in (inputs, inputs[::-1]):
        found = _sure(_normal_or_odd, *pair, 80_000, delta=0.0)
        assert 0.9 * truth <= found <= truth


def test_a_broken_mechanism_shows_nothing_and_does_not_crash():
    for score in (jnp.nan, jnp.inf, 0.0):

        def mechanism(data, key, score=score):
            return jnp.asarray(score)

        assert audit(mechanism, 0.0, 1.0, num_trials=100, delta=0.01, key=jr.key(0)) == 0
        assert audit(mechanism, 0.0, 1.0, num_trials=100, key=jr.key(0), **MU) == 0


def test_inputs_may_be_pytrees_of_different_shapes():
    def mechanism(data, key):
        return jnp.sum(data["records"]) + data["noise_std"] * jr.normal(key)

    first = {"records": jnp.zeros(3), "noise_std": 0.5}
    second = {"records": np.full(2, 0.5), "noise_std": 0.5}
    assert 1.8 <= _sure(mechanism, first, second, 20_000, **MU) <= 2


def test_the_mechanism_is_traced_once_and_run_in_batches():
    @chex.assert_max_traces(n=1)
    def mechanism(shift, key):
        return _gaussian(shift, key)

    def found(batch_size, seed):
        runs = {"num_trials": 1000, "key": jr.key(seed), "batch_size": batch_size}
        return audit(mechanism, 0.0, 2.0, **runs, **MU)

    whole = found(1000, 0)
    for seed in range(1, 4):
        found(1000, seed)
    chex.clear_trace_counter()
    assert found(64, 0) == whole


# Noise that does not come from the key.


# Of NumPy's generator, the data and the key.
NOT_OF_THE_KEY = {
    # JAX traces it without a word, as a mechanism whose noise is one number for all runs.
    "NumPy in an array": lambda rng, data, key: data + rng.normal(),
    "NumPy and JAX": lambda rng, data, key: data + 0.6 * rng.normal() + 0.8 * jr.normal(key),
    "a coin": lambda rng, data, key: jnp.asarray(data > 1) ^ (rng.random() < 0.25),
    "secret": lambda rng, data, key: data + SecretNoise().normals((), "noise"),
}


@pytest.mark.parametrize("name", NOT_OF_THE_KEY)
def test_noise_that_would_be_one_number_for_all_runs_is_refused(name):
    # It would tell two equal inputs apart.
    mechanism = functools.partial(NOT_OF_THE_KEY[name], np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"numbers all come from its key.*first_scores"):
        audit(mechanism, 1.0, 1.0, num_trials=200, key=jr.key(1), **MU)


def _first_weight(weights, x, y):
    return weights @ x


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampler", [PoissonSampler(10, 1.0), ShuffledEpochs(10, 10)], ids=["poisson", "epochs"]
)
def test_certified_training_is_audited(sampler):
    step = optimiser(sampler, noise=SecretNoise())

    def released(rows, key):
        run = train(step, _first_weight, jnp.zeros(2), rows, jnp.zeros(10), key=key)
        return -float(run.model[0])

    zeros = np.zeros((10, 2))
    first, second = (
        np.where(np.arange(10)[:, None] == 0, row, zeros) for row in ([5.0, 0], [-5.0, 0])
    )
    other = second if sampler.adjacency == "replace-one" else zeros
    claim = jaxdp.account(step, delta=0.01).mu
    scores = ([released(rows, key) for key in jr.split(jr.key(0), 200)] for rows in (first, other))
    assert 0.4 * claim < audit(*scores, confidence=1 - 1e-3, **MU) <= claim
