"""What `account` says, and that it is what the algorithm's worst case leaks."""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close
from privacy.worst_case import OneRecord

import jaxdp
from jaxdp.privacy import AbstractClaim, Gaussian, Release, StatedBudget, Unproved


def _algorithm(schedule, rho=1.0, num_steps=100):
    return jaxdp.OnePassDPSGD(schedule, 1.0, rho, num_steps)


def test_zcdp_is_half_of_rho_squared():
    cost = jaxdp.account(_algorithm(jaxdp.Polynomial(3.0, 0.5), rho=2.0), delta=1e-5)
    assert cost.zcdp == 2.0
    assert cost.mu is None
    assert cost.epsilon < cost.published_epsilon
    assert cost.delta == 1e-5
    assert all(isinstance(value, float) for value in (cost.epsilon, cost.zcdp))


def test_gaussian_privacy_is_claimed_for_constant_schedules_only():
    assert jaxdp.account(_algorithm(jaxdp.Constant(3.0)), delta=1e-5).mu == 1.0
    for schedule in (jaxdp.Polynomial(3.0, 0.5), jaxdp.Hyperbolic(3.0, 0.1), lambda t: 3.0 - t):
        assert jaxdp.account(_algorithm(schedule), delta=1e-5).mu is None


def test_assumptions_are_stated_in_words():
    text = " ".join(jaxdp.account(_algorithm(jaxdp.Constant(3.0)), delta=1e-5).assumptions)
    for word in ("replace-one", "last iterate", "capped", "not included", "floating point"):
        assert word in text


def test_no_noise_has_no_privacy():
    cost = jaxdp.account(_algorithm(jaxdp.Constant(3.0), rho=jnp.inf), delta=1e-5)
    assert cost.epsilon == float("inf")


def test_traced_rho_gives_the_same_epsilon():
    for schedule in (jaxdp.Constant(3.0), jaxdp.Polynomial(3.0, 0.5)):

        def epsilon(rho, schedule=schedule):
            return jaxdp.account(_algorithm(schedule, rho), delta=1e-5).epsilon

        rhos = jnp.asarray([0.5, 1.0])
        np.testing.assert_allclose(
            jax.jit(jax.vmap(epsilon))(rhos), [epsilon(float(rho)) for rho in rhos], rtol=1e-5
        )


def test_traced_descriptions_out_of_range_have_no_guarantee():
    def epsilon(rho, last):
        schedule = jaxdp.PiecewiseLinear([0.0, 1.0], jnp.stack([jnp.ones(()), last]))
        return jaxdp.account(_algorithm(schedule, rho), delta=1e-5).epsilon

    rhos, lasts = jnp.asarray([1.0, -1.0, 1.0, 1.0]), jnp.asarray([0.5, 0.5, 3.0, 1.1])
    found = jax.jit(jax.vmap(epsilon))(rhos, lasts)
    assert np.isfinite(found).tolist() == [True, False, False, False]
    no_noise = jax.jit(
        lambda rho: jaxdp.account(_algorithm(jaxdp.Constant(1.0), rho), delta=1e-5).epsilon
    )
    assert no_noise(jnp.inf) == jnp.inf


def test_a_batch_of_algorithms_is_told_to_use_vmap():
    batch = jax.vmap(lambda rho: _algorithm(jaxdp.Constant(1.0), rho))(jnp.ones(2))
    with pytest.raises(ValueError, match="use vmap over account"):
        jaxdp.account(batch, delta=1e-5)
    with pytest.raises(ValueError, match="use vmap over account"):
        jaxdp.account(_algorithm(jaxdp.Constant(1.0)), delta=np.asarray([1e-5, 1e-6]))


def test_prints_what_is_proved():
    text = str(jaxdp.account(_algorithm(jaxdp.Constant(3.0)), delta=1e-5))
    assert text.startswith("privacy: (4.3772, 1e-05)-DP from 1-GDP, 0.5-zCDP")
    assert "published: epsilon 5.2985" in text


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
    assert str(cost).startswith("privacy: (inf, 0.0001)-DP; published: epsilon 1.0000")
    assert jaxdp.account(release, delta=1e-6).published_epsilon == float("inf")


class _MomentBound(AbstractClaim):
    """A published calibration noise = sqrt(8 time log(1/delta)) / epsilon, inverted."""

    noise: float
    time: float

    def epsilon_at(self, delta):
        return math.sqrt(8 * self.time * math.log(1 / delta)) / self.noise


def test_a_published_formula_stands_beside_what_is_proved():
    noise = 1.94947
    release = Release("an iterate", "replace-one", Gaussian(1 / noise), (), _MomentBound(noise, 1))
    cost = jaxdp.account(release, delta=1 / 2000)
    # PF Proposition 3.2 at eta T = 1: noise for epsilon 4, of which 1.5081 is really spent.
    assert cost.published_epsilon == pytest.approx(4.0, rel=1e-5)
    assert cost.epsilon == pytest.approx(1.5081, abs=1e-4)


def test_wrong_things_are_refused():
    with pytest.raises(TypeError, match="states what it releases"):
        jaxdp.account("algorithm", delta=1e-5)
    with pytest.raises(ValueError, match="0 < delta < 1"):
        jaxdp.account(_algorithm(jaxdp.Constant(3.0)), delta=0.0)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_worst_case_reaches_the_claim(power):
    # The first record clipped at +C or -C moves the result by 2 eta_1 C; the noise of all steps
    # has standard deviation 2 C eta_1 / rho: the two laws are N(0, 1) and N(rho, 1), rho-GDP.
    rho, algorithm = 1.5, jaxdp.OnePassDPSGD(jaxdp.Polynomial(2.0, power), 1.0, 1.5, 20)

    def released(sign):
        problem = OneRecord(jnp.asarray(sign))
        runs = jaxdp.simulate(
            problem, algorithm, key=jr.key(0), num_runs=20_000, keep_parameters=True, records=1
        )
        return np.asarray(runs.parameters[:, 0], np.float64)

    plus, minus = released(1.0), released(-1.0)
    spread = plus.std(ddof=1)
    separation = (plus.mean() - minus.mean()) / spread
    assert separation == pytest.approx(rho, rel=0.03)
    deviation = 2 * float(algorithm.step_size(1)) / rho
    assert_mean_close((plus - plus.mean()) ** 2, deviation**2)
    with pytest.raises(AssertionError):
        assert_mean_close((plus - plus.mean()) ** 2, (deviation / 1.33) ** 2)
