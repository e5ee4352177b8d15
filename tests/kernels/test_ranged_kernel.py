"""Kernels of inputs in public ranges."""

import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from jaxdp import kernels

LOW, HIGH = np.array([0.0, -5.0, 100.0]), np.array([1.0, 5.0, 101.0])
RAW = LOW + (HIGH - LOW) * np.random.default_rng(0).uniform(-0.2, 1.2, (7, 3))
SCALED = np.clip((RAW - LOW) / (HIGH - LOW) * 2 - 1, -1, 1)
BASES = [kernels.Gaussian(0.8), kernels.InnerProduct()]


@pytest.mark.parametrize("base", BASES, ids=["Gaussian", "InnerProduct"])
def test_it_is_the_kernel_of_the_scaled_inputs(base):
    kernel = kernels.RangedKernel(base, LOW, HIGH)
    np.testing.assert_allclose(kernel(RAW, RAW[:3]), base(SCALED, SCALED[:3]), atol=2e-4)
    np.testing.assert_allclose(kernel.diagonal(RAW), base.diagonal(SCALED), rtol=1e-4)


@pytest.mark.parametrize("base", BASES, ids=["Gaussian", "InnerProduct"])
def test_its_features_are_the_kernels_own_at_the_scaled_inputs(base):
    ranged = kernels.RangedKernel(base, LOW, HIGH).features(16, 3, key=jr.key(1))
    plain = base.features(16, 3, key=jr.key(1))
    np.testing.assert_allclose(ranged(RAW), plain(SCALED), atol=1e-3)


def test_a_kernel_that_is_bounded_on_balls_is_bounded():
    kernel = kernels.RangedKernel(kernels.InnerProduct(), LOW, HIGH)
    assert math.isinf(kernels.InnerProduct().bound())
    assert kernel.bound() == pytest.approx(math.sqrt(3))
    # Attained in the corners, which every input beyond them is clipped to.
    far = jnp.asarray([[1e6, 1e6, -1e6]])
    assert float(kernel.diagonal(far)[0]) == pytest.approx(kernel.bound() ** 2)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([0.0, 0.0], [1.0, 0.0], "low < high"),
        ([0.0, 0.0], [1.0], "of shape"),
        ([0.0, np.nan], [1.0, 1.0], "finite"),
    ],
)
def test_ranges_that_are_none_are_refused(low, high, message):
    with pytest.raises(ValueError, match=message):
        kernels.RangedKernel(kernels.Gaussian(1.0), np.array(low), np.array(high))


def test_inputs_of_another_dimension_are_refused():
    with pytest.raises(ValueError, match="expected dim = 3"):
        kernels.RangedKernel(kernels.Gaussian(1.0), LOW, HIGH).features(4, 2, key=jr.key(0))
