"""Both studies: the curve is the theory's, the copied Python makes the same, a plan is found."""

import numpy as np
import pytest
from helpers import programs_compiled

from jaxdp.comparison.picture import spread_of
from jaxdp.explorer.fields import read
from jaxdp.explorer.studies import STUDIES
from jaxdp.privacy import PoissonSampler, ShuffledEpochs, calibrated_noise_multiplier

STREAM, ROWS = STUDIES
FEW = {"dim": 30, "num_samples": 300, "epsilon": 2.0}
SMALL = {"num_rows": 40, "num_features": 5, "num_steps": 8, "peak": 0.1}


def _silent(share):
    """Progress that nobody is told of."""


def _values(study, **changes):
    return read(study.fields, {field.name: field.start for field in study.fields} | changes)


def _described(study, **changes):
    return study.describe(_values(study, **changes), _silent)


def _assert_copied(study, values, num_runs, tmp_path, monkeypatch):
    """The copied Python makes the page's numbers and a picture; gives the names it defines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {}
    exec(compile(study.code(values, num_runs), "copied.py", "exec"), names)
    assert (tmp_path / "explore.png").stat().st_size > 5000
    described = study.describe(values, _silent)
    curve = study.predict(described)
    np.testing.assert_allclose(names["predicted"].risk, curve.risk, rtol=1e-5)
    # Float32 rounds a time once more if its length is traced.
    np.testing.assert_allclose(names["predicted"].time, curve.time, rtol=2e-7)
    if num_runs:
        runs = study.simulate(described, num_runs, _silent)
        np.testing.assert_allclose(names["simulated"].risk, runs.risk, rtol=1e-5)
        # Both are of one law: a run strays by the band.
        assert abs(spread_of(runs).final - curve.final_risk) < 5 * curve.final_std
    return names


def test_the_copied_python_makes_the_same_curve_and_cost(tmp_path, monkeypatch, capsys):
    # The recursion of batches is compiled soonest, and has no band.
    values = _values(STREAM, **FEW, batch_size=2)
    names = _assert_copied(STREAM, values, 0, tmp_path, monkeypatch)
    assert names["predicted"].std is None
    assert names["algorithm"].num_steps == 150
    assert "privacy: (2.0000, 1e-05)-DP" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "changes", "num_runs"),
    [
        (STREAM, FEW | {"clip_scale": 0.7}, 10),
        (STREAM, FEW | {"schedule": "planned"}, 0),
        (ROWS, SMALL, 5),
        (ROWS, SMALL | {"optimiser": "adam"}, 5),
    ],
)
def test_the_copied_python_makes_the_same_numbers(study, changes, num_runs, tmp_path, monkeypatch):
    _assert_copied(study, _values(study, **changes), num_runs, tmp_path, monkeypatch)


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_the_noise_of_rows_is_that_of_the_calibration(rate):
    changes = SMALL | {"num_rows": 100, "epsilon": 2.0, "sampling_rate": rate, "num_steps": 3}
    sampler = PoissonSampler(100, rate) if rate < 1 else ShuffledEpochs(100, 100)
    expected = calibrated_noise_multiplier(2.0, 1e-5, sampler=sampler, num_steps=3)
    algorithm = _described(ROWS, **changes).algorithm
    assert float(algorithm.noise_multiplier) == pytest.approx(expected, rel=1e-6)
    assert type(algorithm.sampler) is type(sampler)


@pytest.mark.parametrize(
    ("changes", "theory"),
    [
        ({}, "Fluctuations"),
        ({"dim": 64, "condition_number": 10.0}, "Fluctuations"),
        ({"condition_number": 10.0}, "CoupledODE"),
        ({"batch_size": 5}, "DiscreteRecursion"),
    ],
)
def test_the_band_is_left_out_if_it_takes_long(changes, theory):
    assert type(_described(STREAM, **changes).theory).__name__ == theory


@pytest.mark.slow
def test_a_slider_compiles_nothing():
    def curve(**changes):
        return STREAM.predict(_described(STREAM, **changes)).risk

    curve(epsilon=3.0)
    curve(epsilon=2.0, num_samples=700)
    changes = {"epsilon": 1.5, "num_samples": 900, "clip_scale": 0.3, "peak": 5.0, "power": 0.7}
    assert programs_compiled(lambda: curve(**changes)) == 0
    # A number of eigenvalues that no other test has is compiled.
    assert programs_compiled(lambda: curve(dim=23, condition_number=2.0)) > 0
