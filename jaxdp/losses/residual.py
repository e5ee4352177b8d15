r"""Losses of the residual r = f - y with a bounded slope: robust and quantile regression.

The absolute loss and the quantile loss have a corner, where their slope jumps. A private minimiser
needs a slope that is Lipschitz (PK Assumption 6), so the corner is rounded on $|r| \le w$; beyond,
the losses are the absolute and the quantile loss themselves.
"""

import abc
import functools

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.core.arrays import plain_float
from jaxdp.core.checks import host_number, require_kind, require_positive
from jaxdp.losses.lipschitz import AbstractLipschitzLoss, check_constants, check_slopes, wide_grid

_Residuals = Float[np.ndarray, " n"]


class AbstractResidualLoss(AbstractLipschitzLoss):
    r"""A loss $\ell(f - y)$: non-negative and convex, its slope bounded and Lipschitz."""

    @abc.abstractmethod
    def value_of_residual(self, residuals: _Residuals) -> _Residuals:
        r"""$\ell(r)$."""

    @abc.abstractmethod
    def slope_of_residual(self, residuals: _Residuals) -> _Residuals:
        r"""$\ell'(r)$, to a rounding of $64 \cdot 2^{-53} c_1$."""

    @abc.abstractmethod
    def curvature_of_residual(self, residuals: _Residuals) -> _Residuals:
        r"""$\ell''(r)$; where it jumps, any value in between."""

    @property
    def num_outputs(self):
        return None

    def value_at(self, predictions, labels):
        return self.value_of_residual(predictions - labels)

    def slope_at(self, predictions, labels):
        return self.slope_of_residual(predictions - labels)

    def curvature_at(self, predictions, labels):
        return functools.partial(np.multiply, self.curvature_of_residual(predictions - labels))


class SmoothedAbsolute(AbstractResidualLoss):
    r"""The absolute loss $|r|$ with its corner rounded: $c_1 = 1$ and $c_2 = 1/w$.

    $r^2/(2w) + w/2$ for $|r| \le w$, and $|r|$ beyond. Its minimiser estimates a median.

    Args:
        width: w > 0, half the length of the rounded corner.

    Raises:
        ValueError: the width is not positive and finite.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import SmoothedAbsolute
        >>> loss = SmoothedAbsolute(width=0.5)
        >>> loss.value_of_residual(np.array([-2.0, 0.0, 0.5])).tolist(), loss.smoothness
        ([2.0, 0.25, 0.5], 2.0)
    """

    width: float = eqx.field(converter=plain_float)

    def __check_init__(self):
        require_positive("width", self.width)

    @property
    def lipschitz(self):
        return 1.0

    @property
    def smoothness(self):
        return 1 / self.width

    def value_of_residual(self, residuals):
        return _rounded_modulus(residuals, self.width)

    def slope_of_residual(self, residuals):
        return np.clip(residuals, -self.width, self.width) / self.width

    def curvature_of_residual(self, residuals):
        return np.where(np.abs(residuals) <= self.width, self.smoothness, 0.0)


class SmoothedQuantile(AbstractResidualLoss):
    r"""The quantile (pinball) loss with its corner rounded.

    $\max(q(y - f), (1 - q)(f - y))$ but for $|f - y| \le w$, where it is
    $r^2/(4w) + w/4 + (\frac12 - q)r$; $c_1 = \max(q, 1 - q)$ and $c_2 = 1/(2w)$. Its minimiser
    estimates the q-quantile of a label given its input.

    Args:
        level: q in (0, 1); 1/2 is half of `SmoothedAbsolute`.
        width: w > 0, half the length of the rounded corner.

    Raises:
        ValueError: the level is not in (0, 1), or the width not positive and finite.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import SmoothedQuantile
        >>> loss = SmoothedQuantile(level=0.75, width=0.5)
        >>> loss.value_of_residual(np.array([-2.0, 0.0, 2.0])).tolist(), loss.lipschitz
        ([1.5, 0.125, 0.5], 0.75)
    """

    level: float = eqx.field(converter=plain_float)
    width: float = eqx.field(converter=plain_float)

    def __check_init__(self):
        if not 0 < host_number("level", self.level) < 1:
            raise ValueError(f"expected 0 < level < 1, got {self.level}")
        require_positive("width", self.width)

    @property
    def lipschitz(self):
        return max(self.level, 1 - self.level)

    @property
    def smoothness(self):
        return 0.5 / self.width

    def value_of_residual(self, residuals):
        return _rounded_modulus(residuals, self.width) / 2 + (0.5 - self.level) * residuals

    def slope_of_residual(self, residuals):
        return np.clip(residuals, -self.width, self.width) / self.width / 2 + (0.5 - self.level)

    def curvature_of_residual(self, residuals):
        return np.where(np.abs(residuals) <= self.width, self.smoothness, 0.0)


def check_residual_loss(loss: AbstractResidualLoss) -> None:
    """Check the constants that a loss states, on which privacy rests, on a grid of residuals.

    Raises:
        TypeError: it is not a loss of residuals.
        ValueError: as `check_slopes`.
    """
    expected = "a loss of residuals with a bounded slope, such as jaxdp.losses.Huber(1.0)"
    require_kind("loss", loss, AbstractResidualLoss, expected)
    check_constants(loss)
    # Near the corners of Huber's loss and its kin: curvature times length is the slope's range.
    points = wide_grid(loss.lipschitz / loss.smoothness * np.linspace(-4, 4, 4001))
    check_slopes(loss, points, loss.slope_at(points, np.zeros(points.shape)), "slope_at")


def _rounded_modulus(residuals: _Residuals, width: float) -> _Residuals:
    inside = np.clip(np.abs(residuals), 0, width)
    return np.maximum(np.abs(residuals), width) - width + (inside * (inside / width) + width) / 2
