"""`jaxdp account`: the costs it prints are those of the library, and bad input ends in one line."""

import json

import optax
import pytest
from helpers import run_cli

import jaxdp


def _run(capsys, *arguments):
    return run_cli(capsys, "account", *arguments)


def _cost(capsys, *arguments):
    status, out, err = _run(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize(
    ("algorithm", "assumption"), [("one-pass", "last iterate"), ("correlated", "all iterates")]
)
def test_one_pass_is_rho_gdp_and_a_budget_gives_its_rho(capsys, algorithm, assumption):
    found = _cost(capsys, algorithm, "--rho", "1")
    assert found["cost"]["mu"] == 1
    assert found["cost"]["epsilon"] == pytest.approx(4.3772, abs=1e-4)
    assert found["cost"]["adjacency"] == "replace-one"
    assert assumption in found["cost"]["assumptions"][0]
    # The epsilon of rho = 1: within float32 of it, and never above the budget.
    back = _cost(capsys, algorithm, "--epsilon", str(found["cost"]["epsilon"]))
    assert back["rho"] == pytest.approx(1, rel=1e-6)
    assert back["cost"]["epsilon"] <= found["cost"]["epsilon"]


def test_full_batches_cost_what_their_noise_multiplier_says(capsys):
    """All iterates are Gaussian DP with 2 sqrt(steps) over the noise multiplier."""
    found = _cost(capsys, "dp-gd", "--noise-multiplier", "4", "--num-steps", "10")
    assert found["cost"]["mu"] == pytest.approx(2 * 10**0.5 / 4, rel=1e-6)
    back = _cost(capsys, "dp-gd", "--epsilon", str(found["cost"]["epsilon"]), "--num-steps", "10")
    assert back["noise_multiplier"] == pytest.approx(4, rel=1e-4)


def test_shuffled_epochs_count_the_batches_of_a_record(capsys):
    options = ["--num-steps", "100", "--num-records", "1000", "--batch-size", "20"]
    found = _cost(capsys, "dp-sgd", "--noise-multiplier", "4", "--delta", "1e-3", *options)
    # Two epochs of fifty batches.
    assert found["cost"]["mu"] == pytest.approx(2 * 2**0.5 / 4, rel=1e-6)
    assert found["cost"]["adjacency"] == "replace-one"


def test_poisson_batches_cost_what_the_library_says(capsys):
    pytest.importorskip("dp_accounting")
    options = ["--num-steps", "50", "--num-records", "1000", "--sampling-rate", ".01"]
    found = _cost(capsys, "dp-sgd", "--noise-multiplier", "1", *options)
    algorithm = jaxdp.PrivateOptimiser(
        optax.sgd(1.0),
        clip_norm=2.0,
        noise_multiplier=1.0,
        num_steps=50,
        sampler=jaxdp.privacy.PoissonSampler(1000, 0.01),
    )
    assert found["cost"]["epsilon"] == jaxdp.account(algorithm, delta=1e-5).epsilon
    assert found["cost"]["adjacency"] == "zero-out-one"


def test_an_everyday_budget_of_many_records_is_answered(capsys):
    pytest.importorskip("dp_accounting")
    options = ["--num-steps", "300", "--num-records", "50000", "--sampling-rate", ".02"]
    found = _cost(capsys, "dp-sgd", "--epsilon", "8", "--delta", "1e-6", *options)
    assert 7.99 < found["cost"]["epsilon"] <= 8
    assert not found["cost"]["is_certified"]
    assert "simulated noise" in " ".join(found["cost"]["assumptions"])


def test_the_text_begins_with_the_noise_rounded_toward_privacy(capsys):
    status, out, err = _run(capsys, "one-pass", "--epsilon", "2")
    assert (status, err) == (0, "")
    assert out.startswith("one-pass: rho 0.501551\nprivacy: (2.0000, 1e-05)-DP from 0.5016-GDP")


def test_no_privacy_is_said_in_valid_json(capsys):
    found = _cost(capsys, "one-pass", "--rho", "inf")
    assert found["cost"]["epsilon"] == "inf"


FULL = ["dp-gd", "--num-steps", "10"]
BATCHES = ["dp-sgd", "--num-steps", "10", "--num-records", "100", "--noise-multiplier", "4"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: algorithm"),
        (["adam"], "invalid choice: 'adam'"),
        (["one-pass"], "expected one of --epsilon and --rho"),
        (["one-pass", "--epsilon", "2", "--rho", "1"], "expected one of --epsilon and --rho"),
        (["one-pass", "--rho", "-1"], "expected rho > 0, got -1.0"),
        (["one-pass", "--rho", "nan"], "expected rho > 0, got nan"),
        (["one-pass", "--rho", "1", "--delta", "2"], "expected 0 < delta < 1, got 2.0"),
        (["one-pass", "--epsilon", "0"], "expected 0 < epsilon < infinity, got 0.0"),
        (["one-pass", "--num-steps", "9"], "--num-steps does not belong to one-pass"),
        (["correlated", "--batch-size", "9"], "--batch-size does not belong to correlated"),
        (["dp-gd", "--epsilon", "2"], "expected --num-steps for dp-gd"),
        ([*FULL], "expected one of --epsilon and --noise-multiplier"),
        ([*FULL, "--rho", "1"], "--rho does not belong to dp-gd"),
        ([*FULL, "--noise-multiplier", "-1"], "expected --noise-multiplier >= 0, got -1.0"),
        (["dp-gd", "--num-steps", "0", "--epsilon", "2"], "expected num_steps >= 1, got 0"),
        ([*BATCHES], "expected one of --sampling-rate (Poisson batches) and --batch-size"),
        ([*BATCHES, "--sampling-rate", "2"], "expected 0 < sampling_rate <= 1, got 2.0"),
        ([*BATCHES, "--batch-size", "200"], "expected batch_size <= num_records = 100, got 200"),
        ([*BATCHES, "--rho", "1"], "--rho does not belong to dp-sgd"),
        (["dp-sgd", "--num-steps", "10"], "expected --num-records for dp-sgd"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(capsys, arguments, message):
    status, out, err = _run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_help_shows_no_defaults_that_are_none(capsys):
    status, out, _ = _run(capsys, "--help")
    assert status == 0
    assert "default" not in out
    assert "SUPPRESS" not in out
