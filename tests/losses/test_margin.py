"""Margin losses: their constants, their derivatives, and the check of what others state."""

from fractions import Fraction

import equinox as eqx
import numpy as np
import pytest

from jaxdp.losses import AbstractMarginLoss, HuberHinge, Logistic
from jaxdp.losses.margin import check_margin_loss

LOSSES = [Logistic(), HuberHinge(0.5), HuberHinge(0.01), HuberHinge(3.0)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
_MARGINS = np.linspace(-8, 8, 3201)


@each_loss
def test_slope_and_curvature_are_derivatives(loss):
    step = 1e-6
    slopes = (loss.value_of_margin(_MARGINS + step) - loss.value_of_margin(_MARGINS - step)) / (
        2 * step
    )
    np.testing.assert_allclose(
        loss.slope_of_margin(_MARGINS), slopes, atol=2e-6 * loss.smoothness + 1e-8
    )
    away = np.abs(np.abs(1 - _MARGINS) - getattr(loss, "width", np.inf)) > 1e-4
    curvatures = (loss.slope_of_margin(_MARGINS + step) - loss.slope_of_margin(_MARGINS - step)) / (
        2 * step
    )
    np.testing.assert_allclose(
        loss.curvature_of_margin(_MARGINS)[away], curvatures[away], atol=1e-8
    )


@each_loss
def test_the_stated_constants_are_the_smallest(loss):
    check_margin_loss(loss)
    assert np.abs(loss.slope_of_margin(_MARGINS * 100)).max() == pytest.approx(loss.lipschitz)
    # The grid holds 0, where the logistic loss curves most, and 1, where the hinge does.
    assert loss.curvature_of_margin(_MARGINS).max() == pytest.approx(loss.smoothness)
    assert loss.value_of_margin(_MARGINS).min() >= 0


def test_the_huber_hinge_is_the_hinge_but_for_its_corner():
    margins = np.asarray([-3.0, 0.49, 1.0, 1.51, 4.0])
    np.testing.assert_allclose(
        HuberHinge(0.5).value_of_margin(margins), [4.0, 0.51, 0.125, 0.0, 0.0], rtol=1e-14
    )
    hinge = np.maximum(0, 1 - _MARGINS)
    assert np.abs(HuberHinge(0.01).value_of_margin(_MARGINS) - hinge).max() == pytest.approx(0.0025)


# The solver's certificate counts on this rounding, however narrow the corner is.
@pytest.mark.parametrize("width", [1e-12, 3e-7, 0.1, 7.0])
def test_slopes_of_the_huber_hinge_are_right_to_rounding(width):
    loss, rng = HuberHinge(width), np.random.default_rng(0)
    margins = 1 + width * rng.uniform(-1.5, 1.5, 400)
    exact = [
        -min(max((1 - Fraction(m) + Fraction(width)) / (2 * Fraction(width)), 0), 1)
        for m in margins.tolist()
    ]
    gaps = [
        abs(Fraction(slope) - right)
        for slope, right in zip(loss.slope_of_margin(margins).tolist(), exact, strict=True)
    ]
    assert max(gaps) <= Fraction(64, 2**53)
    # (1 + width) - m, whose sum is rounded, is not.
    rounded = np.clip((1 + width - margins) / (2 * width), 0, 1)
    worst = max(abs(Fraction(-a) - b) for a, b in zip(rounded.tolist(), exact, strict=True))
    assert width > 1e-3 or worst > Fraction(64, 2**53)


def test_large_margins_overflow_nothing():
    for loss in LOSSES:
        for values in (loss.value_of_margin, loss.slope_of_margin, loss.curvature_of_margin):
            assert np.isfinite(values(np.asarray([-1e8, 1e8]))).all()


class _Stated(AbstractMarginLoss):
    """The squared hinge, cut off at a slope of 2, with constants as they are told."""

    lipschitz: float = 2.0
    smoothness: float = 2.0
    is_decreasing: bool = True
    sign: float = 1.0

    def value_of_margin(self, margins):
        inner = np.minimum(np.maximum(1 - margins, 0), 1)
        return self.sign * (inner**2 + 2 * np.maximum(-margins, 0))

    def slope_of_margin(self, margins):
        return -2 * self.sign * np.clip(1 - margins, 0, 1)

    def curvature_of_margin(self, margins):
        return 2.0 * self.sign * ((margins > 0) & (margins < 1))


def test_a_loss_of_ones_own_is_checked():
    check_margin_loss(_Stated())
    for wrong, message in (
        (_Stated(lipschitz=1.9), r"\|slope\| <= 1.9"),
        (_Stated(smoothness=1.9), "curvature <= 1.9"),
        (_Stated(sign=-1.0), "a convex loss"),
        (_Stated(lipschitz=np.inf), "finite lipschitz > 0"),
        (_Stated(smoothness=0.0), "finite smoothness > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            check_margin_loss(wrong)


class _Symmetric(AbstractMarginLoss):
    """ln cosh: its slope has either sign, whatever it says."""

    is_decreasing: bool = eqx.field(static=True, default=False)
    lipschitz: float = 1.0
    smoothness: float = 1.0

    def value_of_margin(self, margins):
        return np.logaddexp(margins, -margins) - np.log(2)

    def slope_of_margin(self, margins):
        return np.tanh(margins)

    def curvature_of_margin(self, margins):
        return 1 / np.cosh(np.clip(margins, -300, 300)) ** 2


class _Overridden(HuberHinge):
    """States the hinge's constants, and gives a fit another slope."""

    def slope_at(self, predictions, labels):
        return 2 * super().slope_at(predictions, labels)


def test_the_slope_that_a_fit_uses_is_the_one_that_is_checked():
    with pytest.raises(ValueError, match=r"\|slope\| <= 1"):
        check_margin_loss(_Overridden(0.5))


def test_a_slope_of_either_sign_must_be_stated():
    check_margin_loss(_Symmetric())
    with pytest.raises(ValueError, match="a decreasing loss"):
        check_margin_loss(_Symmetric(is_decreasing=True))


def test_wrong_losses_are_refused():
    for width in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="expected finite width > 0"):
            HuberHinge(width)
    with pytest.raises(TypeError, match="expected loss to be a margin loss, such as"):
        check_margin_loss(lambda margins: margins)
