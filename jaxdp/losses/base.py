"""The abstract losses: value, slope and curvature as functions of a prediction f and a label.

They are formulas over an array library `xp`: JAX in simulators and theories; float64 NumPy in
`jaxdp.kernels.margin`, whose proof needs the rounding of every slope.
"""

import abc
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Bool, Float

from jaxdp.core.arrays import float_dtype
from jaxdp.core.checks import concrete, require_finite, require_shape
from jaxdp.core.description import AbstractDescription

# Number of distinct labels shown in an error, enough to recognise an encoding.
_SHOWN = 3


def known_labels(name: str, labels: Any) -> Float[np.ndarray, " n"] | None:
    """A vector of finite real numbers, or None for traced labels; else raise."""
    known = concrete(labels, name)
    if known is not None:
        require_shape(name, known, (None,))
        require_finite(name, known)
    return known


def alike(*values: Any) -> list[Array]:
    """The values as arrays of one shape and one floating-point type."""
    dtype = float_dtype(values)
    return jnp.broadcast_arrays(*(jnp.asarray(value, dtype) for value in values))


def deviation_of(variance: Float[Array, "*shape"]) -> tuple[Array, Bool[Array, "*shape"]]:
    """The deviation, 1 where the variance is not positive, and where that is."""
    is_fixed = ~(variance > 0)
    return jnp.sqrt(jnp.where(is_fixed, 1, variance)), is_fixed


def along_last(parts: Any, like: Float[Array, "*shape"]) -> Iterator[Float[Array, "..."]]:
    """Vectors along a new last axis of an array, in its type: a quadrature's nodes and weights."""
    return (lax.broadcast_to_rank(jnp.asarray(part, like.dtype), like.ndim + 1) for part in parts)


class ClippedSlope(eqx.Module):
    r"""Moments of a clipped slope $\psi(f)$ for a Gaussian prediction f.

    Attributes:
        mean, square: $E[\psi(f)]$ and $E[\psi(f)^2]$; for k independent outputs of one variance v,
            `square` is $E|\psi|^2/k$.
        derivative: $E[\psi'(f)]$, the derivative of the mean in the mean of f; by Stein's identity
            also $\mathrm{Cov}(\psi(f), f)/\mathrm{Var} f$. For k outputs, its trace over k.
        clipped: the probability that the slope is clipped.
    """

    mean: Float[Array, "*shape outputs"] | Float[Array, "*shape"]
    square: Float[Array, "*shape"]
    derivative: Float[Array, "*shape"]
    clipped: Float[Array, "*shape"]


class AbstractLoss(AbstractDescription):
    r"""A loss $\ell(f, y)$, convex in the prediction f.

    Predictions and labels may have any shapes that broadcast; vector predictions have their outputs
    in the last axis. The methods do not check labels: call `require_labels` first.

    Attributes:
        square_curvature: the number c if the loss is $\frac c2 (f - y)^2$, else None.
        is_decreasing: whether it decreases in margin or residual: a label fixes the slope's sign.
        class_labels: the labels of the classes, in order; None if labels are not classes.
    """

    square_curvature: ClassVar[float | None] = None
    is_decreasing: ClassVar[bool] = False
    class_labels: ClassVar[tuple[float, ...] | None] = None

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int | None:
        """Number of entries of a vector prediction; None for scalar predictions."""

    @abc.abstractmethod
    def require_labels(self, name: str, labels: Any, *, are_private: bool = False) -> None:
        """Raise unless labels are traced or this loss's; the error hides them if `are_private`."""

    @property
    @abc.abstractmethod
    def curvature_bound(self) -> Any:
        """The Lipschitz constant of the slope: its largest second derivative, or eigenvalue."""

    @property
    @abc.abstractmethod
    def slope_bound(self) -> Any:
        """The largest norm of a slope, which is the Lipschitz constant; may be infinite."""

    @abc.abstractmethod
    def value(
        self, prediction: Float[Any, "..."], label: Float[Any, "..."], *, xp: Any = jnp
    ) -> Float[Any, "..."]:
        r"""The loss $\ell(f, y)$; `xp` is `jax.numpy`, or `numpy` for a loss `on_host`."""

    @abc.abstractmethod
    def slope(
        self, prediction: Float[Any, "..."], label: Float[Any, "..."], *, xp: Any = jnp
    ) -> Float[Any, "..."]:
        r"""The slope $\partial\ell/\partial f$, of the shape of the prediction.

        In NumPy and float64 its error is at most $(64 + k) \cdot 2^{-53}$ of `slope_bound` for k
        outputs, plus the rounding of the residual f - y in a residual loss.
        """

    @abc.abstractmethod
    def slope_changes(
        self, prediction: Float[np.ndarray, "..."], label: Float[np.ndarray, "..."]
    ) -> Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]:
        r"""Multiplication of small changes of f by $\partial^2\ell/\partial f^2$, in NumPy."""

    @abc.abstractmethod
    def expected_value(
        self, mean: Float[Array, "..."], variance: Float[Array, "..."], label: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        r"""The expected loss $E[\ell(f, y)]$ for a Gaussian prediction f.

        For several outputs the variance, >= 0, is that of each of them, which are independent, or
        it is their covariance (..., k, k).
        """

    @abc.abstractmethod
    def clipped_slope(
        self,
        mean: Float[Array, "..."],
        variance: Float[Array, "*shape"],
        label: Float[Array, "*shape"],
        limit: Float[Array, "*shape"],
    ) -> ClippedSlope:
        """Moments of the slope for a prediction $N(m, v)$, its norm clipped at `limit`.

        Several outputs are independent, with the variance v >= 0 each. The limit, >= 0, may be
        infinite; `slope_limits` computes it from the gradient's clip norm.
        """

    def measures(
        self, prediction: Float[Array, "..."], label: Float[Array, "..."]
    ) -> dict[str, Float[Array, "..."]]:
        """Further measures of each prediction besides the loss, by name: "accuracy" for classes."""
        return {}

    def expected_measures(
        self, mean: Float[Array, "..."], variance: Float[Array, "..."], label: Float[Array, "..."]
    ) -> dict[str, Float[Array, "..."]]:
        """The expected `measures` for a Gaussian prediction, as in `expected_value`."""
        return {}

    def on_host(self) -> Self:
        """The loss with its numbers in float64 on the host, for formulas in NumPy."""
        numbers, rest = eqx.partition(self, eqx.is_inexact_array_like)
        return eqx.combine(jax.tree.map(np.float64, numbers), rest)


class AbstractClassificationLoss(AbstractLoss):
    """A loss whose label is a class; a prediction names a class too."""

    @abc.abstractmethod
    def correct_share(
        self, prediction: Float[Array, "..."], label: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """1 if the prediction names the label's class, else 0; 1/j if j classes with it tie."""

    @abc.abstractmethod
    def correct_probability(
        self, mean: Float[Array, "..."], variance: Float[Array, "..."], label: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """The mean of `correct_share` for a Gaussian prediction, as in `expected_value`."""

    def measures(self, prediction, label):
        return {"accuracy": self.correct_share(prediction, label)}

    def expected_measures(self, mean, variance, label):
        return {"accuracy": self.correct_probability(mean, variance, label)}


class AbstractScalarLoss(AbstractLoss):
    """A loss whose prediction is one number."""

    num_outputs: ClassVar[None] = None


class AbstractUnivariateLoss(AbstractScalarLoss):
    """A loss $h(u)$ of one number u, the residual or the margin of prediction and label.

    A new loss implements the five functions of u whose names end in `_at`, and two bounds.
    """

    @abc.abstractmethod
    def argument(self, prediction: Any, label: Any) -> tuple[Any, Any]:
        """The number u, and its derivative in the prediction, 1 or -1."""

    @abc.abstractmethod
    def value_at(self, u: Float[Any, "..."], xp: Any) -> Float[Any, "..."]:
        r"""The loss $h(u) \ge 0$."""

    @abc.abstractmethod
    def slope_at(self, u: Float[Any, "..."], xp: Any) -> Float[Any, "..."]:
        """The slope $h'(u)$."""

    @abc.abstractmethod
    def curvature_at(self, u: Float[Any, "..."], xp: Any) -> Float[Any, "..."]:
        """The second derivative $h''(u)$; at jumps, any value in between."""

    @abc.abstractmethod
    def expected_value_at(
        self, mean: Float[Array, "..."], variance: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        r"""The expected loss $E[h(u)]$ for $u \sim N(m, v)$."""

    @abc.abstractmethod
    def clipped_slope_at(
        self,
        mean: Float[Array, "*shape"],
        variance: Float[Array, "*shape"],
        limit: Float[Array, "*shape"],
    ) -> ClippedSlope:
        r"""Moments of $h'(u)$, clipped at $\pm k$, for $u \sim N(m, v)$."""

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
    """A loss of the residual $r = f - y$; labels are any real numbers."""

    def argument(self, prediction, label):
        return prediction - label, 1

    def require_labels(self, name, labels, *, are_private=False):
        known_labels(name, labels)


class AbstractMarginLoss(AbstractUnivariateLoss, AbstractClassificationLoss):
    """A loss of the margin $m = yf$, for labels -1 and +1; a prediction of 0 names both classes."""

    class_labels: ClassVar[tuple[float, ...]] = (-1.0, 1.0)

    def argument(self, prediction, label):
        return label * prediction, label

    def correct_share(self, prediction, label):
        return jnp.heaviside(label * prediction, 0.5)

    def correct_probability(self, mean, variance, label):
        std, is_fixed = deviation_of(variance)
        random = ndtr(label * mean / std)
        return jnp.where(is_fixed, self.correct_share(mean, label), random)

    def require_labels(self, name, labels, *, are_private=False):
        known = known_labels(name, labels)
        if known is None or np.all(np.abs(known) == 1):
            return
        values = np.unique(known)
        shown = ", ".join(map(str, values[:_SHOWN].tolist())) + ", ..." * (len(values) > _SHOWN)
        came = "others" if are_private else f"values {shown}"
        hint = "; for labels 0 and 1 use 2 * labels - 1" if np.isin(values, (0, 1)).all() else ""
        kind = type(self).__name__
        raise ValueError(f"expected {name} -1 or +1 for the {kind} loss, got {came}{hint}")
