"""What leaving a row out does to the interpolator, and to gradient flow on the way there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from experiments.statements.privacy_for_free.leave_one_out import leave_one_out


def _rows(num_train, dim, num_features, *, seed=0):
    """Rows on the sphere with labels sign(u.x), as PF Assumption 1 has them."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((num_train, dim))
    inputs *= np.sqrt(dim) / np.linalg.norm(inputs, axis=1, keepdims=True)
    weights = rng.standard_normal((num_features, dim)) / np.sqrt(dim)
    return inputs, np.sign(inputs[:, 0]), weights


def _problem(num_train, dim, num_features):
    inputs, labels, weights = _rows(num_train, dim, num_features)
    return jaxdp.RandomFeatures.from_arrays(inputs, labels, inputs[:1], labels[:1], weights)


def test_shifts_and_residuals_are_those_of_solving_without_each_row():
    # Source: PF (6.13).
    with jax.enable_x64():
        inputs, labels, weights = _rows(12, 4, 40)
        problem = jaxdp.RandomFeatures.from_arrays(inputs, labels, inputs[:2], labels[:2], weights)
        found = leave_one_out(problem)
    features = np.tanh(inputs @ weights.T)
    whole = np.linalg.pinv(features) @ labels
    for row in range(12):
        others = np.arange(12) != row
        without = np.linalg.pinv(features[others]) @ labels[others]
        assert found.shift[row] == pytest.approx(np.linalg.norm(whole - without), rel=1e-8)
        residual = labels[row] - features[row] @ without
        assert found.residual[row] == pytest.approx(residual, rel=1e-8)
        # With another row left out it is another number.
        assert found.shift[row - 1] != pytest.approx(np.linalg.norm(whole - without), rel=1e-3)


def test_shifts_are_within_the_bound_of_the_least_eigenvalue():
    # Source: PF (6.26), by which Lemma 6.5 follows from (6.25).
    found = leave_one_out(_problem(30, 5, 900))
    assert np.all(found.shift <= found.bound * (1 + 1e-9))
    assert found.shift.max() > 0.2 * found.bound.max()


@pytest.mark.slow
def test_shifts_go_like_the_logarithm_of_n_over_the_root_of_p():
    # Source: PF Lemma 6.5, (6.12): n = d^1.3 and p = n^2.
    sizes = [(10, 20), (20, 49), (40, 121), (57, 192)]
    scaled = []
    for dim, num_train in sizes:
        problem = _problem(num_train, dim, num_train**2).reduced()
        scaled.append(leave_one_out(problem).shift.max() * num_train / np.log(num_train))
    # Below that of a residual of log n and a least eigenvalue of p sum_{l >= 3} mu_l^2.
    assert max(scaled) < 1 / np.sqrt(0.394294490 - 0.605705510**2)
    assert scaled[-1] < scaled[0]
    # It is p and not n that matters: ten times the features, a root of ten less.
    narrow, wide = (leave_one_out(_problem(49, 20, p).reduced()).shift.max() for p in (2401, 24010))
    assert narrow / wide == pytest.approx(np.sqrt(10), rel=0.1)


@pytest.mark.slow
def test_infinite_width_has_units_of_its_own():
    kinds = {"activation": jnp.tanh, "key": jax.random.key(0)}
    limit = leave_one_out(jaxdp.RandomFeatures.sample(20, 2, 8, None, **kinds)).shift
    finite = leave_one_out(jaxdp.RandomFeatures.sample(20, 2, 8, 40_000, **kinds)).shift
    assert np.linalg.norm(finite * np.sqrt(40_000) - limit) < 0.05 * np.linalg.norm(limit)


class _Flow:
    """Gradient flow on rows on the sphere, in the eigenbasis of their kernel; NumPy alone."""

    def __init__(self, dim, num_train, num_features):
        inputs, self.labels, weights = _rows(num_train, dim, num_features, seed=1)
        self.features = np.tanh(inputs @ weights.T)
        self.kernel = self.features @ self.features.T
        self.duration = dim * np.log(num_train) ** 2 / num_features  # (4.3)
        self.times = self.duration * np.append(0, np.geomspace(1e-4, 1, 50))
        self.decays, self.basis = self._modes(self.kernel)

    def _modes(self, kernel):
        values, basis = np.linalg.eigh(kernel)
        return np.exp(-2 * values * self.times[:, None] / len(self.labels)), basis

    def residuals(self):
        """y - Phi theta(t) of all rows, at the times."""
        return (self.decays * (self.basis.T @ self.labels)) @ self.basis.T

    def without(self, row):
        """Both sides of (6.42): predictions for the row by the others' decaying solution."""
        others = np.arange(len(self.labels)) != row
        decays, basis = self._modes(self.kernel[np.ix_(others, others)])
        rotated = basis.T @ np.linalg.solve(
            self.kernel[np.ix_(others, others)], self.labels[others]
        )
        right = (decays * (basis.T @ self.kernel[others, row])) @ rotated
        solution = self.features[others].T @ (basis @ rotated)
        left = (self.decays * self.basis[row]) @ (self.basis.T @ (self.features @ solution))
        return np.abs(left), np.abs(right)

    def overlaps(self):
        """Both sides of (6.27) of all rows, at the times."""
        squares = np.diag(self.kernel)
        values = np.linalg.eigvalsh(self.kernel)
        left = (self.decays * values) @ (self.basis**2).T / squares
        return left, np.exp(-2 * squares * self.times[:, None] / len(self.labels))


@pytest.fixture(scope="module")
def flow():
    return _Flow(20, 80, 6400)


def test_residuals_of_gradient_flow_stay_of_the_order_of_the_logarithm(flow):
    # Source: PF Lemma 6.1, (6.7).
    largest = np.abs(flow.residuals()).max()
    # Not the labels' 1, from which every residual starts: some grow at first.
    assert 1.1 < largest < np.log(80)


def test_the_others_solution_decays_alike_under_all_rows(flow):
    # Source: PF Lemma 6.7, (6.42).
    for row in range(6):
        left, right = flow.without(row)
        assert left.max() <= 2 * right.max()
        # At t = 0 they are one number, so that the bound by one half of it would fail.
        assert left[0] == pytest.approx(right[0], rel=1e-8)


def test_the_overlap_is_below_its_own_exponential_at_first_and_not_to_the_end(flow):
    # Source: PF Lemma 6.6, (6.27): at this size it fails before tau of (4.3), where (6.41) is
    # 3.8 and not small; the lemma speaks of sizes at which it is.
    left, right = flow.overlaps()
    early = (flow.times > 0) & (flow.times < 0.5 * flow.duration)
    assert np.all(left[early] < right[early])
    assert np.all(left[-1] > right[-1])
    squares = np.diag(flow.kernel)
    assert 2 * squares.max() * flow.duration / 80 > 1 - 1 / np.e  # (6.40) is not met
