"""What `account` says, and that it is what the algorithm's worst case leaks."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import FALSE_ALARM, assert_mean_close, quick_and_slow
from hypothesis import given, settings
from hypothesis import strategies as st
from worst_case import OneRecord

import jaxdp
from jaxdp.privacy import (
    GaussianMechanism,
    Release,
    ShuffledEpochs,
    StatedBudget,
    Unproved,
    audit,
    calibrated_noise_multiplier,
    compose,
    gaussian_epsilon,
    zcdp_epsilon,
)


def _algorithm(schedule, rho=1.0, num_steps=100):
    return jaxdp.OnePassDPSGD(schedule, 1.0, rho, num_steps)


SCHEDULES = {
    "constant": jaxdp.Constant(3.0),
    "polynomial": jaxdp.Polynomial(3.0, 0.5),
    "polynomial of power 0": jaxdp.Polynomial(3.0, 0.0),
    "polynomial of power 5": jaxdp.Polynomial(0.3, 5.0),
    "hyperbolic": jaxdp.Hyperbolic(3.0, 0.1),
    "piecewise linear": jaxdp.PiecewiseLinear([0.0, 0.5, 1.0], [4.0, 1.0, 0.0]),
    "a line, flat": jaxdp.PiecewiseLinear([0.0, 1.0], [2.0, 2.0]),
    "a function": lambda t: 3.0 - t,
    "a function of steps": jaxdp.FromSteps(lambda step: 3.0 - step / 100, num_steps=100),
}


# Source: AC Proposition 2.
def test_gaussian_privacy_is_rho_and_zcdp_is_half_of_its_square():
    cost = jaxdp.account(_algorithm(jaxdp.Polynomial(3.0, 0.5), rho=2.0), delta=1e-5)
    assert (cost.mu, cost.zcdp, cost.delta) == (2.0, 2.0, 1e-5)
    assert cost.epsilon == gaussian_epsilon(2.0, 1e-5)
    assert cost.epsilon < zcdp_epsilon(2.0, 1e-5) < cost.published_epsilon
    assert all(isinstance(value, float) for value in (cost.epsilon, cost.mu, cost.zcdp))


@settings(max_examples=60)
@given(
    schedule=st.sampled_from(list(SCHEDULES.values())),
    rho=st.floats(2**-6, 32, width=32),
    clip_scale=st.floats(0.01, 10),
    num_steps=st.integers(1, 10**6),
    batch_size=st.integers(1, 1000),
)
def test_the_cost_is_that_of_rho_and_of_nothing_else(
    schedule, rho, clip_scale, num_steps, batch_size
):
    algorithm = jaxdp.OnePassDPSGD(schedule, clip_scale, rho, num_steps, batch_size=batch_size)
    delta = 0.1 / (num_steps * batch_size)
    cost = jaxdp.account(algorithm, delta=delta)
    assert cost.mu == rho
    assert cost.epsilon == gaussian_epsilon(rho, delta)


_BATCHES = ShuffledEpochs(num_records=1000, batch_size=50)
_SUMS = {"clip_norm": 1.0, "num_steps": 20, "sampler": _BATCHES}
_PASS = {"learning_rate": 1.0, "clip_scale": 1.0, "num_steps": 250, "batch_size": 4}
_CORRELATED = {"rates": [0.1] * 4, "clip_scale": 1.0, "strategy": np.eye(4), "batch_size": 250}
_MEAN = Release("a noisy mean", "replace-one", GaussianMechanism(0.5))
# Calls with a delta that know of 1000 records.
KNOWN = {
    "one pass": lambda delta: jaxdp.account(
        _algorithm(jaxdp.Constant(1.0), 1.0, 1000), delta=delta
    ),
    "correlated": lambda delta: jaxdp.account(
        jaxdp.CorrelatedDPSGD(rho=1.0, **_CORRELATED), delta=delta
    ),
    "optimiser": lambda delta: jaxdp.account(
        jaxdp.PrivateOptimiser(optax.sgd(0.1), noise_multiplier=9.0, **_SUMS), delta=delta
    ),
    "several": lambda delta: jaxdp.account(
        compose(_algorithm(jaxdp.Constant(1.0), 1.0, 1000), _MEAN), delta=delta
    ),
    "pass of a budget": lambda delta: jaxdp.OnePassDPSGD.calibrated(1.0, delta, **_PASS),
    "optimiser of a budget": lambda delta: jaxdp.PrivateOptimiser.calibrated(
        optax.sgd(0.1), 1.0, delta, **_SUMS
    ),
    "multiplier of a budget": lambda delta: calibrated_noise_multiplier(
        1.0, delta, sampler=_BATCHES, num_steps=20
    ),
    "required epsilon": lambda delta: jaxdp.required_epsilon(
        jaxdp.LinearRegression.isotropic(100, label_noise=0.3), 0.001, num_samples=1000, delta=delta
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_delta_of_one_over_n_is_warned_of_once_where_n_is_known(name):
    KNOWN[name](0.999e-3)
    with pytest.warns(UserWarning, match=r"delta = 0.001 is at least 1/n = 0.001") as told:
        KNOWN[name](1e-3)
    assert [one.filename for one in told] == [__file__]


def test_nothing_is_said_of_delta_where_n_is_not_known():
    jaxdp.account(_MEAN, delta=0.5)
    jaxdp.account(jaxdp.DPGD(0.02, 1.0, num_steps=50, noise_scale=2.0), delta=0.5)
    jax.jit(lambda steps: jaxdp.account(_algorithm(3.0, 1.0, steps), delta=0.5).epsilon)(9)
    with pytest.raises(ValueError, match="expected num_records >= 1, got 0"):
        dataclasses.replace(_MEAN, num_records=0)


def test_a_release_without_a_proof_costs_infinity_and_says_what_was_claimed():
    release = Release(
        what="a kernel predictor",
        adjacency="replace-one",
        mechanism=Unproved("the stated sensitivity is half the true one"),
        published=StatedBudget(1.0, 1e-5),
    )
    cost = jaxdp.account(release, delta=1e-4)
    assert (cost.epsilon, cost.mu, cost.zcdp) == (float("inf"), None, None)
    assert cost.published_epsilon == 1.0
    assert "not proved: the stated sensitivity" in " ".join(cost.assumptions)
    assert str(cost).startswith(
        "privacy: (inf, 0.0001)-DP; one record, replace-one; simulated noise; published: epsilon "
        "1.0000"
    )
    assert jaxdp.account(release, delta=1e-6).published_epsilon == float("inf")


@pytest.mark.parametrize(
    ("mu", "printed"), [(1.0, "4.3772"), (0.0, "0.0000"), (math.inf, "inf"), (1e-6, "0.0000")]
)
def test_what_is_printed_is_never_less_than_epsilon(mu, printed):
    cost = jaxdp.account(Release("a sum", "replace-one", GaussianMechanism(mu)), delta=1e-5)
    shown = str(cost).split("(")[1].split(",")[0]
    assert shown == printed
    assert float(shown) >= cost.epsilon
    for epsilon in (5.8e-6, 1.234e-12, 0.99994, 2.00001, 123.45678):
        shown = str(eqx.tree_at(lambda tree: tree.epsilon, cost, epsilon)).split("(")[1]
        assert epsilon <= float(shown.split(",")[0]) <= epsilon * 1.01 + 1e-15


def test_what_is_composed_is_certified_if_all_parts_are():
    mechanism = GaussianMechanism(1.0)
    certified = Release("a mean", "replace-one", mechanism, is_certified=True)
    simulated = Release("a sum", "replace-one", mechanism)
    assert compose(certified, certified).is_certified
    assert not compose(certified, simulated).is_certified


WORST_CASES = {
    "constant": jaxdp.OnePassDPSGD(jaxdp.Constant(2.0), 1.0, 2.0, 20),
    "square root": jaxdp.OnePassDPSGD(jaxdp.Polynomial(2.0, 0.5), 1.0, 2.0, 20),
    "in batches": jaxdp.OnePassDPSGD(jaxdp.Hyperbolic(2.0, 0.2), 1.0, 2.0, 12, batch_size=3),
}
NUM_RUNS = 20_000


def _released(algorithm, sign, seed):
    """What is released where the first record pushes one way and all others do nothing."""
    settings = {"key": jr.key(seed), "num_runs": NUM_RUNS, "keep_parameters": True, "records": 1}
    runs = jaxdp.simulate(OneRecord(jnp.asarray(sign)), algorithm, **settings)
    return np.asarray(runs.parameters[:, 0], np.float64)


@pytest.mark.parametrize("name", quick_and_slow(WORST_CASES, "constant", "in batches"))
def test_the_worst_case_reaches_the_claim_and_an_audit_nine_tenths_of_it(name):
    # The first record clipped at +C or -C moves the result by 2 eta_1 C / B; the noise of all
    # steps has standard deviation 2 C eta_1 / (rho B): the laws are N(0, 1) and N(rho, 1).
    algorithm = WORST_CASES[name]
    rho = jaxdp.account(algorithm, delta=1e-5).mu
    plus, minus = (_released(algorithm, sign, 0) for sign in (1.0, -1.0))
    # Common noise: the separation is exact, and the spread is known to 1 / sqrt(2 runs).
    separation = (plus.mean() - minus.mean()) / plus.std(ddof=1)
    assert abs(separation - rho) <= 5 * rho / math.sqrt(2 * NUM_RUNS)
    deviation = 2 * float(algorithm.step_size(1)) / (rho * algorithm.batch_size)
    assert_mean_close((plus - plus.mean()) ** 2, deviation**2)
    for wrong in (deviation / 1.07, deviation / 1.33):
        with pytest.raises(AssertionError):
            assert_mean_close((plus - plus.mean()) ** 2, wrong**2)
    # An audit asks for runs with noise of their own.
    options = {"measure": "mu", "confidence": 1 - FALSE_ALARM}
    found = audit(plus, _released(algorithm, -1.0, 1), **options)
    assert 0.9 * rho <= found <= rho
    # Two thirds of the noise, under the same claim.
    less_noisy = eqx.tree_at(lambda a: a.rho, algorithm, jnp.asarray(1.5 * rho))
    scores = (_released(less_noisy, sign, seed) for seed, sign in enumerate((1.0, -1.0)))
    assert audit(*scores, **options) > rho
