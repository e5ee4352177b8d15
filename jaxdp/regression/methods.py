r"""How a private linear function is learnt: what is released of a table, in which order.

A method's releases have fixed shares of the budget. What it learns from one release it may use in
the next; what it computes from releases and public numbers costs nothing.
"""

import abc
import math
from typing import ClassVar

import equinox as eqx
import numpy as np

from jaxdp.core.description import AbstractDescription
from jaxdp.regression.descent import (
    AbstractSlopes,
    Learnt,
    SquaredSlopes,
    private_descent,
)
from jaxdp.regression.descent_plan import Curvature, Spectrum, planned, shrunk
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.private_sums import (
    PrivateRows,
    released_gradient,
    released_second_moments,
)


class AbstractMethod(AbstractDescription):
    """How the weights of a linear function are learnt from private rows."""

    @abc.abstractmethod
    def learnt(self, rows: PrivateRows, slopes: AbstractSlopes, ledger: Ledger) -> Learnt:
        """The released weights of the features over their bound.

        Args:
            rows, slopes: private.
            ledger: of the fit; all that is left of it is spent.

        Raises:
            ValueError: the method is for another loss.
        """


class AbstractDescentMethod(AbstractMethod):
    r"""A private descent whose settings are planned from a noisy spectrum of the features.

    One release of the second moments, and T of clipped gradients. The coordinates are
    $P = (\Sigma + \tau)^{-1/2}$; $\tau$, T, the rate and the clip norm are those of least predicted
    risk (`jaxdp.regression.descent_plan`).

    Attributes:
        moments_share: the share of $\mu^2$ that the second moments are given.
        dampings: $\tau$ to choose from, in units of the noise in an eigenvalue; infinity for the
            features' own coordinates.
        momenta: to choose from.
        is_one_pass: whether every step has rows of its own.
    """

    moments_share: eqx.AbstractClassVar[float]
    dampings: eqx.AbstractClassVar[tuple[float, ...]]
    momenta: eqx.AbstractClassVar[tuple[float, ...]]
    is_one_pass: eqx.AbstractClassVar[bool]

    def predicted_risk(
        self,
        *,
        num_features: int,
        num_outputs: int,
        num_samples: int,
        mu: float,
        curvature: Curvature,
        other_share: float,
        signal: float,
    ) -> float:
        """The planned excess risk over the labels' variance, before any data: a guess.

        Args:
            num_features, num_outputs, num_samples: p, k and n.
            mu: of the whole fit.
            curvature: of the loss.
            other_share: of the budget, which neither the moments nor the gradients have.
            signal: the share of the labels' variance that the features explain.
        """
        # Rows of half the largest square, and features alike: what their spectrum would cost more
        # is not known. One of p that are alike stands for all: its risk is that of each, the square
        # of the clip norm is p times less, and so are the columns that the noise is on.
        values = np.array([0.5 / num_features])
        share = 1 - self.moments_share - other_share
        return planned(
            Spectrum(values, np.eye(1), values, 1e-4 / num_features),
            num_samples=num_samples,
            mu=mu * math.sqrt(share),
            curvature=curvature,
            dampings=self.dampings,
            momenta=self.momenta,
            num_outputs=num_outputs * num_features**2,
            is_one_pass=self.is_one_pass,
            signal=signal,
        ).predicted_risk

    def learnt(self, rows, slopes, ledger):
        slopes.begin(ledger)
        spent = ledger.spend("second moments of the features", self.moments_share)
        spectrum = shrunk(*released_second_moments(rows, spent))
        of = "each of rows of its own" if self.is_one_pass else "each of all rows"
        mu = ledger.spend_rest(f"clipped gradients, {of}")
        plan = planned(
            spectrum,
            num_samples=len(rows.units),
            mu=mu,
            curvature=slopes.curvature,
            dampings=self.dampings,
            momenta=self.momenta,
            num_outputs=slopes.num_outputs,
            is_one_pass=self.is_one_pass,
        )
        return private_descent(rows, slopes, plan, mu)


class Automatic(AbstractDescentMethod):
    """The descent of least predicted risk: whitened or not, with momentum or without.

    Example:
        >>> from jaxdp.regression import Automatic
        >>> Automatic().moments_share
        0.2
    """

    moments_share: ClassVar[float] = 0.2
    dampings: ClassVar[tuple[float, ...]] = 1.0, 3.0, 10.0, math.inf
    momenta: ClassVar[tuple[float, ...]] = 0.0, 0.8
    is_one_pass: ClassVar[bool] = False


class Whitened(AbstractDescentMethod):
    """A descent in coordinates in which the noisy second moments are near one.

    Example:
        >>> from jaxdp.regression import Whitened
        >>> Whitened().moments_share
        0.2
    """

    moments_share: ClassVar[float] = 0.2
    dampings: ClassVar[tuple[float, ...]] = 1.0, 3.0, 10.0
    momenta: ClassVar[tuple[float, ...]] = (0.0,)
    is_one_pass: ClassVar[bool] = False


class FullBatch(AbstractDescentMethod):
    """A descent in the features' own coordinates, with momentum and averaging.

    The second moments tell how long its steps can be.

    Example:
        >>> from jaxdp.regression import FullBatch
        >>> FullBatch().moments_share
        0.05
    """

    moments_share: ClassVar[float] = 0.05
    dampings: ClassVar[tuple[float, ...]] = (math.inf,)
    momenta: ClassVar[tuple[float, ...]] = (0.9,)
    is_one_pass: ClassVar[bool] = False


class PlannedDPSGD(AbstractDescentMethod):
    """One pass: every row is used in one step, whose noise it alone has to pay for.

    Rows are taken in the order in which they stand: in a table that is sorted by its labels, or by
    time, the last ones count more.

    Example:
        >>> from jaxdp.regression import PlannedDPSGD
        >>> PlannedDPSGD().moments_share
        0.05
    """

    moments_share: ClassVar[float] = 0.05
    dampings: ClassVar[tuple[float, ...]] = (math.inf,)
    momenta: ClassVar[tuple[float, ...]] = (0.0,)
    is_one_pass: ClassVar[bool] = True


class NoisyStatistics(AbstractMethod):
    r"""Ridge regression on noisy second moments and a noisy correlation with the labels.

    The correlation is the gradient of the squared loss at zero. The ridge is the noise in an
    eigenvalue of the moments, about $\sigma\sqrt{2 p}$ at the edge of its spectrum.

    Example:
        >>> from jaxdp.regression import NoisyStatistics
        >>> NoisyStatistics()
        NoisyStatistics()
    """

    def learnt(self, rows, slopes, ledger):
        if not isinstance(slopes, SquaredSlopes):
            raise ValueError(
                "expected a method for classes, got NoisyStatistics: it is least squares"
            )
        size = rows.units.shape[1]
        moments, std = released_second_moments(rows, ledger.spend("second moments", 0.5))
        mu = ledger.spend_rest("correlation of features and labels")
        one, norms = np.eye(size), np.ones(len(rows.units))
        zero = np.zeros((size, 1))
        correlation = -released_gradient(
            rows, slopes.of(rows.times(zero)), one, norms, clip_norm=1.0, typical_norm=1.0, mu=mu
        )
        values, vectors = np.linalg.eigh(moments)
        damped = np.maximum(values, 0.0) + std * math.sqrt(2 * size)
        inverse = (vectors / damped) @ vectors.T
        # Of the correlation alone, whose sensitivity is 2.
        noise_std = 2 / (mu * len(rows.units)) * np.linalg.norm(inverse, axis=1)
        return Learnt(inverse @ correlation, noise_std)
