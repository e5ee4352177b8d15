"""What the account says of private optimisers, in numbers and in words, for every sampler."""

import math

import optax
import pytest

import jaxdp
from jaxdp.privacy import FixedSizeBatches, PoissonSampler, SecretNoise, ShuffledEpochs
from jaxdp.privacy.conversions.gaussian import gaussian_epsilon

ROWS, STEPS, NOISE, DELTA = 40, 10, 8.0, 1e-5
# Of ten batches: how many one record can be in.
REPLACED = {
    "shuffled": (ShuffledEpochs(ROWS, 10), 3),
    "shuffled, short last batch": (ShuffledEpochs(ROWS, 12), 3),
    "shuffled, all rows": (ShuffledEpochs(ROWS, ROWS), 10),
    "fixed size": (FixedSizeBatches(ROWS, 10), 10),
    "fixed size, all rows": (FixedSizeBatches(ROWS, ROWS), 10),
}


def _cost(sampler, noise_multiplier=NOISE, **changes):
    algorithm = jaxdp.PrivateOptimiser(
        optax.sgd,
        learning_rate=0.1,
        clip_norm=1.0,
        noise_multiplier=noise_multiplier,
        num_steps=STEPS,
        sampler=sampler,
        **changes,
    )
    return jaxdp.account(algorithm, delta=DELTA)


@pytest.mark.parametrize("name", REPLACED)
def test_a_replaced_record_pays_for_each_batch_that_it_can_be_in(name):
    sampler, uses = REPLACED[name]
    cost = _cost(sampler)
    # Each of those sums moves by 2C at most, under noise of 8C.
    mu = 2 * math.sqrt(uses) / NOISE
    assert (cost.adjacency, cost.mu) == ("replace-one", pytest.approx(mu, rel=1e-12))
    assert cost.epsilon == pytest.approx(gaussian_epsilon(mu, DELTA), rel=1e-9)
    said = str(cost)
    assert f"{uses} of the {STEPS} batches at most: mu = 2 sqrt({uses}) / noise_multiplier" in said
    assert "nothing is amplified" in said
    assert "Poisson" not in said


def test_poisson_batches_are_amplified_for_a_record_that_is_left_out():
    cost = _cost(PoissonSampler(ROWS, 0.2))
    # Without amplification ten sums, each of which moves by C.
    assert cost.epsilon < 0.5 * gaussian_epsilon(math.sqrt(STEPS) / NOISE, DELTA)
    assert (cost.adjacency, cost.mu) == ("zero-out-one", None)
    said = str(cost)
    for words in ("rate 0.2, which amplifies privacy", "a replaced record", "is not covered"):
        assert words in said


def test_a_poisson_rate_of_one_amplifies_nothing_and_is_not_replace_one():
    cost = _cost(PoissonSampler(ROWS, 1.0))
    mu = math.sqrt(STEPS) / NOISE
    assert (cost.adjacency, cost.mu) == ("zero-out-one", pytest.approx(mu, rel=1e-12))
    assert cost.epsilon == pytest.approx(gaussian_epsilon(mu, DELTA), rel=1e-9)
    said = str(cost)
    assert "nothing is amplified" in said
    assert "its random bits" not in said
    # The same noise promises half as much where a record is replaced.
    assert _cost(ShuffledEpochs(ROWS, ROWS)).mu == pytest.approx(2 * cost.mu, rel=1e-12)
    # One batch may overflow: then it is no Gaussian mechanism.
    assert _cost(PoissonSampler(ROWS, 1.0, capacity=ROWS), noise_multiplier=50.0).mu is None


def test_full_batches_cost_what_dp_gd_of_the_same_noise_does():
    descent = jaxdp.DPGD(0.1, 1.0, num_steps=STEPS, noise_scale=NOISE * math.sqrt(0.1) / 2)
    assert float(descent.noise_multiplier) == pytest.approx(NOISE, rel=1e-6)
    expected = jaxdp.account(descent, delta=DELTA)
    cost = _cost(ShuffledEpochs(ROWS, ROWS))
    assert (cost.adjacency, cost.mu) == (expected.adjacency, pytest.approx(expected.mu, rel=1e-6))


@pytest.mark.parametrize("sampler", [PoissonSampler(ROWS, 0.2), ShuffledEpochs(ROWS, 10)], ids=repr)
def test_averages_cost_nothing_and_secret_noise_only_changes_what_is_certified(sampler):
    plain = _cost(sampler)
    for average in (jaxdp.PolyakAverage(), jaxdp.TailAverage(), jaxdp.ExponentialAverage(0.9)):
        cost = _cost(sampler, average=average)
        assert (cost.epsilon, cost.mu) == (plain.epsilon, plain.mu)
        assert "the average of the iterates included, at no further cost" in str(cost)
    secret = _cost(sampler, noise=SecretNoise())
    assert secret.epsilon == pytest.approx(plain.epsilon, rel=1e-6)
    assert secret.epsilon >= plain.epsilon
    assert (secret.is_certified, plain.is_certified) == (True, False)
    assert (secret.adjacency, plain.adjacency) == (sampler.adjacency, sampler.adjacency)
    assert "simulated noise" not in str(secret)


@pytest.mark.parametrize("sampler", [PoissonSampler(ROWS, 0.2), ShuffledEpochs(ROWS, 10)], ids=repr)
def test_without_noise_epsilon_is_infinite_and_the_cost_says_why(sampler):
    cost = _cost(sampler, noise_multiplier=0.0)
    assert cost.epsilon == math.inf
    assert not cost.is_certified
    assert "there is no noise (noise_multiplier = 0)" in str(cost)
    # Nothing about a key or about float32's normals, of which none are drawn.
    assert "Float32" not in str(cost)
    assert "key" not in str(cost)


def test_scaling_by_the_data_and_features_that_learnt_from_it_are_said_to_be_left_out():
    said = str(_cost(ShuffledEpochs(ROWS, 10)))
    assert "scaling the data by itself and learning features on it are not included" in said
