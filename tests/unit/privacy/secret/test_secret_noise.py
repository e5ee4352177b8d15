"""Noise of certified releases: its streams, its seeds, and the law of what is released."""

import itertools
import math
import os

import jax
import jax.random as jr
import numpy as np
import pytest
from helpers import FALSE_ALARM, assert_mean_close
from scipy.stats import chisquare, kstest, norm
from worst_case import optimiser

from jaxdp.privacy import GaussianMechanism, SecretNoise, ShuffledEpochs, Unproved, secret_key
from jaxdp.privacy.secret.secret_noise import grid_unit, key_entropy_bits


def _fixed(count, seed=1, purpose="noise", context=b""):
    return SecretNoise(seed, context).normals(count, purpose)


def test_the_law_is_standard_normal_and_a_wrong_scale_is_noticed():
    found = _fixed(100_000)
    assert kstest(found, "norm").pvalue > FALSE_ALARM
    assert kstest(1.1 * found, "norm").pvalue < FALSE_ALARM
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3)):
        assert_mean_close(found**power, moment)
    with pytest.raises(AssertionError):
        assert_mean_close((found / 1.05) ** 2, 1)


@pytest.mark.parametrize(("word", "expected"), [(0, -9.16), (1, 9.16), (2**64 - 1, 0.0)])
def test_the_tail_reaches_nine_standard_deviations_and_the_middle_is_reached(
    word, expected, monkeypatch
):
    monkeypatch.setattr(os, "urandom", lambda count: word.to_bytes(8, "little") * (count // 8))
    found = SecretNoise().normals(3, "noise")
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=0.005)


@pytest.mark.entropy("of 4,000 words of 64 bits two agree with probability 4.4e-13")
def test_the_operating_system_never_repeats_itself():
    words = np.concatenate([SecretNoise().words(2000, "noise") for _ in range(2)])
    assert len(np.unique(words)) == 4000


def test_a_seed_draws_the_same_numbers_again():
    assert _fixed(100).tolist() == _fixed(100).tolist()
    assert _fixed(100)[:10].tolist() == _fixed(10).tolist()
    assert _fixed(100, seed=2**200).tolist() == _fixed(100, seed=2**200).tolist()
    values, noise = np.arange(50), SecretNoise(2**200)
    first, again = (noise.noisy_integers(values, 1e12, "sums") for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_seeds_purposes_and_contexts_have_independent_streams():
    # The last two would be one if the parts were merely joined.
    arguments = [(1, "noise", b""), (2, "noise", b""), (1, "other", b""), (1, "noise", b"a")]
    arguments += [(1, "noisea", b""), (11, "noise", b""), (1, "1noise", b"")]
    streams = np.stack([_fixed(4000, *each) for each in arguments])
    correlations = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlations).max() < 5 / np.sqrt(4000)
    for first, second in itertools.combinations(streams, 2):
        assert not np.isin(first, second).any()


def test_noise_is_for_the_numbers_that_it_hides_and_for_no_others():
    noise, hidden = SecretNoise(2**200), np.arange(3.0)
    others = [(hidden + 1e-300,), (hidden[:2],), (hidden.astype(np.float32),), (hidden, 1), (None,)]
    others += [("01",), ("0", "1"), (b"0", b"1"), (hidden.reshape(3, 1),), ()]
    found = {noise.hiding(*each).context for each in [(hidden,), *others]}
    assert len(found) == len(others) + 1
    assert noise.hiding(hidden) == noise.hiding(hidden.copy())
    assert noise.hiding(1).hiding(2) != noise.hiding(2).hiding(1)
    assert SecretNoise().hiding(hidden) == SecretNoise()


@pytest.mark.parametrize("seed", [0, 7, 2**64 + 1, 2**128 - 1])
def test_a_seed_that_can_be_found_by_trying_proves_nothing(seed):
    noise = SecretNoise(seed)
    found = noise.proved(GaussianMechanism(1.0))
    assert noise.is_guessable
    assert isinstance(found, Unproved)
    assert found.epsilon(1e-5, "replace-one") == math.inf
    assert "secrets.randbits(256)" in found.reason
    assert noise.assumptions("proved in the arithmetic of the machine") == ()


def test_secret_seeds_and_the_operating_system_keep_what_is_proved_and_say_what_they_need():
    for seed, word in ((None, "operating system"), (2**128, "SHAKE-256"), (2**300, "SHAKE-256")):
        noise = SecretNoise(seed)
        assert not noise.is_guessable
        assert noise.proved(GaussianMechanism(1.0)) == GaussianMechanism(1.0)
        assert word in " ".join(noise.assumptions("one line"))


def test_a_seed_is_not_printed():
    seed = 2**200 + 12_345
    holder = optimiser(ShuffledEpochs(2, 2), noise=SecretNoise(seed))
    for shown in (SecretNoise(seed), (SecretNoise(seed),), holder, [holder]):
        text = repr(shown) + str(shown) + repr(jax.tree.structure(shown)) + "SecretNoise"
        assert "SecretNoise" in text
        assert str(seed) not in text


# What is released.


@pytest.mark.parametrize("std", [0.3, 5.0, 2.0**20, 2.0**33 * 1.7, 2.0**45, 2.0**58])
def test_what_is_added_has_the_stated_law_on_every_grid(std):
    values = np.arange(100_000) - 50_000
    # A purpose for each: with one for all, all would be the same normals, and one accident.
    added = SecretNoise(1).noisy_integers(values, std, f"sums, {std}") - values
    if std < 1e3:
        # One cell an integer as far as 2.5 deviations: hundreds are expected in each.
        last = math.floor(2.5 * std)
        edges = np.concatenate([[-np.inf], np.arange(-last, last + 2) - 0.5, [np.inf]])
        counts = np.histogram(added, edges)[0]

        def level(wrong):
            return chisquare(counts, 100_000 * np.diff(norm.cdf(edges / (wrong * std)))).pvalue
    else:

        def level(wrong):
            return kstest(added / (wrong * std), "norm").pvalue

    assert level(1.0) > FALSE_ALARM
    assert level(1.1) < FALSE_ALARM


@pytest.mark.parametrize("std", [0.3, 2.0**29, 2.0**45 * 1.3])
def test_values_in_float64_get_the_noise_of_integers_and_may_be_of_any_size(std):
    values = np.random.default_rng(0).integers(-(2**50), 2**50, 1000)
    noise = SecretNoise(2**200)
    whole = noise.noisy_integers(values, std, "sums")
    wide = noise.noisy_integers(values.astype(np.float64), std, "sums")
    # Of float64 what is released keeps 53 bits.
    np.testing.assert_array_equal(wide, whole.astype(np.float64))
    added = wide - values
    far = noise.noisy_integers(np.full(1000, 2.0**80), std, "sums")
    np.testing.assert_array_equal(far, 2.0**80 + noise.noisy_integers(np.zeros(1000), std, "sums"))
    assert np.abs(added).max() < 10 * std + grid_unit(std) + 1


@pytest.mark.parametrize("std", [2.0**32, 2.0**45 * 1.3, 2.0**52, 3e16])
def test_the_release_lies_on_a_grid_that_the_data_do_not_choose(std):
    """The noise is 2^29 to 2^30 units of the grid, and every residue is equally likely."""
    unit = grid_unit(std)
    assert 2**29 <= std / unit < 2**30
    for values in (np.zeros(40_000, np.int64), np.arange(40_000) * 12_345):
        released = SecretNoise(2).noisy_integers(values, std, "sums")
        steps = released / unit
        np.testing.assert_array_equal(steps, np.rint(steps))
        for modulus in (2, 3, 16):
            counts = np.bincount(steps.astype(np.int64) % modulus, minlength=modulus)
            assert chisquare(counts).pvalue > FALSE_ALARM


def test_float64_normals_on_a_fine_grid_do_not_pass_the_same_tests():
    """What was released once: even integers were favoured, and most integers never reached."""
    for std, favoured in ((2.0**52, 0.6), (2.0**54, 0.8)):
        released = np.rint(SecretNoise(1).normals(40_000, "noise") * std).astype(np.int64)
        counts = np.bincount(released % 2, minlength=2)
        assert counts[0] > favoured * 40_000
        assert chisquare(counts).pvalue < FALSE_ALARM


@pytest.mark.entropy("of 200 keys of 64 bits two agree with probability 1.1e-15")
def test_integers_beyond_32_bits_make_no_other_keys_and_secret_keys_do():
    """Why there is `secret_key` at all."""
    with jax.enable_x64(False):
        assert jr.key(2**32 + 5) == jr.key(5)
    keys = np.stack([np.asarray(jr.key_data(secret_key())) for _ in range(200)])
    assert len(np.unique(keys, axis=0)) == 200
    assert jr.normal(secret_key(), (3,)).shape == (3,)


@pytest.mark.parametrize(("impl", "bits"), [(None, 64), ("threefry2x32", 64), ("rbg", 128)])
def test_the_bits_of_a_key_are_told_from_those_of_an_integer(impl, bits):
    assert key_entropy_bits(secret_key(impl=impl)) == bits
    assert secret_key(impl=impl).shape == ()
    for integer in (0, 5, 2**31 - 1):
        assert key_entropy_bits(jr.key(integer, impl=impl)) == 32
    # What is split off or folded in hides the integer, and adds nothing to it: not seen.
    assert key_entropy_bits(jr.fold_in(jr.key(0, impl=impl), 1)) == bits


def test_a_traced_key_is_not_looked_at():
    seen = []
    jax.jit(lambda key: seen.append(key_entropy_bits(key)) or key)(jr.key(0))
    assert seen == [None]
