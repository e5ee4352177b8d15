"""A sampler of one's own, from its batches and how often a record can be in them."""

import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.privacy import AbstractUnamplifiedSampler


class Cyclic(AbstractUnamplifiedSampler):
    """Step t takes the B records from number t B on, modulo n."""

    def sample(self, step, *, key):
        start = (jnp.asarray(step) % self.num_records) * self.capacity
        indices = (start + jnp.arange(self.capacity)) % self.num_records
        return indices, jnp.ones(self.capacity, bool)

    def uses(self, num_steps):
        return -(-num_steps * self.capacity // self.num_records)


@pytest.mark.parametrize(("num_records", "batch_size"), [(7, 3), (6, 3), (5, 5), (9, 1)])
def test_the_account_is_of_the_most_batches_that_a_record_is_in(num_records, batch_size):
    sampler, counts = Cyclic(num_records, batch_size), np.zeros(num_records, int)
    for step in range(25):
        indices, _ = sampler.sample(step, key=jr.key(step))
        counts[np.asarray(indices)] += 1
        # Transcribed: each batch with the replaced record moves the sum by 2C, under noise 4C.
        gaps = [2 / 4.0] * counts.max()
        mu = sampler.mechanism(4.0, step + 1).proved.mu
        assert mu == pytest.approx(math.sqrt(sum(gap**2 for gap in gaps)), rel=1e-12)


def test_a_sampler_of_ones_own_is_simulated_accounted_for_and_shown():
    problem = jaxdp.RandomFeatures.sample(20, 10, 5, 8, activation=jnp.tanh, key=jr.key(0))
    algorithm = jaxdp.PrivateOptimiser(
        optax.sgd(0.1), clip_norm=1.0, noise_multiplier=2.0, num_steps=10, sampler=Cyclic(20, 6)
    )
    runs = jaxdp.simulate(problem, algorithm, num_runs=4, key=jr.key(1))
    assert np.isfinite(runs.final_risk).all()
    cost = jaxdp.account(algorithm, delta=1e-5)
    # Three rounds of twenty records in ten batches of six.
    assert cost.mu == pytest.approx(2 * math.sqrt(3) / 2)
    assert cost.adjacency == "replace-one"
    assert repr(Cyclic(20, 6)) == "Cyclic(num_records=20, batch_size=6)"
    with pytest.raises(ValueError, match="expected batch_size <= num_records = 5, got 6"):
        Cyclic(5, 6)
