"""Where there is next to no label noise the search is rough, and a plan says so."""

import pytest

import jaxdp


@pytest.mark.slow
def test_a_risk_that_the_search_does_not_resolve_is_a_status():
    without = jaxdp.LinearRegression.isotropic(100, label_noise=0.0)
    plan = jaxdp.plan(without, num_samples=100_000, rho=1.0)
    assert plan.status == jaxdp.Status.UNSTABLE
    # At the risks that are resolved there is nothing to say.
    assert jaxdp.plan(without, num_samples=3000, rho=1.0).status == jaxdp.Status.OK
    little = jaxdp.LinearRegression.isotropic(100, label_noise=0.03)
    assert jaxdp.plan(little, num_samples=100_000, rho=1.0).status == jaxdp.Status.OK
