"""Noise of certified releases: its law, its tail, its streams."""

import itertools
import os

import numpy as np
import pytest
from helpers import assert_mean_close
from scipy.stats import kstest

from jaxdp.privacy.secret_noise import secret_normals


def _fixed(count, seed=1, purpose="noise", context=b""):
    return secret_normals(count, purpose=purpose, seed=seed, context=context)


def test_the_law_is_standard_normal_and_a_wrong_scale_is_noticed():
    found = _fixed(100_000)
    assert kstest(found, "norm").pvalue > 1e-3
    assert kstest(1.03 * found, "norm").pvalue < 1e-3
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3)):
        assert_mean_close(found**power, moment)
    with pytest.raises(AssertionError):
        assert_mean_close((found / 1.05) ** 2, 1)


@pytest.mark.parametrize(("word", "expected"), [(0, -9.16), (1, 9.16), (2**64 - 1, 0.0)])
def test_the_tail_reaches_nine_standard_deviations_and_the_middle_is_reached(
    word, expected, monkeypatch
):
    monkeypatch.setattr(os, "urandom", lambda count: word.to_bytes(8, "little") * (count // 8))
    found = secret_normals(3, purpose="noise")
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=0.005)


def test_the_operating_system_never_repeats_itself():
    first, second = (secret_normals((2000, 2), purpose="noise") for _ in range(2))
    assert first.shape == (2000, 2)
    assert not np.isin(first, second).any()


def test_a_seed_draws_the_same_numbers_again():
    assert _fixed(100).tolist() == _fixed(100).tolist()
    assert _fixed(100)[:10].tolist() == _fixed(10).tolist()
    assert _fixed(100, seed=2**200).tolist() == _fixed(100, seed=2**200).tolist()


def test_seeds_purposes_and_contexts_have_independent_streams():
    # The last two would be one if the parts were merely joined.
    arguments = [(1, "noise", b""), (2, "noise", b""), (1, "other", b""), (1, "noise", b"a")]
    arguments += [(1, "noisea", b""), (11, "noise", b""), (1, "1noise", b"")]
    streams = np.stack([_fixed(4000, *each) for each in arguments])
    correlations = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlations).max() < 5 / np.sqrt(4000)
    for first, second in itertools.combinations(streams, 2):
        assert not np.isin(first, second).any()


@pytest.mark.parametrize("wrong", [1.0, "1", True, np.zeros(2)])
def test_a_seed_is_an_int(wrong):
    with pytest.raises(TypeError, match="expected noise_seed to be None or an int"):
        _fixed(1, seed=wrong)


def test_a_seed_is_not_negative():
    with pytest.raises(ValueError, match="expected noise_seed >= 0, got -1"):
        _fixed(1, seed=-1)
