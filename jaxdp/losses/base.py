"""The abstract losses: how far a prediction is from its label, and the slope of that.

A loss is a function of the *prediction* f alone; what it is of the parameters follows for every
model that is linear in them (`jaxdp.losses.linear_model`). Value, slope and curvature are formulas
over a library of arrays, `xp`: in JAX inside simulators and theories, in float64 NumPy where a
private minimiser is certified (`jaxdp.kernels.margin`): its proof needs the rounding of every
slope.
"""

import abc
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.core.arrays import float_dtype
from jaxdp.core.checks import concrete, require_finite, require_shape
from jaxdp.core.description import AbstractDescription

# So many distinct labels are shown in an error, which tells an encoding from another.
_SHOWN = 3


def known_labels(name: str, labels: Any) -> Float[np.ndarray, " n"] | None:
    """A vector of finite real numbers, or None where the labels are traced; else raise."""
    known = concrete(labels, name)
    if known is not None:
        require_shape(name, known, (None,))
        require_finite(name, known)
    return known


def alike(*values: Any) -> list[Array]:
    """The values as arrays of one shape and of one floating-point type."""
    dtype = float_dtype(values)
    return jnp.broadcast_arrays(*(jnp.asarray(value, dtype) for value in values))


class ClippedSlope(eqx.Module):
    r"""What a theory asks about a clipped slope $\psi(f)$ where the prediction f is Gaussian.

    Attributes:
        mean: $E[\psi(f)]$.
        square: $E[\psi(f)^2]$; of k independent outputs of one variance v, $E|\psi|^2/k$.
        derivative: $E[\psi'(f)]$, the derivative of the mean in the mean of f; by Stein's identity
            also $\mathrm{Cov}(\psi(f), f)/\mathrm{Var} f$. For k outputs, its trace over k.
        clipped: the probability that the slope is clipped.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import Squared
        >>> mean, variance, label, limit = np.array([1.0, 1.0, 0.0, 2.0], np.float32)
        >>> found = Squared().clipped_slope(mean, variance, label, limit)
        >>> print(f"mean {found.mean:.3f}, clipped {found.clipped:.3f}")
        mean 1.219, clipped 0.523
    """

    mean: Float[Array, "*shape outputs"] | Float[Array, "*shape"]
    square: Float[Array, "*shape"]
    derivative: Float[Array, "*shape"]
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
    def require_labels(self, name: str, labels: Any, *, are_private: bool = False) -> None:
        """Raise unless the labels are a vector of labels of this loss; traced ones pass.

        Args:
            name, labels: of the argument, for the error; and one for each sample.
            are_private: whether the error leaves out what came.

        Raises:
            TypeError: they are not made of real numbers.
            ValueError: they are no vector, not finite, or not what the loss is defined for.
        """

    @property
    @abc.abstractmethod
    def curvature_bound(self) -> Any:
        r"""The Lipschitz constant of the slope: its largest second derivative, or eigenvalue."""

    @property
    @abc.abstractmethod
    def slope_bound(self) -> Any:
        r"""The largest norm of a slope, which is the Lipschitz constant; may be infinite."""

    @property
    def square_curvature(self) -> float | None:
        r"""The number c of a loss that is $\frac c2 (f - y)^2$; None for every other loss."""
        return None

    @property
    def is_decreasing(self) -> bool:
        """Whether it falls in the margin or residual, so that a label tells the slope's sign."""
        return False

    @property
    def class_labels(self) -> tuple[float, ...] | None:
        """The labels of the classes, in their order; None where labels are no classes."""
        return None

    @abc.abstractmethod
    def value(
        self, prediction: Float[Any, "..."], label: Float[Any, "..."], *, xp: Any = jnp
    ) -> Float[Any, "..."]:
        r"""$\ell(f, y)$.

        Args:
            prediction: f.
            label: y.
            xp: the library that computes, `jax.numpy`, or `numpy` for a loss `on_host`.
        """

    @abc.abstractmethod
    def slope(
        self, prediction: Float[Any, "..."], label: Float[Any, "..."], *, xp: Any = jnp
    ) -> Float[Any, "..."]:
        r"""$\partial\ell/\partial f$, of the shape of the prediction.

        In NumPy and float64 it is right to $(64 + k) \cdot 2^{-53}$ of `slope_bound` for k outputs;
        residuals f - y, where the loss is one of them, may be rounded besides.

        Args:
            prediction, label, xp: as for `value`.
        """

    @abc.abstractmethod
    def slope_changes(
        self, prediction: Float[np.ndarray, "..."], label: Float[np.ndarray, "..."]
    ) -> Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]:
        r"""Multiplication of small changes of f by $\partial^2\ell/\partial f^2$, in NumPy."""

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

    @abc.abstractmethod
    def clipped_slope(
        self,
        mean: Float[Array, "..."],
        variance: Float[Array, "*shape"],
        label: Float[Array, "*shape"],
        limit: Float[Array, "*shape"],
    ) -> ClippedSlope:
        r"""Moments of the slope, its norm cut at k, where the prediction is $N(m, v)$.

        Args:
            mean: m, of the shape of a prediction.
            variance: v >= 0, of each output, which are independent.
            label: y, fixed.
            limit: k >= 0, may be infinite: `slope_limits` of the norms that gradients are clipped
                at.
        """

    def measures(
        self, prediction: Float[Array, "..."], label: Float[Array, "..."]
    ) -> dict[str, Float[Array, "..."]]:
        """What else is told of each prediction beside the loss, by name: "accuracy" of classes."""
        return {}

    def expected_measures(
        self,
        mean: Float[Array, "..."],
        variance: Float[Array, "..."],
        label: Float[Array, "..."],
    ) -> dict[str, Float[Array, "..."]]:
        """The means of `measures` where the prediction is Gaussian: as in `expected_value`."""
        return {}

    def on_host(self) -> Self:
        """The loss with its numbers in float64 on the host, as formulas in NumPy need them."""
        numbers, rest = eqx.partition(self, eqx.is_inexact_array_like)
        return eqx.combine(jax.tree.map(np.float64, numbers), rest)


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

    def measures(self, prediction, label):
        return {"accuracy": self.correct_share(prediction, label)}

    def expected_measures(self, mean, variance, label):
        return {"accuracy": self.correct_probability(mean, variance, label)}


class AbstractScalarLoss(AbstractLoss):
    """A loss whose prediction is one number."""

    num_outputs: ClassVar[None] = None


class AbstractUnivariateLoss(AbstractScalarLoss):
    r"""A loss $h(u)$ of one number u in which prediction and label meet: residual or margin.

    A new loss is the five functions of u that end in `_at`, and two bounds.
    """

    @abc.abstractmethod
    def argument(self, prediction: Any, label: Any) -> tuple[Any, Any]:
        r"""The number u, and its derivative in the prediction, 1 or -1."""

    @abc.abstractmethod
    def value_at(self, u: Float[Any, "..."], xp: Any) -> Float[Any, "..."]:
        r"""$h(u) \ge 0$."""

    @abc.abstractmethod
    def slope_at(self, u: Float[Any, "..."], xp: Any) -> Float[Any, "..."]:
        r"""$h'(u)$."""

    @abc.abstractmethod
    def curvature_at(self, u: Float[Any, "..."], xp: Any) -> Float[Any, "..."]:
        r"""$h''(u)$; where it jumps, any value in between."""

    @abc.abstractmethod
    def expected_value_at(
        self, mean: Float[Array, "..."], variance: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        r"""$E[h(u)]$ for $u \sim N(m, v)$."""

    @abc.abstractmethod
    def clipped_slope_at(
        self,
        mean: Float[Array, "*shape"],
        variance: Float[Array, "*shape"],
        limit: Float[Array, "*shape"],
    ) -> ClippedSlope:
        r"""Moments of $h'(u)$, cut at $\pm k$, for $u \sim N(m, v)$."""

    def value(self, prediction, label, *, xp=jnp):
        return self.value_at(self.argument(prediction, label)[0], xp)

    def slope(self, prediction, label, *, xp=jnp):
        u, sign = self.argument(prediction, label)
        return sign * self.slope_at(u, xp)

    def slope_changes(self, prediction, label):
        u, _ = self.argument(prediction, label)
        return functools.partial(np.multiply, self.curvature_at(u, np))

    def expected_value(self, mean, variance, label):
        return self.expected_value_at(self.argument(mean, label)[0], variance)

    def clipped_slope(self, mean, variance, label, limit):
        u, sign = self.argument(mean, label)
        found = self.clipped_slope_at(u, variance, limit)
        return ClippedSlope(sign * found.mean, found.square, found.derivative, found.clipped)


class AbstractResidualLoss(AbstractUnivariateLoss):
    r"""A loss of the residual $r = f - y$, for labels that are any real numbers."""

    def argument(self, prediction, label):
        return prediction - label, 1

    def require_labels(self, name, labels, *, are_private=False):
        known_labels(name, labels)


class AbstractMarginLoss(AbstractUnivariateLoss, AbstractClassificationLoss):
    r"""A loss of the margin $m = yf$, for labels -1 and +1.

    A prediction names the class of its sign; zero names both.
    """

    class_labels: ClassVar[tuple[float, ...]] = (-1.0, 1.0)

    def argument(self, prediction, label):
        return label * prediction, label

    def correct_share(self, prediction, label):
        return jnp.heaviside(label * prediction, 0.5)

    def correct_probability(self, mean, variance, label):
        is_fixed = ~(variance > 0)
        std = jnp.sqrt(jnp.where(is_fixed, 1, variance))
        random = ndtr(label * mean / std)
        return jnp.where(is_fixed, self.correct_share(mean, label), random)

    def require_labels(self, name, labels, *, are_private=False):
        known = known_labels(name, labels)
        if known is None or np.all(np.abs(known) == 1):
            return
        values = np.unique(known)
        shown = ", ".join(map(str, values[:_SHOWN].tolist())) + ", ..." * (len(values) > _SHOWN)
        came = "others" if are_private else f"values {shown}"
        hint = "; of labels 0 and 1 give 2 * labels - 1" if np.isin(values, (0, 1)).all() else ""
        kind = type(self).__name__
        raise ValueError(f"expected {name} -1 or +1 for the {kind} loss, got {came}{hint}")
