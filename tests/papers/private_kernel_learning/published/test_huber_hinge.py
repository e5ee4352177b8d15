"""The Huber hinge: its formulas, and slopes to the rounding that a certificate counts on."""

from fractions import Fraction

import numpy as np
import pytest

from experiments.private_kernel_learning.published import HuberHinge


def test_the_loss_is_its_closed_form_with_its_slope_and_curvature():
    loss, margins = HuberHinge(0.5).on_host(), np.linspace(-2, 3, 1001)
    inside = np.abs(1 - margins) < 0.5
    expected = np.where(inside, (1.5 - margins) ** 2 / 2, np.maximum(1 - margins, 0))
    np.testing.assert_allclose(loss.value_at(margins, np), expected, atol=1e-15)
    slopes = loss.slope_at(margins, np)
    np.testing.assert_allclose(slopes, -np.clip(1.5 - margins, 0, 1), atol=1e-15)
    np.testing.assert_allclose(np.gradient(expected, margins)[1:-1], slopes[1:-1], atol=2e-3)
    curvatures = loss.curvature_at(margins, np)
    assert set(curvatures.tolist()) == {0.0, float(loss.curvature_bound)} == {0.0, 1.0}


@pytest.mark.parametrize("width", [1e-12, 3e-7, 0.1, 7.0])
def test_slopes_on_the_host_are_right_to_rounding(width):
    margins = 1 + width * np.random.default_rng(0).uniform(-1.5, 1.5, 400)
    loss, half = HuberHinge(width), Fraction(1, 2)
    wide = Fraction(float(loss.on_host().width))
    shares = [min(max((Fraction(u) - 1) / wide, -1), 1) for u in margins.tolist()]
    exact = [half * share - half for share in shares]
    found = loss.on_host().slope(margins, np.ones(400), xp=np).tolist()
    room = Fraction(64, 2**53)
    assert max(abs(Fraction(a) - b) for a, b in zip(found, exact, strict=True)) <= room
    # In float32 they are not.
    rough = np.asarray(loss.slope(margins, 1.0)).tolist()
    assert max(abs(Fraction(a) - b) for a, b in zip(rough, exact, strict=True)) > room
