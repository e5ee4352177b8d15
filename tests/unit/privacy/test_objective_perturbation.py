"""Curves of objective perturbation: vertices against quadrature and brute force, and limits."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from jaxdp.privacy import ObjectivePerturbationMechanism, gaussian_delta
from jaxdp.privacy.objective_perturbation import SoftmaxPerturbation

# The step's square over the integrand's own scale, one.
_QUADRATURE = 1e-3
_NODES = np.linspace(-9, 9, 361)
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.sqrt(2 * np.pi) * (_NODES[1] - _NODES[0])


def _divergence(mu, exponent):
    """H_exponent of N(0, 1) and N(mu, 1); the exponent may be negative and an array."""
    if mu == 0:
        return np.maximum(-np.expm1(exponent), 0)
    ratio = exponent / mu
    return ndtr(mu / 2 - ratio) - np.exp(exponent) * ndtr(-mu / 2 - ratio)


def _integrated(vertices, approximation_mu, excess):
    """E over a standard normal b in the plane of H_{excess - max loss}(approximation_mu)."""
    first, second = np.meshgrid(_NODES, _NODES, indexing="ij")
    losses = [v[0] * first + v[1] * second + (v @ v) / 2 for v in vertices]
    left = excess - np.max(losses, axis=0)
    return _WEIGHTS @ _divergence(approximation_mu, left) @ _WEIGHTS


@pytest.mark.parametrize("approximation_mu", [0.0, 0.05])
@pytest.mark.parametrize("excess", [0.5, 2.0])
def test_the_sum_over_vertices_covers_every_pair_of_records(excess, approximation_mu):
    shift = 0.8
    bounds = {
        signed: ObjectivePerturbationMechanism(shift, 0.0, approximation_mu, signed).delta(excess)
        for signed in (True, False)
    }
    largest = {True: 0.0, False: 0.0}
    for angle in np.linspace(0, np.pi, 5):
        for length in (1.0, 0.6):
            p = shift / 2 * np.asarray([1.0, 0.0])
            q = shift / 2 * length * np.asarray([np.cos(angle), np.sin(angle)])
            pairs = {True: [0 * p, p, q, p + q], False: [p + q, p - q, -p - q, q - p]}
            for signed, vertices in pairs.items():
                found = _integrated(vertices, approximation_mu, excess)
                assert found <= bounds[signed] * (1 + _QUADRATURE), (signed, angle)
                largest[signed] = max(largest[signed], found)
    # The sum exceeds the maximum where two losses are large together: less so at a large excess.
    share = 0.9 if excess == 2.0 else 0.6
    for signed in (True, False):
        assert largest[signed] > share * bounds[signed]


def test_every_vertex_is_counted():
    for shift, mu, excess in ((0.8, 0.5, 0.5), (0.3, 0.0, 0.2), (2.0, 1.0, 3.0)):
        none, half, root, whole = (
            gaussian_delta(math.hypot(part * shift, mu), excess)
            for part in (0, 1 / 2, 1 / math.sqrt(2), 1)
        )
        known, any_sign = (
            ObjectivePerturbationMechanism(shift, 0.0, mu, signed).delta(excess)
            for signed in (True, False)
        )
        assert known == pytest.approx(whole + 2 * half + none, rel=1e-9)
        assert any_sign == pytest.approx(2 * max(whole + none, 2 * root), rel=1e-9)


@settings(max_examples=60)
@given(
    shift=st.floats(0.05, 6), excess=st.floats(0, 8), mu=st.floats(0, 3), angle=st.floats(0, 1.6)
)
def test_the_worst_parallelogram_is_flat_or_square(shift, excess, mu, angle):
    bound = ObjectivePerturbationMechanism(shift, 0.0, mu).delta(excess)
    sides = (shift * math.cos(angle), shift * math.sin(angle))
    total = 2 * sum(gaussian_delta(math.hypot(side, mu), excess) for side in sides)
    assert min(total, 1) <= bound * (1 + 1e-9)


@settings(max_examples=60)
@given(
    shift=st.floats(0.01, 5),
    log_jacobian=st.floats(0, 3),
    mu=st.floats(0, 1),
    signed=st.booleans(),
    exponent=st.floats(-9, -1),
)
def test_epsilon_inverts_delta(shift, log_jacobian, mu, signed, exponent):
    mechanism, delta = ObjectivePerturbationMechanism(shift, log_jacobian, mu, signed), 10**exponent
    epsilon = mechanism.epsilon(delta, "replace-one")
    assert epsilon >= log_jacobian
    assert mechanism.delta(epsilon * (1 + 1e-9)) <= delta * (1 + 1e-6)
    if epsilon > log_jacobian * (1 + 1e-6):
        assert mechanism.delta(log_jacobian + (epsilon - log_jacobian) * (1 - 1e-6)) > delta


def test_limits_are_answered():
    assert ObjectivePerturbationMechanism(0.0, 0.0).epsilon(1e-5, "replace-one") == 0.0
    assert ObjectivePerturbationMechanism(0.0, 0.7).epsilon(1e-5, "replace-one") == 0.7
    for nothing_hidden in (
        ObjectivePerturbationMechanism(math.inf, 0.1),
        ObjectivePerturbationMechanism(1.0, math.inf),
    ):
        assert nothing_hidden.epsilon(1e-5, "replace-one") == math.inf
        assert nothing_hidden.delta(3.0) == 1.0
    assert ObjectivePerturbationMechanism(1.0, 0.5).delta(0.4) == 1.0
    assert ObjectivePerturbationMechanism(1.0, 0.5).delta(math.inf) == 0.0


# Several classes.


def _over_vertices(num_classes, labels, first, second, std, excess):
    """The sum of the hockey-stick divergences over the vertices, built as matrices."""
    units, total = np.eye(num_classes), 0.0
    for j, other in itertools.product(range(num_classes), repeat=2):
        shift = np.outer(first, units[j] - units[labels[0]])
        shift = shift - np.outer(second, units[other] - units[labels[1]])
        size = np.linalg.norm(shift) / std
        total += _divergence(size, excess)
    return total


# Source: PK Assumption 6 and Theorem 9, for several outputs.
@pytest.mark.parametrize("num_classes", [2, 3, 5])
@pytest.mark.parametrize("excess", [0.5, 1.5])
def test_the_bound_is_the_supremum_over_pairs_of_records(num_classes, excess):
    std = 8.0
    mechanism = SoftmaxPerturbation(2 * math.sqrt(2) / std, 0.0, 0.0, num_classes=num_classes)
    claimed, found = mechanism.delta(excess), []
    for angle in np.linspace(0, math.pi, 13):
        for size in (0.5, 1.0):
            second = size * np.asarray([math.cos(angle), math.sin(angle)])
            for labels in ((0, 0), (0, 1)):
                pair = num_classes, labels, np.asarray([1.0, 0.0]), second
                found.append(_over_vertices(*pair, std, excess))
    assert max(found) <= claimed
    assert max(found) == pytest.approx(claimed, rel=1e-9)
    # A vertex less, or norms that are a tenth too small, would be seen.
    assert max(found) > SoftmaxPerturbation(
        mechanism.shift * 0.9, 0, 0, num_classes=num_classes
    ).delta(excess)
    if num_classes > 2:
        assert max(found) > 1.1 * SoftmaxPerturbation(
            mechanism.shift, 0, 0, num_classes=num_classes - 1
        ).delta(excess)


def test_two_classes_are_a_decreasing_margin_loss():
    for mu in (0.0, 0.3):
        two = SoftmaxPerturbation(0.7, 0.2, mu, num_classes=2)
        margin = ObjectivePerturbationMechanism(0.7, 0.2, mu, has_signed_slopes=True)
        for epsilon in (0.1, 0.3, 1.0, 4.0):
            assert two.delta(epsilon) == pytest.approx(margin.delta(epsilon), rel=1e-10)
