"""One object clips and gives the moments of what it clips."""

import jax
import jax.numpy as jnp
import numpy as np
from helpers import assert_mean_close

from jaxdp.clipping.norm_clip import NormClip


def test_clipped_norms_never_exceed_the_clip_norm():
    norms = np.geomspace(1e-3, 1e3, 50).astype(np.float32)
    clipped = norms * np.asarray(jax.jit(lambda norms: NormClip(1.5).factor(norms, 4))(norms))
    assert np.all(clipped <= 3.0 * (1 + 1e-6))
    np.testing.assert_array_equal(clipped[norms < 3.0], norms[norms < 3.0])


def test_a_zero_gradient_is_left_alone():
    value, slope = jax.jit(jax.value_and_grad(lambda norm: NormClip(1.0).factor(norm, 10)))(0.0)
    assert (value, slope) == (1, 0)


# Source: AC (16), (17), (21), (22).
def test_moments_are_those_of_a_clipped_residual():
    clip, variance = NormClip(0.8), 1.7
    residuals = np.sqrt(variance) * np.random.default_rng(0).normal(size=(200_000,))
    factors = jax.jit(lambda norms: clip.factor(norms, 1))(np.abs(residuals))
    clipped = residuals * np.asarray(factors)
    mu, nu = (float(moment) for moment in jax.jit(lambda square: clip.moments(square))(variance))
    assert_mean_close(clipped * residuals / variance, mu)
    assert_mean_close(clipped**2 / variance, nu, rejects=[nu * 1.02])


def test_no_residual_means_no_clipping():
    assert NormClip(1.0).moments(jnp.zeros(())) == (1.0, 1.0)
