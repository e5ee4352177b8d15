"""The slopes of classes, and what is known of a private descent."""

import math

import numpy as np
import pytest

from jaxdp.kernels import ClippedFeatures, IdentityFeatures
from jaxdp.privacy import SecretNoise
from jaxdp.regression.descent import ClassSlopes, Stage, private_descent
from jaxdp.regression.descent_plan import SQUARED, DescentPlan, Spectrum, planned
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.private_sums import PrivateRows, noisy_counts


def _logits(num_classes, count=200, size=3.0):
    draw = np.random.default_rng(num_classes)
    return size * draw.normal(size=(count, 1 if num_classes == 2 else num_classes))


def _mean_slopes(logits, num_classes, of=ClassSlopes.of):
    """The expected slope of each row, in closed form, if its logits are those of its class."""
    if num_classes == 2:
        second = 1 / (1 + np.exp(-logits))
        chances = np.hstack([1 - second, second])
    else:
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    slopes = [
        of(ClassSlopes(np.full(len(logits), own), num_classes), logits)
        for own in range(num_classes)
    ]
    return np.einsum("no,onk->nk", chances, slopes), np.array(slopes)


def _clipped(slopes, outputs):
    """A planted error: slopes p - e that are clipped instead."""
    _, most = slopes._chances(outputs)
    found = slopes.of(outputs) * most
    sizes = np.linalg.norm(found, axis=1, keepdims=True)
    return found * np.minimum(1, 0.5 / sizes)


@pytest.mark.parametrize("num_classes", [2, 4])
def test_the_mean_slope_of_classes_is_zero_at_the_true_probabilities(num_classes):
    logits = _logits(num_classes)
    means, slopes = _mean_slopes(logits, num_classes)
    np.testing.assert_allclose(means, 0, atol=1e-12)
    assert np.linalg.norm(slopes, axis=2).max() <= 0.5 * (1 + 1e-12)
    # The least likely class has the largest slope, which is one half.
    np.testing.assert_allclose(np.linalg.norm(slopes, axis=2).max(axis=0), 0.5)
    clipped, _ = _mean_slopes(logits, num_classes, _clipped)
    assert np.abs(clipped).max() > 0.05


def test_slopes_of_classes_that_are_sure_are_finite():
    for count, outputs in ((2, np.array([[800.0], [-800.0]])), (3, np.eye(3)[:2] * 2000)):
        slopes = ClassSlopes(np.array([0, 0]), count).of(outputs)
        assert np.isfinite(slopes).all()
        assert np.linalg.norm(slopes, axis=1).max() <= 0.5 * (1 + 1e-12)


def test_a_constant_model_of_classes_starts_at_their_log_odds():
    places = np.repeat([0, 1, 2], [6000, 3000, 1000])
    slopes = ClassSlopes(places, 3)
    slopes.begin(Ledger(5.0), SecretNoise(2**200), 3, is_free=True)
    expected = np.log([0.6, 0.3, 0.1])
    _, std = noisy_counts(places, 3, 5.0, SecretNoise(2**200), "classes")
    # One record in `std` moves a log odds by std over the least count.
    error = 5 * std / math.sqrt(0.02) / 1000
    np.testing.assert_allclose(slopes.offset, expected - expected.mean(), atol=error)
    assert error < 0.02
    # With the offset the mean slope is near zero, and without it far.
    assert np.abs(slopes.of(np.zeros((10_000, 3))).mean(axis=0)).max() < error
    assert np.abs(ClassSlopes(places, 3).of(np.zeros((10_000, 3))).mean(axis=0)).max() > 0.05


@pytest.mark.parametrize("num_classes", [2, 4])
def test_the_curvature_of_classes_is_the_slope_of_the_mean_slope(num_classes):
    """The averages of the released law, beside differences of the expected slope."""
    logits, step = _logits(num_classes, 400, 1.0), 1e-5
    slopes = ClassSlopes(np.zeros(400, int), num_classes)
    chances, most = slopes._chances(logits)
    bends = np.mean(chances * (1 - chances) / most, axis=1)
    # Of one output at a time, with the classes of the row as they are and the weight that it has.
    found = []
    for place in range(logits.shape[1]):
        moved = logits.copy()
        moved[:, place] += step
        found.append((slopes._chances(moved)[0] - chances)[:, place] / step / most[:, 0])
    np.testing.assert_allclose(np.mean(found, axis=0), bends, atol=1e-5)


def _stage(plan, draw, curvature=1.0):
    stds = draw.uniform(0.5, 2.0, plan.num_steps)
    average = draw.normal(size=(len(plan.values), 1))
    return Stage(plan, average, stds, curvature, 1.0, curvature)


def test_left_and_noise_of_a_stage_are_those_of_its_steps():
    """Step by step: an initial error of one, and noise of each step's own deviation."""
    draw = np.random.default_rng(0)
    values, units = np.array([0.8, 0.2, 0.01]), np.array([1.0, 1.7, 6.0])
    given = 8, 0.4, 0.8, 1.0, False, 0.0
    plan = DescentPlan(np.diag(units), 1.0, *given, values, units)
    stage = _stage(plan, draw, 0.6)
    modes = values * units**2
    left, noise = stage.left_and_noise(modes)

    def averaged(start, forces):
        error, speed, kept = np.full(3, start), np.zeros(3), []
        for force in forces:
            speed = 0.8 * speed + 0.6 * modes * error + force
            error = error - 0.4 * speed
            kept.append(error)
        return np.mean(kept[4:], axis=0)

    np.testing.assert_allclose(left, averaged(1.0, np.zeros(8)), rtol=1e-12)
    parts = [averaged(0.0, row) for row in np.diag(stage.noise_stds)]
    np.testing.assert_allclose(noise, np.square(parts).sum(axis=0), rtol=1e-12)
    # Not those of one deviation for all steps.
    same = stage._replace(noise_stds=np.full(8, stage.noise_stds.mean()))
    assert np.abs(same.left_and_noise(modes)[1] / noise - 1).max() > 0.02
    np.testing.assert_allclose(stage.weights, plan.transform.T @ (stage.average / units[:, None]))


def test_a_second_descent_starts_where_the_first_one_ended():
    """With no noise to speak of, what is left of the start is what the recursion says."""
    draw, dim = np.random.default_rng(1), 3
    table = draw.normal(size=(4000, dim))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    rows = PrivateRows.of(
        ClippedFeatures(IdentityFeatures(dim), 1.0), table.astype(np.float32), SecretNoise(2**200)
    )

    class Exact(ClassSlopes):
        """Slopes f(x) of labels that are all zero."""

        def __init__(self):
            super().__init__(np.zeros(4000, int), 2)

        def of(self, outputs, rows=slice(None)):
            return outputs

        def scale(self, *_):
            return 2.0

        def law(self, *_):
            return 1.0, 1.0, 1.0

    values = np.linalg.eigvalsh(rows.units.T.astype(float) @ rows.units / 2**32 / 4000)
    spectrum = Spectrum(values, np.eye(dim), values, 0.0, np.eye(dim))
    options = {"curvature": SQUARED, "dampings": (math.inf,), "momenta": (0.0,)}
    plan = planned(spectrum, num_samples=4000, mu=1.0, **options)
    start = np.array([[0.3], [-0.2], [0.1]])
    stage = private_descent(rows, Exact(), plan, 1e9, start)
    moments = np.array(rows.units.T.astype(float) @ rows.units / 2**32 / 4000)
    inner, turn = np.linalg.eigh(plan.transform @ moments @ plan.transform.T)
    left, _ = stage.left_and_noise(inner)
    expected = turn @ (left[:, None] * (turn.T @ np.linalg.pinv(plan.transform.T) @ start))
    np.testing.assert_allclose(stage.weights, plan.transform.T @ expected, atol=2e-4)
    assert np.abs(stage.weights - start).max() > 0.02
