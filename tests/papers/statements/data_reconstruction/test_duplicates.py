"""What near-duplicates of one row leave of another's features: Theorem 2 with numbers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_mean_close

import jaxdp
from experiments.statements.data_reconstruction.assumption_2 import mixed_parity
from experiments.statements.data_reconstruction.duplicates import duplicate_limit, near_duplicates

RELU = jax.nn.relu
HOSTS = {
    "tanh": (jnp.tanh, np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "relu": (RELU, lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
}


def _outside(features, vector):
    """The share of a vector's square that rows of features do not span."""
    found, *_ = np.linalg.lstsq(features.T, vector, rcond=None)
    return np.sum((vector - features.T @ found) ** 2) / np.sum(vector**2)


# Source: DR Theorem 2, in the limit of duplicates; (9) has its tangent.
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_limit_is_what_a_row_and_its_best_tangent_leave(name):
    activation, host, slope = HOSTS[name]
    rng, width, shares = np.random.default_rng(0), 4000, []
    for _ in range(30):
        along, across = rng.standard_normal((2, width))
        # x_1 and x_2 are orthogonal; of all tangents that towards x_2 is the best for wide V.
        spanned = np.vstack([host(along), slope(along) * across])
        shares.append(_outside(spanned, host(across)))
    expected = duplicate_limit(activation) * (1 - 2 / width)
    assert_mean_close(shares, expected, rejects=[1.1 * expected])


def test_closed_form_of_relu_and_of_linear_features():
    assert duplicate_limit(RELU) == pytest.approx(3 / 4 - 1 / np.pi**2, abs=1e-12)
    assert duplicate_limit(lambda z: 3 * z) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "activation",
    [RELU, *(pytest.param(one, marks=pytest.mark.slow) for one in (jnp.tanh, mixed_parity))],
)
def test_close_pairs_leave_the_limit_and_far_ones_nothing(activation):
    shares = [near_duplicates(activation, far).share for far in (0.01, 0.02, 0.4, 1.0)]
    # The difference is of the order of the distance (ReLU) or of its square.
    extrapolated = 2 * shares[0] - shares[1]
    assert extrapolated == pytest.approx(duplicate_limit(activation), abs=5e-4)
    assert np.all(np.diff(shares) < 0)
    # Zero, which Theorem 2 excludes near x_1, needs a row at x_2.
    assert shares[-1] > 1e-3
    arrived = near_duplicates(activation, math.sqrt(2))
    assert arrived.share < 1e-8
    assert max(arrived.angles) == pytest.approx(np.pi / 2, abs=1e-3)


# Source: DR Lemma C.6, (133): |a_2| is of the order of one over the distance, a_1 + a_2 of one.
def test_coefficients_grow_as_one_over_the_distance_and_cancel():
    for activation in (RELU, jnp.tanh):
        found = [near_duplicates(activation, far) for far in (0.01, 0.03, 0.1)]
        gaps = [abs(one.angles[0] - one.angles[1]) for one in found]
        sizes = np.array([max(map(abs, one.coefficients)) for one in found]) * gaps
        assert np.all((sizes > 0.3) & (sizes < 3))
        assert all(abs(sum(one.coefficients)) < 1 for one in found)


def _kernel(activation, cosines):
    """Normalised: the arc-cosine kernel, or Mehler's series for what is smooth."""
    if activation is RELU:
        angles = np.arccos(np.clip(cosines, -1, 1))
        return (np.sin(angles) + (np.pi - angles) * np.cos(angles)) / np.pi
    squares = np.asarray(jaxdp.problems.hermite_coefficients(activation, 60), float) ** 2
    return np.polynomial.polynomial.polyval(cosines, squares / squares.sum())


def _best_random(activation, distance, rng, count=300):
    """Least share that random pairs of rows leave, within the distance in four dimensions."""
    steps = rng.standard_normal((count, 4))
    steps[:, 0] = 0
    # Some of them towards x_2, which is the second axis.
    steps[: count // 2, 2:] *= 0.2
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    # Angles up to the farthest, most of them there.
    angles = 2 * np.arcsin(distance / 2) * rng.uniform(size=(count, 1)) ** 0.3
    rows = np.cos(angles) * np.eye(4)[0] + np.sin(angles) * steps
    one, two = np.triu_indices(count, 1)
    cross, between = _kernel(activation, rows[:, 1]), _kernel(activation, rows @ rows.T)[one, two]
    along, across = cross[one] + cross[two], cross[one] - cross[two]
    return np.min(1 - along**2 / (2 * (1 + between)) - across**2 / (2 * (1 - between)))


@pytest.mark.parametrize("distance", [0.2, 0.9])
@pytest.mark.parametrize("activation", [RELU, jnp.tanh, mixed_parity])
def test_no_pair_off_the_great_circle_is_better(activation, distance):
    best = near_duplicates(activation, distance).share
    drawn = _best_random(activation, distance, np.random.default_rng(1))
    # Mehler's series ends where float32 does.
    assert best <= drawn + 1e-4
    # The draws come near it, so that the comparison says something.
    assert drawn < best + 0.15


# Source: DR Theorem 2 at a finite distance, with tanh; and (76) by least squares.
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_random_features_of_finite_duplicates_leave_what_is_predicted(name):
    activation, host, _ = HOSTS[name]
    rng, dim, width, distance = np.random.default_rng(2), 15, 4000, 0.5
    expected = near_duplicates(activation, distance)
    shares = []
    for _ in range(20):
        first, second = math.sqrt(dim) * np.linalg.qr(rng.standard_normal((dim, 2)))[0].T
        pair = [np.cos(angle) * first + np.sin(angle) * second for angle in expected.angles]
        weights = rng.standard_normal((width, dim)) / math.sqrt(dim)
        shares.append(_outside(host(np.array(pair) @ weights.T), host(weights @ second)))
    assert_mean_close(shares, expected.share, bias=2 / width, rejects=[1.2 * expected.share])


# Normalised kernels by hand, as functions of the cosine: Mehler's series of a sine, of z^3, of z^2.
@pytest.mark.parametrize(
    ("activation", "kernel", "distance"),
    [
        (jnp.sin, lambda c: np.sinh(c) / np.sinh(1), 0.5),
        (lambda z: z**3, lambda c: (9 * c + 6 * c**3) / 15, 1.0),
        (lambda z: z**2, lambda c: (1 + 2 * c**2) / 3, 1.0),
        (lambda z: z**3 - 3 * z, lambda c: c**3, 1.1),
    ],
)
def test_no_pair_of_a_dense_grid_on_the_circle_is_better(activation, kernel, distance):
    farthest = 2 * math.asin(distance / 2)
    angles = np.linspace(-farthest, farthest, 401)
    first, second = angles[np.stack(np.triu_indices(401, 1))]
    between, cross = kernel(np.cos(first - second)), kernel(np.sin(np.stack([first, second])))
    along, across = cross.sum(0), cross[0] - cross[1]
    shares = 1 - along**2 / (2 * (1 + between)) - across**2 / (2 * (1 - between))
    share = near_duplicates(activation, distance).share
    # The best pairs nearly coincide at the edge, and the grid's nearest are a little apart.
    assert shares.min() * 0.96 < share < shares.min() * (1 + 1e-9)
