"""Everyday DP-SGD asked for with what does not fit: one clear error, before any work.

Nothing is compiled but the check that an optimiser is linear.
"""

import re

import jax
import numpy as np
import optax
import pytest
from helpers import quick_and_slow

import jaxdp
from jaxdp import losses, privacy

ROWS = 40
SLOW = pytest.mark.slow
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((ROWS + 10, 5)).astype(np.float32)
REALS = FEATURES[:, 0]
SIGNS = np.where(REALS > 0, 1, -1)
CLASSES = np.arange(ROWS + 10) % 3


def _problem(labels=REALS, loss=None):
    rows = FEATURES[:ROWS], labels[:ROWS], FEATURES[ROWS:], labels[ROWS:]
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=losses.Squared() if loss is None else loss)


def _algorithm(optimiser=optax.sgd, *, sampler=None, **changes):
    settings = {"learning_rate": 0.1, "clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": 5}
    sampler = privacy.PoissonSampler(ROWS, 0.2) if sampler is None else sampler
    return jaxdp.PrivateOptimiser(optimiser, **(settings | changes), sampler=sampler)


def _with(array, place, value):
    changed = np.array(array, float)
    changed[place] = value
    return changed


PROBLEMS = {
    "squared": _problem(),
    "logistic": _problem(SIGNS, losses.Logistic()),
    "softmax": _problem(CLASSES, losses.Softmax(3)),
}

WRONG_ROWS = {
    "0 and 1": (
        SIGNS > 0,
        losses.Logistic(),
        r"-1 or \+1 for the Logistic loss, .*2 \* labels - 1",
    ),
    "reals": (REALS, losses.Logistic(), r"train_labels -1 or \+1 for the Logistic loss, got"),
    "too many": (CLASSES, losses.Softmax(2), r"from 0 to 1 \(num_classes=2\), got 2"),
    "negative": (CLASSES - 1, losses.Softmax(3), r"from 0 to 2 \(num_classes=3\), got -1"),
    "between": (CLASSES + 0.5, losses.Softmax(3), r"whole numbers from 0 to 2 .* got 0.5"),
    "one-hot": (np.eye(3)[CLASSES], losses.Softmax(3), r"train_labels of shape \(40\)"),
    "missing": (_with(REALS, 3, np.nan), losses.Squared(), "finite train_labels, got 1 entries"),
    "missing test": (_with(REALS, -1, np.nan), losses.Huber(1.0), "finite test_labels, got 1"),
    "missing class": (_with(CLASSES, 3, np.nan), losses.Softmax(3), "finite train_labels, got 1"),
    "texts": (np.array(["a", "b"] * 25), losses.Logistic(), r"train_labels .* ndarray of texts"),
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_labels_that_do_not_fit_the_loss_are_refused(name):
    labels, loss, message = WRONG_ROWS[name]
    with pytest.raises((ValueError, TypeError), match=f"^expected .*{message}"):
        _problem(labels, loss)
    weights = np.ones((6, 5), np.float32)
    rows = FEATURES[:ROWS], labels[:ROWS], FEATURES[ROWS:], labels[ROWS:]
    with pytest.raises((ValueError, TypeError), match=f"^expected .*{message}"):
        jaxdp.RandomFeatures.from_arrays(*rows, weights, loss=loss)


@pytest.mark.parametrize("problem", quick_and_slow(["squared", "logistic", "softmax"], "squared"))
@pytest.mark.parametrize(
    "sampler",
    [
        privacy.PoissonSampler(50, 0.2),
        pytest.param(privacy.ShuffledEpochs(50, 10), marks=SLOW),
        privacy.FixedSizeBatches(30, 10),
    ],
    ids=repr,
)
def test_a_sampler_for_another_number_of_rows_is_refused(problem, sampler):
    message = f"expected {sampler.num_records} training rows, as many as the sampler .* got 40"
    pair = PROBLEMS[problem], _algorithm(sampler=sampler)
    with pytest.raises(ValueError, match=message):
        jaxdp.predict(*pair)
    for simulator in (None, jaxdp.FunctionSpace(), jaxdp.Iterates()):
        with pytest.raises(ValueError, match=message):
            jaxdp.simulate(*pair, key=jax.random.key(0), simulator=simulator)


def test_a_negative_rank_is_refused():
    with pytest.raises(ValueError, match="expected rank >= 0, got -1"):
        jaxdp.GaussianClosure(rank=-1)
    with pytest.raises(ValueError, match="expected rank >= 0, got -1"):
        jaxdp.GaussianClosure().replace(rank=-1)


@pytest.mark.parametrize(
    "optimiser",
    [
        optax.polyak_sgd(),
        optax.lbfgs(),
        optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau()),
    ],
    ids=["polyak", "lbfgs", "plateau"],
)
def test_an_optimiser_that_needs_the_loss_is_refused_where_it_is_named(optimiser):
    message = "expected an optimiser that needs gradient, state and weights only"
    with pytest.raises(TypeError, match=message) as caught:
        _algorithm(optimiser, learning_rate=None)
    assert "the value of the loss, or the loss itself, is not released" in str(caught.value)
    with pytest.raises(TypeError, match=message):
        _algorithm(lambda rate: optax.chain(optimiser, optax.scale(rate)))


def test_an_optimiser_made_for_other_weights_is_not_refused():
    """It fails on weights of its own choosing alone, which nobody has given yet."""
    labels = {"first": "kept", "second": "moved"}
    transforms = {"kept": optax.set_to_zero(), "moved": optax.sgd(0.1)}
    optimiser = optax.multi_transform(transforms, labels)
    extra = optax.with_extra_args_support(optimiser)
    weights = {"first": np.ones(2, np.float32), "second": np.ones(3, np.float32)}
    assert _algorithm(extra, learning_rate=None).init(weights) is not None


UNCOVERED = {
    "sign": (optax.sign_sgd, {}, "squared", "got one whose step is not linear"),
    "rmsprop": (optax.rmsprop, {}, "logistic", "got one whose step is not linear"),
    "adagrad": (optax.adagrad, {}, "softmax", "got one whose step is not linear"),
    "weight decay": (optax.adamw, {}, "squared", "nor is it Adam: .*weight decay"),
    "nesterov": (optax.nadam, {}, "squared", "nor is it Adam: .*Nesterov's step"),
    "clipped": (
        lambda rate: optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(rate)),
        {},
        "squared",
        "got one whose step is not linear",
    ),
}
SHORT = {"sampler": privacy.ShuffledEpochs(ROWS, 12)}
# What the optimiser is not to blame for is said alone.
ALONE = {
    "outputs": (optax.adam, {}, "softmax", "of Adam no loss of several outputs is covered"),
    "average": (optax.adam, {"average": jaxdp.PolyakAverage()}, "squared", "of Adam no average"),
    "short batch": (optax.sgd, SHORT, "softmax", "that divides num_records = 40, got 12"),
    "short batch of Adam": (optax.adam, SHORT, "squared", "that divides num_records = 40, got 12"),
}


@pytest.mark.parametrize("name", [*UNCOVERED, *ALONE])
def test_what_cannot_be_predicted_is_not_covered_and_says_why(name):
    optimiser, changes, problem, message = (UNCOVERED | ALONE)[name]
    algorithm = _algorithm(optimiser, **changes)
    with pytest.raises(jaxdp.NotCoveredError, match=rf"GaussianClosure: .*{message}") as caught:
        jaxdp.predict(PROBLEMS[problem], algorithm)
    asked = str(caught.value).split("; GaussianClosure: ")
    # Each theory that was asked says why not.
    assert asked[0].startswith("ModewiseClosure: ")
    said = asked[1]
    # Nothing of theories about streams of samples.
    assert "CoupledODE" not in said
    assert "\n" not in said
    if name in ALONE:
        assert "linear" not in said
        assert len(said) < 200
    # It can be accounted for all the same.
    assert np.isfinite(jaxdp.account(algorithm, delta=0.01).epsilon)


WRONG_NUMBERS = {
    "sampling_rate": lambda: privacy.PoissonSampler(ROWS, 0.0),
    "batch_size": lambda: privacy.FixedSizeBatches(ROWS, ROWS + 1),
    "noise_multiplier": lambda: _algorithm(noise_multiplier=-1.0),
    "num_steps": lambda: _algorithm(num_steps=0),
    "learning_rate": lambda: _algorithm(learning_rate=-0.1),
    "average": lambda: _algorithm(average="polyak"),
    "decay": lambda: jaxdp.ExponentialAverage(1.0),
}


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_a_number_out_of_its_range_is_named(name):
    with pytest.raises((ValueError, TypeError), match=rf"^expected .*\b{re.escape(name)}\b.* got "):
        WRONG_NUMBERS[name]()
