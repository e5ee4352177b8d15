"""`jaxdp doctor` knows the right numbers, notices a wrong one, and says what is missing."""

import importlib.metadata
import json
import pathlib
import re

import numpy as np
import pytest
from helpers import reference_risk

import jaxdp
from jaxdp.cli.commands import doctor as doctors
from jaxdp.cli.commands.doctor import GAUSSIAN_EPSILON, PREDICTED_RISK

ROOT = pathlib.Path(__file__).parents[3]


def test_the_risk_that_is_known_solves_the_equation():
    # The front page's: an isotropic spectrum, gamma = 1000/10,000, 3 sqrt(1 - t).
    risk = reference_risk(
        eigenvalues=np.ones(1),
        weights=np.ones(1),
        initial=np.full(1, 0.5),
        gamma=0.1,
        rho=1.0,
        label_noise=0.3,
        clip_scale=1.0,
        rate=lambda t: 3 * np.sqrt(1 - t),
        square_slope=lambda s, speed: 9.0 * speed,
        times=np.asarray([0.0, 1.0]),
        warp=2.0,
    )[-1]
    # The rate ends at 0: what is released has no jump.
    assert pytest.approx(risk, rel=1e-7) == PREDICTED_RISK


def test_the_epsilon_that_is_known_solves_its_equation():
    from scipy.stats import norm

    epsilon = GAUSSIAN_EPSILON
    delta = norm.cdf(0.5 - epsilon) - np.exp(epsilon) * norm.cdf(-0.5 - epsilon)
    assert delta == pytest.approx(1e-5, rel=1e-8)


@pytest.fixture(scope="module")
def answers():
    return doctors._answers()


def test_the_numbers_come_out_right_here(run, monkeypatch, answers):
    monkeypatch.setattr(doctors, "_answers", lambda: answers)
    out = run.well("doctor")
    assert [line.split()[-1] for line in out.splitlines()[-3:]] == ["right", "right", "well"]
    for name in ("jax", "equinox", "diffrax"):
        assert re.search(f"packages +{name} +{re.escape(importlib.metadata.version(name))}", out)
    found = json.loads(run("doctor", "--json")[1])
    assert (found["is_well"], found["jaxdp"]) == (True, jaxdp.__version__)
    assert found["devices"]
    assert [answer["is_right"] for answer in found["self_test"]] == [True, True]


def test_known_faults_are_those_of_the_version():
    page = (ROOT / "docs/known_faults.md").read_text()
    for first, last, _ in doctors._FAULTS:
        assert f"jaxlib {first}{f' to {last}' if last != first else ''}, on CPUs" in page
    assert len(doctors.known_faults("0.10.2")) == 3
    assert [*doctors.known_faults("0.10.1")] == ["0.10.0 to 0.10.2"]
    assert [*doctors.known_faults("0.11.2")] == ["0.10.2 to 0.12.0.1"]
    assert not doctors.known_faults("0.9.2") | doctors.known_faults("0.12.1")
    assert not doctors.known_faults(None)


@pytest.mark.parametrize("place", [0, 1])
def test_a_wrong_number_is_noticed(run, monkeypatch, answers, place):
    spoiled = list(answers)
    expected, tolerance = spoiled[place].expected, spoiled[place].tolerance
    spoiled[place] = spoiled[place]._replace(found=expected * (1 + 2 * tolerance))
    monkeypatch.setattr(doctors, "_answers", lambda: spoiled)
    status, out, err = run("doctor")
    assert (status, err) == (1, "")
    assert out.count("WRONG") == 1
    assert "not to be trusted" in out
    spoiled[place] = spoiled[place]._replace(found=float("nan"))
    assert run("doctor", "--json")[0] == 1
