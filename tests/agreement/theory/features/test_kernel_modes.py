"""The kernel's eigenbasis."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_gd_numpy import rows

from jaxdp.problems.rows.features import ReducedFeatures
from jaxdp.problems.rows.random_features import RandomFeatures
from jaxdp.theory.features.modes import kernel_modes


def _problem(num_features):
    data = rows(0, num_train=30, num_test=20, dim=6, num_features=num_features)
    return data, RandomFeatures.from_arrays(*data[:5])


@pytest.mark.parametrize("num_features", [12, 90])
def test_modes_are_the_problem_in_other_coordinates(num_features):
    data, _ = _problem(num_features)
    with jax.enable_x64():
        _, problem = _problem(num_features)
        modes = kernel_modes(problem)
        features, test = data.train_features, data.test_features
        assert modes.eigenvalues.shape == (min(30, num_features),)
        gram = modes.factor.T @ modes.factor
        np.testing.assert_allclose(gram, np.diag(modes.eigenvalues), atol=1e-10)
        np.testing.assert_allclose(modes.factor @ modes.factor.T, features @ features.T, atol=1e-10)
        np.testing.assert_allclose(
            modes.test_factor @ modes.factor.T, test @ features.T, atol=1e-10
        )
        np.testing.assert_allclose(modes.feature_norms, np.linalg.norm(features, axis=1))
        seen = np.mean(np.sum(np.asarray(modes.test_factor) ** 2, axis=1))
        np.testing.assert_allclose(
            seen + modes.unseen_norms.mean(), np.mean(np.sum(test**2, axis=1))
        )


@pytest.mark.parametrize("num_features", [12, 45])
def test_traced_problems_have_the_same_modes(num_features):
    data, _ = _problem(num_features)
    features = data.train_features, data.test_features, np.zeros((20, 0))
    problem = ReducedFeatures(*features, data.train_labels, data.test_labels)
    traced, known = eqx.filter_jit(kernel_modes)(problem), kernel_modes(problem)
    largest = known.eigenvalues[0]
    np.testing.assert_allclose(
        traced.eigenvalues, known.eigenvalues, rtol=1e-4, atol=1e-5 * largest
    )
    for modes in (traced, known):
        features = modes.test_factor @ modes.factor.T, modes.factor @ modes.pull
        expected = data.test_features @ data.train_features.T
        np.testing.assert_allclose(features[0], expected, rtol=1e-4, atol=1e-4)
        expected = data.train_features @ data.train_features.T @ data.train_labels
        np.testing.assert_allclose(features[1], expected, rtol=1e-3, atol=1e-3)
        noise = jnp.mean(jnp.sum(modes.test_factor**2, axis=1)) + modes.unseen_norms.mean()
        expected = np.mean(np.sum(data.test_features**2, axis=1))
        np.testing.assert_allclose(noise, expected, rtol=1e-5)
