r"""The abstract losses: how far a prediction is from its label, and the slope of that.

A loss is written here as a function of the *prediction* f alone. What it is of the parameters
follows for every model that is linear in them (`jaxdp.losses.linear_model`).
"""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from jaxdp.core.description import AbstractDescription


class ClippedSlope(eqx.Module):
    r"""What a theory asks about a clipped slope $\psi(f)$ where the prediction f is Gaussian.

    Attributes:
        mean: $E[\psi(f)]$.
        square: $E[\psi(f)^2]$.
        derivative: $E[\psi'(f)]$, the derivative of the mean in the mean of f; by Stein's identity
            also $\mathrm{Cov}(\psi(f), f)/\mathrm{Var} f$.
        clipped: the probability that the slope is clipped.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import Squared
        >>> mean, variance, label, limit = np.array([1.0, 1.0, 0.0, 2.0], np.float32)
        >>> found = Squared().clipped_slope(mean, variance, label, limit)
        >>> print(f"mean {found.mean:.3f}, clipped {found.clipped:.3f}")
        mean 1.219, clipped 0.523
    """

    mean: Float[Array, "*shape"]
    square: Float[Array, "*shape"]
    derivative: Float[Array, "*shape"]
    clipped: Float[Array, "*shape"]


class SignalSlope(eqx.Module):
    r"""What a theory asks about a clipped slope where labels follow a signal.

    The signal $f^* = S z$ and the prediction f are jointly Gaussian, z is standard normal, and the
    slope is a function $\psi$ of f and of a label that depends on $f^*$.

    Attributes:
        along: $E[\psi z]$.
        derivative: $E[\partial\psi/\partial f]$; by Stein's identity also $E[\psi h]/\sqrt w$ with
            the part $\sqrt w\,h$ of the prediction that is independent of the signal.
        square: $E[\psi^2]$.
        clipped: the probability that the slope is clipped.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import well_specified_slope
        >>> overlap, remainder, signal, limit = np.array([0.0, 0.0, 2.0, np.inf], np.float32)
        >>> found = well_specified_slope(overlap, remainder, signal, limit)
        >>> print(f"square {found.square:.3f}, clipped {found.clipped:.3f}")
        square 0.250, clipped 0.000
    """

    along: Float[Array, "*shape"]
    derivative: Float[Array, "*shape"]
    square: Float[Array, "*shape"]
    clipped: Float[Array, "*shape"]


class AbstractLoss(AbstractDescription):
    r"""A loss $\ell(f, y)$, convex in the prediction f.

    Predictions and labels of any shapes that broadcast; where a prediction is a vector its last
    axis is that of the outputs. Labels are taken as they are: whoever holds them checks them, by
    `require_labels`.
    """

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int | None:
        """How many numbers a prediction has, in an axis of their own; None where it is one."""

    @abc.abstractmethod
    def require_labels(self, name: str, labels: Any) -> None:
        """Raise unless the labels are a vector of labels of this loss; traced ones pass.

        Args:
            name: of the argument, for the error.
            labels: one for each sample.

        Raises:
            TypeError: they are not made of real numbers.
            ValueError: they are no vector, not finite, or not what the loss is defined for.
        """

    @property
    @abc.abstractmethod
    def curvature_bound(self) -> float:
        r"""The largest second derivative in the prediction; of a vector, eigenvalue."""

    @property
    @abc.abstractmethod
    def slope_bound(self) -> Any:
        r"""The largest norm of a slope, which is the Lipschitz constant; may be infinite."""

    @abc.abstractmethod
    def value(
        self, prediction: Float[Array, "..."], label: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        r"""$\ell(f, y)$."""

    @abc.abstractmethod
    def slope(
        self, prediction: Float[Array, "..."], label: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        r"""$\partial\ell/\partial f$, of the shape of the prediction."""

    @abc.abstractmethod
    def expected_value(
        self,
        mean: Float[Array, "..."],
        variance: Float[Array, "..."],
        label: Float[Array, "..."],
    ) -> Float[Array, "..."]:
        r"""$E[\ell(f, y)]$ where the prediction f is Gaussian.

        Args:
            mean: of the prediction, of its shape.
            variance: of the prediction, >= 0; of several outputs, the one of each of them, which
                are then independent, or their covariance (..., k, k).
            label: y, fixed.
        """


class AbstractClassificationLoss(AbstractLoss):
    """A loss whose label is a class, which the prediction names too."""

    @abc.abstractmethod
    def correct_share(
        self, prediction: Float[Array, "..."], label: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """1 where the prediction names the label's class, and 0 where it names another.

        Where j classes tie, the label's among them, it is 1/j, as if the tie were broken at random:
        predictions that are all zero are right as often as guesses.
        """

    @abc.abstractmethod
    def correct_probability(
        self,
        mean: Float[Array, "..."],
        variance: Float[Array, "..."],
        label: Float[Array, "..."],
    ) -> Float[Array, "..."]:
        """The mean of `correct_share` where the prediction is Gaussian: as in `expected_value`."""


class AbstractScalarLoss(AbstractLoss):
    """A loss whose prediction is one number."""

    @property
    def num_outputs(self):
        return None

    @abc.abstractmethod
    def clipped_slope(
        self,
        mean: Float[Array, "*shape"],
        variance: Float[Array, "*shape"],
        label: Float[Array, "*shape"],
        limit: Float[Array, "*shape"],
    ) -> ClippedSlope:
        r"""Moments of the slope, cut at $\pm k$, where the prediction is $N(m, v)$.

        Args:
            mean: m.
            variance: v >= 0.
            label: y, fixed.
            limit: k >= 0, may be infinite: `slope_limits` of the norms that gradients are clipped
                at.
        """
