"""Features as they are given, the losses of rows, and what only the squared loss has."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp.losses import Logistic, Softmax, Squared
from jaxdp.problems import ReducedFeatures

RNG = np.random.default_rng(0)
NUM_TRAIN, NUM_TEST = 10, 4
SIGNS = np.sign(RNG.normal(size=NUM_TRAIN + NUM_TEST))
CLASSES = np.arange(NUM_TRAIN + NUM_TEST) % 3


def _rows(num_features, labels=SIGNS):
    features = np.random.default_rng(num_features).normal(size=(NUM_TRAIN + NUM_TEST, num_features))
    train, test = slice(NUM_TRAIN), slice(NUM_TRAIN, None)
    return features[train], labels[train], features[test], labels[test]


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
    loss, sizes, key = Softmax(3), (NUM_TRAIN, NUM_TEST, 3), jr.key(0)
    random = jaxdp.RandomFeatures.sample(*sizes, 20, loss=loss, key=key)
    assert set(np.unique(random.train_labels)) <= {0, 1, 2}
    infinite = jaxdp.RandomFeatures.sample(*sizes, None, loss=loss, key=key)
    np.testing.assert_array_equal(infinite.train_labels, random.train_labels)
    labels = CLASSES[:NUM_TRAIN], CLASSES[NUM_TRAIN:]
    by_kernel = ReducedFeatures.from_kernel(np.eye(NUM_TRAIN + NUM_TEST), *labels, loss=loss)
    fixed = jaxdp.FixedFeatures.from_arrays(*_rows(5, CLASSES), loss=loss)
    for problem in (random, infinite, by_kernel, fixed):
        assert problem.loss == problem.reduced().loss == loss
        assert jnp.issubdtype(problem.train_labels.dtype, jnp.floating)
        assert bool(problem.is_valid)
        assert problem.replace(loss=Squared()).loss == Squared()
    # Another loss than the labels are for.
    with pytest.raises(ValueError, match="-1 or \\+1 for the Logistic loss"):
        fixed.replace(loss=Logistic())
    # The loss that nobody names.
    assert jaxdp.FixedFeatures.from_arrays(*_rows(5)).loss == Squared()


def test_what_is_solved_for_the_squared_loss_alone_is_refused_for_others():
    problem = jaxdp.FixedFeatures.from_arrays(*_rows(5), loss=Logistic())
    algorithm = jaxdp.DPGD(0.01, 1.0, 3, 0.5)
    for solve in (problem.interpolator_risk, lambda: problem.ridge_risk(1.0)):
        with pytest.raises(jaxdp.NotCoveredError, match=r"got Logistic; give the problem loss="):
            solve()
    for reader in (jaxdp.simulation.ClippedSDE(), jaxdp.simulation.OrnsteinUhlenbeckSDE()):
        assert reader.why_not(problem, algorithm) == "it describes the squared loss, got Logistic"
        assert reader.why_not(problem.replace(loss=Squared()), algorithm) is None
    for theory in (
        jaxdp.UnclippedRecursion(),
        jaxdp.OrnsteinUhlenbeck(),
        jaxdp.theory.ClippedDiffusion(),
    ):
        assert theory.why_not(problem, algorithm) == "it describes the squared loss, got Logistic"
        with pytest.raises(jaxdp.NotCoveredError, match="squared loss, got Logistic"):
            jaxdp.predict(problem, algorithm, theory=theory)


def test_the_stability_limit_is_that_of_the_losss_curvature():
    squared = jaxdp.FixedFeatures.from_arrays(*_rows(5)).reduced()
    logistic = squared.replace(loss=Logistic())
    assert logistic.stability_limit() == pytest.approx(8 * squared.stability_limit())


IMAGES = np.random.default_rng(1).normal(size=(NUM_TRAIN + NUM_TEST, 6, 5)).astype(np.float32)
IMAGE_ROWS = IMAGES[:NUM_TRAIN], CLASSES[:NUM_TRAIN], IMAGES[NUM_TRAIN:], CLASSES[NUM_TRAIN:]


def _column_means(image):
    return jnp.tanh(image.mean(axis=0))


@pytest.mark.parametrize("batch_size", [3, 10, 256])
def test_a_networks_features_are_those_of_each_row_alone_and_a_constant(batch_size):
    options = {"loss": Softmax(3), "batch_size": batch_size}
    problem = jaxdp.FixedFeatures.from_network(_column_means, *IMAGE_ROWS, **options)
    alone = np.stack([np.append(np.tanh(image.mean(axis=0)), 1) for image in IMAGES])
    found = np.concatenate([problem.train_features(), problem.test_features()])
    np.testing.assert_allclose(found, alone, rtol=1e-6)
    np.testing.assert_array_equal(problem.train_labels, CLASSES[:NUM_TRAIN])
    norms = np.linalg.norm(alone[:NUM_TRAIN], axis=1)
    np.testing.assert_allclose(problem.feature_norm, np.sqrt(np.mean(norms**2)), rtol=1e-6)


def test_a_body_may_be_an_equinox_module_and_inputs_of_any_type():
    keys = jr.split(jr.key(0))
    linear, dropout = eqx.nn.Linear(30, 7, key=keys[0]), eqx.nn.Dropout(0.5)
    tokens = (10 * np.abs(IMAGES)).astype(np.uint8)
    rows = tokens[:NUM_TRAIN], CLASSES[:NUM_TRAIN], tokens[NUM_TRAIN:], CLASSES[NUM_TRAIN:]
    parts = [eqx.nn.Lambda(lambda image: image.reshape(-1) / 255), linear, dropout]
    body = eqx.nn.inference_mode(eqx.nn.Sequential(parts))
    problem = jaxdp.FixedFeatures.from_network(body, *rows, loss=Softmax(3))
    expected = tokens[:NUM_TRAIN].reshape(NUM_TRAIN, -1) / 255 @ linear.weight.T + linear.bias
    np.testing.assert_allclose(problem.train_features()[:, :-1], expected, rtol=1e-5, atol=1e-6)


def _batch_norm(image):
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(5, axis_name="batch", mode="ema")
    return norm(image.mean(axis=0), state)[0]


BAD_BODIES = {
    "dropout": (eqx.nn.Dropout(0.5), "without dropout.* raised RuntimeError: Dropout requires"),
    "a key": (lambda image, key: image[0], "without dropout, a key.* raised TypeError: .*'key'"),
    "rows mixed": (_batch_norm, "without .* other rows of a batch.* raised NameError: .*batch"),
    "NumPy": (lambda image: np.linalg.norm(image, axis=0), "in operations of JAX"),
    "not finite": (lambda image: image[0] / 0, "expected finite train_features, got"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_body_that_gives_no_features_of_one_input_is_refused(name):
    body, message = BAD_BODIES[name]
    with pytest.raises(ValueError, match=message):
        jaxdp.FixedFeatures.from_network(body, *IMAGE_ROWS, loss=Softmax(3))


BAD_INPUTS = [
    ({2: IMAGES[NUM_TRAIN:, :5]}, {}, ValueError, r"test_inputs of shape \(any, 6, 5\), got"),
    ({0: IMAGES[:0]}, {}, ValueError, "expected inputs with a row for each sample, got shape"),
    ({0: "images"}, {}, TypeError, "expected inputs to be a real number, got"),
    ({1: CLASSES[:3]}, {}, ValueError, "train_labels of shape"),
    ({1: CLASSES[:NUM_TRAIN] + 5}, {}, ValueError, r"whole numbers from 0 to 2 .*got \[?[567]"),
    ({}, {"loss": "softmax"}, TypeError, "expected loss to be one of jaxdp.losses"),
    ({}, {"batch_size": 0}, ValueError, "expected batch_size >= 1, got 0"),
    ({}, {"body": np.eye(3)}, TypeError, "expected body to be a function of one input"),
]


@pytest.mark.parametrize(("rows", "changes", "kind", "message"), BAD_INPUTS)
def test_bad_inputs_of_a_network_are_named(rows, changes, kind, message):
    given = [rows.get(place, part) for place, part in enumerate(IMAGE_ROWS)]
    settings = {"body": _column_means, "loss": Softmax(3)} | changes
    with pytest.raises(kind, match=message):
        jaxdp.FixedFeatures.from_network(settings.pop("body"), *given, **settings)
