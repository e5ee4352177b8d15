"""The rows' settings: noise that keeps the budget, the closure's curve, and the copied Python."""

import numpy as np
import pytest

import jaxdp
from jaxdp.explorer.studies.noise import NoiseFinder
from jaxdp.explorer.studies.synthetic_rows import SyntheticRows
from jaxdp.privacy import PoissonSampler, ShuffledEpochs, calibrated_noise_multiplier

_STUDY = SyntheticRows()
# Within the limits of stability of every optimiser here.
_SMALL = _STUDY.changed(_STUDY.start(), num_rows=40, num_features=5, num_steps=8, learning_rate=0.1)


def test_noise_that_is_found_near_the_last_keeps_the_budget():
    find, sampler = NoiseFinder(), PoissonSampler(100, 0.2)
    first = find(2.0, 1e-5, sampler=sampler, num_steps=3)
    second = find(2.6, 1e-5, sampler=sampler, num_steps=3)
    spent = sampler.mechanism(second, 3).epsilon(1e-5, sampler.adjacency)
    assert 0.997 * 2.6 <= spent <= 2.6
    assert second < first
    assert find(2.0, 1e-5, sampler=sampler, num_steps=3) == first


def test_noise_with_a_formula_is_that_of_the_calibration():
    sampler = ShuffledEpochs(100, 100)
    found = NoiseFinder()(2.0, 1e-5, sampler=sampler, num_steps=5)
    assert found == calibrated_noise_multiplier(2.0, 1e-5, sampler=sampler, num_steps=5)


def test_what_compiles_is_told_beforehand():
    program = _STUDY.curve_program(_SMALL)
    for change in ({"epsilon": 1.0}, {"label_noise": 1.0}, {"num_steps": 9}, {"clip_norm": 2.0}):
        assert _STUDY.curve_program({**_SMALL, **change}) == program
    for change in ({"num_rows": 50}, {"optimiser": "momentum"}, {"schedule": "hyperbolic"}):
        assert _STUDY.curve_program({**_SMALL, **change}) != program
    # The spread over runs is followed in so many steps.
    assert _STUDY.band_program({**_SMALL, "num_steps": 9}) != _STUDY.band_program(_SMALL)


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
    runs = _STUDY.simulate(described, 5)
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
    assert "not to be trusted" in _STUDY.curve(described).note or not np.isfinite(
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
