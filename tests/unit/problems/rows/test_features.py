"""The reduction to few coordinates, and the solutions that training does not reach."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp import losses
from jaxdp.core.checks import NotCoveredError


def _arrays(num_train, num_test, num_features, dim=4):
    rng = np.random.default_rng(num_features)
    inputs = rng.normal(size=(num_train + num_test, dim))
    labels = np.sign(inputs[:, 0])
    weights = rng.normal(size=(num_features, dim)) / np.sqrt(dim)
    return inputs[:num_train], labels[:num_train], inputs[num_train:], labels[num_train:], weights


@pytest.mark.parametrize("num_features", [3, 10, 12, 14, 300])
def test_factors_give_the_kernel_of_all_rows(num_features):
    # p < n; p = n; n < p < n + m; p = n + m; by the Gram matrix.
    with jax.enable_x64():
        problem = jaxdp.RandomFeatures.from_arrays(*_arrays(10, 4, num_features))
        reduced = problem.reduced()
        both = np.concatenate([problem.train_features(), problem.test_features()])
        root = np.concatenate([reduced.train_features(), reduced.test_features()])
        np.testing.assert_allclose(root @ root.T, both @ both.T, rtol=0, atol=1e-11)
        assert reduced.train_factor.shape == (10, min(10, num_features))
        assert reduced.num_features == min(14, num_features)
        np.testing.assert_allclose(
            reduced.feature_norms(), np.linalg.norm(both[:10], axis=1), rtol=1e-12
        )
        assert reduced.reduced() is reduced


def test_kernels_of_two_sets_of_weights_add_up(monkeypatch):
    monkeypatch.setattr("jaxdp.problems.rows.random_features._BLOCK_FEATURES", 64)
    *rows, weights = _arrays(6, 3, 150)
    whole = jaxdp.RandomFeatures.from_arrays(*rows, weights, jnp.cos)
    parts = [jaxdp.RandomFeatures.from_arrays(*rows, w, jnp.cos) for w in np.split(weights, [61])]
    total = sum(part.joint_kernel() for part in parts)
    np.testing.assert_allclose(whole.joint_kernel(), total, rtol=1e-5)
    features = np.concatenate([whole.train_features(), whole.test_features()])
    np.testing.assert_allclose(total, features @ features.T, rtol=1e-4)


# Source: PF (3.7).
@pytest.mark.parametrize("num_features", [5, 20, 21, 60])
def test_interpolation_is_the_minimum_norm_solution(num_features):
    arrays = _arrays(20, 30, num_features)
    problem = jaxdp.RandomFeatures.from_arrays(*arrays)
    train, _, test, labels, weights = (np.asarray(a, np.float32).astype(float) for a in arrays)
    features, on_test = np.tanh(train @ weights.T), np.tanh(test @ weights.T)
    solution = np.linalg.pinv(features) @ np.asarray(problem.train_labels, float)
    expected = np.mean((on_test @ solution - labels) ** 2)
    assert problem.interpolator_risk() == pytest.approx(expected, rel=1e-8)


# Source: PF (6.116).
def test_ridge_regression_solves_its_normal_equations():
    arrays = _arrays(12, 7, 30)
    problem = jaxdp.RandomFeatures.from_arrays(*arrays)
    train, _, test, labels, weights = (np.asarray(a, np.float32).astype(float) for a in arrays)
    features, on_test = np.tanh(train @ weights.T), np.tanh(test @ weights.T)
    normal = features.T @ features + 0.7 * np.eye(30)
    solution = np.linalg.solve(normal, features.T @ np.asarray(problem.train_labels, float))
    expected = np.mean((on_test @ solution - labels) ** 2)
    assert problem.ridge_risk(0.7) == pytest.approx(expected, rel=1e-8)
    assert problem.reduced().ridge_risk(0.7) == pytest.approx(expected, rel=1e-4)
    with pytest.raises(ValueError, match="ridge >= 0, got -1"):
        problem.ridge_risk(-1.0)


# Source: PF Lemma C.5.
@pytest.mark.slow
def test_the_spectrum_has_a_gap_after_the_number_of_inputs():
    problem = jaxdp.RandomFeatures.sample(120, 5, 10, 1200, key=jr.key(0))
    gap = problem.spectral_gap(10)
    values = problem.kernel_eigenvalues()
    assert (gap.above, gap.below) == (values[9], values[10])
    assert gap.above > 3 * gap.below
    assert gap.below < gap.ridge < gap.above
    fast, slow = gap.stopping_times
    assert fast == pytest.approx(120 / (2 * gap.above))
    assert slow > 3 * fast
    with pytest.raises(ValueError, match="rank < 120"):
        problem.spectral_gap(120)


@pytest.mark.parametrize("loss", [losses.Squared(), losses.HalfSquared()])
def test_a_mode_is_learnt_at_the_rate_that_the_stopping_time_names(loss):
    problem = jaxdp.RandomFeatures.from_arrays(*_arrays(12, 7, 30), loss=loss)
    train, _ = problem.host_features()
    kernel = train @ train.T
    modes = np.linalg.eigh(kernel)[1]
    for mode, time in zip(modes.T[[-3, -4]], problem.spectral_gap(3).stopping_times, strict=True):
        # Of gradient flow, -df/dt = K l'(f)/n, here with labels of 0.
        velocity = kernel @ np.asarray(loss.slope(mode, np.zeros(12))) / 12
        np.testing.assert_allclose(velocity * time, mode, rtol=1e-6, atol=1e-6)


def test_modes_have_no_stopping_times_where_the_loss_is_no_square():
    problem = jaxdp.RandomFeatures.from_arrays(*_arrays(12, 7, 30), loss=losses.Huber(1.0))
    with pytest.raises(NotCoveredError, match=r"Squared\(\) or HalfSquared\(\), got Huber"):
        problem.spectral_gap(3)


@pytest.mark.slow
def test_the_stability_limit_is_that_of_the_largest_eigenvalue():
    problem = jaxdp.RandomFeatures.sample(60, 5, 6, 90, activation=jax.nn.relu, key=jr.key(1))
    features = np.asarray(problem.train_features(), float)
    exact = 60 / np.linalg.eigvalsh(features @ features.T)[-1]
    assert problem.reduced().stability_limit() == pytest.approx(exact, rel=1e-3)


def _repeated_rows(num_features):
    """Rows in equal pairs with opposite labels, and a row of zeros."""
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(30, 5)), rng.normal(size=(20, 5))
    train[1:20:2] = train[0:20:2]
    train[-1] = 0
    labels = rng.choice([-1.0, 1.0], 30)
    labels[1:20:2] = -labels[0:20:2]
    weights = None
    if num_features is not None:
        weights = rng.normal(size=(num_features, 5)) / np.sqrt(5)
    return jaxdp.RandomFeatures.from_arrays(train, labels, test, np.sign(test[:, 0]), weights)


@pytest.mark.parametrize("num_features", [None, 300, 120])
def test_rows_that_repeat_do_not_spoil_interpolation(num_features):
    problem = _repeated_rows(num_features)
    kernel = np.asarray(problem.joint_kernel(), float)
    on_train, on_test = kernel[:30, :30], kernel[30:, :30]
    solution = np.linalg.pinv(on_train, rcond=1e-6) @ np.asarray(problem.train_labels)
    expected = float(np.mean((on_test @ solution - problem.test_labels) ** 2))
    assert problem.interpolator_risk() == pytest.approx(expected, rel=0.02)
    assert problem.reduced().interpolator_risk() == pytest.approx(expected, rel=0.02)


def test_features_that_are_not_finite_are_refused():
    problem = jaxdp.RandomFeatures.from_arrays(*_arrays(10, 4, 12), activation=jnp.log)
    with pytest.raises(ValueError, match="expected finite features"):
        problem.reduced()
