r"""PK Algorithms 2 and 4: the minimiser of an objective with a noisy linear term.

The printed noise, $2c_1\Delta\sqrt{2\log(\cdot/\delta) + \epsilon}/\epsilon$, is that of Kifer,
Smith and Thakurta (2012), for neighbours of which one lacks a record. In PK A.13 a record is
replaced by another one, and the proof makes two mistakes. It

- bounds the Gaussian exponent by $\epsilon/2$ instead of $\epsilon$;
- takes the shift to be independent of the noise, though it is evaluated at the minimiser.

The theorems are false: with the Huber hinge, one record in the corner of the loss gives a
divergence of 9.7 times $\delta$ (Algorithm 2) and 15 times (Algorithm 4) at $\epsilon = 10$,
$\delta = 10^{-9}$. No violation is known at $\delta \ge 10^{-5}$ and $\epsilon \le 10$, and no
proof of the printed form either. The reported curve is the one that `objective_calibration` proves
for the noise, ridge and norm in use.
"""

import abc
import math
from typing import ClassVar, NamedTuple

import equinox as eqx
import numpy as np

from experiments.private_kernel_learning.published.learner import (
    ROUNDING,
    AbstractPublishedLearner,
    check_noise_arguments,
    scaled_down,
    statement,
)
from experiments.private_kernel_learning.published.projection import (
    cosine_features,
    kernel_size,
    projection,
    projection_factor,
)
from jaxdp.core.arrays import plain_float, plain_number
from jaxdp.core.checks import require_count, require_kind, require_non_negative
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel, require_kernel
from jaxdp.kernels.evaluation import blockwise
from jaxdp.kernels.margin.objective_solver import minimise
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective
from jaxdp.kernels.margin.stated_constants import (
    compared_slopes,
    on_host,
    require_true_constants,
)
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.losses import AbstractMarginLoss
from jaxdp.privacy.mechanisms import AbstractMechanism, Unproved
from jaxdp.privacy.objective_perturbation import ObjectivePerturbationMechanism

_WHAT = "the minimiser of an objective with a noisy linear term, and the function made of it"
_EXACT = "proved of the exact minimiser; this one is found to rounding, and no noise hides the rest"
_UNBOUNDED = "nothing bounds the features of a published projection, and the paper's proof is wrong"
_FALSE_2 = (
    "PK Theorem 9 is false as stated (by a factor 9.7 of delta at epsilon 10, delta 1e-9), and "
    "false for a published projection; proved here is a curve for the largest norm that this "
    "projection has anywhere"
)
_FALSE_4 = (
    "PK Theorem 20 is false as stated (by a factor 15 of delta at epsilon 10, delta 1e-9); proved "
    "here is a curve for these features' norm"
)
# Tolerance of the gradient's norm, if rounding allows for it.
_TOLERANCE = 1e-11


class Perturbation(NamedTuple):
    r"""A perturbation as the paper prints it; the ridge is that of $\frac{\lambda_0}2|\beta|^2$."""

    noise_std: float
    ridge: float


class AbstractPublishedMinimiser(AbstractPublishedLearner[ReleasedFunction]):
    """A learner that releases the minimiser of an objective with a noisy linear term."""

    loss: eqx.AbstractVar[AbstractMarginLoss]
    # The theorem's fault.
    _remark: eqx.AbstractClassVar[str]

    @abc.abstractmethod
    def features(self, dim: int, public_seed: int) -> AbstractFeatureMap:
        """The map that a fit with this seed uses: no data are asked for."""

    @abc.abstractmethod
    def perturbation(self, num_samples: int, epsilon: float, delta: float) -> Perturbation:
        """The noise and the ridge as used."""

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        """Standard deviation "b" of every entry of the linear term, in the units of the sum."""
        return {"b": self.perturbation(num_samples, epsilon, delta).noise_std}

    def _release(self, request):
        loss = self.loss
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
        mechanism = _proved(loss, perturbation, norm_bound=bound, num_samples=num_samples)
        coefficients = minimise(objective, tolerance=least_tolerance(objective)).coefficients
        claim = statement(_WHAT, mechanism, source, self._remark, _EXACT, request=request)
        return request.released(features, coefficients, claim)


class Algorithm2(AbstractPublishedMinimiser):
    r"""PK Algorithm 2 as printed, with the scope of the root that Lemma 7 has.

    $\Delta_3 = \kappa\sqrt q$ with $L = \log(4/\delta)$; every entry of b has the standard
    deviation $2c_1\Delta_3\sqrt{2\log(4/\delta) + \epsilon}/\epsilon$; the ridge is
    $\lambda_0 = \max(\lambda, c_2\Delta_3^2/(n(e^{\epsilon/4} - 1)))$. The projection is drawn
    from a public seed, in weight space. Source: PK Algorithm 2, Theorem 9.

    Args:
        kernel, num_projections, num_features, input_bound: the same as in `Algorithm1`.
        ridge: $\lambda \ge 0$, in $\frac\lambda2|\beta|^2$.
        loss: a function of the margin, for labels -1 and +1.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from experiments.private_kernel_learning.published import Algorithm2
        >>> from jaxdp.losses import Logistic
        >>> learner = Algorithm2(Gaussian(1.0), num_projections=50, ridge=0.1, loss=Logistic())
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 1) for name, std in found.items()}
        {'b': 16.5}
    """

    _remark: ClassVar[str] = _FALSE_2

    kernel: AbstractKernel
    num_projections: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    loss: AbstractMarginLoss = eqx.field(converter=on_host)
    num_features: int = eqx.field(static=True, converter=plain_number, default=2048, kw_only=True)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_float, default=None, kw_only=True
    )

    def __check_init__(self):
        require_count("num_projections", self.num_projections)
        require_count("num_features", self.num_features)
        check_learner(self.loss, self.ridge)
        kernel_size(self.kernel, self.input_bound)

    def perturbation(self, num_samples, epsilon, delta):
        check_noise_arguments(num_samples, epsilon, delta)
        level = math.log(4 / delta)
        factor = projection_factor(self.num_projections, level)
        norm = kernel_size(self.kernel, self.input_bound) * math.sqrt(factor)
        return _printed(self.loss, norm, level, self.ridge, num_samples, epsilon)

    def features(self, dim, public_seed):
        sizes = self.num_projections, self.num_features, dim
        seed, bound = public_seed, self.input_bound
        return projection(self.kernel, *sizes, public_seed=seed, input_bound=bound)


class Algorithm4(AbstractPublishedMinimiser):
    r"""PK Algorithm 4 as printed: $\Delta = \sqrt2$ and $\log(2/\delta)$.

    Every entry of b has the standard deviation
    $2c_1\Delta\sqrt{2\log(2/\delta) + \epsilon}/\epsilon$. The penalty is printed as
    $\max(\lambda/2, c_2/(n(e^{\epsilon/4} - 1)))\,|\beta|^2$, which is $\frac{\lambda_0}2|\beta|^2$
    with Algorithm 2's floor. Source: PK Algorithm 4, Theorem 20.

    Args:
        kernel, num_features: the same as in `Algorithm3`.
        ridge, loss: the same as in `Algorithm2`.

    Example:
        >>> from jaxdp.kernels import Gaussian
        >>> from experiments.private_kernel_learning.published import Algorithm4
        >>> from jaxdp.losses import Logistic
        >>> learner = Algorithm4(Gaussian(1.0), num_features=50, ridge=0.1, loss=Logistic())
        >>> found = learner.noise_std(num_samples=10_000, epsilon=1.0, delta=1e-5)
        >>> {name: round(std, 1) for name, std in found.items()}
        {'b': 14.3}
    """

    _remark: ClassVar[str] = _FALSE_4

    kernel: AbstractKernel
    num_features: int = eqx.field(static=True, converter=plain_number)
    ridge: float = eqx.field(static=True, converter=plain_float)
    loss: AbstractMarginLoss = eqx.field(converter=on_host)

    def __check_init__(self):
        require_kernel(self.kernel)
        require_count("num_features", self.num_features)
        check_learner(self.loss, self.ridge)

    def perturbation(self, num_samples, epsilon, delta):
        check_noise_arguments(num_samples, epsilon, delta)
        level, norm = math.log(2 / delta), math.sqrt(2)
        return _printed(self.loss, norm, level, self.ridge, num_samples, epsilon)

    def features(self, dim, public_seed):
        return cosine_features(self.kernel, self.num_features, dim, public_seed=public_seed)


def check_learner(loss: AbstractMarginLoss, ridge: float) -> None:
    expected = "a margin loss, such as jaxdp.losses.Logistic()"
    require_kind("loss", loss, AbstractMarginLoss, expected)
    require_true_constants(loss)
    require_non_negative("ridge", ridge)


def _printed(
    loss: AbstractMarginLoss,
    norm: float,
    level: float,
    ridge: float,
    num_samples: int,
    epsilon: float,
) -> Perturbation:
    r"""Noise of $2c_1\Delta\sqrt{2L + \epsilon}/\epsilon$, and the larger of ridge and floor.

    $\Delta$ is the norm, L the level; the floor of $\lambda_0$ is
    $c_2\Delta^2/(n(e^{\epsilon/4} - 1))$.
    """
    # Where the exponential overflows the floor is zero to rounding, and must not be below.
    growth = math.expm1(min(epsilon / 4, 700.0))
    floor = loss.curvature_bound * norm**2 / (num_samples * growth)
    std = 2 * loss.slope_bound * norm * math.sqrt(2 * level + epsilon) / epsilon
    return Perturbation(std, max(ridge, floor))


def _proved(
    loss: AbstractMarginLoss, perturbation: Perturbation, *, norm_bound: float, num_samples: int
) -> AbstractMechanism:
    """The corrected proof's guarantee for the minimiser, with features of that norm at most."""
    if not math.isfinite(norm_bound):
        return Unproved(_UNBOUNDED)
    curvature = loss.curvature_bound * norm_bound**2 / num_samples
    return ObjectivePerturbationMechanism(
        2 * loss.slope_bound * norm_bound / perturbation.noise_std * (1 + ROUNDING),
        math.log1p(curvature / perturbation.ridge) * (1 + ROUNDING),
        has_signed_slopes=loss.is_decreasing,
    )


def least_tolerance(objective: PerturbedObjective) -> float:
    """The published minimisers' tolerance: the larger of rounding errors and a negligible size."""
    return max(_TOLERANCE, objective.least_tolerance)
