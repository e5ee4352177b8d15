"""Samplers without amplification: epochs, sets drawn afresh, and one of a user's own."""

import math

import canonical
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from worst_case import optimiser

import jaxdp
from jaxdp.privacy import (
    FixedOrder,
    FixedSizeBatches,
    SecretNoise,
    ShuffledEpochs,
    audit,
    gaussian_epsilon,
)
from jaxdp.privacy.batches.unamplified import AbstractUnamplifiedSampler


class Cyclic(AbstractUnamplifiedSampler):
    """Step t takes the B records from number t B on, modulo n."""

    def sample(self, step, *, key):
        start = (jnp.asarray(step) % self.num_records) * self.capacity
        indices = (start + jnp.arange(self.capacity)) % self.num_records
        return indices, jnp.ones(self.capacity, bool)

    def uses(self, num_steps):
        return -(-num_steps * self.capacity // self.num_records)


@pytest.mark.parametrize(("num_records", "batch_size"), [(7, 3), (6, 3)])
def test_the_account_is_of_the_most_batches_that_a_record_is_in(num_records, batch_size):
    sampler, counts = Cyclic(num_records, batch_size), np.zeros(num_records, int)
    for step in range(25):
        indices, _ = sampler.sample(step, key=jr.key(step))
        counts[np.asarray(indices)] += 1
        # Each batch with the replaced record moves the sum by 2C, under noise 4C.
        mu = sampler.mechanism(4.0, step + 1).proved.mu
        assert mu == pytest.approx(2 / 4.0 * math.sqrt(counts.max()), rel=1e-12)


def test_a_sampler_of_ones_own_is_simulated_accounted_for_and_shown():
    sampler = Cyclic(canonical.NUM_TRAIN, 9)
    algorithm = optimiser(sampler, 2.0, num_steps=10)
    runs = jaxdp.simulate(canonical.features(), algorithm, num_runs=4, key=jr.key(1))
    assert np.isfinite(runs.final_risk).all()
    cost = jaxdp.account(algorithm, delta=1e-5)
    # Three rounds of thirty records in ten batches of nine.
    assert cost.mu == pytest.approx(2 * math.sqrt(3) / 2)
    assert cost.adjacency == "replace-one"
    assert repr(sampler) == "Cyclic(num_records=30, batch_size=9)"
    with pytest.raises(ValueError, match="expected batch_size <= num_records = 5, got 6"):
        Cyclic(5, 6)


def _records(sampler, steps, key):
    """The real records of the batches of some steps, one after the other."""
    drawn = []
    for step in steps:
        indices, is_real = sampler.sample(step, key=key)
        assert indices.shape == is_real.shape == (sampler.capacity,)
        drawn += np.asarray(indices)[np.asarray(is_real)].tolist()
    return drawn


@pytest.mark.parametrize("batch_size", [4, 5])
def test_every_record_is_in_one_batch_of_each_epoch(batch_size):
    sampler = ShuffledEpochs(12, batch_size)
    for epoch in range(2):
        first = epoch * sampler.steps_per_epoch
        drawn = _records(sampler, range(first, first + sampler.steps_per_epoch), jr.key(0))
        assert sorted(drawn) == list(range(12))


@pytest.mark.parametrize("num_batches", [1, 3, 5])
def test_a_fixed_order_has_the_same_batches_in_every_epoch_and_each_record_once(num_batches):
    sampler, epochs = FixedOrder(12, num_batches), []
    for epoch in range(2):
        steps = range(epoch * num_batches, (epoch + 1) * num_batches)
        epochs.append([sorted(_records(sampler, [step], jr.key(0))) for step in steps])
        assert sorted(_records(sampler, steps, jr.key(0))) == list(range(12))
        sizes = {len(batch) for batch in epochs[-1]}
        assert max(sizes) == sampler.capacity
        assert max(sizes) - min(sizes) <= 1
    assert epochs[0] == epochs[1]
    other = [sorted(_records(sampler, [step], jr.key(1))) for step in range(num_batches)]
    assert (other == epochs[0]) == (num_batches == 1)
    assert sampler.expected_batch_size == 12 / num_batches
    assert sampler.inclusion_moments.epoch_steps == num_batches
    assert sampler.inclusion_moments.is_kept
    assert FixedOrder.of_share(12, 1 / num_batches) == sampler


@pytest.mark.parametrize("sampler", [ShuffledEpochs(30, 10), FixedSizeBatches(30, 10)])
def test_steps_epochs_and_keys_have_batches_of_their_own_and_tracing_changes_none(sampler):
    places = (0, 0), (1, 0), (3, 0), (0, 1)
    batches = [sampler.sample(step, key=jr.key(key))[0].tolist() for step, key in places]
    assert len({*map(tuple, batches)}) == 4
    traced = jax.jit(lambda step: sampler.sample(step, key=jr.key(0)))
    assert traced(1)[0].tolist() == batches[1]
    secret = sampler.sample_secretly(1, noise=SecretNoise(2**200), key=jr.key(0))[0]
    assert secret.tolist() == batches[1]


def test_a_batch_is_a_uniformly_random_set():
    sampler, steps = FixedSizeBatches(5, 2), 4000
    drawn, is_real = jax.vmap(lambda step: sampler.sample(step, key=jr.key(0)))(jnp.arange(steps))
    assert np.asarray(is_real).all()
    pairs = np.sort(np.asarray(drawn), axis=1)
    assert np.all(pairs[:, 0] < pairs[:, 1])
    _, counts = np.unique(pairs, axis=0, return_counts=True)
    # Ten pairs, each with probability .1.
    assert len(counts) == 10
    assert np.abs(counts / steps - 0.1).max() < 5 * math.sqrt(0.09 / steps)


# Nine epochs of four batches, the last one begun only; and nine batches, of whatever size.
@pytest.mark.parametrize(
    ("sampler", "num_steps"),
    [
        (ShuffledEpochs(12, 3), 8 * 4 + 1),
        (FixedSizeBatches(12, 3), 9),
        (FixedSizeBatches(12, 1), 9),
    ],
)
def test_each_epoch_or_batch_costs_a_gaussian(sampler, num_steps):
    mechanism = sampler.mechanism(4.0, num_steps)
    assert mechanism.proved.mu == pytest.approx(1.5, rel=1e-12)
    assert mechanism.epsilon(1e-5, "replace-one") == gaussian_epsilon(1.5, 1e-5)
    assert sampler.mechanism(0.0, 1).proved.mu == math.inf


@pytest.mark.parametrize(("batch_size", "least", "most"), [(4, 0.9, 1.0), (2, 0.0, 0.8)])
def test_full_batches_reach_the_claim_and_half_of_the_records_stay_below(batch_size, least, most):
    steps, sampler = 3, FixedSizeBatches(4, batch_size)
    algorithm = optimiser(sampler, 2.0, steps)

    def mechanism(first, key):
        """The sum of all released sums: the record pushes one way, the others do nothing."""
        total = 0.0
        for step in range(steps):
            drawn, _ = sampler.sample(step, key=key)
            clipped = jnp.where(jnp.any(drawn == 0), first, 0.0)
            total += algorithm.noisy_sum(clipped, jnp.asarray(step), key=key)
        return total

    claim = jaxdp.account(algorithm, delta=1e-5).mu
    assert claim == pytest.approx(math.sqrt(3), rel=1e-12)
    runs = {"num_trials": 20_000, "key": jr.key(5)}
    found = audit(mechanism, jnp.ones(()), -jnp.ones(()), measure="mu", **runs)
    assert least * claim <= found <= most * claim
