"""The lower bound for private kernel learning: its tables, its rate, and what is below what.

Source: PK Theorems 10 and 23, Proposition 44, Assumption 7 and Appendix G.
"""

import math

import numpy as np
import pytest
from helpers import assert_mean_close

from experiments.statements.private_kernel_learning.lower_bounds import (
    canonical_excess_risk,
    fluctuation_constants,
    private_lipschitz_lower_bound,
    private_lower_bound,
)
from experiments.statements.private_kernel_learning.rates import minimax_rate
from jaxdp.theory import KernelSpectrum

# E|sqrt 2 cos| of a uniform phase.
FLAT = 2 * math.sqrt(2) / math.pi
GIVEN = {"source": 0.5, "delta": 0.0}


def _bound(eigenvalues):
    """Bound of sqrt k(x, x) on the torus, where no phi^2 exceeds 2."""
    return math.sqrt(2 * np.sum(eigenvalues))


def _basis(points, num):
    """The Fourier basis of the torus, literally."""
    columns = [np.ones_like(points)]
    for order in range(1, num // 2 + 1):
        columns += [f(2 * math.pi * order * points) * math.sqrt(2) for f in (np.cos, np.sin)]
    return np.stack(columns[:num], axis=1)


def test_coupled_tables_have_the_right_laws_and_differ_in_as_many_labels_as_stated():
    rng, num = np.random.default_rng(1), 20_000
    eigenvalues = np.arange(1.0, 6.0) ** -2 / 3
    means = np.asarray([1.0, *[FLAT] * 4])
    found = private_lower_bound(eigenvalues, means, num_samples=num, epsilon=1e-4, **GIVEN)
    assert found.num_terms > 1
    amplitude, size, place = found.amplitude, found.num_terms, 1
    # The source condition, and labels within +-1 as the kernel is bounded by 1 times its trace.
    assert amplitude**2 * np.sum(1 / eigenvalues[:size]) <= 1 + 1e-12
    signs = np.where(rng.uniform(size=size) < 0.5, -1.0, 1.0)
    signs[place] = 1.0
    basis = _basis(rng.uniform(size=num), size)
    flipped = signs.copy()
    flipped[place] = -1.0
    first, second = (amplitude * basis @ part for part in (signs, flipped))
    assert np.abs(first).max() <= 1
    # One uniform number decides both labels: they differ where it falls between the two chances.
    uniform = rng.uniform(size=num)
    labels, others = (np.where(uniform < (1 + part) / 2, 1.0, -1.0) for part in (first, second))
    assert_mean_close(labels - first, 0.0)
    assert_mean_close(others - second, 0.0)
    differ = (labels != others).astype(float)
    expected = amplitude * FLAT
    assert_mean_close(differ, expected, rejects=[1.3 * expected])
    assert found.changed_labels >= num * expected * (1 - 1e-9)
    # A wrong sign costs 4 a^2 between targets, a^2 for whoever guesses anything in between.
    assert np.mean((first - second) ** 2) == pytest.approx(4 * amplitude**2, rel=0.05)


def _exponent(eigenvalues, means, products):
    """Exponent of the bound in n epsilon; delta is 0, so that it depends on the product alone."""
    kernel_bound = _bound(eigenvalues)
    given = [
        {"num_samples": 1e15, "epsilon": product / 1e15, "kernel_bound": kernel_bound}
        for product in products
    ]
    risks = [private_lower_bound(eigenvalues, means, **one, **GIVEN).risk for one in given]
    return -np.polyfit(np.log(products), np.log(risks), 1)[0]


@pytest.mark.parametrize(("capacity", "embedding"), [(0.5, 1.0), (0.5, 0.75), (0.8, 0.9)])
def test_the_rate_is_the_printed_one_where_the_fluctuation_is_met_from_both_sides(
    capacity, embedding
):
    eigenvalues = np.arange(1.0, 20_001.0) ** (-1 / capacity)
    # Few enough terms are needed for the 20,000 at hand.
    products = np.geomspace(1e3, 1e5, 9) / (1 if capacity == 0.5 else 30)
    printed = minimax_rate(0.5, capacity, embedding).decay.privacy
    spiky = _exponent(eigenvalues, eigenvalues ** (embedding / 2), 100 * products)
    assert spiky == pytest.approx(printed, rel=0.04)
    # Where the functions do not fluctuate the construction gives the exponent of beta = 0.
    flat = _exponent(eigenvalues, np.full(20_000, FLAT), products)
    assert flat == pytest.approx(4 * 0.5 / (2 * 0.5 + capacity), rel=0.04)
    assert abs(flat - printed) > 0.08 * printed


def _canonical(eigenvalues, product, num_samples=1e30):
    """The canonical estimator's worst risk on the torus: a target at the edge of the condition."""
    worst = []
    for num_terms in np.unique(np.geomspace(1, 20_000, 80).astype(int)):
        # All of the target in the first coefficient that is left out.
        squares = np.zeros(len(eigenvalues))
        squares[num_terms] = eigenvalues[num_terms]
        spectrum = KernelSpectrum(eigenvalues, squares)
        # PK Proposition 2's multiplier, delta = 1e-40, and a sensitivity of 2 S sqrt d / n.
        labels = _bound(eigenvalues)
        noise = 2 * labels * math.sqrt(num_terms) * (1 + math.sqrt(2 * math.log(1e40))) / product
        given = {"num_samples": num_samples, "label_noise": 1.0, "noise": noise}
        worst.append(canonical_excess_risk(spectrum, num_terms=int(num_terms), **given).total)
    return min(worst)


def test_the_bound_lies_below_what_is_reached_and_the_printed_one_for_beta_1_does_not():
    capacity, eigenvalues = 0.3, np.arange(1.0, 40_001.0) ** (-1 / 0.3)
    means, delta = np.full(40_000, FLAT), 1e-40
    # Assumption 7 holds on the torus with beta = 1, and so would the printed bound.
    constant, _ = fluctuation_constants(eigenvalues, means, 1.0)
    assert constant == pytest.approx(FLAT**2)
    ratios, products = [], np.geomspace(1e4, 1e12, 5)
    for product in products:
        reached = _canonical(eigenvalues, product)
        given = {"num_samples": 1e30, "epsilon": product / 1e30, "delta": delta, "source": 0.5}
        given["kernel_bound"] = _bound(eigenvalues)
        assert 0 < private_lower_bound(eigenvalues, means, **given).risk < reached
        changed = math.sqrt(constant) * eigenvalues / np.sqrt(np.arange(1, 40_001))
        wrong = 0.9 * np.exp(-10 * product * changed) - 10 * 1e30 * delta * changed
        ratios.append((constant * eigenvalues / 2 * wrong).max() / reached)
    # The printed one falls as (n eps)^(-2 / (2 + gamma)), what is reached as ^(-2 / (1 + 2 gamma)).
    slope = np.polyfit(np.log(products), np.log(ratios), 1)[0]
    assert slope == pytest.approx(2 / (1 + 2 * capacity) - 2 / (2 + capacity), abs=0.05)
    assert ratios[0] < 1 < 3 < ratios[-1]


def test_a_stronger_privacy_or_a_larger_delta_moves_the_bounds_as_it_must():
    eigenvalues, means = np.arange(1.0, 201.0) ** -2, np.full(200, FLAT)
    for bound in (private_lower_bound, private_lipschitz_lower_bound):
        given = {"num_samples": 1e4, "source": 0.75, "kernel_bound": _bound(eigenvalues)}
        risks = [
            bound(eigenvalues, means, epsilon=epsilon, delta=1e-7, **given).risk
            for epsilon in (1e-4, 1e-3, 1e-2, 0.1)
        ]
        assert risks == sorted(risks, reverse=True)
        loose = bound(eigenvalues, means, epsilon=1e-3, delta=1e-2, **given).risk
        assert loose < risks[1]


def test_the_logistic_risk_exceeds_the_distance_times_the_curvature_that_is_used():
    grid, reach = np.linspace(-1.5, 1.5, 301), 1.5
    curvature = 1 / (2 + 2 * math.cosh(reach))
    # Excess risk of f where the best prediction is g, both within the reach; Assumption 10.
    first, best = np.meshgrid(grid, grid)
    chance = 1 / (1 + np.exp(-best))

    def risk(prediction):
        return np.log1p(np.exp(-prediction)) * chance + np.log1p(np.exp(prediction)) * (1 - chance)

    excess, distance = risk(first) - risk(best), (first - best) ** 2
    assert np.all(excess >= curvature / 2 * distance - 1e-12)
    assert not np.all(excess >= 1.3 * curvature / 2 * distance - 1e-12)
    given = {"num_samples": 100, "epsilon": 0.01, "radius": 2.0, **GIVEN}
    squared = private_lower_bound([0.8, 0.2], [1.0, 1.0], **given)
    logistic = private_lipschitz_lower_bound([0.8, 0.2], [1.0, 1.0], **given)
    # Labels +-2 and the sigmoid's slope of 1/4 change as many records.
    expected = squared.risk / (2 + 2 * math.cosh(2.0)) / 2
    assert logistic.risk == pytest.approx(expected, rel=1e-12)


def test_a_bounded_power_of_the_kernel_keeps_its_eigenfunctions_from_hiding():
    # Appendix G: |phi_l|_1 >= mu_l^(beta/2) / sqrt c_beta; the torus, and a kernel of deltas.
    eigenvalues = np.arange(1.0, 51.0) ** -2
    for embedding in (0.6, 1.0):
        bound = 2 * np.sum(eigenvalues**embedding)
        least, _ = fluctuation_constants(eigenvalues, np.full(50, FLAT), embedding)
        assert least >= 1 / bound
        # On the integers with P(l) = p_l: phi_l = 1_l / sqrt p_l, of modulus mean sqrt p_l.
        shares = eigenvalues / eigenvalues.sum()
        bound = np.max(eigenvalues**embedding / shares)
        least, _ = fluctuation_constants(eigenvalues, np.sqrt(shares), embedding)
        assert least >= 1 / bound * (1 - 1e-12)
        # It is attained there: <=, as printed, would be wrong for every other l.
        assert least == pytest.approx(1 / bound, rel=1e-9)


def test_the_canonical_estimator_has_the_risk_of_its_literal_steps():
    """PK section 4.1 with the right sensitivity: averages of y phi_l(x), and noise."""
    frequencies = np.arange(1.0, 128.0)
    eigenvalues = np.append(1.0, np.repeat((2 * frequencies) ** -2, 2))
    coefficients = (eigenvalues / eigenvalues.sum()) ** 0.7 / np.sqrt(np.arange(1.0, 256.0))
    basis = _basis(np.arange(256) / 256, 255)
    values = basis @ coefficients
    terms, rows, size, random, risks = 9, 400, 0.02, np.random.default_rng(6), []
    for _ in range(800):
        places = random.integers(256, size=rows)
        labels = values[places] + 0.5 * random.choice([-1.0, 1.0], rows)
        averages = basis[places, :terms].T @ labels / rows
        found = basis[:, :terms] @ (averages + size * random.normal(size=terms))
        risks.append(np.mean((found - values) ** 2))

    def total(noise):
        return canonical_excess_risk(
            KernelSpectrum(eigenvalues, coefficients**2),
            num_terms=terms,
            num_samples=rows,
            label_noise=0.5,
            noise=noise,
        ).total

    assert_mean_close(risks, total(size), rejects=[total(4 / 3 * size)])
