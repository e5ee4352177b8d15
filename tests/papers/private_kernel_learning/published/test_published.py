"""The published algorithms against their boxes, and what their costs state."""

import doctest
import itertools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import jaxdp
from experiments.private_kernel_learning import published
from experiments.private_kernel_learning.published import (
    Algorithm1,
    Algorithm2,
    Algorithm3,
    Algorithm4,
    Algorithm5,
    CanonicalEstimator,
    GaussianUnlessFailure,
    HuberHinge,
)
from jaxdp.kernels import Gaussian, InnerProduct
from jaxdp.losses import Logistic
from jaxdp.privacy import SecretNoise, gaussian_delta, gaussian_epsilon

BUDGET = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 5}
NOISE_SEED = 2**200 + 7
KERNEL = Gaussian(0.8)


def _table(num=60, dim=3):
    rng = np.random.default_rng(1)
    inputs = rng.random((num, dim))
    return inputs, np.sin(3 * inputs.sum(axis=1)) + 0.3


def _signed_table():
    inputs, labels = _table()
    return inputs, np.where(labels > 0.3, 1.0, -1.0)


def _cosines(inputs):
    return math.sqrt(2) * jnp.cos(math.pi * inputs[:, :1] * jnp.arange(1, 6)[None])


def _learners():
    return {
        "Algorithm1": Algorithm1(KERNEL, 8, 0.1, 1.0, num_features=32),
        "Algorithm2": Algorithm2(KERNEL, 8, 0.1, Logistic(), num_features=32),
        "Algorithm3": Algorithm3(KERNEL, 8, 0.1, 1.0),
        "Algorithm4": Algorithm4(KERNEL, 8, 0.1, HuberHinge(0.5)),
        "Algorithm5": Algorithm5(KERNEL, 0.1, Logistic()),
        "CanonicalEstimator": CanonicalEstimator(_cosines, 5, 1.0, 3.3),
    }


class _Drawn:
    """Stands in for the noise of a fit and keeps what it was, purpose by purpose."""

    def __init__(self, monkeypatch, factor=1.0):
        self.normals = {}
        original = SecretNoise.normals

        def recorded(source, shape, purpose):
            self.normals[purpose] = factor * original(source, shape, purpose)
            return self.normals[purpose]

        monkeypatch.setattr(SecretNoise, "normals", recorded)


@pytest.fixture(scope="module")
def releases():
    """One release of every learner, all from the same seeds."""
    found = {}
    for name, learner in _learners().items():
        inputs, labels = _signed_table()
        found[name] = learner.fit(inputs, labels, **BUDGET, noise_seed=NOISE_SEED)
    return found


# Calibrations.


# Source: PK Algorithms 1, 2, 3 and 4, Lemma 7.
def test_noise_is_that_of_the_closed_forms():
    n, m = 400, 30
    eps, delta, t, lam, kappa = 0.7, 1e-6, 2.5, 0.05, 3.0

    def root(level):
        return math.sqrt(2 * math.log(level / delta))

    length = math.log(8 / delta)
    scope = 1 + 2 * math.sqrt(length / m) + 2 * length / m
    multiplier = 2 * (1 + root(4)) / (n * eps)
    first = {
        "C": 2 * kappa**2 * scope * multiplier,
        "u": 2 * kappa * t * math.sqrt(scope) * multiplier,
    }
    linear: Any = {"input_bound": kappa}
    found = Algorithm1(InnerProduct(), m, 0.1, t, **linear).noise_std(n, eps, delta)
    assert found == pytest.approx(first, rel=1e-12)

    length, loss = math.log(4 / delta), HuberHinge(0.25)
    third = kappa * math.sqrt(1 + 2 * math.sqrt(length / m) + 2 * length / m)
    learner = Algorithm2(InnerProduct(), m, 1e-9, loss, **linear)
    std = 2 * third * math.sqrt(2 * math.log(4 / delta) + eps) / eps
    assert learner.noise_std(n, eps, delta) == pytest.approx({"b": std}, rel=1e-12)
    floor = 2.0 * third**2 / n / (math.exp(eps / 4) - 1)
    assert learner.perturbation(n, eps, delta).ridge == pytest.approx(floor, rel=1e-12)

    multiplier = 2 * (1 + root(2)) / (n * eps)
    found = Algorithm3(KERNEL, m, 0.1, t).noise_std(n, eps, delta)
    expected = {"C": 2 * multiplier, "u": math.sqrt(2) * t * multiplier}
    assert found == pytest.approx(expected, rel=1e-12)

    learner = Algorithm4(KERNEL, m, 10.0, loss)
    std = 2 * math.sqrt(2) * math.sqrt(2 * math.log(2 / delta) + eps) / eps
    assert learner.noise_std(n, eps, delta) == pytest.approx({"b": std}, rel=1e-12)
    assert learner.perturbation(n, eps, delta).ridge == 10.0
    below = Algorithm4(KERNEL, m, 0.0, loss).perturbation(n, eps, delta).ridge
    assert below / 2 == pytest.approx(2.0 / n / (math.exp(eps / 4) - 1), rel=1e-12)

    found = Algorithm5(InnerProduct(), lam, loss, **linear).noise_std(n, eps, delta)
    assert found == pytest.approx({"f": kappa * (1 + root(1)) / (n * lam * eps)}, rel=1e-12)

    found = CanonicalEstimator(_cosines, 5, 0.5, 3.3).noise_std(n, eps, delta)
    std = 2 * 3.3 * 5**0.25 * (1 + root(1)) / (n * eps)
    assert found == pytest.approx({"theta": std}, rel=1e-12)


# The boxes, literally, from features and normals that are given.


def _box1(z, y, *, kappa, ridge, truncation, epsilon, delta, square, vector):
    n, m = z.shape
    level = math.log(8 / delta)
    inner = 1 + 2 * math.sqrt(level / m) + 2 * level / m
    delta_1, delta_2 = 2 * kappa**2 * inner, 2 * kappa * truncation * math.sqrt(inner)
    y = np.minimum(np.maximum(y, -truncation), truncation)
    c_hat, u_hat = z.T @ z / n, z.T @ y / n
    multiplier = 2 * (1 + math.sqrt(2 * math.log(4 / delta))) / (n * epsilon)
    c_tilde = c_hat + multiplier * delta_1 * (square + square.T) / 2
    u_tilde = u_hat + multiplier * delta_2 * vector
    return np.linalg.inv(c_tilde + ridge * np.eye(m)) @ u_tilde


def _box3(z, y, *, ridge, truncation, epsilon, delta, square, vector):
    n, m = z.shape
    y = np.minimum(np.maximum(y, -truncation), truncation)
    multiplier = 2 * (1 + math.sqrt(2 * math.log(2 / delta))) / (n * epsilon)
    c_tilde = z.T @ z / n + multiplier * 2 * (square + square.T) / 2
    u_tilde = z.T @ y / n + multiplier * math.sqrt(2) * truncation * vector
    return np.linalg.inv(c_tilde + ridge * np.eye(m)) @ u_tilde


# Source: PK Algorithms 1, 2, 3 and 4.
@pytest.mark.parametrize("name", ["Algorithm1", "Algorithm3"])
def test_the_fit_is_the_box(name, monkeypatch):
    learner, (inputs, labels) = _learners()[name], _table()
    assert np.abs(labels).max() > 1.1
    drawn = _Drawn(monkeypatch)
    release = learner.fit(inputs, labels, **BUDGET, noise_seed=NOISE_SEED)
    z = np.asarray(release.features(inputs), np.float64)
    public = {"ridge": 0.1, "truncation": 1.0, "epsilon": 1.0, "delta": 1e-5}
    noise = {"square": drawn.normals["C"], "vector": drawn.normals["u"]}
    box = _box3 if name == "Algorithm3" else lambda *a, **k: _box1(*a, kappa=1.0, **k)
    expected = box(z, labels, **public, **noise)
    np.testing.assert_allclose(release.coefficients, expected, rtol=1e-4)
    wrong = box(z, labels, **{**public, "epsilon": 1.1}, **noise)
    assert not np.allclose(release.coefficients, wrong, rtol=1e-2)
    fresh = inputs[:5] + 0.05
    expected = np.asarray(release.features(fresh), np.float64) @ expected
    np.testing.assert_allclose(release(fresh), expected, rtol=1e-3)


def test_joint_paths_are_projected_on_as_in_the_box(monkeypatch):
    learner, (inputs, labels) = Algorithm1(KERNEL, 4, 0.1, 1.0), _table(20)
    drawn = _Drawn(monkeypatch)
    fresh = inputs[:5] + 0.05
    release = learner.fit(inputs, labels, **BUDGET, noise_seed=NOISE_SEED, test_inputs=fresh)
    points = np.concatenate([inputs, fresh])
    squares = np.sum((points[:, None] - points[None]) ** 2, axis=-1)
    gram = np.exp(-squares / (2 * float(KERNEL.scale) ** 2)) + 1e-10 * np.eye(len(points))
    paths = np.linalg.cholesky(gram) @ drawn.normals["path from point 0 on"] / 2
    noise = {"square": drawn.normals["C"], "vector": drawn.normals["u"]}
    public = {"ridge": 0.1, "truncation": 1.0, "epsilon": 1.0, "delta": 1e-5, "kappa": 1.0}
    expected = _box1(paths[:20], labels, **public, **noise)
    np.testing.assert_allclose(np.asarray(release.coefficients), expected, rtol=1e-3)
    np.testing.assert_allclose(release(fresh), paths[20:] @ expected, rtol=1e-2, atol=1e-4)


# Source: PK (3).
@pytest.mark.parametrize("name", ["Algorithm2", "Algorithm4"])
def test_the_coefficients_minimise_the_printed_objective(name, monkeypatch):
    learner, (inputs, labels) = _learners()[name], _signed_table()
    drawn = _Drawn(monkeypatch)
    release = learner.fit(inputs, labels, **BUDGET, noise_seed=NOISE_SEED)
    z = np.asarray(release.features(inputs), np.float64)
    n, std = len(labels), learner.noise_std(len(labels), 1.0, 1e-5)["b"]
    floor = {
        "Algorithm2": 0.25 * (std / 2 / math.sqrt(2 * math.log(4e5) + 1)) ** 2,
        "Algorithm4": 2,
    }
    ridge = max(0.1, floor[name] / n / (math.exp(0.25) - 1))

    def gradient(beta, noise):
        margins = labels * (z @ beta)
        if name == "Algorithm2":
            slopes = -1 / (1 + np.exp(margins))
        else:
            slopes = -np.clip((1.5 - margins) / 1, 0, 1)
        return z.T @ (labels * slopes) / n + ridge * beta + std * noise / n

    beta, noise = np.asarray(release.coefficients, np.float64), drawn.normals["b"]
    assert np.linalg.norm(gradient(beta, noise)) < 1e-5
    assert np.linalg.norm(gradient(beta, 0.9 * noise)) > 1e-3


# Source: PK Algorithm 5.
def test_algorithm_5_is_the_minimiser_over_functions_and_a_path(monkeypatch):
    learner, (inputs, labels) = _learners()["Algorithm5"], _signed_table()
    n, fresh = len(labels), inputs[:4] + 0.05

    def gram(first, second):
        squares = np.sum((first[:, None] - second[None]) ** 2, axis=-1)
        return np.exp(-squares / (2 * float(KERNEL.scale) ** 2))

    with monkeypatch.context() as patch:
        _Drawn(patch, factor=0.0)
        fitted = np.asarray(learner.fit(inputs, labels, **BUDGET)(inputs), np.float64)
    # The derivative along k_x, for every record: (1/n) sum l' y_i k(x_i, .) + lambda f = 0.
    weights = labels / (1 + np.exp(labels * fitted)) / (n * 0.1)
    np.testing.assert_allclose(gram(inputs, inputs) @ weights, fitted, atol=1e-5)
    assert not np.allclose(gram(inputs, inputs) @ weights, 1.01 * fitted, atol=1e-3)

    drawn = _Drawn(monkeypatch)
    release = learner.fit(inputs, labels, **BUDGET, noise_seed=NOISE_SEED, test_inputs=fresh)
    factor = np.linalg.cholesky(gram(fresh, fresh) + 1e-10 * np.eye(4))
    std = learner.noise_std(n, 1.0, 1e-5)["f"]
    path = factor @ drawn.normals["path from point 0 on"][:, 0]
    expected = gram(fresh, inputs) @ weights + std * path
    np.testing.assert_allclose(release(fresh), expected, rtol=1e-4, atol=1e-4)


def test_a_flipped_label_moves_algorithm_5_by_its_true_sensitivity(monkeypatch):
    # All margins lie in the linear part of the hinge.
    _Drawn(monkeypatch, factor=0.0)
    num, ridge = 12, 5.0
    inputs = np.arange(float(num))[:, None] * 3
    labels = np.where(np.arange(num) % 2, 1.0, -1.0)
    flipped = labels * np.where(np.arange(num) == 4, -1, 1)
    learner = Algorithm5(Gaussian(1.0), ridge, HuberHinge(0.1))
    values = [learner.fit(inputs, given, **BUDGET)(inputs[4:5])[0] for given in (labels, flipped)]
    assert abs(values[0] - values[1]) == pytest.approx(2 / (num * ridge), rel=1e-5)
    assert 2 / (num * ridge) == pytest.approx(0.033333, abs=1e-6)


def test_the_canonical_estimator_averages_products_with_eigenfunctions(monkeypatch):
    drawn = _Drawn(monkeypatch)
    learner, (inputs, labels) = _learners()["CanonicalEstimator"], _table(dim=1)
    release = learner.fit(inputs, labels, **BUDGET, noise_seed=NOISE_SEED)
    functions = math.sqrt(2) * np.cos(math.pi * inputs * np.arange(1, 6))
    averages = (np.clip(labels, -1, 1)[:, None] * functions).mean(axis=0)
    std = learner.noise_std(len(labels), 1.0, 1e-5)["theta"]
    expected = averages + std * drawn.normals["theta"]
    np.testing.assert_allclose(release.coefficients, expected, rtol=1e-4, atol=1e-5)


# Costs.


def test_every_cost_has_the_papers_claim_and_says_what_is_wrong(releases):
    wrong = {
        "Algorithm1": "false for a projection that is published",
        "Algorithm2": "Theorem 9 is false",
        "Algorithm3": "proof is wrong",
        "Algorithm4": "Theorem 20 is false",
        "Algorithm5": "half the true one",
        "CanonicalEstimator": "the published sensitivity",
    }
    for name, release in releases.items():
        cost = release.cost
        assert (cost.published_epsilon, cost.delta) == (1.0, 1e-5)
        assert any(wrong[name] in line for line in cost.assumptions), name
        assert jaxdp.account(release, delta=1e-6).epsilon > cost.epsilon or cost.epsilon == math.inf
    unproved = [name for name in releases if releases[name].cost.epsilon == math.inf]
    assert unproved == ["CanonicalEstimator"]


def test_what_is_proved_of_a_published_projection_is_its_largest_norm_anywhere(releases):
    release = releases["Algorithm1"]
    bound = release.features.norm_bound
    weights = np.asarray(release.features.base.weights, np.float64)
    stretch = np.linalg.norm(weights, 2) / math.sqrt(8)
    assert bound == pytest.approx(stretch, rel=1e-4)
    assert bound > stretch
    # No base features of norm 1 are stretched by more; and far inputs do not leave the ball.
    rng = np.random.default_rng(0)
    far = rng.standard_normal((500, 3)) * np.geomspace(1, 1e4, 500)[:, None]
    norms = np.linalg.norm(np.asarray(release.features(far), np.float64), axis=1)
    assert norms.max() <= bound
    stds = _learners()["Algorithm1"].noise_std(1, 1.0, 1e-5)
    weight = stds["C"] / stds["u"]
    balance = (weight / bound) ** 2
    assert balance < 2
    mu = math.sqrt(2) * bound**2 * (1 + balance / 2) / stds["C"]
    assert release.cost.mu == pytest.approx(mu, rel=1e-6)


def test_nothing_is_proved_of_a_published_projection_that_is_unbounded():
    learner, (inputs, labels) = Algorithm1(InnerProduct(), 4, 0.1, 1.0, input_bound=1.0), _table()
    cost = learner.fit(inputs, labels, **BUDGET).cost
    assert cost.epsilon == math.inf
    assert any("nothing bounds" in line for line in cost.assumptions)


def test_algorithm_3_costs_less_than_it_states_and_algorithm_5_more(releases):
    multiplier = 1 + math.sqrt(2 * math.log(2e5))
    expected = 3 * math.sqrt(2) / 4 / multiplier
    assert releases["Algorithm3"].cost.mu == pytest.approx(expected, rel=1e-6)
    assert releases["Algorithm3"].cost.epsilon < 0.65
    expected = 2 / (1 + math.sqrt(2 * math.log(1e5)))
    assert releases["Algorithm5"].cost.mu == pytest.approx(expected, rel=1e-6)
    assert releases["Algorithm5"].cost.epsilon == pytest.approx(1.32, abs=0.005)


def test_the_canonical_estimator_is_proved_where_its_least_eigenvalue_is_given():
    inputs, labels = _table(dim=1)
    # Of the kernel with eigenvalues l^-2, whose k_1(x, x) is at most 2 zeta(2).
    learner = CanonicalEstimator(_cosines, 5, 1.0, math.pi**2 / 3, least_eigenvalue=1 / 25)
    mu = 2 * math.sqrt(math.pi**2 / 3) * 5 / learner.noise_std(1, 1.0, 1e-5)["theta"]
    cost = learner.fit(inputs, labels, **BUDGET).cost
    assert cost.mu == pytest.approx(mu, rel=1e-8)
    assert cost.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-6)


def test_a_secret_projection_is_proved_but_for_its_tail():
    learner, (inputs, labels) = Algorithm1(KERNEL, 8, 0.1, 1.0), _table(10)
    cost = learner.fit(inputs, labels, **BUDGET, test_inputs=inputs[:2]).cost
    level = math.log(8e5)
    square = 1 + 2 * math.sqrt(level / 8) + 2 * level / 8
    stds = learner.noise_std(1, 1.0, 1e-5)
    balance = (stds["C"] / stds["u"]) ** 2 / square
    mu = math.sqrt(2) * square * (1 + balance / 2) / stds["C"]
    failure = 2 * chi2.sf(8 * square, 8)
    assert failure < 1e-5 / 4
    assert cost.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5 - failure), rel=1e-6)
    assert cost.mu is None
    assert gaussian_delta(mu, cost.epsilon) + failure == pytest.approx(1e-5, rel=1e-6)
    assert GaussianUnlessFailure(mu, 1e-5).epsilon(1e-5, "replace-one") == math.inf


# Released objects.


def test_a_curator_answers_the_same_question_the_same_way(releases):
    release, inputs = releases["Algorithm5"], _table()[0]
    first = np.asarray(release(inputs[:3]))
    more = np.asarray(release(np.concatenate([inputs[2:5], inputs[:1], inputs[4:5]])))
    np.testing.assert_array_equal(more[[0, 3]], first[[2, 0]])
    assert more[4] == more[2]
    # Near points have near values: the path was continued and not drawn anew.
    near = np.asarray(release(inputs[:3] + 1e-4))
    std = Algorithm5(KERNEL, 0.1, Logistic()).noise_std(60, 1.0, 1e-5)["f"]
    assert np.abs(near - first).max() < 0.01 * std
    with pytest.raises(ValueError, match="finite"):
        release(np.full((1, 3), np.nan))


def test_paths_that_are_continued_have_the_law_of_paths_drawn_at_once():
    from experiments.private_kernel_learning.published.curated import SecretPaths

    points = np.array([[0.0], [0.5], [1.3]])
    paths = SecretPaths(KERNEL, 20_000, SecretNoise(11, b""))
    scaled = [paths.at(points[[2]]), paths.at(points[[0, 2, 1]])]
    np.testing.assert_array_equal(scaled[1][1], scaled[0][0])
    values = scaled[1][[0, 2, 1]] * math.sqrt(20_000)
    expected = np.exp(-((points - points.T) ** 2) / (2 * 0.8**2))
    for i, j in itertools.combinations_with_replacement(range(3), 2):
        products = values[i] * values[j]
        error = 5 * products.std() / math.sqrt(20_000)
        assert abs(products.mean() - expected[i, j]) < error < 0.1
    assert abs((values[0] * values[1]).mean()) > error


def test_one_seed_gives_paths_of_another_history_normals_of_their_own(monkeypatch):
    """Two continuations that shared them would differ by what no noise hides."""
    drawn, (inputs, labels) = _Drawn(monkeypatch), _signed_table()
    found = []
    for first in (inputs[:1], inputs[1:2] + 2, inputs[:1]):
        release = Algorithm5(KERNEL, 0.1, Logistic()).fit(
            inputs, labels, **BUDGET, noise_seed=NOISE_SEED, test_inputs=first
        )
        release(inputs[4:6])
        found.append(drawn.normals["path from point 1 on"])
    assert np.abs(found[0] - found[1]).min() > 1e-6
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("name", ["Algorithm2", "Algorithm5"])
def test_what_a_release_says_of_itself_depends_on_neither_records_nor_noise(name):
    kernel = InnerProduct()
    learner = {
        "Algorithm2": Algorithm2(kernel, 8, 0.1, Logistic(), num_features=8, input_bound=1.0),
        "Algorithm5": Algorithm5(kernel, 1e-3, HuberHinge(1e-4), input_bound=1.0),
    }[name]
    inputs, labels = _signed_table()
    costs = {
        learner.fit(scale * inputs, labels, **BUDGET, noise_seed=seed).cost
        for scale, seed in ((1e-3, 7), (1.0, 8), (10.0, 9))
    }
    assert len(costs) == 1


# Wrong arguments.


@pytest.mark.slow
@pytest.mark.parametrize("name", published.__all__)
def test_the_example_of_a_published_name_runs_and_prints_what_it_shows(name):
    thing = getattr(published, name)
    found = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})
    assert sum(len(test.examples) for test in found) > 0
    said = []
    for test in found:
        doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "".join(said)
