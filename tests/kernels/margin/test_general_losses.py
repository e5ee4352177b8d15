"""Learners with losses of residuals and of several classes: box, certificate, audit, learning.

Source: PK Algorithm 2, Assumption 6 and Theorem 9.
"""

import math

import jax
import numpy as np
import pytest
from helpers import give_noise
from scipy.special import ndtr, softmax

from jaxdp.kernels import (
    Gaussian,
    InnerProduct,
    PrivateKernelClassifier,
    PrivateKernelRegressor,
    load,
)
from jaxdp.kernels.margin import learners
from jaxdp.losses import Huber, SmoothedAbsolute, SmoothedQuantile, Softmax

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
LOSSES = [Huber(0.5), SmoothedQuantile(0.9, 0.25), Softmax(3)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def _rows(loss, num):
    rng = np.random.default_rng(3)
    features = rng.normal(size=(num, 4))
    features *= 0.999 / np.maximum(np.linalg.norm(features, axis=1), 1)[:, None]
    if isinstance(loss, Softmax):
        return features, rng.integers(0, 3, size=num).astype(float)
    return features, np.tanh(features[:, 0] + 0.3 * rng.normal(size=num))


def _learner(loss, **options):
    given = {"input_bound": math.inf, "loss": loss} | options
    if isinstance(loss, Softmax):
        return PrivateKernelClassifier(Gaussian(1.0), 12, 64, **given)
    return PrivateKernelRegressor(Gaussian(1.0), 12, 64, **({"label_bound": 2.0} | given))


def _fit(learner, table, **options):
    return learner.fit(*table, **{**BUDGET, "public_seed": 1, "noise_seed": 2**200 + 5, **options})


@each_loss
def test_the_release_is_the_box_in_numpy(loss, monkeypatch):
    inputs, labels = _rows(loss, num=60)
    learner, outputs = _learner(loss, ridge=0.5), loss.num_outputs or 1
    linear, hidden = np.random.default_rng(0).normal(size=(2, 12 * outputs))
    drawn = {"linear term": linear, "coefficients": hidden}
    give_noise(monkeypatch, lambda purpose, count: drawn[purpose])
    release = _fit(learner, (inputs, labels))
    features = np.asarray(release.features(inputs), np.float64)
    features /= np.maximum(1, np.linalg.norm(features, axis=1))[:, None]
    stds = learner.noise_std(60, **BUDGET)

    def gradient(point, labels):
        if isinstance(loss, Softmax):
            shares = softmax(features @ point.reshape(12, 3), axis=1)
            slopes = shares - np.eye(3)[labels.astype(int)]
        else:
            residuals = features @ point - labels
            width, middle, size = (0.5, 0.0, 0.5) if isinstance(loss, Huber) else (0.25, -0.4, 0.5)
            slopes = middle + size * np.clip(residuals / width, -1, 1)
        return (features.T @ slopes).ravel() + stds["b"] * linear + 60 * 0.5 * point

    coefficients = np.asarray(release.coefficients, float).ravel() - stds["coefficients"] * hidden
    # Features are rounded to 2^-21, coefficients to float32: a few of these, times n lambda.
    assert np.linalg.norm(gradient(coefficients, labels)) < 30 * 1e-5
    # The same check sees a label that is another.
    labels[0] = 1.0 - labels[0] if isinstance(loss, Softmax) and labels[0] < 2 else -labels[0] / 2
    assert np.linalg.norm(gradient(coefficients, labels)) > 1e-3


def test_a_label_from_one_end_to_the_other_shows_nearly_as_much_as_is_claimed(monkeypatch):
    # On a line and under a large ridge the slope is that of a far label, of either sign.
    line = InnerProduct().features(1, 1, key=jax.random.key(0))

    def shift_over_std():
        learner = PrivateKernelRegressor(
            InnerProduct(),
            feature_map=line,
            input_bound=1.0,
            loss=SmoothedAbsolute(0.1),
            label_bound=9.0,
            ridge=1000.0,
        )
        give_noise(monkeypatch, lambda purpose, count: np.zeros(count))
        inputs = np.asarray([[1.0], [0.0]])
        centres = [
            float(_fit(learner, (inputs, np.asarray([end, 0.0]))).coefficients[0])
            for end in (-9.0, 9.0)
        ]
        # The minimiser is b times -1 / (n lambda) away from there.
        return (centres[1] - centres[0]) * 2 * 1000 / learner.noise_std(2, **BUDGET)["b"]

    def divergence(mu):
        return ndtr(mu / 2 - 1 / mu) - math.e * ndtr(-mu / 2 - 1 / mu)

    # The bound counts four vertices, of which two are 0 here.
    assert BUDGET["delta"] / 4 < divergence(shift_over_std()) <= BUDGET["delta"]
    calibrated = learners.objective_perturbation_std

    def as_if_slopes_had_one_sign(*arguments, **options):
        found = calibrated(*arguments, **options)
        return found._replace(noise_std=found.noise_std / 2)

    monkeypatch.setattr(learners, "objective_perturbation_std", as_if_slopes_had_one_sign)
    assert divergence(shift_over_std()) > 20 * BUDGET["delta"]


def test_a_weak_budget_learns_quantiles_and_medians_that_outliers_do_not_move():
    rng = np.random.default_rng(1)
    inputs = rng.uniform(-1, 1, size=(3000, 2))
    signal = np.sin(3 * inputs[:, 0])
    labels = signal + 0.25 * rng.normal(size=3000)
    upper = _fit(_learner(SmoothedQuantile(0.9, 0.05)), (inputs, labels), epsilon=20.0)
    assert np.mean(labels <= upper(inputs)) == pytest.approx(0.9, abs=0.03)
    outlying = np.where(rng.uniform(size=3000) < 0.1, 2.0, labels)
    median = _fit(_learner(SmoothedAbsolute(0.05)), (inputs, outlying), epsilon=20.0)
    mean = _fit(_learner(Huber(100.0), ridge=1e-3), (inputs, outlying), epsilon=1e4)
    errors = [np.abs(np.asarray(found(inputs)) - signal).mean() for found in (median, mean)]
    assert errors[0] < 0.7 * errors[1]


def test_a_weak_budget_learns_three_classes_and_the_release_is_saved(tmp_path):
    rng = np.random.default_rng(1)
    inputs = rng.uniform(-1, 1, size=(2000, 2))
    labels = np.digitize(inputs[:, 0], (-0.4, 0.4))
    release = _fit(_learner(Softmax(3)), (inputs, labels), epsilon=20.0)
    scores = np.asarray(release(inputs))
    assert scores.shape == (2000, 3)
    assert np.mean(scores.argmax(axis=1) == labels) > 0.8
    assert np.mean(scores.argmax(axis=1) == np.roll(labels, 7)) < 0.5
    assert release.cost.epsilon == pytest.approx(20.0, rel=1e-8)
    assert release.cost.epsilon <= 20.0
    assert release.cost.mu is None
    release.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again(inputs[:5]), scores[:5])
    assert again.cost == release.cost


@pytest.mark.usefixtures("callers_line")
def test_labels_beyond_the_bound_are_clipped_and_predictions_too():
    inputs, labels = _rows(LOSSES[0], num=50)
    wide = np.where(np.arange(50) == 3, 7.0, labels)
    learner = _learner(Huber(0.5))
    with pytest.warns(UserWarning, match="1 of 50 labels are beyond label_bound = 2") as caught:
        release = _fit(learner, (inputs, wide))
    assert caught[0].filename == __file__
    assert release.label_bound == 2.0
    clipped = _fit(learner, (inputs, np.clip(wide, -2, 2)))
    np.testing.assert_array_equal(release.coefficients, clipped.coefficients)


def test_the_default_ridge_moves_no_prediction_by_more_than_the_bound():
    learner = _learner(SmoothedAbsolute(2.0))
    found = learner.calibration(400, **BUDGET)
    assert found.ridge == pytest.approx(found.noise_std / (400 * 2.0), rel=0.2)
    assert not found.mechanism.has_signed_slopes


def test_wrong_arguments_are_refused():
    inputs, labels = _rows(Softmax(3), num=20)
    with pytest.raises(ValueError, match=r"whole numbers from 0 to 2 .*, got others"):
        _fit(_learner(Softmax(3)), (inputs, labels + 1))
    with pytest.raises(TypeError, match="expected loss to be a loss of residuals"):
        _learner(SmoothedAbsolute)
    with pytest.raises(TypeError, match="expected loss to be a margin loss"):
        PrivateKernelClassifier(Gaussian(1.0), loss=Huber(1.0))
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="label_bound"):
            _learner(Huber(0.5), label_bound=wrong)
