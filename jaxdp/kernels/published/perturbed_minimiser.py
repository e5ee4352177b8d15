r"""What Algorithms 2 and 4 share: the minimiser of a perturbed objective, and what is proved of it.

The printed noise, $2c_1\Delta\sqrt{2\log(\cdot/\delta) + \epsilon}/\epsilon$, is that of Kifer,
Smith and Thakurta (2012), for neighbours of which one lacks a record. In PK A.13 a record is
replaced by another one, and the proof makes two mistakes. It

- bounds the Gaussian exponent by $\epsilon/2$, where it is $\epsilon$;
- takes the shift to be independent of the noise, though it is evaluated at the minimiser.

The theorems are false: with the Huber hinge, one record in the corner of the loss gives a
divergence of 9.7 times $\delta$ (Algorithm 2) and 15 times (Algorithm 4) at $\epsilon = 10$,
$\delta = 10^{-9}$. No violation is known at $\delta \ge 10^{-5}$ and $\epsilon \le 10$, and no
proof of what is printed either. What is reported is the curve that `objective_calibration` proves,
at the noise, ridge and norm as they are.
"""

import abc
import math
from typing import NamedTuple

import numpy as np

from jaxdp.core.checks import require_kind, require_non_negative
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.evaluation import blockwise
from jaxdp.kernels.margin.objective_solver import minimise
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective
from jaxdp.kernels.margin.stated_constants import compared_slopes, require_true_constants
from jaxdp.kernels.published.learner import AbstractPublishedLearner, scaled_down, statement
from jaxdp.kernels.release.fit_request import FitRequest
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.losses import AbstractMarginLoss
from jaxdp.privacy.mechanisms import AbstractMechanism, Unproved
from jaxdp.privacy.objective_perturbation import ObjectivePerturbation

_WHAT = "the minimiser of an objective with a noisy linear term, and the function made of it"
_EXACT = "proved of the exact minimiser; this one is found to rounding, and no noise hides the rest"
_UNBOUNDED = "nothing bounds the features of a published projection, and the paper's proof is wrong"
# Of the norm of the gradient, where rounding allows for it.
_TOLERANCE = 1e-11
_ROUNDING = 1e-9


class Perturbation(NamedTuple):
    r"""A perturbation as the paper prints it.

    Attributes:
        noise_std: of every entry of b.
        ridge: $\lambda_0$, in $\frac{\lambda_0}2|\beta|^2$.
    """

    noise_std: float
    ridge: float


class AbstractPublishedMinimiser(AbstractPublishedLearner[ReleasedFunction]):
    """A learner that releases the minimiser of an objective with a noisy linear term."""

    @abc.abstractmethod
    def features(self, dim: int, public_seed: int) -> AbstractFeatureMap:
        """The map that a fit with this seed uses: no data are asked for."""

    @abc.abstractmethod
    def perturbation(self, num_samples: int, epsilon: float, delta: float) -> Perturbation:
        """The noise and the ridge as used; errors as `noise_std`."""

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviation "b" of every entry of the linear term, in the units of the sum.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """
        return {"b": self.perturbation(num_samples, epsilon, delta).noise_std}

    def _minimiser(
        self, request: FitRequest, loss: AbstractMarginLoss, remark: str
    ) -> ReleasedFunction:
        """The release of a fit with this loss; the remark tells what is false of the theorem."""
        loss.require_labels("labels", request.targets, are_private=True)
        features = self.features(request.dim, request.public_seed)
        bound, num_samples = features.norm_bound, request.num_samples
        rows = scaled_down(np.asarray(blockwise(features, request.table), np.float64), bound)
        perturbation = self.perturbation(num_samples, request.epsilon, request.delta)
        largest = bound if math.isfinite(bound) else float(np.linalg.norm(rows, axis=1).max())
        slopes = compared_slopes(loss)
        source = self._noise(request).hiding(rows, request.targets, slopes, *perturbation)
        linear_term = perturbation.noise_std * source.normals(features.num_outputs, "b")
        objective = PerturbedObjective(
            rows, request.targets, loss, perturbation.ridge, linear_term, largest
        )
        sizes = {"norm_bound": bound, "num_samples": num_samples}
        mechanism = proved_mechanism(loss, perturbation, **sizes)
        coefficients = minimise(objective, tolerance=least_tolerance(objective)).coefficients
        claim = statement(_WHAT, mechanism, source, remark, _EXACT, request=request)
        return request.released(features, coefficients, claim)


def published_perturbation(
    loss: AbstractMarginLoss,
    *,
    norm: float,
    log_inverse: float,
    ridge: float,
    num_samples: int,
    epsilon: float,
) -> Perturbation:
    r"""Noise of $2c_1\Delta\sqrt{2L + \epsilon}/\epsilon$, and the larger of ridge and floor.

    The floor of $\lambda_0$ is $c_2\Delta^2/(n(e^{\epsilon/4} - 1))$.

    Args:
        loss: with $c_1$ and $c_2$.
        norm: $\Delta$.
        log_inverse: L, of the inverse of the share of delta.
        ridge: $\lambda$, as asked for.
        num_samples: n.
        epsilon: > 0.
    """
    root = math.sqrt(2 * log_inverse + epsilon)
    # Where the exponential overflows the floor is zero to rounding, and must not be below.
    growth = math.expm1(min(epsilon / 4, 700.0))
    floor = loss.curvature_bound * norm**2 / (num_samples * growth)
    return Perturbation(2 * loss.slope_bound * norm * root / epsilon, max(ridge, floor))


def check_learner(loss: AbstractMarginLoss, ridge: float) -> None:
    """Raise ValueError or TypeError unless this is a loss with true constants, and ridge >= 0."""
    expected = "a margin loss, such as jaxdp.losses.Logistic()"
    require_kind("loss", loss, AbstractMarginLoss, expected)
    require_true_constants(loss)
    require_non_negative("ridge", ridge)


def proved_mechanism(
    loss: AbstractMarginLoss, perturbation: Perturbation, *, norm_bound: float, num_samples: int
) -> AbstractMechanism:
    """What the corrected proof says of the exact minimiser, for features of that norm at most."""
    if not math.isfinite(norm_bound):
        return Unproved(_UNBOUNDED)
    curvature = loss.curvature_bound * norm_bound**2 / num_samples
    return ObjectivePerturbation(
        2 * loss.slope_bound * norm_bound / perturbation.noise_std * (1 + _ROUNDING),
        math.log1p(curvature / perturbation.ridge) * (1 + _ROUNDING),
        has_signed_slopes=loss.is_decreasing,
    )


def least_tolerance(objective: PerturbedObjective) -> float:
    """The tolerance of the published minimisers: what rounding leaves, or less than matters."""
    return max(_TOLERANCE, objective.least_tolerance)
