"""The spectrum of the kernel of random features on the sphere: PF Lemmas C.3 to C.5."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.problems import sphere_inputs

# tanh's, by 200 Gauss-Hermite nodes: mu_1, and the sum of the squares of orders three and more.
MU_1, REST = 0.605705510, 0.394294490 - 0.605705510**2


def _problem(num_train, dim, num_features, activation=jnp.tanh):
    how = {"activation": activation, "inputs": sphere_inputs, "key": jax.random.key(4)}
    return jaxdp.RandomFeatures.sample(num_train, 1, dim, num_features, **how)


def _rows(problem):
    return np.asarray(problem.train_inputs, np.float64)


def _mean_kernel(problem):
    return np.asarray(problem.joint_kernel())[: problem.num_train, : problem.num_train]


@pytest.fixture(scope="module")
def limit():
    """Infinite width: the mean of the kernel over weights, per feature."""
    return _problem(150, 40, None)


def test_the_mean_kernel_is_the_hermite_series_of_the_cosines(limit):
    # Source: PF (C.16), (C.17) and (C.18).
    cosines = _rows(limit) @ _rows(limit).T / 40
    mu = np.asarray(jaxdp.problems.hermite_coefficients(jnp.tanh, 60), np.float64)
    np.fill_diagonal(cosines, 1)
    series = sum(square * cosines**order for order, square in enumerate(mu**2))
    found = _mean_kernel(limit)
    off = ~np.eye(150, dtype=bool)
    np.testing.assert_allclose(found[off], series[off], atol=1e-6)
    np.testing.assert_allclose(np.diag(found), MU_1**2 + REST, rtol=1e-6)


def test_the_mean_kernel_has_a_gap_after_the_number_of_inputs(limit):
    # Source: PF Lemma C.3, (C.13), (C.14) and (C.15), by (C.20) to (C.27) with every constant.
    inputs, kernel = _rows(limit), _mean_kernel(limit)
    values = np.linalg.eigvalsh(kernel)[::-1]
    linear = MU_1**2 * inputs @ inputs.T / 40
    others = np.linalg.eigvalsh(kernel - linear)
    covariance = np.linalg.eigvalsh(inputs.T @ inputs)
    assert values[39] >= MU_1**2 * covariance[0] / 40 - 1e-9
    assert values[40] <= others[-1] + 1e-9
    assert values[-1] >= others[0] - 1e-9
    cosines = np.abs(inputs @ inputs.T / 40 - np.eye(150))
    # (C.25) as printed has n times the third power of the largest cosine; the norm itself is less.
    off = np.linalg.norm(kernel - linear - REST * np.eye(150), 2)
    assert off <= REST * 150 * cosines.max() ** 3
    assert off <= REST * np.linalg.norm(cosines**3)
    assert REST - off - 1e-9 <= others[0] <= others[-1] <= REST + off + 1e-9
    # A gap of a factor of 3, where the middle of the bulk has none.
    assert values[39] > 3 * values[40]
    assert values[60] < 1.2 * values[61]


def test_a_mean_or_a_second_coefficient_closes_the_gap():
    # Source: PF Assumption 2, on which Lemmas C.3 and C.5 rest.
    kernel = _mean_kernel(_problem(150, 40, None, jax.nn.relu))
    values = np.linalg.eigvalsh(kernel)[::-1]
    # One more large eigenvalue, n mu_0^2, so that number d + 1 is no longer of the bulk.
    assert values[0] == pytest.approx(150 / (2 * np.pi), rel=0.15)
    assert values[39] < 2 * values[40]


@pytest.mark.slow
def test_finite_width_is_within_a_factor_that_falls_like_the_root_of_n_over_p(limit):
    # Source: PF Lemma C.4, (C.58) to (C.62), and Lemma C.5, (C.55), (C.56), (C.57) and (C.65).
    mean, basis = np.linalg.eigh(_mean_kernel(limit))
    whitening = basis / np.sqrt(mean)
    gaps = []
    for width in (2500, 10_000, 40_000):
        kernel = _mean_kernel(_problem(150, 40, width)).astype(np.float64) / width
        gap = np.linalg.norm(whitening.T @ kernel @ whitening - np.eye(150), 2)
        found = np.linalg.eigvalsh(kernel)
        assert np.all(found <= (1 + gap) * mean * (1 + 1e-5))
        assert np.all(found >= (1 - gap) * mean * (1 - 1e-5))
        # A factor of half that size is too small for some eigenvalue or direction.
        assert gap > 0.5 * np.max(np.abs(found / mean - 1))
        gaps.append(gap * np.sqrt(width / 150))
    assert max(gaps) < 1.25 * min(gaps)


@pytest.mark.slow
def test_the_gap_widens_with_the_number_of_rows_for_each_input():
    # Source: PF Lemma C.5: lambda_d = Omega(p n/d), lambda_(d+1) = O(p), lambda_n = Omega(p).
    upper, lower, least = [], [], []
    for dim, num_train in ((20, 60), (20, 120), (40, 240), (40, 360)):
        problem = _problem(num_train, dim, 20_000).reduced()
        values = problem.kernel_eigenvalues() / 20_000
        gap = problem.spectral_gap(dim)
        assert gap.above / 20_000 == pytest.approx(values[dim - 1], rel=1e-9)
        inputs = _rows(_problem(num_train, dim, None))
        covariance = np.linalg.eigvalsh(inputs.T @ inputs)
        upper.append(values[dim - 1] / (MU_1**2 * covariance[0] / dim))
        lower.append(values[dim] / REST)
        least.append(values[-1] / REST)
    # In units of their limits.
    assert min(upper) > 0.9
    assert max(upper) < 1.6
    assert max(lower) < 1.8
    assert min(least) > 0.3
