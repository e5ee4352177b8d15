"""The figures of everyday DP-SGD: their features, their plans, what their checks tell apart."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import reference_moments
from scipy.integrate import solve_ivp

import jaxdp
from experiments import harness, made_up, registry
from experiments.everyday_dp_sgd import correlated_noise
from experiments.everyday_dp_sgd.correlated_noise_plans import FAMILIES, TOEPLITZ
from experiments.everyday_dp_sgd.frozen_features import (
    Body,
    pretrained,
    private_problem,
    random_relu,
)
from experiments.everyday_dp_sgd.multi_pass_plans import Plan, full_batch, one_pass
from experiments.harness.mnist import read_mnist
from jaxdp.privacy.strategies import check_strategy

_PUBLIC = 500


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    made_up.digits(folder)
    return read_mnist(folder / "mnist")


def test_features_have_unit_norm_and_depend_on_public_rows_alone(mnist):
    changed = mnist._replace(train_images=mnist.train_images.copy())
    changed.train_images[_PUBLIC:] = 0
    for make in (
        lambda digits: random_relu(digits, _PUBLIC, 20, key=jr.key(0)),
        lambda digits: pretrained(digits, _PUBLIC, Body(width=8, num_steps=2), key=jr.key(0)),
    ):
        features = make(mnist)
        rows = features.map(mnist.test_images)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
        assert abs(features.map(mnist.train_images[:_PUBLIC]).mean(axis=0)).max() < 0.2
        again = make(changed)
        np.testing.assert_array_equal(again.map(mnist.test_images), rows)


def test_the_private_rows_are_none_of_the_public_ones(mnist):
    features = random_relu(mnist, _PUBLIC, 20, key=jr.key(0))
    problem = private_problem(mnist, features, _PUBLIC, 100)
    np.testing.assert_array_equal(problem.train_labels, mnist.train_labels[_PUBLIC:][:100])
    with pytest.raises(ValueError, match=r"500 public and 701 private images, got 1200"):
        private_problem(mnist, features, _PUBLIC, 701)


def test_one_pass_and_full_batches_cost_the_same_for_the_same_neighbours():
    plan = Plan(peak=2.0, shape=0.3, clip_scale=0.4, num_steps=12, risk=0.1)
    costs = [
        jaxdp.account(algorithm, delta=1e-5)
        for algorithm in (one_pass("hyperbolic", plan, 0.7), full_batch(80, 8, 0.7, *plan[:4]))
    ]
    for cost in costs:
        assert cost.mu == pytest.approx(0.7, rel=1e-6)
        assert "replace-one" in str(cost.adjacency)


@pytest.mark.parametrize("name", {**FAMILIES, **TOEPLITZ})
def test_every_family_makes_strategies(name):
    family = {**FAMILIES, **TOEPLITZ}[name]
    matrix = np.asarray(family.make(jnp.asarray(family.start), 6), np.float64)
    check_strategy(matrix, 6)
    norms = np.linalg.norm(matrix, axis=0)
    np.testing.assert_allclose(norms[0], 1, rtol=1e-6)
    if name != "2 buffers, one scale":
        np.testing.assert_allclose(norms, 1, rtol=1e-6)
    else:
        # Toeplitz itself: the same along every diagonal.
        np.testing.assert_array_equal(matrix[1:, 1:], matrix[:-1, :-1])


def test_the_saved_plans_of_correlated_noise_have_the_known_risks():
    # The saved result is today's code's, as its smoke version is asked to show.
    saved = harness.read(harness.RESULTS / registry.entry("correlated_noise").file)
    # Three batches at gamma = .1, rho = 1: hyperbolic rates, then free ones.
    found = saved.risk.sel(cell="0.1, 1", num_steps=3, scheme=["optimal", "optimal, free rates"])
    np.testing.assert_allclose(found, [0.0633, 0.0630], rtol=2e-3)


def _last_iterate_risk(gamma, rho, clip_scale, first_rate):
    """Risk of the rate that lets R + K eta^2 fall fastest at every time, up to the first one."""
    noise = 2 * (clip_scale * gamma / rho) ** 2
    rates = np.linspace(0, first_rate, 20_001)[1:]

    def fall(time, shifted):
        risk = np.maximum(shifted[0] - noise * rates**2, 1e-12)
        power = 2 * risk + 0.09
        mu, nu = reference_moments(clip_scale / np.sqrt(power))
        return [np.min(-2 * rates * mu * risk + rates**2 * gamma * nu * power / 2)]

    start = [0.5 + noise * first_rate**2]
    return solve_ivp(fall, (0, 1), start, rtol=1e-6, atol=1e-9).y[0, -1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "point"),
    [((0.1, 1.0), (0.2105, 9.934)), ((0.01, 3.0), (0.4906, 100.6)), ((0.1, 3.0), (0.4047, 12.0))],
)
def test_the_best_last_iterate_is_what_is_written(cell, point):
    written = correlated_noise._BEST_LAST_ITERATE[cell]
    assert _last_iterate_risk(*cell, *point) == pytest.approx(written, rel=3e-4)
    for factors in ((0.9, 1.0), (1.1, 1.0), (1.0, 0.9), (1.0, 1.1)):
        other = _last_iterate_risk(*cell, *np.multiply(point, factors))
        assert other > written * (1 - 3e-4)
