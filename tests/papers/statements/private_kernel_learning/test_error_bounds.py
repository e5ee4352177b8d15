"""Bounds with high probability: sample paths, truncated labels, errors, local convexity, moments.

Source: PK Lemmas 12, 13, 14, 77 and 78, Theorems 38 and 64, Assumptions 2, 5, 10 and 11.
"""

import math

import numpy as np
import pytest

from experiments.private_kernel_learning.published import HuberHinge
from experiments.statements.private_kernel_learning.error_bounds import (
    local_convexity,
    projection_error_orders,
    sample_path_bound,
    truncation_level,
)
from experiments.statements.private_kernel_learning.rates import (
    linear_risk_order,
    lipschitz_linear_risk_order,
    random_projection_rate,
)


def test_no_sample_path_of_many_exceeds_its_bound_and_chaining_is_what_it_costs():
    # Source: PK Lemma 12, Proposition 25. The Laplace kernel, whose paths are as rough as
    # Assumption 5 allows.
    points = np.linspace(-1, 1, 400)
    kernel = np.exp(-np.abs(points[:, None] - points))
    # 1 - exp(-s) <= s.
    factor = np.linalg.cholesky(kernel + 1e-10 * np.eye(400))
    paths = factor @ np.random.default_rng(0).normal(size=(400, 2000))
    largest = np.abs(paths).max()
    bound = sample_path_bound(2000, 1, failure=0.5, radius=1.0, steepness=1.0)
    assert largest < bound
    # The part of Borel and TIS alone is sharp: without the mean of the supremum it is exceeded.
    assert largest > 0.95 * math.sqrt(2 * math.log(2000 / 0.5))
    mean = np.abs(paths).max(axis=0).mean()
    assert mean < bound - math.sqrt(2 * math.log(2000 / 0.5))
    # Sharpness of the deviation: all but a t-th of the paths lie within the mean and the second.
    reach = math.sqrt(2 * math.log(1 / 0.1))
    above = np.abs(paths).max(axis=0) - mean
    assert np.mean(above > reach) < 0.1 < np.mean(above > reach / 3)


def test_the_path_bound_grows_as_the_lemma_says():
    given = {"failure": 0.1, "radius": 1.0, "steepness": 1.0}
    one = sample_path_bound(1, 1, **given)
    gain = sample_path_bound(1000, 1, **given) - one
    expected = math.sqrt(2 * math.log(1e4)) - math.sqrt(2 * math.log(10))
    assert gain == pytest.approx(expected, rel=1e-9)
    # sqrt d, and a scale: the kernel times s^2 has paths s times as large.
    entropy = one - math.sqrt(2 / math.pi) - math.sqrt(2 * math.log(10))
    nine = sample_path_bound(1, 9, **given) - math.sqrt(2 / math.pi) - math.sqrt(2 * math.log(10))
    assert nine == pytest.approx(3 * entropy, rel=1e-6)
    wide = sample_path_bound(1, 1, failure=0.1, radius=1.0, steepness=9.0, kernel_bound=3.0)
    assert wide == pytest.approx(3 * one, rel=1e-6)


@pytest.mark.parametrize("law", ["normal", "laplace", "rare"])
def test_labels_exceed_the_truncation_level_as_rarely_as_stated(law):
    # Source: PK Lemma 14 and Assumption 2.
    rng, num, tables, failure = np.random.default_rng(2), 200, 4000, 0.2
    shape = (tables, num)
    # Laplace noise of scale b: E|x|^p = p! b^p, so sigma^2 = 2 b^2 and B = b. A rare +-1 of chance
    # q has E|x|^p = q <= p! B^(p - 2) sigma^2 / 2 for sigma^2 = q, B = 1/3.
    draws = {
        "normal": (lambda: rng.normal(size=shape), 1.0, 1.0),
        "laplace": (lambda: rng.laplace(size=shape), math.sqrt(2), 1.0),
        "rare": (lambda: rng.choice((-1, 0, 1), size=shape, p=(5e-4, 0.999, 5e-4)), 0.0317, 1 / 3),
    }
    draw, std, scale = draws[law]
    given = {"source": 0.5, "radius": 1.0, "noise_std": std, "noise_scale": scale}
    level = truncation_level(num, failure=failure, **given)
    labels = 1.0 + draw()
    share = np.mean(np.abs(labels).max(axis=1) > level)
    assert share <= failure
    # Without its logarithm the level would be exceeded in most tables.
    if law != "rare":
        assert np.mean(np.abs(labels).max(axis=1) > 1 + std) > 0.9


def test_the_errors_balance_at_the_choices_of_theorem_11_and_give_its_rates():
    # Source: PK Lemmas 13 and 14 with the choices after them, and Theorem 38.
    source, capacity = 0.75, 0.5
    rate = random_projection_rate(source, capacity)
    for epsilon_of, exponent in (
        (lambda n: math.inf, rate.decay.samples / 2),
        # epsilon = n^-.5: the private part decides.
        (lambda n: n**-0.5, rate.decay.privacy / 2),
    ):
        totals, bases = [], []
        for n in (1e120, 1e140):
            epsilon = epsilon_of(n)
            is_private = not math.isinf(epsilon)
            base = n * epsilon if is_private else n
            ridge = n**-rate.ridge.samples
            projections = n**rate.projections.samples
            if is_private:
                ridge = max(ridge, base**-rate.ridge.privacy)
                projections = min(projections, base**rate.projections.privacy)
            found = projection_error_orders(
                num_samples=n,
                num_projections=projections,
                ridge=ridge,
                effective_dimension=ridge**-capacity,
                source=source,
                epsilon=epsilon,
            )
            totals.append(found.total)
            bases.append(base)
            # No part is of a larger order than the bias.
            assert max(found) < 2 * found.bias
        slope = -math.log(totals[1] / totals[0]) / math.log(bases[1] / bases[0])
        assert slope == pytest.approx(exponent, rel=1e-3)
    # Theorem 38 as printed, without the ridge under the root, would not fall at all that fast.
    n = 1e120
    ridge = n**-rate.ridge.samples
    printed = math.sqrt(ridge**-capacity / n**rate.projections.samples)
    assert printed > 100 * ridge**source


def _targets_and_predictions(loss, target, reach):
    best = np.linspace(*target, 41)[:, None]
    predictions = np.linspace(-reach, reach, 2001)[None]
    tangents = loss.value_at(best, np) + loss.slope_at(best, np) * (predictions - best)
    gaps = loss.value_at(predictions, np) - tangents
    return gaps, (predictions - best) ** 2


@pytest.mark.parametrize(("target", "reach"), [((0.0, 1.0), 5.0), ((-0.5, 2.5), 30.0)])
def test_the_huber_hinge_is_locally_strongly_convex_with_the_stated_constant(target, reach):
    # Source: PK Lemma 77.
    loss = HuberHinge(2.0).on_host()
    corner = (1 - loss.width, 1 + loss.width)
    constant = local_convexity((loss.curvature_bound, loss.curvature_bound), corner, target, reach)
    assert constant > 0
    gaps, squares = _targets_and_predictions(loss, target, reach)
    assert np.all(gaps >= constant / 2 * squares - 1e-12)
    # It is attained at an end of the reach, so no larger one would do.
    assert not np.all(gaps >= 1.05 * constant / 2 * squares - 1e-12)


def test_the_risk_of_the_huber_hinge_obeys_assumption_11():
    # Source: PK Assumptions 10 and 11, Lemma 77: two inputs, the best prediction at each.
    loss, chances = HuberHinge(2.0).on_host(), np.asarray([0.4, 0.6])
    grid = np.linspace(-0.9, 0.9, 3601)[:, None]

    def risk(predictions):
        positive = loss.value_at(predictions, np) * chances
        return positive + loss.value_at(-predictions, np) * (1 - chances)

    best = grid[np.argmin(risk(grid), axis=0), 0]
    assert np.abs(best).max() < 0.9
    reach = 6.0
    bounds = -np.abs(best).max(), np.abs(best).max()
    constant = local_convexity((0.25, 0.25), (-1.0, 3.0), bounds, reach)
    predictions = np.linspace(-reach, reach, 1001)[:, None]
    excess = risk(predictions) - risk(best[None])
    # Margins of both labels lie in the corner: the least probability of that is 1.
    assert np.all(excess >= constant / 2 * (predictions - best) ** 2 - 1e-9)
    assert not np.all(excess >= 4 * constant / 2 * (predictions - best) ** 2 - 1e-9)


def _moments(eigenvalues, order):
    """Raw and central moments of sum mu_l g_l^2, from its cumulants 2^(p-1) (p-1)! sum mu^p."""
    orders = range(1, order + 1)
    cumulants = [2 ** (p - 1) * math.factorial(p - 1) * np.sum(eigenvalues**p) for p in orders]
    found = []
    for first in (cumulants[0], 0.0):
        kept, moments = [first, *cumulants[1:]], [1.0]
        for p in orders:
            terms = (math.comb(p - 1, k) * kept[k] * moments[p - 1 - k] for k in range(p))
            moments.append(sum(terms))
        found.append(moments[1:])
    return found


@pytest.mark.parametrize("decay", [0.0, 1.0, 2.0, 40.0])
def test_moments_of_a_gaussian_path_obey_the_bernstein_condition(decay):
    # Source: PK Lemma 78, with C = 2.
    eigenvalues = np.arange(1.0, 51.0) ** -decay
    trace, order = eigenvalues.sum(), 24
    raw, central = _moments(eigenvalues, order)
    for p in range(1, order + 1):
        assert raw[p - 1] <= 2 * math.factorial(p) * (8 * trace) ** p
        if p % 2 == 0:
            assert central[p - 1] <= 2 * math.factorial(p) * (4 * trace) ** p
    draws = np.random.default_rng(3).normal(size=(20_000, 50)) ** 2 @ eigenvalues
    assert np.mean(draws**2) == pytest.approx(raw[1], rel=0.1)
    # With one eigenvalue the moments are 2^p p! / sqrt(pi p): a base below 2 would fail.
    if decay == 40.0:
        assert raw[-1] > 2 * math.factorial(order) * (1.7 * trace) ** order


def test_a_lipschitz_loss_has_the_private_part_of_the_squared_one():
    # Source: PK Theorem 64.
    for trace, rank in ((1.0, math.inf), (0.3, 3), (2.0, 1000)):
        private = linear_risk_order(1e4, 1.0, trace=trace, rank=rank)
        private -= min(rank / 1e4, math.sqrt(trace / 1e4))
        found = lipschitz_linear_risk_order(1e4, 1.0, trace=trace, rank=rank)
        assert found - 0.01 == pytest.approx(private, rel=1e-9)
        # It solves lambda = sqrt M / (n eps) for M = N(lambda), at the smaller of both bounds.
        ridge = min(math.sqrt(rank) / 1e4, (trace / 1e8) ** (1 / 3))
        assert ridge == pytest.approx(math.sqrt(min(trace / ridge, rank)) / 1e4, rel=1e-9)
