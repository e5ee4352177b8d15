"""The private optimiser: its noise, what it releases, and that it releases no more."""

import copy
import functools
import math
import pickle
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import assert_variance

import jaxdp
from jaxdp import privacy
from jaxdp.algorithms import NonPrivateOptimiser

RECORDS = 12
RANDOM = np.random.default_rng(0)
DATA = RANDOM.normal(size=(RECORDS, 3)), RANDOM.normal(size=RECORDS)
FULL, SGD = privacy.ShuffledEpochs(RECORDS, RECORDS), optax.sgd(1.0)
GIVEN = {"optimiser": SGD, "clip_norm": 1.0, "noise_multiplier": 2.0, "num_steps": 3}
_optimiser = functools.partial(jaxdp.PrivateOptimiser, sampler=FULL, **GIVEN)


def squared_loss(weight, x, y):
    return (weight @ x - y) ** 2 / 2


def _run(optimiser, steps):
    weight = jnp.ones(3)
    state = optimiser.init(weight)
    for _ in range(steps):
        weight, state = optimiser.step(squared_loss, weight, state, *DATA, key=jr.key(0))
    return weight


def test_the_noise_on_sum_and_mean_is_as_named():
    optimiser = _optimiser(clip_norm=0.5, noise_multiplier=3.0)
    zeros = {"weight": jnp.zeros((40, 50)), "bias": jnp.zeros(2000)}
    noisy = optimiser.noisy_sum(zeros, jnp.asarray(0), key=jr.key(1))
    for leaf in jax.tree.leaves(noisy):
        assert_variance(np.ravel(leaf), 1.5**2)
        with pytest.raises(AssertionError):
            assert_variance(np.ravel(leaf), (1.5 / 1.33) ** 2)
    model, _ = optimiser.update(zeros, zeros, optimiser.init(zeros), key=jr.key(1))
    np.testing.assert_allclose(model["bias"], -np.asarray(noisy["bias"]) / RECORDS, rtol=1e-6)
    assert optimiser.nominal_std_of_sum == 1.5
    assert optimiser.nominal_std_of_mean == 1.5 / RECORDS


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_weights_and_state_keep_their_types(dtype):
    optimiser = _optimiser(optimiser=optax.adam(0.1))
    weight = jnp.ones(3, dtype)

    def step(carry, _):
        return optimiser.step(squared_loss, *carry, *DATA, key=jr.key(0)), None

    (found, _), _ = jax.lax.scan(step, (weight, optimiser.init(weight)), length=3)
    assert found.dtype == dtype
    assert np.all(np.asarray(found) != 1)


def test_nothing_is_released_after_the_last_step():
    optimiser = _optimiser(num_steps=2)
    last = _run(optimiser, 2)
    with pytest.raises(ValueError, match="expected at most 2 steps"):
        _run(optimiser, 3)

    @jax.jit
    def loop(weight):
        def step(carry, _):
            return optimiser.step(squared_loss, *carry, *DATA, key=jr.key(0)), None

        return jax.lax.scan(step, (weight, optimiser.init(weight)), length=5)[0]

    found, state = loop(jnp.ones(3))
    np.testing.assert_allclose(found, last, rtol=1e-6)
    assert state.num_released == 2


@pytest.mark.parametrize(
    "sampler",
    [privacy.ShuffledEpochs(RECORDS, 4), privacy.PoissonSampler(RECORDS, 0.25)],
    ids=["epochs", "poisson"],
)
def test_calibrated_noise_keeps_the_budget_and_no_more(sampler):
    optimiser = jaxdp.PrivateOptimiser.calibrated(
        optax.sgd(1.0), 2.0, 1e-5, clip_norm=1.0, num_steps=6, sampler=sampler
    )
    assert jaxdp.account(optimiser, delta=1e-5).epsilon <= 2.0
    quieter = optimiser.replace(noise_multiplier=0.99 * optimiser.noise_multiplier)
    assert jaxdp.account(quieter, delta=1e-5).epsilon > 2.0


# Copies and pickles.


@pytest.mark.parametrize(
    "optimiser",
    [_optimiser(), _optimiser(optimiser=optax.sgd, learning_rate=0.1), NonPrivateOptimiser(SGD, 3)],
    ids=["made", "factory", "baseline"],
)
def test_a_pickled_optimiser_makes_the_same_steps(optimiser):
    found = pickle.loads(pickle.dumps(optimiser))
    np.testing.assert_array_equal(_run(found, 2), _run(optimiser, 2))
    for copy_of in (copy.copy, copy.deepcopy):
        np.testing.assert_array_equal(_run(copy_of(optimiser), 2), _run(optimiser, 2))


def test_pickle_says_what_it_cannot_send(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(TypeError, match=r"give factory and rate, as in PrivateOptimiser"):
        pickle.dumps(_optimiser())
    assert pickle.loads(pickle.dumps(_optimiser(optimiser=optax.sgd, learning_rate=0.1)))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copy_has_the_secret_seed_of_a_run(copied):
    noise = privacy.SecretNoise(2**200 + 1)
    optimiser = _optimiser(optimiser=optax.sgd, learning_rate=0.1, noise=noise)
    for thing in (optimiser, noise, noise.hiding(1.0)):
        with pytest.raises(ValueError, match=r"expected (noise= in replace|a secret seed to stay)"):
            copied(thing)
    # Noise of the system, and a seed that hides nothing, may be anywhere.
    for reusable in (privacy.SecretNoise(), privacy.SecretNoise(7)):
        assert copied(_optimiser(optimiser=optax.sgd, learning_rate=0.1, noise=reusable))


# What the account says, in numbers and in words, for every sampler.

MANY, STEPS, NOISE, DELTA = 40, 10, 8.0, 1e-5
# Of ten batches: how many one record can be in.
REPLACED = {
    "shuffled": (privacy.ShuffledEpochs(MANY, 10), 3),
    "shuffled, all rows": (privacy.ShuffledEpochs(MANY, MANY), 10),
    "fixed size": (privacy.FixedSizeBatches(MANY, 10), 10),
}


def _cost(sampler, noise_multiplier=NOISE, **changes):
    given = {"noise_multiplier": noise_multiplier, "num_steps": STEPS, "sampler": sampler}
    return jaxdp.account(_optimiser(**given | changes), delta=DELTA)


@pytest.mark.parametrize("name", REPLACED)
def test_a_replaced_record_pays_for_each_batch_that_it_can_be_in(name):
    sampler, uses = REPLACED[name]
    cost = _cost(sampler)
    # Each of those sums moves by 2C at most, under noise of 8C.
    mu = 2 * math.sqrt(uses) / NOISE
    assert (cost.adjacency, cost.mu) == ("replace-one", pytest.approx(mu, rel=1e-12))
    assert cost.epsilon == pytest.approx(privacy.gaussian_epsilon(mu, DELTA), rel=1e-9)
    assert f"{uses} of the {STEPS} batches at most" in str(cost)
    assert "Poisson" not in str(cost)


def test_poisson_batches_are_amplified_for_a_record_that_is_left_out():
    cost = _cost(privacy.PoissonSampler(MANY, 0.2))
    # Without amplification ten sums, each of which moves by C.
    assert cost.epsilon < 0.5 * privacy.gaussian_epsilon(math.sqrt(STEPS) / NOISE, DELTA)
    assert (cost.adjacency, cost.mu) == ("zero-out-one", None)
    assert "rate 0.2, which amplifies privacy" in str(cost)


def test_a_poisson_rate_of_one_amplifies_nothing_and_is_not_replace_one():
    cost = _cost(privacy.PoissonSampler(MANY, 1.0))
    mu = math.sqrt(STEPS) / NOISE
    assert (cost.adjacency, cost.mu) == ("zero-out-one", pytest.approx(mu, rel=1e-12))
    assert cost.epsilon == pytest.approx(privacy.gaussian_epsilon(mu, DELTA), rel=1e-9)
    # The same noise promises half as much where a record is replaced.
    assert _cost(privacy.ShuffledEpochs(MANY, MANY)).mu == pytest.approx(2 * cost.mu, rel=1e-12)
    # One batch may overflow: then it is no Gaussian mechanism.
    assert _cost(privacy.PoissonSampler(MANY, 1.0, capacity=MANY), noise_multiplier=50.0).mu is None


@pytest.mark.parametrize(
    "sampler", [privacy.PoissonSampler(MANY, 0.2), privacy.ShuffledEpochs(MANY, 10)], ids=repr
)
def test_averages_cost_nothing_and_secret_noise_only_changes_what_is_certified(sampler):
    plain = _cost(sampler)
    cost = _cost(sampler, average=jaxdp.TailAverage())
    assert (cost.epsilon, cost.mu) == (plain.epsilon, plain.mu)
    secret = _cost(sampler, noise=privacy.SecretNoise())
    assert secret.epsilon == pytest.approx(plain.epsilon, rel=1e-6)
    assert secret.epsilon >= plain.epsilon
    assert (secret.is_certified, plain.is_certified) == (True, False)
    assert (secret.adjacency, plain.adjacency) == (sampler.adjacency, sampler.adjacency)


@pytest.mark.parametrize(
    "sampler", [privacy.PoissonSampler(MANY, 0.2), privacy.ShuffledEpochs(MANY, 10)], ids=repr
)
def test_without_noise_epsilon_is_infinite_and_the_cost_says_why(sampler):
    cost = _cost(sampler, noise_multiplier=0.0)
    assert (cost.epsilon, cost.is_certified) == (math.inf, False)
    assert "there is no noise (noise_multiplier = 0)" in str(cost)
