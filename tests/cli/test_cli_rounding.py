"""Noise that is printed to a few digits is enough for the budget that it was found for."""

import pytest

import jaxdp
from jaxdp import cli

DELTA = 1e-5
ASKED = [round(0.1 * 1.17**power, 6) for power in range(8)]


def _printed(capsys, *arguments):
    assert cli.main(["account", *arguments, "--delta", str(DELTA)]) == 0
    return capsys.readouterr().out.splitlines()[0].split()[-1]


@pytest.mark.parametrize("epsilon", ASKED)
def test_a_noise_multiplier_is_rounded_up(capsys, epsilon):
    text = _printed(capsys, "dp-gd", "--epsilon", str(epsilon), "--num-steps", "100")
    # Replacing a record moves each of 100 sums by twice the clip norm.
    mu = 20 / float(text)
    assert 0.9999 * epsilon < jaxdp.privacy.gaussian_epsilon(mu, DELTA) <= epsilon


@pytest.mark.parametrize("epsilon", ASKED)
def test_rho_is_rounded_down(capsys, epsilon):
    text = _printed(capsys, "one-pass", "--epsilon", str(epsilon))
    assert 0.9999 * epsilon < jaxdp.privacy.gaussian_epsilon(float(text), DELTA) <= epsilon


def test_noise_that_was_given_is_printed_as_it_came(capsys):
    assert _printed(capsys, "one-pass", "--rho", "0.7") == "0.7"
    text = _printed(capsys, "dp-gd", "--noise-multiplier", "1.1", "--num-steps", "100")
    assert text == "1.1"
