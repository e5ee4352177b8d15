"""What one record changes in everything that a fit releases, in units of its noise."""

import functools
import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import expit, ndtr, softmax

from jaxdp.kernels import ClippedFeatures, IdentityFeatures
from jaxdp.kernels.margin import learners
from jaxdp.kernels.margin.learners import noisy_on_grid
from jaxdp.privacy import SecretNoise
from jaxdp.privacy.secret.secret_noise import grid_unit, widened_for_grid
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
    descent,
    methods,
)
from jaxdp.regression import learners as learners_of_tables
from jaxdp.regression import private_sums as sums
from jaxdp.regression.descent import ClassSlopes, SquaredSlopes
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.structure import Structure

MU, DIM = 1.5, 3
METHODS = (Automatic(), Whitened(), FullBatch(), PlannedDPSGD(), NoisyStatistics())
_exact_noise, _SECRET = SecretNoise.noisy_integers, SecretNoise()


class _Recorded:
    """Secret noise that remembers what it was added to; or outputs of before, in their order."""

    def __init__(self, outputs=None, share=1.0, source=None):
        self.asked, self.outputs, self._given, self._share = [], [], outputs, share
        self._source = source or _SECRET

    def hiding(self, *_):
        return self

    def noisy_integers(self, values, std, purpose):
        values, std = np.asarray(values), np.asarray(std) * self._share
        if self._given is None:
            own = self._source.hiding(len(self.outputs))
            noisy = _exact_noise(own, values, std, purpose)
        else:
            noisy = self._given[len(self.outputs)]
        self.asked.append((values, std))
        self.outputs.append(noisy)
        return noisy


def _slopes(kind, labels):
    if kind == "squared":
        return SquaredSlopes(labels)
    places = (labels > 0).astype(int) if kind == "logistic" else np.digitize(labels, (-0.3, 0.3))
    return ClassSlopes(places, 2 if kind == "logistic" else 3)


def _run(method, kind, table, labels, outputs=None, share=1.0):
    source = _Recorded(outputs, share)
    features = ClippedFeatures(IdentityFeatures(DIM), 1.0)
    rows = sums.PrivateRows.of(features, table.astype(np.float32), source)
    method.learnt(rows, _slopes(kind, labels), Ledger(MU))
    return source


def _distance(method, kind, table, labels, record, label, share=1.0):
    """The distance of the two tables' releases, over the noise; and that each is noised alike."""
    first = _run(method, kind, table, labels, share=share)
    other, others = table.copy(), labels.copy()
    other[0], others[0] = record, label
    second = _run(method, kind, other, others, first.outputs, share)
    total = 0.0
    assert len(first.asked) == len(second.asked)
    for (values, std), (moved, same) in zip(first.asked, second.asked, strict=True):
        np.testing.assert_array_equal(std, same)
        total += np.sum(((values - moved) / std) ** 2)
    return math.sqrt(total)


def _pairs(seed, count):
    """Tables of few rows with a row that is replaced by another: random ones, and far ones."""
    draw = np.random.default_rng(seed)
    for place in range(count):
        num_rows = int(draw.integers(2, 40))
        table = draw.normal(size=(num_rows, DIM)) * draw.choice([0.1, 1.0, 10.0])
        labels = draw.uniform(-1, 1, num_rows)
        record, label = draw.normal(size=DIM), draw.uniform(-1, 1)
        if place % 2:
            direction = draw.normal(size=DIM)
            table[0], labels[0], record, label = 1e3 * direction, 1.0, 1e3 * direction, -1.0
            if place % 4 == 1:
                record = -record
        yield table, labels, record, label


KINDS = [(method, "squared") for method in METHODS]
KINDS += [(Automatic(), "logistic"), (Automatic(), "softmax"), (PlannedDPSGD(), "logistic")]


@pytest.mark.parametrize(
    ("method", "kind"), KINDS, ids=[f"{type(one).__name__}-{kind}" for one, kind in KINDS]
)
def test_a_record_moves_all_releases_together_by_at_most_mu(method, kind):
    found = [_distance(method, kind, *pair) for pair in _pairs(0, 24)]
    assert max(found) <= MU
    # The far ones come near it, or the noise would be more than it has to be.
    assert max(found) > 0.6 * MU


def test_half_of_the_noise_is_too_little():
    found = [_distance(FullBatch(), "squared", *pair, share=0.5) for pair in _pairs(0, 24)]
    assert max(found) > MU


class _Stopping(NoisyStatistics):
    """A planted error: one release more where private labels are large on average."""

    def learnt(self, rows, slopes, ledger):
        if slopes.labels.mean() > 0:
            sums.released_second_moments(rows, ledger.spend("once more", 0.1))
        return super().learnt(rows, slopes, ledger)


class _Reading(NoisyStatistics):
    """A planted error: coordinates that the private rows themselves say."""

    def learnt(self, rows, slopes, ledger):
        root = np.sqrt(np.mean(rows.units.astype(float) ** 2))
        return super().learnt(rows._replace(units=rows.units / root * 2**14), slopes, ledger)


@pytest.mark.parametrize("method", [_Stopping(), _Reading()])
def test_what_looks_at_private_numbers_is_found(method):
    table, labels = np.full((50, DIM), 0.05), np.full(50, 0.01)
    labels[0] = -1
    # Another number of releases does not even fit the outputs of before.
    with pytest.raises((AssertionError, ValueError)):
        assert _distance(method, "squared", table, labels, np.ones(DIM), 1.0) <= MU


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_best_attack_on_a_whole_fit_is_as_good_as_mu_allows(share):
    """Who knows all rows but one asks which of two it is, by the likelihood of all releases."""
    table, labels = np.zeros((4, DIM)), np.zeros(4)
    record = np.array([1.0, 0, 0])
    tables = [(np.vstack([[record], table]), np.append(label, labels)) for label in (1.0, -1.0)]
    method, wins = PlannedDPSGD(), []
    for own, other in ((0, 1), (1, 0)):
        for _ in range(200):
            run = _run(method, "squared", *tables[own], share=share)
            again = _run(method, "squared", *tables[other], run.outputs, share)
            ratio = 0.0
            for (values, std), (moved, _), noisy in zip(
                run.asked, again.asked, run.outputs, strict=True
            ):
                off, on = (noisy - moved) / std, (noisy - values) / std
                ratio += np.sum(off**2 - on**2)
            wins.append(ratio > 0)
    # Right with probability Phi(mu / 2) for mu-GDP.
    found, most = np.mean(wins), ndtr(MU / 2)
    error = np.sqrt(most * (1 - most) / len(wins))
    assert (found <= most + 5 * error) == (share == 1)
    assert found > 0.6


def _worst(release):
    """The largest distance of a single release over pairs of tables, for mu = 1."""
    found, features = [], ClippedFeatures(IdentityFeatures(DIM), 1.0)
    for table, labels, record, label in _pairs(1, 200):
        asked = []
        for row, own in ((table[0], labels[0]), (record, label)):
            source, other, others = _Recorded(), table.copy(), labels.copy()
            other[0], others[0] = row, own
            release(sums.PrivateRows.of(features, other.astype(np.float32), source), others)
            asked += source.asked
        (values, std), (moved, same) = asked
        np.testing.assert_array_equal(std, same)
        found.append(np.sqrt(np.sum(((values - moved) / std) ** 2)))
    return max(found)


def _scale(rows, labels):
    sums.released_magnitudes(labels * 3, 1.0, rows.source)


def _distribution(rows, labels):
    sums.released_distribution(labels, 1.0, rows.source)


def _quantiles(rows, labels):
    sums.released_quantiles(labels, (0.2, 0.8), 1.0, rows.source)


def _mean(rows, labels):
    sums.released_mean(labels, 1.0, rows.source)


def _counts(rows, labels):
    sums.noisy_counts((labels > 0).astype(int), 2, 1.0, rows.source, "classes")


def _means(rows, labels, count=3):
    # Numbers of a row that are all 0 or all 1/4, and beyond.
    values = np.where(labels > 0, 1.0, -1.0)[:, None] * np.array([0.25, 1.0, np.inf])[:count]
    sums.released_means(values, 1.0, rows.source)


def _moments(rows, labels, **clipping):
    del labels
    sums.released_second_moments(rows, 1.0, **clipping)


def _gradient(rows, labels, transform=None, clip_norm=0.3, typical_norm=1.0):
    draw = np.random.default_rng(2)
    transform = draw.normal(size=(DIM, DIM)) if transform is None else transform
    slopes = np.stack([labels * 100, -labels * 50], axis=1)
    sums.released_gradient(
        rows, slopes, transform, rows.norms(transform), clip_norm, typical_norm, mu=1.0
    )


# As one whose inverse is near none, with entries of all sizes.
_ILL = np.diag([1e6, 1.0, 1e-6]) @ np.array([[1, 1, 0], [1, -1, 1], [0, 1, 1.0]])
_TURN = np.linalg.qr(_ILL)[0]
_WIDE = np.linalg.qr(np.arange(1.0, 10.0).reshape(3, 3) ** 0.5)[0][:2]
_TALL = np.random.default_rng(5).normal(size=(5, DIM))
RELEASES = {
    "scale": _scale,
    "distribution": _distribution,
    "quantiles": _quantiles,
    "mean": _mean,
    "counts": _counts,
    "means of three numbers": _means,
    "mean of one number": functools.partial(_means, count=1),
    "second moments": _moments,
    # Weights of rows are multiples of 1/32.
    "second moments of clipped rows": functools.partial(
        _moments, transform=_TURN, clip_norm=math.sqrt(17 / 32) + 1e-5
    ),
    "gradient": _gradient,
    # More functions than features, as in a test of curves, and fewer.
    "gradient of many functions": functools.partial(_gradient, transform=_TALL),
    "gradient of few functions": functools.partial(_gradient, transform=_WIDE),
    "gradient in ill-conditioned coordinates": functools.partial(_gradient, transform=_ILL),
    "gradient with a small clip norm": functools.partial(_gradient, clip_norm=1e-9),
}


@pytest.mark.parametrize("name", RELEASES)
def test_each_sensitivity_is_attained_and_not_exceeded(name):
    assert 0.98 <= _worst(RELEASES[name]) <= 1


def test_noise_for_one_count_less_is_too_little():
    def planted(release):
        def run(rows, labels):
            rows.source._share = math.sqrt(0.5)
            release(rows, labels)

        return run

    for name in ("distribution", "mean", "counts", "gradient of many functions"):
        assert _worst(planted(RELEASES[name])) > 1.3


def test_means_are_exact_sums():
    values = np.random.default_rng(0).uniform(0, 0.25, (70_000, 2))
    values[:3] = [[0.3, np.nan], [-1, np.inf], [0.25, -np.inf]]
    source = _Recorded()
    found = sums.released_means(values, 1e6, source)
    inside = np.clip(np.nan_to_num(values), 0, 0.25)
    exact = [sum(int(x * 2**22) for x in column) for column in inside.T.tolist()]
    assert source.asked[0][0].tolist() == exact
    np.testing.assert_allclose(found, inside.mean(axis=0), atol=3e-7)


def test_clipping_in_ill_conditioned_coordinates_is_covered():
    assert 0.9 < _worst(functools.partial(_moments, transform=_TALL, clip_norm=0.5)) <= 1
    assert 0.9 < _worst(functools.partial(_moments, transform=_WIDE, clip_norm=0.5)) <= 1
    assert _worst(functools.partial(_moments, transform=_ILL, clip_norm=0.5)) <= 1

    def unclipped(rows, labels):
        del labels
        rows.source._share = 0.5**2
        sums.released_second_moments(rows, 1.0)

    # The noise that would be enough for rows clipped at half of their norm.
    assert _worst(unclipped) > 1


def _objective_shift(monkeypatch, kind, table, labels, record, label, share=1.0):
    """How far a neighbour moves the linear term that leads to one minimiser, over its noise."""
    stds = []

    def recorded(values, std, source, purpose):
        stds.append(std * share)
        return noisy_on_grid(values, std * share, source, purpose)

    monkeypatch.setattr(learners, "noisy_on_grid", recorded)
    rows = sums.PrivateRows.of(
        ClippedFeatures(IdentityFeatures(DIM), 1.0), np.vstack([table, record]), SecretNoise()
    )
    slopes, ledger = _slopes(kind, np.append(labels, label)), Ledger(MU, (BUDGET, 1e-4))
    if kind == "squared":
        slopes.of = lambda outputs: np.clip(outputs[:, 0] - np.append(labels, label), -0.2, 0.2)
    elif kind == "logistic":
        slopes.of = lambda outputs: -slopes.labels * expit(-slopes.labels * outputs[:, 0])
    else:
        places = slopes.labels[:, None] == np.arange(3)
        slopes.of = lambda outputs: softmax(outputs, axis=1) - places
    own = rows._replace(units=rows.units[:-1])
    private = _slopes(kind, labels)
    weights, _, statement, *_ = ObjectivePerturbation().learnt(own, private, ledger)
    assert statement.mechanism.epsilon(1e-4, "replace-one") <= BUDGET * (1 + 1e-9)
    # The slopes of the two records that differ, at what was released.
    found = np.reshape(slopes.of(rows.times(weights)), (len(rows.units), -1))
    terms = rows.units[:, :, None] / 2**16 * found[:, None, :]
    (part,) = statement.mechanism.mechanisms
    return np.linalg.norm(terms[0] - terms[-1]) / stds[0] / part.shift


BUDGET = 3.0


@pytest.mark.parametrize("kind", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_a_record_moves_a_perturbed_objective_by_at_most_what_its_noise_covers(
    monkeypatch, kind, share
):
    found = [_objective_shift(monkeypatch, kind, *pair, share) for pair in _pairs(3, 12)]
    assert (max(found) <= 1) == (share == 1)
    assert max(found) > 0.4


def test_what_is_not_finite_adds_nothing():
    table = np.zeros((4, DIM))
    rows = sums.PrivateRows.of(ClippedFeatures(IdentityFeatures(DIM), 1.0), table, _Recorded())
    rows = rows._replace(units=np.full_like(rows.units, 2.0**15))
    eye, found = np.eye(DIM), []
    for slopes in ([np.nan] * 4, [np.nan, np.inf, -np.inf, 1e300], [1e300, 0, 0, 0]):
        slopes = np.array(slopes)[:, None]
        sums.released_gradient(rows, slopes, eye, rows.norms(eye), 1.0, typical_norm=1.0, mu=1.0)
        values, std = rows.source.asked[-1]
        found.append(np.linalg.norm(values / std))
    # A term of norm C is half of the sensitivity.
    np.testing.assert_allclose(found, [0, 0.5, 0.5], atol=1e-5)


def test_what_rounding_moves_is_in_the_sensitivity(monkeypatch):
    """Coordinates that vanish on all rows: a product's rounding is beyond the clip norm."""
    source, stds, moved, clip_norm = _Recorded(), [], [], 1e-3
    monkeypatch.setattr(sums, "grid_unit", lambda std: stds.append(std) or grid_unit(std))
    features = ClippedFeatures(IdentityFeatures(DIM), 1.0)
    rows = sums.PrivateRows.of(features, np.full((2000, DIM), 0.5, np.float32), source)
    transform = 1e12 * np.array([[1, -0.7, -0.3], [0.1, 1, -1.1], [-1, 0.7, 0.3]])
    labels = np.random.default_rng(0).uniform(0, 0.01, 2000)
    for count in range(2, 40):
        for sign in (1, -1):
            labels[0], labels[1:count] = sign, 1.0
            _gradient(rows, labels, transform, clip_norm, typical_norm=1e-2)
        (values, _), (others, _) = source.asked[-2:]
        moved.append(np.linalg.norm((values - others) * grid_unit(stds[-1])))
    # Twice the clip norm alone does not cover it; mu is 1.
    assert 2.2 * clip_norm < max(moved) <= stds[-1]


@pytest.mark.parametrize("std", [1e-30, 0.5, 1.0, np.nextafter(1, 0), 3e20])
@pytest.mark.parametrize("multiplier", [1e-6, 1.0, 300.0])
def test_noise_covers_the_rounding_to_its_own_grid(std, multiplier):
    num_weights = 9
    wide = widened_for_grid(std, multiplier, num_weights)
    rounding = Fraction(multiplier) * 3 * Fraction(grid_unit(wide))
    assert Fraction(wide) >= Fraction(std) + rounding
    assert wide <= std * (1 + 1e-5)


def test_sums_of_a_block_are_those_of_whole_numbers():
    count, clip_norm = 2**16, 2.0**-3
    odd = np.random.default_rng(0).integers(0, 8, (2, count)) * 2 + 1
    units, whole = 2**sums._ROW_BITS - 16 - odd[0], 2**sums._SLOPE_BITS - odd[1]
    rows = sums.PrivateRows(units[:, None].astype(np.float32), _Recorded(), Structure(np.eye(1)))
    # The largest slope is the clip norm at this typical norm; the noise is finer than the sums.
    slopes, one = whole[:, None] * (clip_norm / 2**sums._SLOPE_BITS), np.eye(1)
    sums.released_gradient(
        rows, slopes, one, rows.norms(one), clip_norm, typical_norm=sums._SHORTEST, mu=2.0**8
    )
    ((values, scaled),) = rows.source.asked
    # In the sum's own units: the standard deviation is of 2 C, so that the grid is known.
    grid = grid_unit(2 * clip_norm / 2.0**8 * (1 + 1e-9))
    unit = Fraction(clip_norm) / 2**sums._SLOPE_BITS / 2**sums._ROW_BITS
    exact = sum(int(x) * int(g) for x, g in zip(units, whole, strict=True))
    assert exact < 2**53
    assert int(values[0, 0]) * Fraction(grid) == exact * unit
    assert 2**29 <= scaled < 2**30


def test_every_sum_has_noise_of_its_own(monkeypatch):
    """With a seed, another step, other sums and another budget: a shared one cancels."""
    words, drawn = SecretNoise.words, []

    def recorded(self, count, purpose):
        found = words(self, count, purpose)
        drawn.append(found.tobytes())
        return found

    monkeypatch.setattr(SecretNoise, "words", recorded)
    features, table = ClippedFeatures(IdentityFeatures(DIM), 1.0), np.zeros((8, DIM))
    other = np.vstack([[1.0, 0, 0], table[1:]])
    # Equal histograms of other labels are one release.
    monkeypatch.setattr(SquaredSlopes, "scale", lambda *_: 1.0)
    # The moments do not depend on the loss: each has budgets of its own.
    for kind, budget in (("squared", MU), ("logistic", 3 * MU)):
        runs = ((table, 0.5, budget), (other, -1.0, budget), (other, -1.0, 2 * budget))
        for own, label, mu in runs:
            rows = sums.PrivateRows.of(features, own.astype(np.float32), SecretNoise(2**200))
            labels = np.append(label, np.full(7, 0.5))
            FullBatch().learnt(rows, _slopes(kind, labels), Ledger(mu))
    assert len(set(drawn)) == len(drawn) > 30


# Every path of a fit, by its table (number of rows, bend of the labels), learner and epsilon.
_COLUMNS = Columns({"a": (-1, 1), "b": ["x", "y"]}, bins=12)


def _features_of(is_additive):
    return WithConstant(ColumnFeatures(_COLUMNS, is_additive), 1.0)


def _regression(is_additive=False, label_range=(-1, 1), method=None, tests_curves=False):
    return PrivateLinearRegression(
        _features_of(is_additive), label_range, method or Automatic(), tests_curves=tests_curves
    )


def _classes(num_classes, **given):
    return PrivateLinearClassifier(_features_of(bool(given)), num_classes, **given)


PATHS = {
    "plain": (100, 0.0, _regression, 4.0),
    "additive": (100, 1.0, functools.partial(_regression, True), 4.0),
    "one pass": (100, 0.0, functools.partial(_regression, method=PlannedDPSGD()), 4.0),
    "lines kept": (200, 0.0, functools.partial(_regression, True, tests_curves=True), 8.0),
    "curves": (500, 1.0, functools.partial(_regression, True, tests_curves=True), 12.0),
    "hopeless": (20, 0.0, functools.partial(_regression, True, tests_curves=True), 4.0),
    "learnt range": (100, 0.0, functools.partial(_regression, label_range=None), 30.0),
    "two classes": (100, 0.0, functools.partial(_classes, 2), 4.0),
    "three classes": (100, 0.0, functools.partial(_classes, 3), 4.0),
    "hopeless classes": (10, 0.0, functools.partial(_classes, 3), 4.0),
    "classes tested": (100, 0.0, functools.partial(_classes, 3, tests_curves=True), 8.0),
}


def _table_of(name):
    """A table for a path: its codes and labels; the labels of classes are their numbers."""
    num_rows, bend, make, _ = PATHS[name]
    draw = np.random.default_rng(0)
    codes = np.stack([draw.uniform(0, 1, num_rows), draw.integers(0, 2, num_rows)], axis=1)
    places = 2 * codes[:, 0] - 1
    labels = np.where(bend, 2 * np.cos(3 * places) ** 2 - 1, places) * 0.6
    labels = labels + 0.05 * draw.normal(size=num_rows)
    if isinstance(make(), PrivateLinearClassifier):
        labels = np.digitize(labels, (-0.2, 0.2)[: make().num_classes - 1]).astype(float)
    return codes, labels


def _fitted(name, monkeypatch, table=None, outputs=None, **given):
    """A fit along a path with its recorded noise."""
    codes, labels = table or _table_of(name)
    source = _Recorded(outputs, source=SecretNoise(2**200 + 1), **given)
    monkeypatch.setattr(SecretNoise, "noisy_integers", source.noisy_integers)
    *_, make, epsilon = PATHS[name]
    learner = make()
    # Codes are what a reader makes of cells.
    monkeypatch.setattr(Columns, "codes", lambda self, table: table)
    return source, learner.fit(codes, labels, epsilon=epsilon, delta=1e-6)


def _distance_of(name, monkeypatch, codes, label, **given):
    """The distance of two neighbours' releases over mu: the first row becomes another."""
    table, labels = _table_of(name)
    first, fit = _fitted(name, monkeypatch, **given)
    table[0], labels[0] = codes, label
    second, again = _fitted(name, monkeypatch, (table, labels), first.outputs, **given)
    # All that a fit says is a function of what it released.
    np.testing.assert_array_equal(fit.release.coefficients, again.release.coefficients)
    np.testing.assert_array_equal(fit.noise_std, again.noise_std)
    assert type(fit.release.features) is type(again.release.features)
    total = 0.0
    for (values, std), (moved, same) in zip(first.asked, second.asked, strict=True):
        np.testing.assert_array_equal(std, same)
        total += np.sum(((values - moved) / std) ** 2)
    return math.sqrt(total) / fit.ledger.mu


_ROWS = [((0.0, 0), 1.0), ((1.0, 1), -1.0), ((1.0, 0), 0.0), ((-1.0, 3), 1.0)]


@pytest.mark.parametrize("name", PATHS)
def test_a_record_moves_a_whole_fit_by_at_most_mu(name, monkeypatch):
    classes = "class" in name
    rows = [(codes, abs(label) if classes else label) for codes, label in _ROWS]
    found = [_distance_of(name, monkeypatch, *row) for row in rows]
    assert 0.25 < max(found) <= 1


def test_a_record_moves_a_whole_fit_with_too_little_noise_by_more_than_mu(monkeypatch):
    given = {"share": 0.25}
    assert max(_distance_of("plain", monkeypatch, *row, **given) for row in _ROWS) > 1


def _spent(name, monkeypatch):
    """The mu of all releases of a fit together, and the fit."""
    mus = []
    for module in (methods, descent, learners_of_tables):
        for called in vars(sums):
            if called.startswith(("released_", "noisy_")) and hasattr(module, called):
                release = getattr(sums, called)

                def counted(*given, _release=release, **named):
                    mu = inspect.signature(_release).bind(*given, **named).arguments["mu"]
                    mus.append(mu)
                    return _release(*given, **named)

                monkeypatch.setattr(module, called, counted)
    _, fit = _fitted(name, monkeypatch)
    if "one pass" in name:
        # Steps have rows of their own: all cost as much as one.
        (steps,) = {mu for mu in mus if mus.count(mu) >= 5}
        mus = [mu for mu in mus if mu != steps] + [steps]
    return math.hypot(*mus), fit


@pytest.mark.parametrize("name", PATHS)
def test_releases_of_every_path_compose_to_the_budget(name, monkeypatch):
    total, fit = _spent(name, monkeypatch)
    mus = [entry.mu for entry in fit.ledger.entries]
    assert math.hypot(*mus) <= fit.ledger.mu
    assert total <= fit.ledger.mu
    assert total == pytest.approx(fit.ledger.mu, rel=1e-10)
    assert fit.ledger.left == 0
    base = fit.release.features.base
    assert base.is_additive == (name in ("additive", "curves", "hopeless"))


def test_a_split_that_spends_more_than_its_entry_is_found(monkeypatch):
    gain = methods._gain_of_curves
    monkeypatch.setattr(methods, "_gain_of_curves", lambda *given: gain(*given[:-1], 2 * given[-1]))
    total, fit = _spent("lines kept", monkeypatch)
    assert total > fit.ledger.mu * (1 + 1e-3)


@pytest.mark.parametrize("name", PATHS)
def test_no_two_releases_of_a_fit_have_one_noise(name, monkeypatch):
    """With a seed, if sums and their noise are equal: a shared one would show that they are."""
    contexts, hiding = [], SecretNoise.hiding

    def blind(self, *numbers):
        """As if all sums and all deviations of noise were equal."""
        return hiding(self, *(one for one in numbers if isinstance(one, (int, str))))

    def recorded(self, values, std, purpose):
        contexts.append((self.context, purpose))
        return _exact_noise(_SECRET, values, std, purpose)

    monkeypatch.setattr(SecretNoise, "hiding", blind)
    monkeypatch.setattr(SecretNoise, "noisy_integers", recorded)
    monkeypatch.setattr(Columns, "codes", lambda self, table: table)
    *_, make, epsilon = PATHS[name]
    make().fit(*_table_of(name), epsilon=epsilon, delta=1e-6, noise_seed=2**200)
    rounds = [one for one in contexts if one[1] == "second moments"]
    # Rounds of moments are in coordinates, and with noise, of their own.
    others = [one for one in contexts if one[1] != "second moments"]
    assert len(set(others)) == len(others) >= 1
    assert len(rounds) <= 9


@pytest.mark.parametrize("num_rows", [1, 2, 3])
def test_scales_that_fall_on_one_step_are_released_once(num_rows, monkeypatch):
    # Of so few rows the moments would be noise, and one scale is all.
    monkeypatch.setattr(methods, "_NOISE", math.inf)
    table, labels = np.ones((num_rows, DIM)), np.ones(num_rows)
    run = _run(PlannedDPSGD(), "squared", table, labels)
    # The labels, the moments, a gradient of every row, and a scale at two steps or one.
    scales = {int(num_rows * 0.8 * at / 3) for at in (1, 2)}
    assert len(run.asked) == 2 + num_rows + len(scales)


def test_shares_compose_to_the_budget_and_not_beyond():
    ledger = Ledger(0.7)
    mus = [ledger.spend(f"part {place}", 0.1) for place in range(9)]
    mus.append(ledger.spend_rest("the rest"))
    assert math.hypot(*mus) <= 0.7
    assert math.hypot(*mus) == pytest.approx(0.7, rel=1e-11)
    assert ledger.left == 0
    assert [entry.mu for entry in ledger.entries] == mus
    assert str(ledger).startswith("0.7-GDP in all\n 10.00%")


@pytest.mark.parametrize("share", [0.0, -0.1, 0.6000000001, 1.0])
def test_what_is_not_left_is_not_spent(share):
    ledger = Ledger(1.0)
    ledger.spend("first", 0.4)
    with pytest.raises(ValueError, match=r"expected a share in \(0, 0\.6\]"):
        ledger.spend("second", share)
    assert ledger.left == 0.6
