r"""Margin losses: convex, Lipschitz and smooth functions of $m = y f(x)$, for labels -1 and +1.

Here they are evaluated in float64 NumPy on the host, as a minimiser that is released needs
(`jaxdp.kernels.PrivateKernelClassifier`), with the constants on which its privacy rests.
"""

import abc
import functools

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.core.arrays import plain_float
from jaxdp.core.checks import require_kind, require_positive
from jaxdp.losses.lipschitz import (
    AbstractLipschitzLoss,
    check_constants,
    check_slopes,
    require_claim,
    wide_grid,
)

# By their slopes at these margins two losses are told apart.
COMPARED_MARGINS = np.linspace(-16, 16, 513)
_Margins = Float[np.ndarray, " n"]


class AbstractMarginLoss(AbstractLipschitzLoss):
    r"""A loss $\ell(m)$ of the margin: non-negative and convex, its slope Lipschitz."""

    @property
    @abc.abstractmethod
    def is_decreasing(self) -> bool:
        r"""Whether $\ell' \le 0$ everywhere: the label then tells the sign of the slope."""

    @abc.abstractmethod
    def value_of_margin(self, margins: _Margins) -> _Margins:
        r"""$\ell(m)$."""

    @abc.abstractmethod
    def slope_of_margin(self, margins: _Margins) -> _Margins:
        r"""$\ell'(m)$, to a rounding of $64 \cdot 2^{-53} c_1$."""

    @abc.abstractmethod
    def curvature_of_margin(self, margins: _Margins) -> _Margins:
        r"""$\ell''(m)$; where it jumps, any value in between."""

    @property
    def num_outputs(self):
        return None

    def value_at(self, predictions, labels):
        return self.value_of_margin(labels * predictions)

    def slope_at(self, predictions, labels):
        return labels * self.slope_of_margin(labels * predictions)

    def curvature_at(self, predictions, labels):
        return functools.partial(np.multiply, self.curvature_of_margin(labels * predictions))


class HuberHinge(AbstractMarginLoss):
    r"""The hinge $\max(0, 1 - m)$ with its corner rounded: $c_1 = 1$ and $c_2 = 1/(2h)$.

    $(1 + h - m)^2/(4h)$ for $|1 - m| \le h$, 0 above and $1 - m$ below. Its second derivative
    jumps at $1 \pm h$. Source: Chaudhuri, Monteleoni and Sarwate (2011), the Huber loss.

    Args:
        width: h > 0, half the length of the rounded corner.

    Raises:
        ValueError: the width is not positive and finite.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import HuberHinge
        >>> loss = HuberHinge(width=0.5)
        >>> loss.value_of_margin(np.array([-1.0, 1.0, 2.0])).tolist(), loss.smoothness
        ([2.0, 0.125, 0.0], 1.0)
    """

    width: float = eqx.field(converter=plain_float)

    def __check_init__(self):
        require_positive("width", self.width)

    @property
    def lipschitz(self):
        return 1.0

    @property
    def smoothness(self):
        return 0.5 / self.width

    @property
    def is_decreasing(self):
        return True

    def value_of_margin(self, margins):
        below = 1 - margins - self.width
        corner = np.square(self._depth(margins)) * self.width
        return corner + np.maximum(below, 0)

    def slope_of_margin(self, margins):
        return -self._depth(margins)

    def curvature_of_margin(self, margins):
        return np.where(np.abs(1 - margins) <= self.width, self.smoothness, 0.0)

    def _depth(self, margins):
        """How far into the corner a margin lies: 0 above it, 1 below it."""
        # 1 - m is exact near the corner; 1 + width would be rounded by a share of the width.
        return np.clip((1 - margins + self.width) / (2 * self.width), 0, 1)


def check_margin_loss(loss: AbstractMarginLoss) -> None:
    """Check the constants that a loss states, on which privacy rests, on a grid of margins.

    A grid finds wrong constants; it proves no right ones.

    Raises:
        TypeError: it is not a margin loss.
        ValueError: a constant is not positive and finite, or the slope on the grid leaves its
            bound, falls, rises faster than stated, or has the other sign.
    """
    expected = "a margin loss, such as jaxdp.losses.Logistic()"
    require_kind("loss", loss, AbstractMarginLoss, expected)
    check_constants(loss)
    margins = wide_grid(1 + np.linspace(-2, 2, 4001))
    for label in (-1.0, 1.0):
        # What a fit calls, whatever a subclass makes of it.
        found = label * loss.slope_at(label * margins, np.full(margins.shape, label))
        slopes = check_slopes(loss, margins, found, "slope_at")
        require_claim(loss, "a decreasing loss", loss.is_decreasing and slopes.max() > 0)
