"""Batches of one size drawn afresh for each step: their law, and what they cost."""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.privacy import (
    FixedSizeBatches,
    SecretNoise,
    audit_mu,
    calibrated_noise_multiplier,
    gaussian_epsilon,
    gaussian_mu,
)


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


def test_steps_and_keys_have_batches_of_their_own_and_tracing_changes_none():
    sampler = FixedSizeBatches(40, 10)
    batches = [sampler.sample(step, key=jr.key(key))[0] for step, key in ((0, 0), (1, 0), (0, 1))]
    assert len({tuple(np.asarray(batch).tolist()) for batch in batches}) == 3
    traced = jax.jit(lambda step: sampler.sample(step, key=jr.key(0)))
    assert traced(1)[0].tolist() == batches[1].tolist()
    secret = sampler.sample_secretly(1, noise=SecretNoise(2**200), key=jr.key(0))[0]
    assert secret.tolist() == batches[1].tolist()


def test_a_batch_of_all_records_holds_each_once():
    drawn, is_real = FixedSizeBatches(7, 7).sample(3, key=jr.key(0))
    assert sorted(drawn.tolist()) == list(range(7))
    assert np.asarray(is_real).all()


def test_every_step_costs_a_gaussian_whatever_the_batch_size():
    for batch_size in (1, 3, 12):
        mechanism = FixedSizeBatches(12, batch_size).mechanism(4.0, 9)
        assert mechanism.proved.mu == pytest.approx(1.5, rel=1e-12)
        assert mechanism.epsilon(1e-5, "replace-one") == gaussian_epsilon(1.5, 1e-5)
    assert FixedSizeBatches(12, 3).mechanism(0.0, 1).proved.mu == math.inf
    # Transcribed: a record that happens to be in the batch of every step.
    gaps = [(1.0 - -1.0) / 4.0 for _ in range(9)]
    assert math.sqrt(sum(gap**2 for gap in gaps)) == pytest.approx(1.5)


def test_a_calibrated_multiplier_keeps_the_budget_and_no_less_does():
    sampler = FixedSizeBatches(100, 10)
    multiplier = calibrated_noise_multiplier(1.0, 1e-5, sampler=sampler, num_steps=16)
    assert multiplier == pytest.approx(2 * 4 / gaussian_mu(1.0, 1e-5), rel=1e-6)
    assert sampler.mechanism(multiplier, 16).epsilon(1e-5, "replace-one") <= 1
    assert sampler.mechanism(0.999 * multiplier, 16).epsilon(1e-5, "replace-one") > 1


@pytest.mark.parametrize(("batch_size", "least", "most"), [(4, 0.9, 1.0), (2, 0.0, 0.8)])
def test_full_batches_reach_the_claim_and_half_of_the_records_stay_below(batch_size, least, most):
    steps, sampler = 3, FixedSizeBatches(4, batch_size)
    optimiser = jaxdp.PrivateOptimiser(
        optax.sgd(1.0), clip_norm=1.0, noise_multiplier=2.0, num_steps=steps, sampler=sampler
    )

    def mechanism(first, key):
        """The sum of all released sums: the record pushes one way, the others do nothing."""
        total = 0.0
        for step in range(steps):
            drawn, _ = sampler.sample(step, key=key)
            clipped = jnp.where(jnp.any(drawn == 0), first, 0.0)
            total += optimiser.noisy_sum(clipped, jnp.asarray(step), key=key)
        return total

    claim = jaxdp.account(optimiser, delta=1e-5).mu
    assert claim == pytest.approx(math.sqrt(3), rel=1e-12)
    found = audit_mu(mechanism, jnp.ones(()), -jnp.ones(()), num_trials=20_000, key=jr.key(5))
    assert least * claim <= found <= most * claim


def test_wrong_batches_are_refused():
    with pytest.raises(ValueError, match="batch_size <= num_records = 5, got 6"):
        FixedSizeBatches(5, 6)
    with pytest.raises(TypeError, match="batch_size"):
        FixedSizeBatches(5, 2.0)
    with pytest.raises(TypeError, match="expected key to be"):
        FixedSizeBatches(5, 2).sample(0, key=0)
    with pytest.raises(ValueError, match="num_steps >= 1"):
        FixedSizeBatches(5, 2).mechanism(1.0, 0)
    assert repr(FixedSizeBatches(5, 2)) == "FixedSizeBatches(num_records=5, batch_size=2)"
