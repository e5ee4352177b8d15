"""Features as they are given, the losses of rows, and what only the squared loss has."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp.losses import Huber, Logistic, Softmax, Squared
from jaxdp.problems import ReducedFeatures

RNG = np.random.default_rng(0)
NUM_TRAIN, NUM_TEST = 10, 4
SIGNS = np.sign(RNG.normal(size=NUM_TRAIN + NUM_TEST))
CLASSES = np.arange(NUM_TRAIN + NUM_TEST) % 3


def _rows(num_features, labels=SIGNS):
    features = np.random.default_rng(num_features).normal(size=(NUM_TRAIN + NUM_TEST, num_features))
    return (
        features[:NUM_TRAIN],
        labels[:NUM_TRAIN],
        features[NUM_TRAIN:],
        labels[NUM_TRAIN:],
    )


def _kernel(problem):
    root = np.concatenate([problem.train_features(), problem.test_features()])
    return root @ root.T


@pytest.mark.parametrize("num_features", [3, 10, 12, 14, 300])
def test_the_reduction_keeps_the_kernel_and_the_loss(num_features):
    # p < n; p = n; n < p < n + m; p = n + m; by the Gram matrix.
    with jax.enable_x64():
        problem = jaxdp.FixedFeatures.from_arrays(*_rows(num_features), loss=Logistic())
        reduced = problem.reduced()
        np.testing.assert_allclose(_kernel(reduced), _kernel(problem), rtol=0, atol=1e-11)
        assert reduced.train_factor.shape == (NUM_TRAIN, min(NUM_TRAIN, num_features))
        assert reduced.num_features == min(NUM_TRAIN + NUM_TEST, num_features)
        assert isinstance(reduced.loss, Logistic)
        np.testing.assert_array_equal(reduced.train_labels, problem.train_labels)
        host = np.concatenate(problem.host_features())
        np.testing.assert_allclose(
            host @ host.T[:, :NUM_TRAIN], _kernel(problem)[:, :NUM_TRAIN], atol=1e-11
        )


def test_features_are_those_of_random_features_when_they_are_given_those():
    random = jaxdp.RandomFeatures.sample(NUM_TRAIN, NUM_TEST, 3, 20, key=jr.key(0))
    rows = random.train_features(), random.train_labels
    fixed = jaxdp.FixedFeatures.from_arrays(*rows, random.test_features(), random.test_labels)
    assert fixed.num_features == random.num_features
    for first, second in zip(
        jax.tree.leaves(fixed.reduced()), jax.tree.leaves(random.reduced()), strict=True
    ):
        np.testing.assert_allclose(np.abs(first), np.abs(second), atol=1e-5)
    assert fixed.interpolator_risk() == pytest.approx(random.interpolator_risk(), rel=1e-4)
    assert fixed.ridge_risk(0.3) == pytest.approx(random.ridge_risk(0.3), rel=1e-4)


def test_every_feature_problem_takes_a_loss_and_keeps_it():
    loss = Softmax(3)
    random = jaxdp.RandomFeatures.sample(NUM_TRAIN, NUM_TEST, 3, 20, loss=loss, key=jr.key(0))
    assert set(np.unique(random.train_labels)) <= {0, 1, 2}
    infinite = jaxdp.RandomFeatures.sample(NUM_TRAIN, NUM_TEST, 3, None, loss=loss, key=jr.key(0))
    np.testing.assert_array_equal(infinite.train_labels, random.train_labels)
    kernel = np.eye(NUM_TRAIN + NUM_TEST)
    by_kernel = ReducedFeatures.from_kernel(
        kernel, CLASSES[:NUM_TRAIN], CLASSES[NUM_TRAIN:], loss=loss
    )
    fixed = jaxdp.FixedFeatures.from_arrays(*_rows(5, CLASSES), loss=loss)
    for problem in (random, infinite, by_kernel, fixed):
        assert problem.loss == loss
        assert problem.reduced().loss == loss
        assert jnp.issubdtype(problem.train_labels.dtype, jnp.floating)
        assert bool(problem.is_valid)
        assert problem.replace(loss=Squared()).loss == Squared()
    # Another loss than the labels are for.
    with pytest.raises(ValueError, match="-1 or \\+1 for the Logistic loss"):
        fixed.replace(loss=Logistic())
    # The loss that nobody names.
    assert jaxdp.FixedFeatures.from_arrays(*_rows(5)).loss == Squared()
    assert jaxdp.RandomFeatures.sample(4, 3, 2, 5, key=jr.key(0)).loss == Squared()


def test_a_loss_with_numbers_goes_through_compiled_reductions():
    problem = jaxdp.FixedFeatures.from_arrays(*_rows(5), loss=Huber(0.7))
    assert float(problem.reduced().loss.width) == pytest.approx(0.7)


def test_what_is_solved_for_the_squared_loss_alone_is_refused_for_others():
    problem = jaxdp.FixedFeatures.from_arrays(*_rows(5), loss=Logistic())
    algorithm = jaxdp.DPGD(0.01, 1.0, 3, 0.5)
    for solve in (problem.interpolator_risk, lambda: problem.ridge_risk(1.0)):
        with pytest.raises(jaxdp.NotCoveredError, match=r"got Logistic; give the problem loss="):
            solve()
    for reader in (jaxdp.ClippedSDE(), jaxdp.OrnsteinUhlenbeckSDE()):
        assert reader.covers(problem, algorithm) == "it describes the squared loss, got Logistic"
        assert reader.covers(problem.replace(loss=Squared()), algorithm) is None
    for theory in (jaxdp.UnclippedRecursion(), jaxdp.OrnsteinUhlenbeck(), jaxdp.ClippedDiffusion()):
        assert theory.covers(problem, algorithm) == "it describes the squared loss, got Logistic"
        with pytest.raises(jaxdp.NotCoveredError, match="squared loss, got Logistic"):
            jaxdp.predict(problem, algorithm, theory=theory)


def test_the_stability_limit_is_that_of_the_losss_curvature():
    squared = jaxdp.FixedFeatures.from_arrays(*_rows(5)).reduced()
    logistic = squared.replace(loss=Logistic())
    assert logistic.stability_limit() == pytest.approx(8 * squared.stability_limit())


BAD = [
    (0, np.full((NUM_TRAIN, 5), np.nan), Squared(), "expected finite train_features, got 50"),
    (2, np.full((NUM_TEST, 5), np.inf), Squared(), "expected finite test_features, got 20"),
    (2, np.zeros((NUM_TEST, 6)), Squared(), "test_features"),
    (0, np.zeros(NUM_TRAIN), Squared(), "train_features"),
    (1, np.ones(NUM_TRAIN - 1), Squared(), "train_labels"),
    (3, np.ones((NUM_TEST, 1)), Squared(), "test_labels"),
    (3, np.full(NUM_TEST, np.nan), Squared(), "test_labels"),
    (1, np.arange(NUM_TRAIN) % 2, Logistic(), r"give 2 \* labels - 1"),
    (3, np.full(NUM_TEST, 3), Softmax(3), r"test_labels to be whole numbers from 0 to 2.*got 3"),
]


@pytest.mark.parametrize(("index", "value", "loss", "message"), BAD)
def test_bad_rows_are_named(index, value, loss, message):
    rows = list(_rows(5, CLASSES if isinstance(loss, Softmax) else SIGNS))
    rows[index] = value
    with pytest.raises(ValueError, match=message):
        jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)


@pytest.mark.parametrize("loss", [None, "logistic", Logistic, jnp.square])
def test_a_loss_of_another_kind_is_named(loss):
    message = r"expected loss to be one of jaxdp.losses such as Squared\(\), got "
    with pytest.raises(TypeError, match=message):
        jaxdp.FixedFeatures.from_arrays(*_rows(5), loss=loss)
    with pytest.raises(TypeError, match=message):
        jaxdp.RandomFeatures.sample(4, 3, 2, 5, loss=loss, key=jr.key(0))
    with pytest.raises(TypeError, match=message):
        ReducedFeatures.from_kernel(np.eye(5), np.ones(3), np.ones(2), loss=loss)
