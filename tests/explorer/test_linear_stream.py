"""The stream's settings: the curve is the theory's, and the copied Python makes the same."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.comparison.picture import spread_of
from jaxdp.explorer import grouped, spread
from jaxdp.explorer.studies.linear_stream import LinearStream
from jaxdp.explorer.studies.schedules import NUM_KNOTS, OPTIMAL, SHAPE, settings_of
from jaxdp.explorer.views.widgets import cost_html

_STUDY = LinearStream()
_START = _STUDY.start()


def _ran(text, tmp_path, monkeypatch):
    """The names that the copied Python defines; its picture lies in the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {}
    exec(compile(text, "copied.py", "exec"), names)
    assert (tmp_path / "explore.png").stat().st_size > 5000
    return names


def test_the_copied_python_makes_the_same_curve_and_cost(tmp_path, monkeypatch, capsys):
    # The recursion of batches is compiled soonest.
    values = _STUDY.changed(_START, dim=30, num_samples=300, epsilon=2.0, batch_size=2)
    described = _STUDY.describe(values)
    curve = _STUDY.curve(described)
    names = _ran(_STUDY.code(described, None), tmp_path, monkeypatch)
    np.testing.assert_allclose(names["predicted"].risk, curve.risk, rtol=1e-5)
    assert float(names["predicted"].final_risk) == pytest.approx(float(curve.final_risk), rel=1e-5)
    assert "band" not in names
    # What the page says of the cost is what `account` prints.
    shown = cost_html(described.algorithm, values["delta"])
    assert all(f">{text}<" in shown for text in ("2.0000", "replace-one", "simulated"))
    assert "privacy: (2.0000, 1e-05)-DP" in capsys.readouterr().out


@pytest.mark.slow
def test_the_copied_python_makes_the_same_band_and_runs(tmp_path, monkeypatch):
    values = _STUDY.changed(_START, dim=30, num_samples=300, epsilon=2.0, clip_scale=0.7)
    described = _STUDY.describe(values)
    curve, band = _STUDY.curve(described), _STUDY.band(described)
    runs = spread_of(_STUDY.simulate(described, 10))
    names = _ran(_STUDY.code(described, 10), tmp_path, monkeypatch)
    np.testing.assert_allclose(names["predicted"].risk, curve.risk, rtol=1e-5)
    np.testing.assert_allclose(names["band"].std, band.std, rtol=1e-5)
    np.testing.assert_allclose(names["mean"], runs.mean, rtol=1e-5)
    np.testing.assert_allclose(names["error"], runs.error, rtol=1e-4, atol=1e-6)
    # Both are of one law: a run strays by the band.
    assert abs(runs.final - curve.final_risk) < 5 * band.final_std


@pytest.mark.parametrize(
    ("change", "compiles"),
    [
        ({"epsilon": 1.0}, False),
        ({"num_samples": 1000, "clip_scale": 0.2, "peak": 2.0, "power": 1.0}, False),
        ({"label_noise": 1.0, "initial_risk": 2.0, "budget": "rho"}, False),
        # Equal eigenvalues are one mode, whatever their number.
        ({"dim": 500}, False),
        ({"condition_number": 3.0}, True),
        ({"batch_size": 2}, True),
        ({"schedule": "constant"}, True),
    ],
)
def test_what_compiles_is_told_beforehand(change, compiles):
    before, after = _START, _STUDY.changed(_START, **change)
    assert (_STUDY.program(before) != _STUDY.program(after)) == compiles


def test_runs_that_would_take_minutes_are_refused():
    values = _STUDY.changed(_START, dim=2000, num_samples=100_000, condition_number=10.0)
    with pytest.raises(ValueError, match="fewer runs"):
        _STUDY.check_runs(values, 100)
    _STUDY.check_runs(_STUDY.changed(values, condition_number=1.0), 100)


def test_large_batches_have_no_band():
    values = _STUDY.changed(_START, dim=100, batch_size=6)
    described = _STUDY.describe(values)
    assert _STUDY.band(described) is None
    assert "import jaxdp.explorer" not in _STUDY.code(described, None)
    assert "import jaxdp.explorer" in _STUDY.code(
        _STUDY.describe({**values, "batch_size": 5}), None
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
    values = _STUDY.changed(_START, peak=peak, **found)
    schedule = _STUDY.describe(values).algorithm.learning_rate
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
def test_a_plan_sets_what_it_found():
    values = _STUDY.changed(_START, dim=100, num_samples=2000)
    described = _STUDY.describe(values)
    for schedule in ("polynomial", OPTIMAL):
        asked = described._replace(values={**values, "schedule": schedule})
        planned = _STUDY.changed(values, **_STUDY.plan(asked))
        curve = _STUDY.curve(_STUDY.describe(planned))
        assert curve.final_risk < 0.7 * _STUDY.curve(described).final_risk
    best = jaxdp.plan(described.problem, num_samples=2000, rho=float(described.algorithm.rho))
    assert curve.final_risk == pytest.approx(best.final_risk, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [{"condition_number": 5.0}, {"batch_size": 4}, {"schedule": "hyperbolic", "budget": "rho"}],
)
def test_other_settings_copied_make_the_same_numbers(change, tmp_path, monkeypatch):
    values = _STUDY.changed(_START, dim=40, num_samples=400, **change)
    described = _STUDY.describe(values)
    names = _ran(_STUDY.code(described, None), tmp_path, monkeypatch)
    np.testing.assert_allclose(names["predicted"].risk, _STUDY.curve(described).risk, rtol=1e-5)
    band = _STUDY.band(described)
    assert ("band" in names) == (band is not None)
    if band is not None:
        np.testing.assert_allclose(names["band"].std, band.std, rtol=1e-5)


@pytest.mark.slow
def test_a_slider_compiles_nothing():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **__: compiled.append(event) if "backend_compile" in event else None
    )
    _STUDY.curve(_STUDY.describe(_STUDY.changed(_START, epsilon=3.0)))
    _STUDY.curve(_STUDY.describe(_STUDY.changed(_START, epsilon=2.0, num_samples=700)))
    compiled.clear()
    changes = {"epsilon": 1.5, "num_samples": 900, "clip_scale": 0.3, "peak": 5.0, "power": 0.7}
    _STUDY.curve(_STUDY.describe(_STUDY.changed(_START, **changes)))
    assert compiled == []
    # The listener hears what does compile, here for a number of eigenvalues that no other test has.
    _STUDY.curve(_STUDY.describe(_STUDY.changed(_START, dim=23, condition_number=2.0)))
    assert compiled
