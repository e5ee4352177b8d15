"""Releases and mechanisms as data: what they hold, how they compose, what they refuse."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdp.privacy import (
    AbstractMechanism,
    Composition,
    GaussianMechanism,
    ObjectivePerturbationMechanism,
    PoissonSampler,
    Release,
    StatedBudget,
    Unproved,
    account,
    compose,
    gaussian_epsilon,
    zcdp_epsilon,
    zcdp_epsilon_published,
)
from jaxdp.privacy.adjacency import ADJACENCIES, REPLACE_ONE
from jaxdp.privacy.batches.poisson import PoissonSubsampledGaussian
from jaxdp.privacy.mechanisms import ZeroConcentrated
from jaxdp.privacy.release import PublishedConversion

_SAMPLER = PoissonSampler(1000, 0.01)
MECHANISMS = [
    GaussianMechanism(0.8),
    ZeroConcentrated(0.3),
    Composition((GaussianMechanism(0.8), GaussianMechanism(0.6))),
    Composition((GaussianMechanism(0.8), ZeroConcentrated(0.3))),
    PoissonSubsampledGaussian(_SAMPLER, 2.0, 50),
    Composition((PoissonSubsampledGaussian(_SAMPLER, 2.0, 50), GaussianMechanism(0.8))),
    ObjectivePerturbationMechanism(0.2, 0.25, 0.002),
    Unproved("nobody has tried"),
]
each_mechanism = pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__
)


@each_mechanism
def test_every_mechanism_is_accounted_for_under_its_adjacencies_only(mechanism):
    assert isinstance(mechanism, AbstractMechanism)
    assert mechanism.adjacencies
    epsilons = []
    for adjacency in ADJACENCIES:
        if adjacency not in mechanism.adjacencies:
            with pytest.raises(ValueError, match="expected an adjacency for which"):
                Release("a sum", adjacency, mechanism)
            continue
        cost = account(Release("a sum", adjacency, mechanism, ("noted",)), delta=1e-5)
        assert cost.assumptions[0] == f"a sum; neighbours: {adjacency}"
        assert cost.assumptions[-1] == "noted"
        assert cost.epsilon >= 0
        epsilons.append(cost.epsilon)
        known = [value for value in (cost.epsilon, cost.mu, cost.zcdp) if value is not None]
        assert all(isinstance(value, float) for value in known)
        assert str(cost).startswith("privacy: (")
    assert epsilons[0] == pytest.approx(epsilons[-1], rel=1e-6)


@each_mechanism
def test_composing_with_more_never_costs_less(mechanism):
    adjacency = mechanism.adjacencies[-1]
    both = Composition((mechanism, GaussianMechanism(0.1)))
    assert both.epsilon(1e-5, adjacency) >= mechanism.epsilon(1e-5, adjacency)
    alone = Composition((mechanism,))
    assert alone.epsilon(1e-5, adjacency) == mechanism.epsilon(1e-5, adjacency)


@settings(max_examples=50)
@given(mus=st.lists(st.floats(1e-3, 5), min_size=1, max_size=5), z=st.floats(1e-4, 3))
def test_gaussians_add_their_squares_and_the_rest_composes_in_zcdp(mus, z):
    gaussians = [GaussianMechanism(mu) for mu in mus]
    together = Composition(tuple(gaussians)).proved
    assert together.mu == pytest.approx(math.sqrt(sum(mu**2 for mu in mus)), rel=1e-14)
    mixed = Composition((*gaussians, ZeroConcentrated(z))).proved
    assert mixed.mu is None
    assert mixed.zcdp == pytest.approx(together.zcdp + z, rel=1e-14)


def test_what_is_not_zcdp_shares_delta():
    alone = ObjectivePerturbationMechanism(0.2, 0.25, 0.002)
    found = Composition((alone, GaussianMechanism(0.3), GaussianMechanism(0.4))).epsilon(
        1e-5, REPLACE_ONE
    )
    parts = alone.epsilon(5e-6, REPLACE_ONE) + gaussian_epsilon(0.5, 5e-6)
    assert found == pytest.approx(parts, rel=1e-9)
    sampled = PoissonSubsampledGaussian(_SAMPLER, 2.0, 50)
    mixed = Composition((sampled, GaussianMechanism(0.3), ZeroConcentrated(0.2), sampled))
    twice = PoissonSubsampledGaussian(_SAMPLER, 2.0, 100)
    parts = twice.epsilon(5e-6, "zero-out-one") + zcdp_epsilon(0.245, 5e-6)
    assert mixed.epsilon(1e-5, "zero-out-one") == pytest.approx(parts, rel=1e-9)


def test_gaussians_and_sums_over_poisson_batches_compose_their_losses():
    sampled = PoissonSubsampledGaussian(_SAMPLER, 2.0, 50)
    gaussians = GaussianMechanism(0.3), GaussianMechanism(0.4)
    found = Composition((sampled, *gaussians)).epsilon(1e-5, "zero-out-one")
    apart = sampled.epsilon(5e-6, "zero-out-one") + gaussian_epsilon(0.5, 5e-6)
    assert gaussian_epsilon(0.5, 1e-5) < found < 0.95 * apart
    # A sampled step is at most a step without sampling.
    assert found < gaussian_epsilon(math.hypot(0.5, math.sqrt(50) / 2), 1e-5)
    # Without sampling the sum of squares is exact.
    always = PoissonSubsampledGaussian(PoissonSampler(1000, 1.0, capacity=1001), 2.0, 4)
    exact = Composition((always, *gaussians)).epsilon(1e-5, "zero-out-one")
    assert exact == pytest.approx(gaussian_epsilon(math.sqrt(1.25), 1e-5), rel=1e-12)
    assert Composition((sampled, Unproved("no"))).epsilon(1e-5, "zero-out-one") == math.inf
    noiseless = Composition((sampled, GaussianMechanism(math.inf)))
    assert noiseless.epsilon(1e-5, "zero-out-one") == math.inf


def test_mechanisms_may_be_traced():
    def epsilon(mu, z):
        mechanism = Composition((GaussianMechanism(mu), ZeroConcentrated(z)))
        release = Release("a sum", REPLACE_ONE, mechanism, (), PublishedConversion(z))
        cost = account(release, delta=1e-5)
        return cost.epsilon, cost.published_epsilon

    mus, zs = jnp.asarray([0.5, 1.0]), jnp.asarray([0.1, 0.2])
    found = jax.jit(jax.vmap(epsilon))(mus, zs)
    expected = [epsilon(float(mu), float(z)) for mu, z in zip(mus, zs, strict=True)]
    np.testing.assert_allclose(np.transpose(found), expected, rtol=1e-5)


def test_releases_compose_with_what_each_assumes():
    first = Release("a sum", "replace-one", GaussianMechanism(1.0), ("one",))
    second = Release("a mean", "replace-one", GaussianMechanism(1.0), ("two", "one"))
    both = compose(first, second)
    assert (both.what, both.adjacency) == ("a sum; a mean", "replace-one")
    assert both.assumptions == ("one", "two")
    assert account(both, delta=1e-5).mu == pytest.approx(math.sqrt(2))


def test_claims_say_what_papers_say():
    assert PublishedConversion(0.5).epsilon_at(1e-5) == zcdp_epsilon_published(0.5, 1e-5)
    claim = StatedBudget(1.0, 1e-5)
    assert [claim.epsilon_at(delta) for delta in (1e-6, 1e-5, 1e-3)] == [math.inf, 1.0, 1.0]
    assert jax.jit(claim.epsilon_at)(1e-6) == math.inf
