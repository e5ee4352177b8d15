"""Private linear regression and classification: what they learn, what they release."""

import numpy as np
import pytest

from jaxdp.estimators import DPLinearRegression
from jaxdp.kernels import ClippedFeatures, IdentityFeatures, load
from jaxdp.kernels.functions.bounded import RangeScaling
from jaxdp.privacy import SecretNoise
from jaxdp.regression import (
    Automatic,
    ColumnFeatures,
    Columns,
    FullBatch,
    NoisyStatistics,
    ObjectivePerturbation,
    PlannedDPSGD,
    PrivateLinearClassifier,
    PrivateLinearRegression,
    Whitened,
    WithConstant,
    private_sums,
)
from jaxdp.regression.private_sums import released_magnitudes


def _slopes_of(release):
    """What a step of one along each column adds."""
    return np.asarray(release(np.eye(3)) - release(np.zeros((1, 3))))


METHODS = (Automatic(), Whitened(), FullBatch(), PlannedDPSGD(), NoisyStatistics())
SLOPES = np.array([2.0, -1.0, 0.5])


def _features(dim=3):
    unit = ClippedFeatures(IdentityFeatures(dim), dim**0.5)
    return WithConstant(RangeScaling(unit, -np.ones(dim), np.ones(dim)), 1.0)


def _table(num_rows=4000, seed=0):
    draw = np.random.default_rng(seed)
    inputs = draw.uniform(-1, 1, (num_rows, 3))
    return inputs, inputs @ SLOPES + 5 + 0.2 * draw.normal(size=num_rows)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_each_method_learns_a_linear_function(method):
    learner = PrivateLinearRegression(_features(), (0.0, 10.0), method)
    fit = learner.fit(*_table(), epsilon=2.0, delta=1e-6)
    np.testing.assert_allclose(_slopes_of(fit.release), SLOPES, atol=0.5)
    assert float(fit.release(np.zeros((1, 3)))[0]) == pytest.approx(5, abs=0.5)
    assert fit.release.cost.epsilon == pytest.approx(2, rel=1e-6)
    assert fit.release.cost.is_certified
    assert sum(entry.share for entry in fit.ledger.entries) == pytest.approx(1)
    assert fit.ledger.mu == fit.release.cost.mu


def test_a_range_of_labels_that_nobody_gave_is_learnt():
    inputs, labels = _table()
    learner = PrivateLinearRegression(_features(), None)
    fit = learner.fit(inputs, 1e4 * (labels - 5), epsilon=2.0, delta=1e-6)
    np.testing.assert_allclose(_slopes_of(fit.release) / 1e4, SLOPES, atol=0.2)
    assert fit.ledger.entries[0].what == "histogram of the labels' magnitudes"


@pytest.mark.parametrize("label_range", [(-5.0, 5.0), None])
def test_objective_perturbation_costs_its_budget_and_is_read_again(label_range, tmp_path):
    inputs, labels = _table()
    learner = PrivateLinearRegression(_features(), label_range, ObjectivePerturbation())
    fit = learner.fit(inputs, labels - 5, epsilon=2.0, delta=1e-6)
    np.testing.assert_allclose(_slopes_of(fit.release), SLOPES, atol=0.3)
    assert fit.release.cost.epsilon == pytest.approx(2, rel=1e-6)
    assert fit.release.cost.is_certified
    assert len(fit.ledger.entries) == (1 if label_range else 5)
    fit.release.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.cost.epsilon == fit.release.cost.epsilon
    np.testing.assert_array_equal(again(inputs), fit.release(inputs))


@pytest.mark.parametrize("kind", ["zeros", "small"])
def test_skewed_labels_are_not_taken_for_their_bulk(kind, monkeypatch):
    """Nine in ten are zero, or a thousandth of the others, and nobody gave a range."""
    draw = np.random.default_rng(2)
    inputs = draw.uniform(-1, 1, (20_000, 3))
    is_large = inputs[:, 0] > 0.8
    small = draw.normal(size=len(inputs)) if kind == "small" else 0.0
    labels = np.where(is_large, 1000 * (2 + inputs[:, 1]), small)
    columns = np.column_stack([inputs, np.ones(len(inputs))])
    best = columns @ np.linalg.lstsq(columns, labels, rcond=None)[0]

    def explained():
        learner = PrivateLinearRegression(_features(), None)
        fit = learner.fit(inputs, labels, epsilon=2.0, delta=1e-6)
        gap = np.asarray(fit.release(inputs)) - best
        return 1 - np.mean(gap**2) / np.var(best)

    assert explained() > 0.6
    monkeypatch.setattr(private_sums, "_scale_of_the_largest", lambda *_: 0.0)
    assert explained() < 0.2


def _r2(release, inputs, labels):
    return 1 - np.mean((np.asarray(release(inputs)) - labels) ** 2) / np.var(labels)


def _skewed(num_rows=8000, seed=0):
    """Labels whose mean is a twentieth of a range from 0, with a long tail."""
    draw = np.random.default_rng(seed)
    inputs = draw.uniform(-1, 1, (num_rows, 3))
    return inputs, 600 * np.exp(0.8 * inputs[:, 0] + 0.6 * draw.normal(size=num_rows))


@pytest.mark.slow
@pytest.mark.parametrize("label_range", [(0.0, 20_000.0), (-18_400.0, 20_000.0)])
def test_a_descent_starts_at_the_labels_wherever_they_are_in_their_range(label_range):
    """Also if the middle of the range is far from all of them."""
    inputs, labels = _skewed()
    learner = PrivateLinearRegression(_features(), label_range)
    columns = np.column_stack([inputs, np.ones(len(inputs))])
    best = columns @ np.linalg.lstsq(columns, labels, rcond=None)[0]
    most = 1 - np.mean((labels - best) ** 2) / np.var(labels)

    def found(seed):
        fit = learner.fit(inputs, labels, epsilon=0.5, delta=1e-5, noise_seed=2**200 + seed)
        return _r2(fit.release, inputs, labels)

    assert most > 0.2
    assert np.mean([found(seed) for seed in range(3)]) > most - 0.06


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3])
def test_tiny_budgets_predict_about_the_mean(epsilon):
    inputs, labels = _table(500)
    learner = PrivateLinearRegression(_features(), (0.0, 10.0))
    found = [
        _r2(
            learner.fit(inputs, labels, epsilon=epsilon, delta=1e-5, noise_seed=2**200 + s).release,
            inputs,
            labels,
        )
        for s in range(5)
    ]
    # At the least budget even the mean is noise: of 10 with a deviation of 1.3.
    assert np.median(found) > (-0.2 if epsilon > 0.05 else -4)
    fit = learner.fit(inputs, labels, epsilon=epsilon, delta=1e-5)
    is_hopeless = len(labels) * fit.ledger.mu < 80
    assert is_hopeless == (np.ptp(fit.release(inputs)) == 0)
    assert is_hopeless == (len(fit.ledger.entries) == 1)


def test_classes_of_a_tiny_budget_have_the_chances_of_their_counts():
    inputs, labels = _table(2000)
    places = (labels > np.quantile(labels, 0.8)).astype(int)
    learner = PrivateLinearClassifier(_features(), 2)
    fit = learner.fit(inputs, places, epsilon=0.06, delta=1e-5, noise_seed=2**200)
    assert [entry.what for entry in fit.ledger.entries] == ["counts of the classes"]
    logits = np.asarray(fit.release(inputs))
    assert np.ptp(logits) == 0
    # The log of four, with the noise of counts of 400 and 1600.
    error = 5 * np.sqrt(2) / fit.ledger.mu / 400
    assert logits[0] == pytest.approx(-np.log(4), abs=error)
    assert error < 1.1


def test_a_range_far_from_zero_is_learnt():
    draw = np.random.default_rng(0)
    inputs = draw.uniform(-1, 1, (8000, 3))
    labels = 2000 + inputs[:, 0] * 300 + 30 * draw.normal(size=8000)
    learner = PrivateLinearRegression(_features(), None)
    fit = learner.fit(inputs, labels, epsilon=1.0, delta=1e-5, noise_seed=2**200)
    assert _r2(fit.release, inputs, labels) > 0.9
    low, high = fit.release.label_bound
    # Beside six standard deviations about 0, of a magnitude of 2000 with a median of one of .67.
    assert high - low < 12_000
    assert low < labels.min()
    assert labels.max() < high


def test_a_range_that_the_budget_cannot_learn_is_asked_for_before_anything_is_spent():
    inputs, _ = _table(500)
    learner = PrivateLinearRegression(_features(), None)
    spent = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SecretNoise, "noisy_integers", lambda *_: spent.append(1))
        with pytest.raises(ValueError, match="with so few rows this budget cannot learn one"):
            learner.fit(inputs, inputs[:, 0], epsilon=0.1, delta=1e-5)
    assert not spent


def _mixed(bend, seed, num_rows=2000):
    draw = np.random.default_rng(seed)
    numbers, kinds = draw.uniform(-1, 1, (num_rows, 2)), draw.choice(["x", "y"], num_rows)
    labels = 0.4 * numbers[:, 0] + bend * np.cos(4 * numbers[:, 1]) + 0.1 * (kinds == "x")
    table = np.column_stack([numbers.astype(object), kinds])
    return table, labels + 0.2 * draw.normal(size=num_rows)


@pytest.mark.slow
def test_curves_are_chosen_if_there_are_bends():
    columns = Columns({"a": (-1, 1), "b": (-1, 1), "kind": ["x", "y"]}, bins=10)
    features = WithConstant(ColumnFeatures(columns, True), 1.0)
    learner = PrivateLinearRegression(features, (-2.0, 2.0), tests_curves=True)
    found = []
    for seed in range(3):
        table, labels = _mixed(0.3, seed)
        fit = learner.fit(table, labels, epsilon=1.0, delta=1e-6, noise_seed=2**200 + seed)
        found.append(fit.release.features.base.is_additive)
        assert _r2(fit.release, table, labels) > 0.3
    assert all(found)


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize(
    "method", [Automatic(), ObjectivePerturbation()], ids=["auto", "objective"]
)
def test_classes_are_learnt(num_classes, method):
    inputs, labels = _table()
    places = np.digitize(labels, np.quantile(labels, np.arange(1, num_classes) / num_classes))
    learner = PrivateLinearClassifier(_features(), num_classes, method)
    values = np.asarray(learner.fit(inputs, places, epsilon=4.0, delta=1e-6).release(inputs))
    found = (values > 0).astype(int) if num_classes == 2 else values.argmax(axis=1)
    assert np.mean(found == places) > (0.9 if num_classes == 2 else 0.6)


def test_a_seed_draws_the_same_noise_again_and_a_small_one_costs_everything():
    inputs, labels = _table(500)
    learner = PrivateLinearRegression(_features(), (0.0, 10.0))
    budget = {"epsilon": 1.0, "delta": 1e-6}
    first, second, other = (
        learner.fit(inputs, labels, **budget, noise_seed=seed).release.coefficients
        for seed in (2**130, 2**130, None)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
    cost = learner.fit(inputs, labels, **budget, noise_seed=7).release.cost
    assert np.isinf(cost.epsilon)
    assert not cost.is_certified


@pytest.mark.parametrize("share", [0.1, 0.55])
def test_labels_that_are_zero_do_not_count_for_a_learnt_range(share):
    labels = np.where(np.random.default_rng(0).random(20_000) < share, 100.0, 0.0)
    scale = released_magnitudes(labels, 0.1, SecretNoise(), half_octaves=(-120, 120)).scale
    # The median of |g| is .674 for a normal g; a bin is half an octave.
    assert 0.8 * 100 / 0.674 < scale < 1.2 * 100 / 0.674


@pytest.mark.parametrize("labels", [np.zeros(4000), np.append(np.zeros(3950), np.ones(50))])
def test_a_range_that_noise_hides_is_asked_for(labels):
    rows = np.ones((4000, 1))
    learner = PrivateLinearRegression(ClippedFeatures(IdentityFeatures(1), 1.0), None)
    with pytest.raises(ValueError, match=r"expected label_range=\(low, high\): too few labels"):
        learner.fit(rows, labels, epsilon=1.0, delta=1e-6)


RANGES = {
    "a number": (5, ValueError, "a pair"),
    "turned round": ((1, 0), ValueError, "low < high"),
    "not a number": ((0, np.nan), ValueError, "finite in float32"),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_range_that_is_none_is_refused_before_the_data(name):
    given, kind, message = RANGES[name]
    with pytest.raises(kind, match=message):
        PrivateLinearRegression(_features(), given)
    with pytest.raises(kind, match=message):
        DPLinearRegression(1.0, 1e-6, input_range=(0, 1), label_range=given).fit("no data", None)
    learner = PrivateLinearRegression(_features(), np.array([0, 20]))
    assert learner.label_range == (0.0, 20.0)


def _few(learner, labels=None, epsilon=1.0, delta=1e-6):
    """A fit of few rows."""
    inputs, values = _table(50)
    return learner.fit(inputs, values if labels is None else labels, epsilon=epsilon, delta=delta)


def _regression(features=None, *method):
    return PrivateLinearRegression(features or _features(), (0.0, 1.0), *method)


def _classes(*given):
    return PrivateLinearClassifier(_features(), *given)


REFUSED = [
    (lambda: _regression(IdentityFeatures(3)), ValueError, "features with a public bound"),
    (lambda: _classes(1), ValueError, "num_classes >= 2"),
    (lambda: _few(_regression(), None, 1e-11, 1e-11), ValueError, "64 bits can hold, got Approx"),
    # Of a thousand classes the grid would take half of the noise, once half of it is spent.
    (lambda: _few(_classes(1000), None, 1e-4, 1e-6), ValueError, "for 1000 features or classes"),
    (lambda: _few(_classes(), np.full(50, 5)), ValueError, "labels from 0 to 1, got others"),
    (lambda: _few(_classes(2, NoisyStatistics()), np.ones(50)), ValueError, "a method for classes"),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_is_wrong_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
