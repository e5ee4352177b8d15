"""Gaussian linear regression as described."""

import functools

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close

import jaxdp


def test_power_law_has_the_asked_condition_number_and_the_known_spectrum():
    problem = jaxdp.LinearRegression.power_law(1000, condition_number=2.0, label_noise=0.3)
    spectrum = np.asarray(problem.spectrum, np.float64)
    np.testing.assert_allclose(spectrum.mean(), 1, rtol=1e-6)
    np.testing.assert_allclose(spectrum.max() / spectrum.min(), 2, rtol=1e-5)
    # Computed apart: tr(Sigma^2)/d = 1.0119 and lambda_max = 1.80 at kappa = 2, d = 1000.
    np.testing.assert_allclose((spectrum**2).mean(), 1.0119, atol=1e-4)
    np.testing.assert_allclose(spectrum.max(), 1.80, atol=5e-3)
    np.testing.assert_allclose(problem.risk(None, jnp.zeros(1000)), 0.5, rtol=1e-5)


def test_equal_eigenvalues_are_grouped_and_their_targets_added():
    problem = jaxdp.LinearRegression([1.5, 0.5, 1.5, 0.5], [1.0, 2.0, 3.0, 4.0], 0.1)
    assert problem.blocks.eigenvalues.tolist() == [0.5, 1.5]
    assert problem.blocks.sizes == (2, 2)
    assert problem.blocks.squared_target.tolist() == [20.0, 10.0]


ALGORITHM = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 20)


def _first_risks(problem):
    """R(0) by simulators that group eigenvalues and that do not, and by a theory's modes."""
    runs = [
        jaxdp.simulate(problem, ALGORITHM, key=jr.key(0), records=1, simulator=simulator)
        for simulator in (jaxdp.Reduced(), jaxdp.Iterates())
    ]
    predicted = jaxdp.predict(problem, ALGORITHM, theory=jaxdp.DiscreteRecursion(), records=1)
    return [*(float(run.risk[0, 0]) for run in runs), float(predicted.risk[0])]


def test_everyone_sees_a_target_or_spectrum_that_tree_at_has_set():
    problem = jaxdp.LinearRegression([1.5, 0.5, 1.5, 0.5], np.full(4, 0.5), 0.1)
    doubled = eqx.tree_at(lambda p: p.target, problem, 2 * problem.target)
    np.testing.assert_allclose(_first_risks(doubled), 2.0, rtol=1e-6)
    np.testing.assert_allclose(_first_risks(problem), 0.5, rtol=1e-6)
    # The same multiplicities at other places.
    spectrum, target = jnp.asarray([0.4, 0.4, 1.6, 1.6]), jnp.asarray([1.0, 2.0, 3.0, 4.0])
    moved = eqx.tree_at(lambda p: (p.spectrum, p.target), problem, (spectrum, target))
    np.testing.assert_allclose(_first_risks(moved), np.sum(spectrum * target**2) / 2, rtol=1e-6)


def test_eigenvalues_of_other_multiplicities_are_refused():
    problem = jaxdp.LinearRegression([1.5, 0.5, 1.5, 0.5], np.full(4, 0.5), 0.1)
    spectrum = jnp.asarray([1.5, 0.5, 1.4, 0.6])
    other = eqx.tree_at(lambda p: p.spectrum, problem, spectrum)
    for call in (jaxdp.predict, functools.partial(jaxdp.simulate, key=jr.key(0))):
        with pytest.raises(ValueError, match=r"multiplicities \(2, 2\).*replace\(spectrum=...\)"):
            call(other, ALGORITHM)
    assert problem.replace(spectrum=spectrum).blocks.sizes == (1, 1, 1, 1)

    @jax.jit
    def statuses(spectrum):
        given = eqx.tree_at(lambda p: p.spectrum, problem, spectrum), ALGORITHM
        how = {"key": jr.key(0), "records": 1, "simulator": jaxdp.Reduced()}
        predicted = jaxdp.predict(*given, theory=jaxdp.DiscreteRecursion(), records=1)
        return jaxdp.simulate(*given, **how).status[0], predicted.status

    # Traced values cannot be looked at: the run says so.
    assert all(status == jaxdp.Status.INVALID for status in statuses(spectrum))
    assert all(status == jaxdp.Status.OK for status in statuses(problem.spectrum))


def test_traced_blocks_are_the_concrete_ones_and_share_the_derivative():
    problem = jaxdp.LinearRegression([1.5, 0.5, 1.5, 0.5], [1.0, 2.0, 3.0, 4.0], 0.1)
    blocks = eqx.filter_jit(lambda problem: problem.blocks)(problem)
    chex.assert_trees_all_equal(blocks, problem.blocks, strict=True)

    def weighted(spectrum):
        blocks = eqx.tree_at(lambda p: p.spectrum, problem, spectrum).blocks
        return blocks.eigenvalues @ jnp.asarray([1.0, 10.0])

    gradient = jax.jit(jax.grad(weighted))(problem.spectrum)
    np.testing.assert_allclose(gradient, [5.0, 0.5, 5.0, 0.5])


# Source: AC Assumption 1.
def test_samples_have_the_described_law():
    problem = jaxdp.LinearRegression([1.6, 0.4], [1.0, -2.0], 0.5)
    draw = jax.jit(jax.vmap(lambda index: problem.draw(None, jr.key(0), index)))
    inputs, labels = jax.tree.map(np.asarray, jax.tree.leaves(draw(jnp.arange(40_000))))
    noise = labels - inputs @ np.asarray(problem.target)
    assert_mean_close(inputs, [0, 0])
    assert_mean_close(inputs**2, problem.spectrum)
    assert_mean_close(inputs[:, 0] * inputs[:, 1], 0)
    assert_mean_close(noise**2, 0.25)
    assert_mean_close(noise[:, None] * inputs, [0, 0])
    with pytest.raises(AssertionError):
        assert_mean_close(noise**2, 0.25 * 1.1)


def test_surrogate_of_a_table_finds_its_law():
    rng = np.random.default_rng(0)
    mixing = np.diag([3.0, 1.0, 0.5]) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    inputs = rng.normal(size=(20_000, 3)) @ mixing + 7
    labels = inputs @ [1.0, -1.0, 2.0] + 0.3 * rng.normal(size=20_000) - 4
    problem = jaxdp.LinearRegression.from_data(inputs, labels)
    covariance = np.cov(inputs.T, bias=True)
    expected = np.sort(np.linalg.eigvalsh(covariance))[::-1] * 3 / np.trace(covariance)
    np.testing.assert_allclose(problem.spectrum, expected, rtol=1e-5)
    # The standard deviation of n normals is known to 1 / sqrt(2 n) of itself.
    np.testing.assert_allclose(problem.label_noise, 0.3, rtol=5 / np.sqrt(2 * 20_000))
    explained = np.var(inputs @ [1.0, -1.0, 2.0]) / 2
    np.testing.assert_allclose(problem.risk(None, jnp.zeros(3)), explained, rtol=0.02)
