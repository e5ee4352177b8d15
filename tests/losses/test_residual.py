"""Losses of residuals: their constants, their derivatives, and the check of what others state.

Source: PK Assumption 6.
"""

from fractions import Fraction

import numpy as np
import pytest

from jaxdp.losses import AbstractResidualLoss, Huber, SmoothedAbsolute, SmoothedQuantile
from jaxdp.losses.residual import check_residual_loss

LOSSES = [Huber(0.5), SmoothedAbsolute(0.25), SmoothedQuantile(0.9, 0.5), SmoothedQuantile(0.2, 2)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
_RESIDUALS = np.linspace(-8, 8, 3201)


@each_loss
def test_slope_and_curvature_are_derivatives(loss):
    step = 1e-6
    above, below = _RESIDUALS + step, _RESIDUALS - step
    slopes = (loss.value_of_residual(above) - loss.value_of_residual(below)) / (2 * step)
    room = 2e-6 * loss.smoothness + 1e-8
    np.testing.assert_allclose(loss.slope_of_residual(_RESIDUALS), slopes, atol=room)
    away = np.abs(np.abs(_RESIDUALS) - float(loss.width)) > 1e-4
    rises = (loss.slope_of_residual(above) - loss.slope_of_residual(below)) / (2 * step)
    found = loss.curvature_of_residual(_RESIDUALS)
    np.testing.assert_allclose(found[away], rises[away], atol=1e-8)


@each_loss
def test_the_stated_constants_are_the_smallest(loss):
    check_residual_loss(loss)
    assert np.abs(loss.slope_of_residual(_RESIDUALS * 100)).max() == pytest.approx(loss.lipschitz)
    assert loss.curvature_of_residual(_RESIDUALS).max() == pytest.approx(loss.smoothness)
    assert loss.value_of_residual(_RESIDUALS).min() >= 0


# The solver's certificate counts on this rounding, however narrow the corner is.
@pytest.mark.parametrize("width", [1e-12, 3e-7, 0.1, 7.0])
def test_slopes_are_right_to_rounding(width):
    residuals = width * np.random.default_rng(0).uniform(-1.5, 1.5, 400)
    shares = [min(max(Fraction(r) / Fraction(width), -1), 1) for r in residuals.tolist()]
    for loss, exact in (
        (SmoothedAbsolute(width), shares),
        (SmoothedQuantile(0.3, width), [s / 2 + Fraction(1, 2) - Fraction(0.3) for s in shares]),
    ):
        slopes = loss.slope_of_residual(residuals).tolist()
        gaps = [abs(Fraction(a) - b) for a, b in zip(slopes, exact, strict=True)]
        assert max(gaps) <= Fraction(64, 2**53) * Fraction(loss.lipschitz)


class _Overridden(SmoothedAbsolute):
    def slope_at(self, predictions, labels):
        return 2 * super().slope_at(predictions, labels)


def test_the_slope_that_a_fit_uses_is_the_one_that_is_checked():
    with pytest.raises(ValueError, match=r"\|slope\| <= 1"):
        check_residual_loss(_Overridden(0.25))


def test_smoothed_losses_are_the_losses_themselves_but_for_their_corner():
    far = _RESIDUALS[np.abs(_RESIDUALS) >= 0.5]
    modulus = SmoothedAbsolute(0.5).value_of_residual(far)
    np.testing.assert_allclose(modulus, np.abs(far), rtol=1e-14)
    # r = f - y: a prediction that is too low costs the level.
    pinball = np.where(far < 0, -0.9 * far, 0.1 * far)
    found = SmoothedQuantile(0.9, 0.5).value_of_residual(far)
    np.testing.assert_allclose(found, pinball, rtol=1e-12)
    assert not np.allclose(SmoothedQuantile(0.8, 0.5).value_of_residual(far), pinball)
    np.testing.assert_allclose(
        SmoothedQuantile(0.5, 0.3).value_of_residual(_RESIDUALS) * 2,
        SmoothedAbsolute(0.3).value_of_residual(_RESIDUALS),
        rtol=1e-12,
    )


def test_the_host_form_of_hubers_loss_is_that_of_jax():
    loss = Huber(0.75)
    np.testing.assert_allclose(
        loss.value_of_residual(_RESIDUALS), loss.value(_RESIDUALS, 0.0), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        loss.slope_at(_RESIDUALS, np.ones(3201)), loss.slope(_RESIDUALS, 1.0), rtol=1e-5, atol=1e-6
    )


def test_large_residuals_overflow_nothing():
    for loss in LOSSES:
        ends = np.asarray([-1e150, 1e150])
        for values in (
            loss.value_of_residual,
            loss.slope_of_residual,
            loss.curvature_of_residual,
        ):
            assert np.isfinite(values(ends)).all()


class _Stated(AbstractResidualLoss):
    """sqrt(1 + r^2) - 1, with constants as they are told."""

    lipschitz: float = 1.0
    smoothness: float = 1.0
    sign: float = 1.0

    def value_of_residual(self, residuals):
        return self.sign * (np.hypot(1, residuals) - 1)

    def slope_of_residual(self, residuals):
        return self.sign * residuals / np.hypot(1, residuals)

    def curvature_of_residual(self, residuals):
        return self.sign / np.hypot(1, residuals) ** 3


def test_a_loss_of_ones_own_is_checked():
    check_residual_loss(_Stated())
    for wrong, message in (
        (_Stated(lipschitz=0.9), r"\|slope\| <= 0.9"),
        (_Stated(smoothness=0.9), "curvature <= 0.9"),
        (_Stated(sign=-1.0), "a convex loss"),
        (_Stated(lipschitz=np.inf), "finite lipschitz > 0"),
        (_Stated(smoothness=0.0), "finite smoothness > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            check_residual_loss(wrong)


def test_wrong_losses_are_refused():
    for wrong in (0.0, -1.0, np.inf, np.nan):
        for build in (SmoothedAbsolute, lambda width: SmoothedQuantile(0.5, width)):
            with pytest.raises(ValueError, match="expected finite width > 0"):
                build(wrong)
    for wrong in (0.0, 1.0, -0.1, np.nan):
        with pytest.raises(ValueError, match="expected 0 < level < 1"):
            SmoothedQuantile(wrong, 1.0)
    with pytest.raises(TypeError, match="expected loss to be a loss of residuals"):
        check_residual_loss(lambda residuals: residuals)
