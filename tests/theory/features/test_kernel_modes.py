"""The kernel's eigenbasis."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_gd_numpy import rows

import jaxdp
from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.problems.rows.features import ReducedFeatures
from jaxdp.problems.rows.random_features import RandomFeatures
from jaxdp.theory.features.clipped_diffusion import ClippedDiffusion
from jaxdp.theory.features.gaussian_closure import GaussianClosure
from jaxdp.theory.features.modes import kernel_modes
from jaxdp.theory.features.unclipped import GradientFlow, OrnsteinUhlenbeck

THEORIES = [
    GaussianClosure(),
    ClippedDiffusion(),
    OrnsteinUhlenbeck(),
    GradientFlow(),
    jaxdp.UnclippedRecursion(),
]


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
        np.testing.assert_allclose(seen + modes.unseen, np.mean(np.sum(test**2, axis=1)))


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
        noise = jnp.mean(jnp.sum(modes.test_factor**2, axis=1)) + modes.unseen
        expected = np.mean(np.sum(data.test_features**2, axis=1))
        np.testing.assert_allclose(noise, expected, rtol=1e-5)


@pytest.mark.parametrize("theory", THEORIES, ids=lambda theory: type(theory).__name__)
def test_what_is_not_covered_is_said(theory):
    _, problem = _problem(12)
    algorithm = DPGD(0.01, 1.0, 3, 0.5)
    one_pass = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 10, batch_size=2)
    linear = jaxdp.LinearRegression.isotropic(5, label_noise=0.1)
    with pytest.raises(jaxdp.NotCoveredError, match="describes DPGD, got OnePassDPSGD"):
        jaxdp.predict(problem, one_pass, theory=theory)
    with pytest.raises(jaxdp.NotCoveredError, match=r"OnePassDPSGD|RandomFeatures"):
        jaxdp.predict(linear, algorithm, theory=theory)


@pytest.mark.parametrize("theory", THEORIES, ids=lambda theory: type(theory).__name__)
def test_theories_share_one_clock_and_start(theory):
    _, problem = _problem(12)
    algorithm = DPGD(0.01, 5.0, 7, 0.05)
    predicted = jaxdp.predict(problem, algorithm, theory=theory, records=3).check()
    np.testing.assert_allclose(predicted.time, [0, 0.02, 0.04, 0.07], rtol=1e-6)
    assert predicted.risk[0] == 1  # labels +-1
    assert predicted.final_risk == predicted.risk[-1]
    parts = predicted.observables
    np.testing.assert_allclose(parts["bias"] + parts["variance"], predicted.risk, rtol=1e-6)
    assert all(value.shape == (4,) for value in parts.values())


@pytest.mark.slow
@pytest.mark.parametrize("theory", THEORIES, ids=lambda theory: type(theory).__name__)
def test_batches_of_learning_rates_clip_norms_and_lengths(theory):
    _, problem = _problem(12)

    def final(rate, clip, steps):
        algorithm = DPGD(rate, clip, steps, 0.05)
        return jaxdp.predict(problem, algorithm, theory=theory, records=3).final_risk

    batch = jnp.asarray([0.01, 0.02]), jnp.asarray([5.0, 3.0]), jnp.asarray([7, 2])
    together = jax.jit(jax.vmap(final))(*batch)
    apart = [final(0.01, 5.0, 7), final(0.02, 3.0, 2)]
    np.testing.assert_allclose(together, apart, rtol=1e-5)


def test_traced_parameters_out_of_range_are_void():
    _, problem = _problem(12)

    def status(clip):
        algorithm = DPGD(0.01, clip, 3, 0.05)
        return jaxdp.predict(problem, algorithm, theory=OrnsteinUhlenbeck(), records=3).status

    assert jax.jit(status)(-1.0) == 3
