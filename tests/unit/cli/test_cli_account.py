"""`jaxdp account`: the costs it prints are those of the library."""

import json

import optax
import pytest

import jaxdp


def _cost(run, *arguments):
    return json.loads(run.well("account", *arguments, "--json"))


@pytest.mark.parametrize(
    ("algorithm", "assumption"), [("one-pass", "last iterate"), ("correlated", "all iterates")]
)
def test_one_pass_is_rho_gdp_and_a_budget_gives_its_rho(run, algorithm, assumption):
    found = _cost(run, algorithm, "--rho", "1")
    assert found["cost"]["mu"] == 1
    assert found["cost"]["epsilon"] == pytest.approx(4.3772, abs=1e-4)
    assert found["cost"]["adjacency"] == "replace-one"
    assert assumption in found["cost"]["assumptions"][0]
    # The epsilon of rho = 1: within float32 of it, and never above the budget.
    back = _cost(run, algorithm, "--epsilon", str(found["cost"]["epsilon"]))
    assert back["rho"] == pytest.approx(1, rel=1e-6)
    assert back["cost"]["epsilon"] <= found["cost"]["epsilon"]


def test_full_batches_cost_what_their_noise_multiplier_says(run):
    """All iterates are Gaussian DP with 2 sqrt(steps) over the noise multiplier."""
    found = _cost(run, "dp-gd", "--noise-multiplier", "4", "--num-steps", "10")
    assert found["cost"]["mu"] == pytest.approx(2 * 10**0.5 / 4, rel=1e-6)
    back = _cost(run, "dp-gd", "--epsilon", str(found["cost"]["epsilon"]), "--num-steps", "10")
    assert back["noise_multiplier"] == pytest.approx(4, rel=1e-4)


def test_poisson_batches_cost_what_the_library_says(run):
    pytest.importorskip("dp_accounting")
    options = ["--num-steps", "50", "--num-records", "1000", "--sampling-rate", ".01"]
    found = _cost(run, "dp-sgd", "--noise-multiplier", "1", *options)
    algorithm = jaxdp.PrivateOptimiser(
        optax.sgd(1.0),
        clip_norm=2.0,
        noise_multiplier=1.0,
        num_steps=50,
        sampler=jaxdp.privacy.PoissonSampler(1000, 0.01),
    )
    assert found["cost"]["epsilon"] == jaxdp.account(algorithm, delta=1e-5).epsilon
    assert found["cost"]["adjacency"] == "zero-out-one"


def test_the_text_begins_with_the_noise_rounded_toward_privacy(run):
    out = run.well("account", "one-pass", "--epsilon", "2")
    assert out.startswith("one-pass: rho 0.501551\nprivacy: (2.0000, 1e-05)-DP from 0.5016-GDP")


ASKED = [round(0.1 * 1.17**power, 6) for power in (0, 3, 7)]


def _printed(run, *arguments):
    return run.well("account", *arguments).splitlines()[0].split()[-1]


@pytest.mark.parametrize("epsilon", ASKED)
def test_noise_that_is_printed_to_six_digits_keeps_its_budget(run, epsilon):
    """A noise multiplier is rounded up, and rho down."""
    multiplier = _printed(run, "dp-gd", "--epsilon", epsilon, "--num-steps", "100")
    rho = _printed(run, "one-pass", "--epsilon", epsilon)
    # Replacing a record moves each of 100 sums by twice the clip norm.
    for mu in (20 / float(multiplier), float(rho)):
        assert 0.9999 * epsilon < jaxdp.privacy.gaussian_epsilon(mu, 1e-5) <= epsilon


def test_a_large_delta_is_warned_of_in_one_line(run):
    sizes = ["--num-steps", "100", "--num-records", "1000", "--batch-size", "20"]
    budget = ["--epsilon", "1", "--delta", "1e-3"]
    status, _, err = run("account", "dp-sgd", *budget, *sizes)
    assert status == 0
    assert err.startswith("jaxdp: warning: delta = 0.001 is at least 1/n = 0.001: ")
    assert err.count("\n") == 1


def test_the_noise_for_a_person_with_three_rows(run):
    words = "account", "dp-gd", "--epsilon", "1", "--num-steps", "50"
    one, three = run.well(*words), run.well(*words, "--records-per-person", "3")
    assert "privacy: (1.0000, 1e-05)-DP" in three
    assert "; a person of whom at most 3 records are used, replace-one;" in three
    found = [float(told.split()[3]) for told in (one, three)]
    assert found[1] == pytest.approx(3 * found[0], rel=1e-4)
