"""Normals addressed by counters: the published cipher, its law, and which numbers share nothing."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import FALSE_ALARM, assert_mean_close
from scipy import stats

from jaxdp.core.numerics import counter_normals
from jaxdp.core.numerics.counter_normals import hashed, key_words, normal_pairs

# Random123's known answers for threefry2x32 with 20 rounds: counter, key, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def _pairs(seed, count, dtype=jnp.float32):
    words = key_words(jr.key(seed))
    steps = jnp.arange(count)
    return jax.jit(lambda: normal_pairs(words, steps[:, None], jnp.arange(2), dtype))()


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_the_hash_has_the_known_answers(counter, key, expected):
    words = [jnp.asarray(word, jnp.uint32) for word in (*key, *counter)]
    found = hashed((words[0], words[1]), words[2], words[3])
    assert [int(word) for word in found] == list(expected)


def test_numbers_are_standard_normal_and_uncorrelated():
    first, second = (np.asarray(part, np.float64) for part in _pairs(0, 100_000))
    columns = np.concatenate([first, second], axis=1)
    for column in columns.T:
        assert stats.kstest(column, "norm")[1] > FALSE_ALARM
        assert stats.kstest(column + 0.05, "norm")[1] < FALSE_ALARM
    assert_mean_close(columns**4, 3.0)
    for lag in (0, 1, 2):
        ahead, behind = columns[lag:], columns[: len(columns) - lag]
        products = ahead[:, :, None] * behind[:, None, :]
        assert_mean_close(products, np.eye(4) if lag == 0 else np.zeros((4, 4)))


def test_tails_are_symmetric_and_finite():
    extremes = jnp.asarray([2**31 - 1, 2**31], jnp.uint32)
    top, bottom = counter_normals._normal(counter_normals._signed(extremes, jnp.float32))
    assert float(top) == -float(bottom)
    assert 5.3 < float(top) < 5.5


def test_a_number_depends_on_its_key_and_counters_alone():
    words, steps = key_words(jr.split(jr.key(0), 3)), jnp.arange(5, 9)
    pairs = jax.jit(lambda words, steps: normal_pairs(words, steps, jnp.asarray(1), jnp.float32))
    together = pairs(words, steps[:, None])
    alone = pairs(key_words(jr.split(jr.key(0), 3)[2]), steps[3])
    np.testing.assert_array_equal([part[3, 2] for part in together], alone)
    assert np.unique(np.concatenate(together)).size == 2 * 4 * 3


def test_other_generators_give_keys_too():
    words = key_words(jr.split(jr.key(0, impl="rbg"), 2))
    assert np.unique(np.asarray(words)).size == 4


def test_float64_numbers_are_normal_to_all_their_digits():
    with jax.enable_x64():
        first, second = (np.asarray(part) for part in _pairs(1, 20_000, jnp.float64))
    assert first.dtype == np.float64
    for column in (*first.T, *second.T):
        assert stats.kstest(column, "norm")[1] > FALSE_ALARM
    # Not float32 numbers made wide.
    assert np.mean(first == first.astype(np.float32)) < 1e-3


def test_neighbouring_counters_are_uncorrelated_in_float64():
    # Two hashes make a pair there; none may be shared with the next pair.
    with jax.enable_x64():
        columns = np.concatenate(_pairs(1, 20_000, jnp.float64), axis=1)
    assert np.abs(np.corrcoef(columns.T) - np.eye(4)).max() < 5 / np.sqrt(20_000)
