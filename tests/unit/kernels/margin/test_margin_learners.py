"""Learners of perturbed objectives: the box in NumPy, audits, a planted bug, what is learnt.

Source: PK Algorithm 2, Assumption 6 and Theorem 9.
"""

import math
from collections.abc import Callable

import jax
import numpy as np
import pytest
from every_loss import BOUNDED
from helpers import give_noise
from scipy.interpolate import CubicSpline
from scipy.special import expit, ndtr, softmax

import jaxdp
from experiments.private_kernel_learning.published import HuberHinge
from jaxdp.kernels import Gaussian, InnerProduct, PrivateKernelClassifier
from jaxdp.kernels.margin import learners
from jaxdp.kernels.margin.objective_solver import Minimum, minimise, newton_step
from jaxdp.losses import AbstractMarginLoss, Huber, Logistic, Softmax
from jaxdp.privacy import SecretNoise
from jaxdp.privacy.secret.secret_noise import grid_unit
from jaxdp.regression.methods import HuberLearner

BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def _table(num=400, dim=4, loss=None):
    rng = np.random.default_rng(11)
    inputs = rng.uniform(size=(num, dim)).astype(np.float32)
    values = inputs[:, 0] + 0.1 * rng.normal(size=num)
    if isinstance(loss, Softmax):
        return inputs, np.digitize(values, (0.3, 0.7)).astype(float)
    if loss is not None and loss.class_labels is None:
        return inputs, np.tanh(3 * values - 1.5)
    return inputs, np.where(values > 0.5, 1, -1)


def _learner(loss=None, **options):
    given = {"input_bound": math.inf, "loss": loss or Logistic()} | options
    if given["loss"].class_labels is None:
        return HuberLearner(Gaussian(1.0), 20, 64, **given)
    return PrivateKernelClassifier(Gaussian(1.0), 20, 64, **given)


def _fit(learner, table=None, **options):
    arguments = {**BUDGET, "public_seed": 1, "noise_seed": 2**200 + 5, **options}
    return learner.fit(*(table or _table()), **arguments)


def _give_noise(monkeypatch, linear, coefficients=0.0):
    """The normals that a fit draws for the linear term, and those for the coefficients."""
    drawn = {"linear term": linear, "coefficients": coefficients}
    give_noise(monkeypatch, lambda purpose, count: np.broadcast_to(drawn[purpose], (count,)))


def _softmax_slopes(predictions, labels):
    return softmax(predictions, axis=1) - np.eye(3)[labels.astype(int)]


# Each loss, with its slope in literal NumPy.
LOSSES = {name: (entry.loss, entry.slope_of) for name, entry in BOUNDED.items()}
LOSSES["hinge"] = HuberHinge(0.5), lambda f, y: -y * np.clip(1.5 - y * f, 0, 1)
LOSSES["softmax"] = Softmax(3), _softmax_slopes


@pytest.mark.parametrize("name", LOSSES)
def test_the_release_is_the_box_in_numpy(name, monkeypatch):
    loss, slopes = LOSSES[name]
    inputs, labels = _table(60, loss=loss)
    learner, shape = _learner(loss, ridge=0.5), (20, loss.num_outputs or 1)
    linear, hidden = np.random.default_rng(0).normal(size=(2, math.prod(shape)))
    _give_noise(monkeypatch, linear, hidden)
    release = _fit(learner, (inputs, labels))
    features = np.asarray(release.features(inputs), np.float64)
    features /= np.maximum(1, np.linalg.norm(features, axis=1))[:, None]
    stds = learner.noise_std(60, **BUDGET)

    def gradient(point, labels):
        labels = labels if isinstance(loss, Softmax) else labels[:, None]
        pushed = features.T @ slopes(features @ point.reshape(shape), labels)
        return pushed.ravel() + stds["b"] * linear + 60 * 0.5 * point

    point = np.asarray(release.coefficients, float).ravel() - stds["coefficients"] * hidden
    # Features are rounded to 2^-21, coefficients to float32: a few of these, times n lambda.
    assert np.linalg.norm(gradient(point, labels)) < 30 * 1e-5
    # The same check sees a label that is another.
    labels[0] = 2 - labels[0] if isinstance(loss, Softmax) else -labels[0]
    assert np.linalg.norm(gradient(point, labels)) > 1e-3


_ZERO, _ONE = [0.0], [1.0]
_PRESENT = np.asarray([_ONE, _ZERO]), np.asarray([1, 1])
_ABSENT = np.asarray([_ZERO, _ZERO]), np.asarray([1, 1])
_FLIPPED = np.asarray([_ONE, _ZERO]), np.asarray([-1, 1])


def _on_a_line(loss, **options):
    line = InnerProduct().features(1, 1, key=jax.random.key(0))
    return PrivateKernelClassifier(
        InnerProduct(), loss=loss, feature_map=line, input_bound=1.0, **options
    )


def _law(learner, table, monkeypatch, edges):
    """Probabilities of the one coefficient between edges; it decreases in the noise."""
    nodes, fine = np.linspace(-8, 8, 33), np.linspace(-8, 8, 20001)
    found = []
    for node in nodes:
        _give_noise(monkeypatch, node)
        found.append(float(_fit(learner, table).coefficients[0]))
    values = CubicSpline(nodes, found)(fine)
    assert np.all(np.diff(values) < 0)
    return -np.diff(ndtr(np.interp(edges, values[::-1], fine[::-1])))


def _divergence(learner, first, second, monkeypatch):
    """The hockey-stick divergence at the budget's epsilon over a partition: a lower bound."""
    calibration = learner.calibration(2, **BUDGET)
    most = 9 * calibration.noise_std / (2 * calibration.ridge)
    edges = np.linspace(-most, most, 4001)
    laws = [_law(learner, table, monkeypatch, edges) for table in (first, second)]
    growth = math.exp(BUDGET["epsilon"])
    return max(np.maximum(p - growth * q, 0).sum() for p, q in (laws, laws[::-1]))


@pytest.mark.slow
def test_a_flipped_label_shows_nearly_as_much_as_is_claimed_and_half_the_noise_more(monkeypatch):
    # Under a large ridge the minimiser stays where both labels have the full slope.
    learner = _on_a_line(HuberHinge(0.5), ridge=1000.0)
    found = _divergence(learner, _PRESENT, _FLIPPED, monkeypatch)
    assert 0.95 * BUDGET["delta"] < found <= BUDGET["delta"]
    _halve_the_noise(monkeypatch)
    assert _divergence(learner, _PRESENT, _FLIPPED, monkeypatch) > 20 * BUDGET["delta"]


def _halve_the_noise(monkeypatch):
    calibrated = learners.objective_perturbation_std

    def halved(*arguments, **options):
        found = calibrated(*arguments, **options)
        return found._replace(noise_std=found.noise_std / 2)

    monkeypatch.setattr(learners, "objective_perturbation_std", halved)


def test_a_label_from_one_end_to_the_other_shows_nearly_as_much_as_is_claimed(monkeypatch):
    # On a line and under a large ridge the slope is that of a far label, of either sign.
    line = InnerProduct().features(1, 1, key=jax.random.key(0))

    def shift_over_std():
        given = {"feature_map": line, "input_bound": 1.0, "ridge": 1000.0}
        learner = HuberLearner(InnerProduct(), loss=Huber(0.1), **given)
        give_noise(monkeypatch, lambda purpose, count: np.zeros(count))
        inputs = np.asarray([[1.0], [0.0]])
        centres = [
            float(_fit(learner, (inputs, np.asarray([end, 0.0]))).coefficients[0])
            for end in (-1.0, 1.0)
        ]
        # The minimiser is b times -1 / (n lambda) away from there.
        return (centres[1] - centres[0]) * 2 * 1000 / learner.noise_std(2, **BUDGET)["b"]

    def divergence(mu):
        return ndtr(mu / 2 - 1 / mu) - math.e * ndtr(-mu / 2 - 1 / mu)

    # The bound counts four vertices, of which two are 0 here.
    assert BUDGET["delta"] / 4 < divergence(shift_over_std()) <= BUDGET["delta"]
    # As if slopes had one sign.
    _halve_the_noise(monkeypatch)
    assert divergence(shift_over_std()) > 20 * BUDGET["delta"]


@pytest.mark.slow
def test_an_early_stopped_minimiser_is_caught(monkeypatch):
    # After one Newton step from zero the released number is Gaussian with a standard deviation
    # that depends on whether the record is there: in the tails that tells the two apart.
    learner = _on_a_line(Logistic(), ridge=1e-6)

    def one_step(objective, **_):
        point = newton_step(objective, objective.at(np.zeros(1)))
        return Minimum(point.coefficients, float(np.linalg.norm(point.gradient)), 1)

    assert _divergence(learner, _PRESENT, _ABSENT, monkeypatch) <= BUDGET["delta"]
    monkeypatch.setattr(learners, "minimise", one_step)
    assert _divergence(learner, _PRESENT, _ABSENT, monkeypatch) > 100 * BUDGET["delta"]


def test_whether_a_function_is_released_depends_on_no_noise(monkeypatch):
    # A linear term of more than average length allows for a less small tolerance; a fit that was
    # refused for it would leave a noise that is not normal.
    def outcomes(normal):
        _give_noise(monkeypatch, normal)
        return [_is_released(tolerance) for tolerance in np.geomspace(3e-13, 1e-11, 14)]

    short, long = outcomes(0.0), outcomes(6.0)
    assert short == long == sorted(short)
    assert 2 < sum(short) < 12


def _is_released(tolerance):
    try:
        return _fit(_learner(tolerance=float(tolerance))) is not None
    except ValueError:
        return False


def test_noise_for_the_tolerance_hides_the_solver(monkeypatch):
    # Two solvers that both meet the tolerance end as far apart as it allows; the noise on the
    # coefficients is a hundred times their distance over the shift of the linear term.
    learner = _learner(ridge=0.05, tolerance=1e-4)
    _give_noise(monkeypatch, np.random.default_rng(2).normal(size=20))
    rough = np.asarray(_fit(learner).coefficients)

    def careful(objective, *, tolerance, max_steps):
        return minimise(objective, tolerance=tolerance / 1e4, max_steps=max_steps)

    monkeypatch.setattr(learners, "minimise", careful)
    exact = np.asarray(_fit(learner).coefficients)
    stds = learner.noise_std(400, **BUDGET)
    shift = 2 / stds["b"]
    assert 0 < np.linalg.norm(rough - exact) <= 1e-4 / 0.05
    # The linear term lies within half a unit of its grid, the coefficients within one of theirs.
    root, spread = np.sqrt(20), 0.01 * shift
    tolerance = 1e-4 + root / 2 * grid_unit(stds["b"]) / 400
    expected = 2 * tolerance / 0.05 / spread
    for final in (stds["coefficients"], _learner().noise_std(1000, 1e-5, 1e-5)["coefficients"]):
        assert final > root * grid_unit(final) / spread
    assert stds["coefficients"] >= expected + root * grid_unit(stds["coefficients"]) / spread
    assert stds["coefficients"] == pytest.approx(2e-4 / 0.05 / spread, rel=1e-4)


def test_the_cost_is_what_was_asked_and_says_what_it_needs():
    release = _fit(_learner())
    assert release.cost.epsilon == pytest.approx(1.0, rel=1e-8)
    assert release.cost.epsilon <= 1.0
    assert (release.cost.delta, release.cost.mu, release.cost.zcdp) == (1e-5, None, None)
    assert jaxdp.account(release, delta=1e-4).epsilon < 1.0
    text = " ".join(release.cost.assumptions)
    for word in ("replace-one", "secret", "errors", "loss is convex", "arithmetic of the machine"):
        assert word in text
    assert release.label_bound is None


def test_a_small_ridge_is_raised_to_the_floor():
    learner = _learner(ridge=1e-9)
    found = learner.calibration(400, **BUDGET)
    assert found.ridge == found.ridge_floor == pytest.approx(0.25 / 400 / math.expm1(0.25))
    assert _learner(ridge=0.3).calibration(400, **BUDGET).ridge == 0.3
    # Without one it is as large as the noise at the floor.
    automatic = _learner().calibration(400, **BUDGET).ridge
    assert automatic == pytest.approx(found.noise_std / 400)


def test_only_decreasing_losses_are_calibrated_as_margin_losses(monkeypatch):
    known = _learner(ridge=0.1).calibration(400, **BUDGET)
    monkeypatch.setattr(Logistic, "is_decreasing", False)
    any_sign = _learner(ridge=0.1).calibration(400, **BUDGET)
    assert (known.mechanism.has_signed_slopes, any_sign.mechanism.has_signed_slopes) == (
        True,
        False,
    )
    assert known.noise_std < any_sign.noise_std


def test_one_secret_seed_gives_each_fit_noise_of_its_own(monkeypatch):
    drawn, original = [], SecretNoise.words

    def watched(self, count, purpose):
        words = original(self, count, purpose)
        drawn.append(words.astype(float))
        return words

    monkeypatch.setattr(SecretNoise, "words", watched)
    inputs, labels = _table()
    changed = inputs.copy()
    changed[3, 1] += 1e-3
    for learner, table in (
        (_learner(), (inputs, labels)),
        (_learner(), (changed, labels)),
        (_learner(HuberHinge(0.5)), (inputs, labels)),
        (_learner(HuberHinge(0.25)), (inputs, labels)),
        (_learner(ridge=0.3), (inputs, labels)),
        (PrivateKernelClassifier(Gaussian(2.0), 20, 64, input_bound=math.inf), (inputs, labels)),
        (_learner(_UsersOwn(lambda: 0.5)), (inputs, labels)),
        (_learner(_UsersOwn(lambda: 0.7)), (inputs, labels)),
        # The same objective from other settings of the solver, and so another minimum.
        (_learner(tolerance=1e-8), (inputs, labels)),
    ):
        _fit(learner, table)
    _fit(_learner(), epsilon=2.0)
    correlations = np.corrcoef(drawn)
    assert np.abs(correlations - np.eye(len(drawn))).max() < 0.9
    first, again = (_fit(_learner()).coefficients for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, _fit(_learner(), noise_seed=None).coefficients)


class _UsersOwn(AbstractMarginLoss):
    """A logistic loss whose repr does not tell the function in it from another."""

    number: Callable[[], float]
    slope_bound, curvature_bound, is_decreasing = 1.0, 1.0, True

    def value_at(self, u, xp):
        return xp.logaddexp(0.0, -self.number() * u) / self.number()

    def slope_at(self, u, xp):
        return -expit(-self.number() * u)

    def curvature_at(self, u, xp):
        return self.number() * self.slope_at(u, xp) * (-1 - self.slope_at(u, xp))

    def expected_value_at(self, mean, variance):
        raise NotImplementedError

    def clipped_slope_at(self, mean, variance, limit):
        raise NotImplementedError


def test_wrong_labels_losses_and_tolerances_are_refused():
    inputs, labels = _table(20)
    for wrong in (labels * 2.0, np.where(labels > 0, 1, 0)):
        with pytest.raises(ValueError, match=r"labels -1 or \+1 for the Logistic loss, got others"):
            _fit(_learner(), (inputs, wrong))
    with pytest.raises(ValueError, match=r"; for labels 0 and 1 use 2 \* labels - 1"):
        _fit(_learner(), (inputs, np.where(labels > 0, 1, 0)))
    with pytest.raises(ValueError, match=r"whole numbers from 0 to 2 .*, got others"):
        _fit(_learner(Softmax(3)), (inputs, labels))
    with pytest.raises(ValueError, match="below which rounding decides"):
        _fit(_learner(tolerance=1e-18))
