"""Costs of a person with several records: Gaussians, mixtures of them, audits and refusals."""

import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import binom, norm

import jaxdp
from jaxdp.privacy import (
    Composition,
    GaussianMechanism,
    ObjectivePerturbationMechanism,
    PoissonSampler,
    Release,
    ShuffledEpochs,
    audit,
    calibrated_noise_multiplier,
    compose,
    gaussian_epsilon,
)
from jaxdp.privacy.batches.poisson import PoissonSubsampledGaussian
from jaxdp.privacy.conversions.subsampling import SampledGaussian, composed_epsilon
from jaxdp.privacy.mechanisms import ZeroConcentrated

_ZEROED = "zero-out-one"


def _account(count, rate, noise, num_steps, delta):
    return composed_epsilon((SampledGaussian(rate, noise, num_steps, 0.0, count),), delta, _ZEROED)


def _log_ratio(count, rate, noise, sums):
    """log of the density of a sum with the person's records over that without them."""
    drawn = np.arange(count + 1)
    exponents = (np.asarray(sums)[..., None] * drawn - drawn**2 / 2) / noise**2
    return logsumexp(exponents, axis=-1, b=binom.pmf(drawn, count, rate))


def _bounds(count, rate, noise, num_steps, delta, reach, sign):
    """Epsilon from losses rounded down and up on a grid, with the person's records or (sign -1)
    without them.
    """
    num_points, drawn = 2**18, np.arange(count + 1)
    width = 2 * reach / num_points
    edges = np.linspace(-12 * noise, count + 12 * noise, 2**16)
    losses = sign * _log_ratio(count, rate, noise, edges)
    below = norm.cdf(edges / noise)
    if sign > 0:
        below = norm.cdf((edges[:, None] - drawn) / noise) @ binom.pmf(drawn, count, rate)
    ends = np.sort(np.stack([losses[1:], losses[:-1]]), axis=0)
    grid, found = (np.arange(num_points) - num_points // 2) * width, []
    for one in (np.floor(ends[0] / width), np.ceil(ends[1] / width)):
        places = np.clip(one.astype(int) + num_points // 2, 0, num_points - 1)
        masses = np.bincount(places, np.diff(below), num_points)
        power = np.fft.rfft(np.fft.ifftshift(masses)) ** num_steps
        composed = np.fft.fftshift(np.fft.irfft(power, num_points))

        def excess(epsilon, composed=composed):
            over = grid > epsilon
            return composed[over] @ -np.expm1(epsilon - grid[over]) - delta

        found.append(brentq(excess, 0, 0.99 * reach))
    return np.array(found)


@pytest.mark.parametrize(
    ("case", "reach"),
    [((3, 0.1, 2.0, 100), 24), ((2, 0.05, 0.3, 30), 160), ((20, 0.01, 5.0, 50), 8)],
)
def test_k_records_in_poisson_batches_cost_what_an_independent_composition_says(case, reach):
    least, most = np.max([_bounds(*case, 1e-5, reach, sign) for sign in (1, -1)], axis=0)
    assert most < 1.005 * least
    assert least <= _account(*case, 1e-5) <= 1.003 * most
    count, rate, noise, num_steps = case
    assert _account(count, rate, noise * math.sqrt(2), num_steps, 1e-5) < least
    assert _account(count, rate, noise / math.sqrt(2), num_steps, 1e-5) > 1.01 * most


@pytest.mark.parametrize("sign", [1, -1])
def test_k_records_have_the_likelihood_ratio_of_simulated_batches(sign):
    count, rate, noise, num_steps, num_draws = 3, 0.2, 1.5, 8, 200_000
    random, total = np.random.default_rng(1), 0.0
    for _ in range(num_steps):
        drawn = random.binomial(count, rate, num_draws) if sign > 0 else 0
        total = total + _log_ratio(
            count, rate, noise, drawn + noise * random.normal(size=num_draws)
        )
    losses = sign * total

    def is_matched(noise):
        # The order of the neighbours in which these losses are the larger ones decides.
        epsilon = _account(count, rate, noise, num_steps, 0.02)
        over = np.maximum(-np.expm1(epsilon - losses), 0)
        error = 4 * over.std() / math.sqrt(num_draws)
        return over.mean() <= 0.02 + error and (sign < 0 or over.mean() >= 0.02 - error)

    assert is_matched(noise)
    assert not is_matched(noise * math.sqrt(2))
    assert sign < 0 or not is_matched(noise / math.sqrt(2))


@pytest.mark.slow
def test_many_records_cost_little_more_and_steps_without_a_cost_none():
    most = _account(200, 0.01, 5.0, 50, 1e-5)
    # A person's 201 records are accounted for as 101 of norm 2.
    assert most < _account(201, 0.01, 5.0, 50, 1e-5) < 4 * most
    runs = [SampledGaussian(0.1, noise, 9, 0.0, 3) for noise in (2.0, math.inf)]
    assert composed_epsilon(runs, 1e-5, _ZEROED) == pytest.approx(
        _account(3, 0.1, 2.0, 9, 1e-5), rel=1e-3
    )


@pytest.mark.parametrize("angle", [0.5, 2.0, math.pi])
def test_terms_in_different_directions_reveal_less_than_parallel_ones(angle):
    noise, rate, axis = 0.8, 0.3, np.linspace(-7, 7, 561)
    places = np.stack(np.meshgrid(axis, axis), axis=-1)
    terms = [np.zeros(2), np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])]
    chances = [(1 - rate) ** 2, rate * (1 - rate), rate * (1 - rate), rate**2]
    laws = [
        norm.pdf(places - mean, scale=noise).prod(axis=-1) * (axis[1] - axis[0]) ** 2
        for mean in (*terms, terms[1] + terms[2])
    ]
    with_them = sum(chance * law for chance, law in zip(chances, laws, strict=True))
    for first, second in [(with_them, laws[0]), (laws[0], with_them)]:
        for epsilon in (0.1, 0.5, 1.0):
            delta = np.maximum(first - math.exp(epsilon) * second, 0).sum()
            if delta > 1e-6:
                assert epsilon <= _account(2, rate, noise, 1, delta) * (1 + 1e-4)


def test_gaussians_pay_k_times_mu_and_zcdp_k_squared():
    algorithm = jaxdp.DPGD(0.02, 1.0, num_steps=50, noise_scale=2.0)
    one = jaxdp.account(algorithm, delta=1e-5)
    descent = {"learning_rate": 0.02, "clip_norm": 1.0, "num_steps": 50}
    for count in (2, 5):
        cost = jaxdp.account(algorithm, delta=1e-5, records_per_person=count)
        # The pair N(0, 1) and N(k mu, 1), of parallel terms.
        assert count * one.mu <= cost.mu == pytest.approx(count * one.mu, rel=1e-12)
        assert cost.epsilon == pytest.approx(gaussian_epsilon(count * 0.5, 1e-5), rel=1e-6)
        assert f"a person of whom at most {count} records are used" in str(cost)
        assert cost.published_epsilon is None
        found = jaxdp.DPGD.calibrated(1.0, 1e-5, **descent, records_per_person=count)
        assert found.noise_scale == pytest.approx(count * 3.7306318, rel=1e-6)
        found = ZeroConcentrated(0.1).for_groups(count).proved.zcdp
        assert found == pytest.approx(0.1 * count**2, rel=1e-12)
    both = Composition((GaussianMechanism(0.3), GaussianMechanism(0.4))).for_groups(2)
    assert both.proved.mu == pytest.approx(1.0, rel=1e-12)
    assert "; one record, replace-one;" in str(one)
    assert one == jaxdp.account(algorithm, delta=1e-5, records_per_person=1)


@pytest.mark.parametrize(
    "sampler",
    [ShuffledEpochs(400, 20), PoissonSampler(400, 0.05), PoissonSampler(400, 1.0)],
    ids=["shuffled", "Poisson", "whole"],
)
def test_calibrated_noise_keeps_a_persons_budget(sampler):
    options = {"sampler": sampler, "num_steps": 20}
    noise = calibrated_noise_multiplier(1.0, 1e-5, **options, records_per_person=3)
    optimiser = jaxdp.PrivateOptimiser.calibrated(
        optax.sgd(0.1), 1.0, 1e-5, clip_norm=1.0, **options, records_per_person=3
    )
    assert optimiser.noise_multiplier == pytest.approx(noise)
    cost = jaxdp.account(optimiser, delta=1e-5, records_per_person=3)
    assert 0.999 < cost.epsilon <= 1.0
    assert jaxdp.account(optimiser, delta=1e-5).epsilon < 0.6
    if not isinstance(sampler, PoissonSampler):
        one = calibrated_noise_multiplier(1.0, 1e-5, **options)
        assert noise == pytest.approx(3 * one, rel=1e-9)
    run = {"learning_rate": 0.1, "clip_scale": 1.0, "num_steps": 100, "records_per_person": 7}
    cost = jaxdp.account(
        jaxdp.OnePassDPSGD.calibrated(1.0, 1e-5, **run), delta=1e-5, records_per_person=7
    )
    assert 1 - 1e-6 < cost.epsilon <= 1.0


def test_an_audit_of_a_person_with_two_records_refutes_the_cost_of_one():
    rate, noise, num_steps = 0.5, 1.0, 4

    def mechanism(value, key):
        coins, normals = jr.split(key)
        drawn = jr.bernoulli(coins, rate, (num_steps, 2)).sum(axis=1)
        return (value * drawn + noise * jr.normal(normals, (num_steps,))).sum()

    values = jnp.array(1.0), jnp.array(0.0)
    found = audit(mechanism, *values, delta=0.05, num_trials=40_000, key=jr.key(0))
    one, two = (_account(count, rate, noise, num_steps, 0.05) for count in (1, 2))
    assert one < found <= two


def test_no_proof_no_finite_cost():
    mechanism = ObjectivePerturbationMechanism(shift=0.5, log_jacobian=0.1)
    release = Release("a minimiser", "replace-one", mechanism)
    cost = jaxdp.account(release, delta=1e-5, records_per_person=2)
    assert cost.epsilon == math.inf
    assert "no proof covers 2 records" in str(cost)
    sums = PoissonSubsampledGaussian(PoissonSampler(100, 0.1), 2.0, 10)
    added = Release("sums", "add-or-remove-one", sums)
    cost = jaxdp.account(added, delta=1e-5, records_per_person=2)
    assert cost.epsilon == math.inf
    assert "zero-out-one, not add-or-remove-one" in str(cost)
    # Persons of two units of three records have six records.
    twice, six = sums.for_groups(3).for_groups(2), sums.for_groups(6)
    assert twice.epsilon(1e-5, _ZEROED) == six.epsilon(1e-5, _ZEROED)
    # So few places that the others may leave none.
    full = PoissonSubsampledGaussian(PoissonSampler(100, 0.1, capacity=12), 2.0, 10)
    assert full.for_groups(3).epsilon(1e-5, _ZEROED) == math.inf


def test_wrong_numbers_of_records_are_refused():
    release = Release("a mean", "replace-one", GaussianMechanism(0.5), num_records=1000)
    for wrong, error in [(0, ValueError), (-2, ValueError), (1.5, TypeError), (True, TypeError)]:
        with pytest.raises(error, match="records_per_person"):
            jaxdp.account(release, delta=1e-5, records_per_person=wrong)
        with pytest.raises(error, match="records_per_person"):
            jaxdp.DPGD.calibrated(
                1.0, 1e-5, learning_rate=0.1, clip_norm=1.0, num_steps=2, records_per_person=wrong
            )
    of_person = release.for_groups(3)
    assert (of_person.num_records, of_person.for_groups(3)) == (334, of_person)
    with pytest.raises(ValueError, match="at most 3 records are used already"):
        jaxdp.account(of_person, delta=1e-5, records_per_person=2)
    with pytest.raises(
        ValueError, match="got one record and a person of whom at most 3 records are used"
    ):
        compose(release, of_person)
    assert compose(of_person, of_person).records_per_person == 3
    with pytest.warns(UserWarning, match="at least 1/n"):
        jaxdp.account(release, delta=0.0035, records_per_person=3)
