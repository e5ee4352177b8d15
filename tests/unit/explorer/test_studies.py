"""Both studies: the curve is the theory's, the copied Python makes the same, a plan is set."""

import numpy as np
import pytest
from helpers import programs_compiled

import jaxdp
from jaxdp.comparison.picture import spread_of
from jaxdp.explorer import grouped, spread
from jaxdp.explorer.studies.base import note_on
from jaxdp.explorer.studies.linear_stream import LinearStream
from jaxdp.explorer.studies.schedules import NUM_KNOTS, OPTIMAL, SHAPE, settings_of
from jaxdp.explorer.studies.synthetic_rows import SyntheticRows
from jaxdp.explorer.views.widgets import cost_html
from jaxdp.privacy import PoissonSampler, ShuffledEpochs, calibrated_noise_multiplier
from jaxdp.theory.features.modes import kernel_modes

STREAM, ROWS = LinearStream(), SyntheticRows()
START = STREAM.start()
FEW = STREAM.changed(START, dim=30, num_samples=300, epsilon=2.0)
# Within the limits of stability of every optimiser here.
SMALL = ROWS.changed(ROWS.start(), num_rows=40, num_features=5, num_steps=8, learning_rate=0.1)


def _assert_copied(study, described, tmp_path, monkeypatch, num_runs=None):
    """The copied Python makes the page's numbers and a picture; gives the names it defines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {}
    exec(compile(study.code(described, num_runs), "copied.py", "exec"), names)
    assert (tmp_path / "explore.png").stat().st_size > 5000
    curve, band = study.curve(described), study.band(described)
    np.testing.assert_allclose(names["predicted"].risk, curve.risk, rtol=1e-5)
    # Float32 rounds a time once more where its length is traced.
    np.testing.assert_allclose(names["predicted"].time, curve.time, rtol=2e-7 * (study is STREAM))
    assert ("band" in names) == (band is not None)
    if band is not None:
        np.testing.assert_allclose(names["band"].std, band.std, rtol=1e-4, atol=1e-7)
    if num_runs is not None:
        runs = spread_of(study.simulate(described, num_runs))
        np.testing.assert_allclose(names["mean"], runs.mean, rtol=1e-5)
        np.testing.assert_allclose(names["error"], runs.error, rtol=1e-4, atol=1e-6)
        # Both are of one law: a run strays by the band.
        assert abs(runs.final - curve.final_risk) < 5 * band.final_std
    return names


def test_the_copied_python_makes_the_same_curve_and_cost(tmp_path, monkeypatch, capsys):
    # The recursion of batches is compiled soonest, and has no band.
    described = STREAM.describe(STREAM.changed(FEW, batch_size=2))
    names = _assert_copied(STREAM, described, tmp_path, monkeypatch)
    final = float(names["predicted"].final_risk)
    assert final == pytest.approx(float(STREAM.curve(described).final_risk), rel=1e-5)
    # What the page says of the cost is what `account` prints.
    shown = cost_html(described.algorithm, FEW["delta"])
    assert all(f">{text}<" in shown for text in ("2.0000", "replace-one", "simulated"))
    assert "privacy: (2.0000, 1e-05)-DP" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "values", "change", "num_runs"),
    [
        (STREAM, FEW, {"clip_scale": 0.7}, 10),
        (STREAM, FEW, {"condition_number": 5.0}, None),
        (STREAM, FEW, {"batch_size": 4}, None),
        (STREAM, FEW, {"schedule": "hyperbolic", "budget": "rho"}, None),
        (ROWS, SMALL, {}, 5),
        (ROWS, SMALL, {"sampling_rate": 1.0, "optimiser": "nesterov"}, 5),
        (ROWS, SMALL, {"optimiser": "adam", "learning_rate": 0.1, "budget": "noise"}, 5),
        (ROWS, SMALL, {"schedule": "polynomial", "optimiser": "momentum"}, 5),
    ],
)
def test_the_copied_python_makes_the_same_numbers(
    study, values, change, num_runs, tmp_path, monkeypatch
):
    described = study.describe(study.changed(values, **change))
    _assert_copied(study, described, tmp_path, monkeypatch, num_runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "values", "change", "share"),
    [
        (STREAM, START | {"dim": 100, "num_samples": 2000}, {"schedule": "polynomial"}, 0.7),
        (STREAM, START | {"dim": 100, "num_samples": 2000}, {"schedule": OPTIMAL}, 0.7),
        (ROWS, SMALL, {}, 1.0),
    ],
)
def test_a_plan_sets_what_it_found(study, values, change, share):
    described = study.describe(values)
    asked = described._replace(values={**values, **change})
    planned = study.changed(values, **study.plan(asked))
    curve = study.curve(study.describe(planned))
    assert curve.final_risk < share * study.curve(described).final_risk
    if change.get("schedule") == OPTIMAL:
        best = jaxdp.plan(described.problem, num_samples=2000, rho=float(described.algorithm.rho))
        assert curve.final_risk == pytest.approx(best.final_risk, rel=0.01)


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_the_noise_of_rows_is_that_of_the_calibration(rate):
    values = ROWS.changed(SMALL, num_rows=100, epsilon=2.0, sampling_rate=rate, num_steps=3)
    sampler = PoissonSampler(100, rate) if rate < 1 else ShuffledEpochs(100, 100)
    expected = calibrated_noise_multiplier(2.0, values["delta"], sampler=sampler, num_steps=3)
    algorithm = ROWS.describe(values).algorithm
    assert float(algorithm.noise_multiplier) == pytest.approx(expected, rel=1e-6)
    assert type(algorithm.sampler) is type(sampler)


def test_a_plan_of_rows_needs_a_budget():
    with pytest.raises(ValueError, match="budget in ε and δ"):
        ROWS.plan(ROWS.describe(ROWS.changed(SMALL, budget="noise")))


@pytest.mark.slow
def test_an_unstable_rate_is_named():
    described = ROWS.describe(ROWS.changed(SMALL, learning_rate=1000.0, clip_norm=100.0))
    curve = ROWS.curve(described)
    assert "not to be trusted" in note_on(curve) or not np.isfinite(curve.final_risk)


@pytest.mark.slow
def test_a_closure_from_known_modes_is_that_of_the_problem():
    described = ROWS.describe(SMALL)
    theory = jaxdp.GaussianClosure(rank=2)
    whole = jaxdp.predict(described.problem, described.algorithm, theory=theory, records=4)
    modes = kernel_modes(described.problem)
    again = theory.predict_modes(modes, described.algorithm, records=4)
    np.testing.assert_array_equal(again.risk, whole.risk)
    np.testing.assert_array_equal(again.std, whole.std)
    assert int(again.status) == int(whole.status)


def test_runs_that_would_take_minutes_are_refused():
    values = STREAM.changed(START, dim=2000, num_samples=100_000, condition_number=10.0)
    with pytest.raises(ValueError, match="fewer runs"):
        STREAM.check_runs(values, 100)
    STREAM.check_runs(STREAM.changed(values, condition_number=1.0), 100)


def test_large_batches_have_no_band():
    values = STREAM.changed(START, dim=100, batch_size=6)
    described = STREAM.describe(values)
    assert STREAM.band(described) is None
    assert "import jaxdp.explorer" not in STREAM.code(described, None)
    assert "import jaxdp.explorer" in STREAM.code(
        STREAM.describe({**values, "batch_size": 5}), None
    )


def test_a_planned_schedule_keeps_its_shape_in_a_few_knots():
    time = np.linspace(0, 1, 201)
    rates = np.minimum(40, 50 / (1 + 30 * time) ** 1.5)
    peak, found = settings_of(jaxdp.PiecewiseLinear(time, rates))
    knots, shape = found[SHAPE]
    assert (peak, found["schedule"], len(knots)) == (pytest.approx(40), OPTIMAL, NUM_KNOTS)
    assert np.all(np.diff(shape) <= 0)
    gap = peak * np.interp(time, knots, shape) / rates - 1
    assert np.abs(gap).max() < 0.02
    # Settings that come from a plan are settings like others.
    values = STREAM.changed(START, peak=peak, **found)
    schedule = STREAM.describe(values).algorithm.learning_rate
    np.testing.assert_allclose(schedule(time), rates, rtol=0.02)


def test_grouped_eigenvalues_keep_dimension_mean_and_initial_risk():
    problem = jaxdp.LinearRegression.power_law(200, condition_number=50.0, label_noise=0.1)
    few = grouped(problem)
    assert few.dim == 200
    assert len(few.blocks.sizes) == 16
    risks = [float((one.spectrum * one.target**2).sum()) for one in (problem, few)]
    assert risks[0] == pytest.approx(risks[1], rel=1e-5)
    assert grouped(few, 16).blocks.sizes == few.blocks.sizes


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [10.0, 100.0])
def test_the_band_of_grouped_eigenvalues_is_that_of_all_of_them(kappa):
    problem = jaxdp.LinearRegression.power_law(100, condition_number=kappa, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
    whole = jaxdp.predict(problem, algorithm, theory=jaxdp.Fluctuations())
    few = spread(problem, algorithm)
    np.testing.assert_allclose(few.std[1:], whole.std[1:], rtol=2e-3)
    np.testing.assert_allclose(few.final_std, whole.final_std, rtol=2e-3)
    # With four groups it is seen.
    coarse = jaxdp.predict(grouped(problem, 4), algorithm, theory=jaxdp.Fluctuations())
    assert np.abs(coarse.std[1:] / whole.std[1:] - 1).max() > 2e-3


@pytest.mark.slow
def test_a_slider_compiles_nothing():
    def curve(**changes):
        return STREAM.curve(STREAM.describe(STREAM.changed(START, **changes))).risk

    curve(epsilon=3.0)
    curve(epsilon=2.0, num_samples=700)
    changes = {"epsilon": 1.5, "num_samples": 900, "clip_scale": 0.3, "peak": 5.0, "power": 0.7}
    assert programs_compiled(lambda: curve(**changes)) == 0
    # A number of eigenvalues that no other test has is compiled.
    assert programs_compiled(lambda: curve(dim=23, condition_number=2.0)) > 0
