"""Batches that split the data: every record once an epoch, and what that costs."""

import math

import jax
import jax.random as jr
import numpy as np
import pytest

from jaxdp.privacy import ShuffledEpochs, gaussian_epsilon


def _records(sampler, steps, key):
    """The real records of the batches of some steps, one after the other."""
    drawn = []
    for step in steps:
        indices, is_real = sampler.sample(step, key=key)
        assert indices.shape == is_real.shape == (sampler.capacity,)
        drawn += np.asarray(indices)[np.asarray(is_real)].tolist()
    return drawn


@pytest.mark.parametrize("batch_size", [1, 4, 5, 12])
def test_every_record_is_in_one_batch_of_each_epoch(batch_size):
    sampler = ShuffledEpochs(12, batch_size)
    for epoch in range(2):
        first = epoch * sampler.steps_per_epoch
        drawn = _records(sampler, range(first, first + sampler.steps_per_epoch), jr.key(0))
        assert sorted(drawn) == list(range(12))


def test_epochs_and_keys_have_orders_of_their_own():
    sampler = ShuffledEpochs(30, 10)
    orders = [_records(sampler, range(3), jr.key(0)), _records(sampler, range(3, 6), jr.key(0))]
    orders.append(_records(sampler, range(3), jr.key(1)))
    assert len({tuple(order) for order in orders}) == 3
    assert orders[0] == _records(sampler, range(3), jr.key(0))
    traced = jax.jit(lambda step: sampler.sample(step, key=jr.key(0)))
    assert traced(1)[0].tolist() == sampler.sample(1, key=jr.key(0))[0].tolist()


def test_epochs_are_one_gaussian_each():
    # 9 epochs of 4 batches, the last one begun only.
    mechanism = ShuffledEpochs(12, 3).mechanism(4.0, 8 * 4 + 1)
    assert mechanism.proved.mu == pytest.approx(1.5)
    assert mechanism.epsilon(1e-5, "replace-one") == gaussian_epsilon(1.5, 1e-5)
    assert ShuffledEpochs(12, 3).mechanism(0.0, 1).proved.mu == math.inf
    # Transcribed: two data sets that differ in one record, clipped sums of the batches.
    rng = np.random.default_rng(0)
    first = rng.uniform(-1, 1, 12)
    second = first.copy()
    first[5], second[5] = 1.0, -1.0
    squares = 0.0
    for _ in range(9):
        order = rng.permutation(12).reshape(4, 3)
        gaps = first[order].sum(1) - second[order].sum(1)
        squares += ((gaps / 4.0) ** 2).sum()
    assert math.sqrt(squares) == pytest.approx(mechanism.proved.mu)


def test_wrong_batches_are_refused():
    with pytest.raises(ValueError, match="batch_size <= num_records = 5, got 6"):
        ShuffledEpochs(5, 6)
    with pytest.raises(TypeError, match="batch_size"):
        ShuffledEpochs(5, 2.0)
    with pytest.raises(TypeError, match="expected key to be"):
        ShuffledEpochs(5, 2).sample(0, key=0)
    with pytest.raises(ValueError, match="num_steps >= 1"):
        ShuffledEpochs(5, 2).mechanism(1.0, 0)
