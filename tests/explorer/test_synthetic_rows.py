"""The rows' settings: noise that keeps the budget, the closure's curve, and the copied Python."""

import numpy as np
import pytest

import jaxdp
from jaxdp.comparison.picture import spread_of
from jaxdp.explorer.studies.base import note_on
from jaxdp.explorer.studies.synthetic_rows import SyntheticRows
from jaxdp.privacy import PoissonSampler, ShuffledEpochs, calibrated_noise_multiplier

_STUDY = SyntheticRows()
# Within the limits of stability of every optimiser here.
_SMALL = _STUDY.changed(_STUDY.start(), num_rows=40, num_features=5, num_steps=8, learning_rate=0.1)


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_the_noise_is_that_of_the_calibration(rate):
    values = _STUDY.changed(_SMALL, num_rows=100, epsilon=2.0, sampling_rate=rate, num_steps=3)
    sampler = PoissonSampler(100, rate) if rate < 1 else ShuffledEpochs(100, 100)
    expected = calibrated_noise_multiplier(2.0, values["delta"], sampler=sampler, num_steps=3)
    algorithm = _STUDY.describe(values).algorithm
    assert float(algorithm.noise_multiplier) == pytest.approx(expected, rel=1e-6)
    assert type(algorithm.sampler) is type(sampler)


def test_what_compiles_is_told_beforehand():
    program = _STUDY.program(_SMALL)
    for change in ({"epsilon": 1.0}, {"label_noise": 1.0}, {"clip_norm": 2.0}):
        assert _STUDY.program({**_SMALL, **change}) == program
    # The spread over runs is followed in so many steps.
    others = (
        {"num_rows": 50},
        {"optimiser": "momentum"},
        {"schedule": "hyperbolic"},
        {"num_steps": 9},
    )
    for change in others:
        assert _STUDY.program({**_SMALL, **change}) != program


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"sampling_rate": 1.0, "optimiser": "nesterov"},
        {"optimiser": "adam", "learning_rate": 0.1, "budget": "noise"},
        {"schedule": "polynomial", "optimiser": "momentum"},
    ],
)
def test_the_copied_python_makes_the_same_numbers(change, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    described = _STUDY.describe(_STUDY.changed(_SMALL, **change))
    names = {}
    exec(compile(_STUDY.code(described, 5), "copied.py", "exec"), names)
    curve, band = _STUDY.curve(described), _STUDY.band(described)
    runs = spread_of(_STUDY.simulate(described, 5))
    np.testing.assert_allclose(names["predicted"].risk, curve.risk, rtol=1e-5)
    np.testing.assert_allclose(names["predicted"].time, curve.time)
    np.testing.assert_allclose(names["band"].std, band.std, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(names["mean"], runs.mean, rtol=1e-5)
    assert (tmp_path / "explore.png").exists()


@pytest.mark.slow
def test_a_plan_sets_what_it_found():
    values = _STUDY.changed(_SMALL, learning_rate=0.1)
    described = _STUDY.describe(values)
    planned = _STUDY.changed(values, **_STUDY.plan(described))
    curve = _STUDY.curve(_STUDY.describe(planned))
    assert curve.final_risk < _STUDY.curve(described).final_risk
    with pytest.raises(ValueError, match="budget in ε and δ"):
        _STUDY.plan(_STUDY.describe(_STUDY.changed(values, budget="noise")))


@pytest.mark.slow
def test_an_unstable_rate_is_named():
    described = _STUDY.describe(_STUDY.changed(_SMALL, learning_rate=1000.0, clip_norm=100.0))
    assert "not to be trusted" in note_on(_STUDY.curve(described)) or not np.isfinite(
        _STUDY.curve(described).final_risk
    )


@pytest.mark.slow
def test_a_closure_from_known_modes_is_that_of_the_problem():
    from jaxdp.theory.features.modes import kernel_modes

    described = _STUDY.describe(_SMALL)
    theory = jaxdp.GaussianClosure(rank=2)
    whole = jaxdp.predict(described.problem, described.algorithm, theory=theory, records=4)
    modes = kernel_modes(described.problem)
    again = theory.predict_modes(modes, described.algorithm, records=4)
    np.testing.assert_array_equal(again.risk, whole.risk)
    np.testing.assert_array_equal(again.std, whole.std)
    assert int(again.status) == int(whole.status)
