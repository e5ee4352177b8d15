"""Random features: their mean is the kernel, their norm is what is claimed."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from every_map import DIM, INPUTS, MAPS, RADIAL, values
from helpers import assert_mean_close

from jaxdp import kernels

PAIR = np.stack([INPUTS[0], INPUTS[0] + np.float32([0.3, -0.2, 0.4])])
NUM = 36_000
SAMPLERS = {"paired": kernels.FourierFeatures.sample, "cosine": kernels.CosineFeatures.sample}


def _terms(feature_map, pair):
    """Independent draws whose mean is z(x) . z(y): one a frequency."""
    first, second = np.asarray(feature_map(pair), np.float64)
    return (first * second).reshape(-1, NUM).sum(axis=0) * NUM


@pytest.mark.parametrize("name", RADIAL)
@pytest.mark.parametrize("kind", SAMPLERS)
def test_fourier_features_are_unbiased(kind, name):
    kernel = RADIAL[name]
    feature_map = SAMPLERS[kind](kernel, NUM, DIM, key=jr.key(1))
    terms = _terms(feature_map, PAIR)
    assert_mean_close(terms, float(kernel(PAIR, PAIR)[0, 1]), bias=1e-6)
    # At 0 no frequency hides a phase that is not uniform.
    assert_mean_close(_terms(feature_map, 0 * PAIR), 1.0, bias=1e-6)
    wrong = float(kernel(1.3 * PAIR, 1.3 * PAIR)[0, 1])
    with pytest.raises(AssertionError, match="gap"):
        assert_mean_close(terms, wrong)


@pytest.mark.parametrize("name", ["paired", "heavy tails"])
def test_pairs_have_norm_one_whatever_the_input(name):
    feature_map = MAPS[name]
    inputs = np.concatenate([INPUTS, 1e6 * INPUTS, 0 * INPUTS, 1e-30 * INPUTS])
    norms = np.linalg.norm(np.asarray(feature_map(inputs), np.float64), axis=1)
    # Each of 32 squares is off by a few units of rounding, whatever its phase.
    np.testing.assert_allclose(norms, 1, atol=4 * 2.0**-24)
    assert feature_map.norm_bound == 1.0
    assert feature_map.num_outputs == 32


# Source: PK Definition 15.
def test_single_cosines_reach_root_two_and_no_more():
    feature_map = kernels.CosineFeatures.sample(RADIAL["gaussian"], 1, DIM, key=jr.key(3))
    frequency = np.asarray(feature_map.frequencies[0])
    phase = float(feature_map.phases[0])
    crest = -phase * frequency / (frequency @ frequency)
    assert abs(feature_map(crest[None])[0, 0]) == pytest.approx(np.sqrt(2), rel=1e-6)
    assert feature_map.norm_bound == np.sqrt(2)
    largest = np.asarray(values(MAPS["cosine"], 100 * INPUTS))
    assert np.linalg.norm(largest, axis=1).max() <= np.sqrt(2)


@pytest.mark.parametrize("name", MAPS)
def test_a_row_of_features_depends_on_no_other_row(name):
    feature_map = MAPS[name]
    before = np.asarray(values(feature_map, INPUTS))
    assert before.shape == (len(INPUTS), feature_map.num_outputs)
    assert feature_map.dim == DIM
    for other in (1e3, np.nan):
        changed = INPUTS.copy()
        changed[2] = other
        after = np.asarray(values(feature_map, changed))
        kept = np.arange(len(INPUTS)) != 2
        np.testing.assert_array_equal(after[kept], before[kept])
        assert not np.array_equal(after[2], before[2])


@pytest.mark.parametrize("name", ["cosine", "function", "clipped", "ranges"])
def test_features_follow_the_precision_of_their_inputs(name):
    with jax.enable_x64(True):
        wide = values(MAPS[name], np.float64(INPUTS))
    assert wide.dtype == jnp.float64
    narrow = values(MAPS[name], INPUTS)
    assert narrow.dtype == jnp.float32
    np.testing.assert_allclose(wide, narrow, atol=2e-5)


def test_one_key_gives_one_map_whatever_the_precision():
    few = MAPS["paired"].frequencies
    with jax.enable_x64(True):
        again = kernels.FourierFeatures.sample(kernels.Gaussian(0.75), 16, DIM, key=jr.key(0))
    np.testing.assert_allclose(again.frequencies, few, rtol=1e-7)
    # A Python number is float64 here, and must not widen them.
    assert again.frequencies.dtype == few.dtype
