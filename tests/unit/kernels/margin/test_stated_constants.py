"""The check of the constants on which the privacy of a loss's minimiser rests.

Source: PK Assumption 6.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from every_loss import BOUNDED

from experiments.private_kernel_learning.published import HuberHinge
from jaxdp.kernels import Gaussian, PrivateKernelClassifier
from jaxdp.kernels.margin.stated_constants import require_true_constants
from jaxdp.losses import AbstractMarginLoss, AbstractResidualLoss, Huber, Softmax, Squared
from jaxdp.regression.methods import HuberLearner

LOSSES = {name: entry.loss for name, entry in BOUNDED.items()} | {"hinge": HuberHinge(0.5)}


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_a_bounded_slope_keeps_what_it_states(name):
    require_true_constants(LOSSES[name].on_host())


class _Unasked:
    def expected_value_at(self, mean, variance):
        raise NotImplementedError

    def clipped_slope_at(self, mean, variance, limit):
        raise NotImplementedError

    def value_at(self, u, xp):
        raise NotImplementedError

    def curvature_at(self, u, xp):
        raise NotImplementedError


class _SquaredHinge(_Unasked, AbstractMarginLoss):
    """The squared hinge, cut off at a slope of 2, with constants as they are told."""

    slope_bound: float = 2.0
    curvature_bound: float = 2.0
    sign: float = 1.0
    is_decreasing: bool = True

    def slope_at(self, u, xp):
        return -2 * self.sign * xp.clip(1 - u, 0, 1)


class _PseudoHuber(_Unasked, AbstractResidualLoss):
    """sqrt(1 + r^2) - 1, with constants as they are told."""

    slope_bound: float = 1.0
    curvature_bound: float = 1.0
    sign: float = 1.0

    def slope_at(self, u, xp):
        return self.sign * u / xp.hypot(1, u)


@pytest.mark.parametrize("loss", [_SquaredHinge(), _PseudoHuber()], ids=repr)
def test_a_loss_of_ones_own_is_checked(loss):
    require_true_constants(loss)
    slope, curvature = 0.95 * loss.slope_bound, 0.95 * loss.curvature_bound
    for change, message in (
        ({"slope_bound": slope}, rf"\|slope\| <= {slope}"),
        ({"curvature_bound": curvature}, f"curvature <= {curvature}"),
        ({"sign": -1.0}, "a convex loss"),
        ({"sign": np.nan}, "one finite number"),
        ({"slope_bound": np.inf}, "finite slope_bound > 0"),
        ({"curvature_bound": 0.0}, "finite curvature_bound > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            require_true_constants(loss.replace(**change))


class _LogCosh(_Unasked, AbstractMarginLoss):
    """ln cosh: its slope has either sign, whatever it says."""

    slope_bound, curvature_bound = 1.0, 1.0
    is_decreasing: bool = eqx.field(static=True, default=False)

    def slope_at(self, u, xp):
        return xp.tanh(u)


def test_a_slope_of_either_sign_must_be_stated():
    require_true_constants(_LogCosh())
    with pytest.raises(ValueError, match="a decreasing loss"):
        require_true_constants(_LogCosh(is_decreasing=True))


class _Overridden(HuberHinge):
    """States the hinge's constants, and gives a fit another slope."""

    def slope(self, prediction, label, *, xp=jnp):
        return 2 * super().slope(prediction, label, xp=xp)


class _OtherSoftmax(Softmax):
    pass


def test_the_slope_that_a_fit_uses_is_the_one_that_is_checked():
    with pytest.raises(ValueError, match=r"\|slope\| <= 1"):
        PrivateKernelClassifier(Gaussian(1.0), loss=_Overridden(0.5))
    with pytest.raises(TypeError, match="expected Softmax itself"):
        PrivateKernelClassifier(Gaussian(1.0), loss=_OtherSoftmax(3))
    with pytest.raises(ValueError, match="expected finite slope_bound > 0, got inf"):
        require_true_constants(Squared().on_host())


def test_learners_hold_constants_in_float64():
    """Bounds that float32 rounds down would leave too little noise."""
    hinge, width = HuberHinge(0.3), float(HuberHinge(0.3).width)
    held = PrivateKernelClassifier(Gaussian(1.0), loss=hinge).loss
    assert float(held.curvature_bound) == 0.5 / width
    assert float(hinge.curvature_bound) != 0.5 / width
    held = HuberLearner(Gaussian(1.0), loss=Huber(0.3)).loss
    assert float(held.slope_bound) == float(Huber(0.3).width)
    assert held.slope_bound.dtype == np.float64
