"""Random features: their mean is the kernel, their norm is what is claimed."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from every_map import DIM, INPUTS, KERNELS, MAPS, RADIAL, values
from helpers import FALSE_ALARM, assert_mean_close

from jaxdp import kernels

PAIR = np.stack([INPUTS[0], INPUTS[0] + np.float32([0.3, -0.2, 0.4])])
NUM = 36_000
SAMPLERS = {
    "paired": kernels.FourierFeatures.sample,
    "cosine": kernels.CosineFeatures.sample,
    "orthogonal": kernels.OrthogonalFeatures.sample,
}


def _terms(feature_map, pair):
    """Independent draws whose mean is z(x) . z(y): one a frequency, or a block of them."""
    first, second = np.asarray(feature_map(pair), np.float64)
    terms = (first * second).reshape(-1, NUM).sum(axis=0) * NUM
    is_orthogonal = isinstance(feature_map, kernels.OrthogonalFeatures)
    return terms.reshape(-1, DIM).mean(axis=1) if is_orthogonal else terms


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


@pytest.mark.parametrize("name", ["polynomial", "steps", "ReLU"])
def test_features_of_other_kernels_are_unbiased(name):
    kernel = KERNELS[name]
    feature_map = kernel.features(NUM, DIM, key=jr.key(1))
    expected = kernel(PAIR, PAIR)
    assert_mean_close(_terms(feature_map, PAIR), float(expected[0, 1]), bias=1e-6)
    assert_mean_close(_terms(feature_map, PAIR[[0, 0]]), float(expected[0, 0]), bias=1e-6)
    with pytest.raises(AssertionError, match="gap"):
        assert_mean_close(_terms(feature_map, PAIR), 1.5 * float(expected[0, 1]))


def test_the_inner_product_has_exact_features():
    kernel = KERNELS["inner product"]
    exact = kernel.features(1, DIM, key=jr.key(0))(INPUTS)
    np.testing.assert_allclose(exact @ exact.T, kernel(INPUTS, INPUTS), rtol=1e-6)


@pytest.mark.parametrize("name", ["paired", "orthogonal", "heavy tails"])
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


def test_the_variance_of_one_cosine_is_that_of_a_pair_and_a_half():
    kernel = RADIAL["gaussian"]
    value, double = (float(kernel(s * PAIR, s * PAIR)[0, 1]) for s in (1, 2))
    paired = (1 + double) / 2 - value**2
    for kind, variance in (("paired", paired), ("cosine", paired + 0.5)):
        terms = _terms(SAMPLERS[kind](kernel, NUM, DIM, key=jr.key(1)), PAIR)
        assert_mean_close((terms - value) ** 2, variance)
        with pytest.raises(AssertionError, match="gap"):
            assert_mean_close((terms - value) ** 2, 1.3 * variance)


def test_orthogonal_frequencies_are_orthogonal_and_vary_less_together():
    sampled = kernels.OrthogonalFeatures.sample(RADIAL["gaussian"], NUM, DIM, key=jr.key(1))
    waves = sampled.waves.frequencies.reshape(-1, DIM, DIM)
    products = np.einsum("bij,bkj->bik", waves, waves)
    squares = np.einsum("bij,bij->bi", waves, waves)
    scales = np.sqrt(squares[:, :, None] * squares[:, None, :])
    np.testing.assert_allclose(
        products[:, ~np.eye(DIM, dtype=bool)] / scales[:, ~np.eye(DIM, dtype=bool)], 0, atol=1e-5
    )
    kernel = RADIAL["gaussian"]
    value, double = (float(kernel(s * PAIR, s * PAIR)[0, 1]) for s in (1, 2))
    independent = ((1 + double) / 2 - value**2) / DIM
    blocks = (_terms(sampled, PAIR) - value) ** 2
    # Lower by more than five standard errors.
    assert blocks.mean() + 5 * blocks.std() / np.sqrt(len(blocks)) < independent


def test_each_orthogonal_frequency_has_the_law_that_it_has_alone():
    sampled = kernels.OrthogonalFeatures.sample(RADIAL["gaussian"], NUM, DIM, key=jr.key(1))
    frequencies = 0.75 * np.asarray(sampled.waves.frequencies, np.float64)
    for number in range(DIM):
        # One frequency a block: they are independent, and so are its coordinates.
        alone = frequencies[number::DIM].ravel()
        assert scipy.stats.kstest(alone, scipy.stats.norm.cdf).pvalue > FALSE_ALARM
        assert scipy.stats.kstest(4 / 3 * alone, scipy.stats.norm.cdf).pvalue < FALSE_ALARM


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


@pytest.mark.parametrize("name", ["cosine", "products", "ReLU", "pathwise", "clipped", "ranges"])
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
        products = kernels.Polynomial(2, 3.0).features(4, DIM, key=jr.key(0))
    np.testing.assert_allclose(again.frequencies, few, rtol=1e-7)
    # A Python number is float64 here, and must not widen them.
    assert again.frequencies.dtype == products.offsets.dtype == few.dtype


def test_features_can_be_differentiated_in_the_scale():
    def product(scale):
        sampled = kernels.FourierFeatures.sample(kernels.Gaussian(scale), 16, DIM, key=jr.key(0))
        first, second = sampled(PAIR)
        return first @ second

    slope = jax.jit(jax.grad(product))(0.75)
    phases = np.float64(MAPS["paired"].frequencies) @ np.float64(PAIR[0] - PAIR[1])
    assert slope == pytest.approx(np.mean(np.sin(phases) * phases) / 0.75, rel=1e-4)
