"""The curve of softmax objective perturbation: its supremum over pairs of records, by brute force.

Source: PK Assumption 6 and Theorem 9, for several outputs.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from jaxdp.privacy import ObjectivePerturbation, SoftmaxPerturbation


def _divergence(mu, excess):
    return ndtr(mu / 2 - excess / mu) - np.exp(excess) * ndtr(-mu / 2 - excess / mu)


def _over_vertices(num_classes, labels, first, second, std, excess):
    """The sum of the hockey-stick divergences over the vertices, built as matrices."""
    units, total = np.eye(num_classes), 0.0
    for j, other in itertools.product(range(num_classes), repeat=2):
        shift = np.outer(first, units[j] - units[labels[0]])
        shift = shift - np.outer(second, units[other] - units[labels[1]])
        size = np.linalg.norm(shift) / std
        total += _divergence(size, excess) if size > 0 else 0.0
    return total


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
        margin = ObjectivePerturbation(0.7, 0.2, mu, has_signed_slopes=True)
        for epsilon in (0.1, 0.3, 1.0, 4.0):
            assert two.delta(epsilon) == pytest.approx(margin.delta(epsilon), rel=1e-10)


def test_epsilon_inverts_delta_and_grows_slowly_with_the_classes():
    found = []
    for num_classes in (2, 10, 1000):
        mechanism = SoftmaxPerturbation(0.5, 0.1, 0.005, num_classes=num_classes)
        epsilon = mechanism.epsilon(1e-5, "replace-one")
        assert mechanism.delta(epsilon) == pytest.approx(1e-5, rel=1e-6)
        assert mechanism.delta(epsilon * (1 - 1e-6)) > 1e-5
        found.append(epsilon)
    assert found[0] < found[1] < found[2] < 1.8 * found[0]
