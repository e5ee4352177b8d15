r"""Learners by objective perturbation: PK Algorithm 2, made private by a proof.

Changes: each record's features come from a public seed and that record alone, clipped to a public
bound; the noise is calibrated by a proved bound (`objective_calibration`), where the published one
fails for some budgets; an approximate minimiser is released, with noise that hides its distance
from the exact one; the solver ends with a certificate on every data set (`objective_solver`).

*Proof.* Fix the public seed: z is a fixed function of one input, rounded onto a grid such that $|z|
\le B$ exactly. The calibration proves the rest, for every data set, seed and input. Neighbours
differ in one record (replace-one), n is public. The ridge is part of the objective, so trying
several on private data costs the budget of each. Errors, warnings and running time are not covered.

*Arithmetic.* The linear term and the noise on the coefficients are exact normal numbers rounded to
grids (`SecretNoise.noisy_integers`). Rounding the linear term moves each of M entries by at most
half a unit, and so the gradient by $\sqrt M/2$ units over n, which is added to the solver's
tolerance; rounding the coefficients to their grid moves each centre by $\sqrt M/2$ units, which
their noise hides too. With k outputs, M k replaces M. The smallest feasible tolerance is decided by
a bound on b that does not depend on b: if fits with a long b were refused, the remaining ones would
reveal a b that is not normal. The bound is exceeded with a probability of 1e-347, which the margin
of the calibration covers for every delta.
"""

import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import host_number, require_count, require_kind, require_positive
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.features.public_features import AbstractFeatureLearner, whole_features
from jaxdp.kernels.margin.objective_calibration import (
    ObjectiveCalibration,
    objective_perturbation_std,
    softmax_perturbation_std,
)
from jaxdp.kernels.margin.objective_solver import minimise
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective
from jaxdp.kernels.margin.stated_constants import compared_slopes, on_host, require_true_constants
from jaxdp.kernels.release.joint_release import MAX_BITS
from jaxdp.losses import AbstractLoss, Logistic
from jaxdp.losses.base import AbstractClassificationLoss
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.budgets import ApproximateDP, budget_of
from jaxdp.privacy.calibration import least_noise
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import SecretNoise, grid_unit

# mu_2 / R: the noise for the tolerance makes the linear term's noise larger by 5e-5 of itself.
APPROXIMATION_SHARE = 0.01
# A standard normal vector of d entries is longer than sqrt(d) plus this with a probability of at
# most exp(-800).
_FARTHEST = 40.0
_ASSUMPTIONS = (
    "each record's features are a function of that record alone, to the last bit",
    "public, and chosen without looking at the data: the number of records, the names of columns, "
    "the bounds, the kernel or feature map, the seed of the features, the loss and the ridge; "
    "inputs are scaled by public ranges, if at all",
    "the loss is convex, and its slope and curvature are bounded as it states",
    "errors, warnings and running times are not released",
)
_CERTIFIED = (
    "proved in the arithmetic of the machine, IEEE float64 on the host: the solver's certificate "
    "bounds its rounding, and what is released has exactly the law of rounded normal noise"
)


class AbstractObjectiveLearner(AbstractFeatureLearner):
    """A learner that releases the minimiser of a perturbed objective; internally B = 1."""

    loss: AbstractLoss = eqx.field(default_factory=Logistic, converter=on_host)
    ridge: float | None = eqx.field(static=True, converter=plain_number, default=None)
    max_steps: int | None = eqx.field(static=True, converter=plain_number, default=None)
    tolerance: float = eqx.field(static=True, converter=plain_number, default=1e-9)

    def __check_init__(self):
        require_true_constants(self.loss)
        if self.max_steps is not None:
            require_count("max_steps", self.max_steps)
        for name in ("ridge", "tolerance"):
            if getattr(self, name) is not None:
                require_positive(name, host_number(name, getattr(self, name)))

    def _calibrated(
        self, epsilon: float, delta: float, num_samples: int, ridge: float
    ) -> ObjectiveCalibration:
        loss, given = self.loss, {"input_bound": 1.0, "num_samples": num_samples, "ridge": ridge}
        given["approximation_share"] = APPROXIMATION_SHARE
        if loss.num_outputs is None:
            return objective_perturbation_std(
                epsilon,
                delta,
                lipschitz=float(loss.slope_bound),
                smoothness=float(loss.curvature_bound),
                margin_loss=loss.is_decreasing,
                **given,
            )
        return softmax_perturbation_std(epsilon, delta, num_classes=loss.num_outputs, **given)

    def _labels_within(self) -> float | None:
        """The bound T to which labels and predictions are clipped; None for class labels."""
        return None

    def calibration(
        self, num_samples: int, epsilon: Any, delta: Any = None
    ) -> ObjectiveCalibration:
        """The noise and the ridge that a fit uses, in units of B = 1.

        For a budget without delta the noise is the least of those that epsilons need at 1e-6.
        """
        asked = budget_of(epsilon, delta)
        epsilon, delta = asked.stated
        if not isinstance(asked, ApproximateDP):

            def measured(noise: float) -> float:
                found = self.calibration(num_samples, 1 / noise, delta).mechanism
                return asked.measured(found, REPLACE_ONE)

            epsilon = 1 / least_noise(measured, asked, 1 / max(epsilon, 1e-17))
        budget = float(epsilon), float(delta), num_samples
        if self.ridge is not None:
            return self._calibrated(*budget, self.ridge / self.feature_bound**2)
        noise = self._calibrated(*budget, 0.0).noise_std
        return self._calibrated(*budget, noise / (num_samples * (self._labels_within() or 1.0)))

    def noise_std(self, num_samples: int, epsilon: Any, delta: Any = None) -> dict[str, float]:
        """Standard deviations of the noise on the linear term, "b", and on the coefficients."""
        found, bound = self.calibration(num_samples, epsilon, delta), self.feature_bound
        feature_map = self.feature_map
        num_features = self.num_projections
        if feature_map is not None:
            if not isinstance(feature_map, AbstractFeatureMap):
                raise ValueError(
                    "expected a feature_map that states its number of features: wrap the function "
                    "in FunctionFeatures(function, num_inputs)"
                )
            num_features = feature_map.num_outputs
        coefficient_std = self._coefficient_std(found, num_samples, num_features)
        return {"b": found.noise_std * bound, "coefficients": coefficient_std / bound}

    def _release(self, request):
        label_bound = self._labels_within()
        if label_bound is not None:
            request = request.clipped(label_bound)
        self.loss.require_labels("labels", request.targets, are_private=True)
        features = self.features(request.dim, request.public_seed)
        # z / B, of norm at most 1 in exact arithmetic.
        rows = whole_features(features, request.table, float(features.bound), MAX_BITS)
        rows *= np.float32(2.0**-MAX_BITS)
        calibration = self.calibration(request.num_samples, request.budget)
        size = features.num_outputs
        std = self._coefficient_std(calibration, request.num_samples, size)
        # All that decides the release besides labels, budget and seed. Losses are compared by
        # values, because user-defined ones may share a name; features are hashed as numbers,
        # because devices round the same map differently.
        sizes = calibration.noise_std, calibration.ridge, self.tolerance, self.max_steps
        loss = eqx.tree_pformat(self.loss), compared_slopes(self.loss)
        source = request.noise(rows).hiding(*loss, label_bound or 0.0, *sizes)
        # It bounds the norm of b and its rounding, except with a probability of exp(-800).
        root = math.sqrt(self._num_coefficients(size))
        linear_bound = calibration.noise_std * (root + _FARTHEST) * (1 + 2.0**-28)
        linear_term = noisy_on_grid(
            np.zeros(self._num_coefficients(size)), calibration.noise_std, source, "linear term"
        )
        objective = PerturbedObjective(
            rows,
            request.targets,
            self.loss,
            calibration.ridge,
            linear_term,
            input_bound=1.0,
            label_bound=label_bound or 0.0,
            linear_bound=linear_bound,
        )
        tolerance = self.tolerance * float(self.loss.slope_bound)
        found = minimise(objective, tolerance=tolerance, max_steps=self.max_steps).coefficients
        hidden = source.hiding(found)
        coefficients = noisy_on_grid(found, std, hidden, "coefficients") / self.feature_bound
        if self.loss.num_outputs is not None:
            coefficients = coefficients.reshape(-1, self.loss.num_outputs)
        statement = Release(
            "an approximate minimiser of a perturbed objective, with noise, and its function",
            "replace-one",
            source.proved(calibration.mechanism),
            (*_ASSUMPTIONS, *source.assumptions(_CERTIFIED)),
            is_certified=not source.is_guessable,
        )
        return request.released(
            features, request.in_precision(coefficients), statement, label_bound=label_bound
        )

    def _num_coefficients(self, num_features: int) -> int:
        return num_features * (self.loss.num_outputs or 1)

    def _coefficient_std(
        self, calibration: ObjectiveCalibration, num_samples: int, num_features: int
    ) -> float:
        """The std of the noise that hides the solver's tolerance and both roundings, for B = 1."""
        root = math.sqrt(self._num_coefficients(num_features))
        linear_rounding = root / 2 * grid_unit(calibration.noise_std) / num_samples
        gradient_norm = self.tolerance * float(self.loss.slope_bound) + linear_rounding
        # The unit is at most 2^-29 of the result, which so bounds a geometric series.
        share = root * 2.0**-29 / calibration.mechanism.approximation_mu
        if share > 0.5:
            raise ValueError(
                "expected a budget at which the coefficients' grid is finer than their noise, got "
                f"an epsilon too small for {round(root**2)} coefficients"
            )
        return calibration.coefficient_std(gradient_norm) / (1 - share) * (1 + 2.0**-50)


def noisy_on_grid(
    values: Float[np.ndarray, " coefficients"], std: float, source: SecretNoise, purpose: str
) -> Float[np.ndarray, " coefficients"]:
    """The values rounded to the noise's grid, plus rounded normal noise: integers times a unit."""
    unit = grid_unit(std)
    return source.noisy_integers(np.rint(values / unit), std / unit, purpose) * unit


class PrivateKernelClassifier(AbstractObjectiveLearner):
    r"""$(\epsilon, \delta)$-DP kernel classification, proved for a published projection.

    Source: PK Algorithm 2, Assumption 6 and Theorem 9.

    Args:
        kernel, num_projections, num_features, input_bound, input_range, feature_map: the arguments
            of `PrivateKernelRidge`.
        loss: $\ell$ of the margin y f(x) for labels -1 and +1, `jaxdp.losses.Logistic()` or your
            own; for labels 0, ..., k - 1 `Softmax(k)`: the release then gives k scores a row.
        ridge: $\lambda > 0$ of $\frac\lambda2 \|\beta\|^2$ in the averaged objective, raised to the
            floor of the proof. None: as large as the noise, $\sigma B/n$ with the floor's $\sigma$,
            so that the linear term changes scores by at most 1 in standard deviation.
        max_steps: number of Newton steps, >= 1; None for 200. Gradient steps finish the rest.
        tolerance: bound > 0 on the gradient's norm over $c_1 B$, proportional to the noise on the
            coefficients. One that rounding makes unreachable is refused, for any data.

    Raises:
        ValueError, TypeError: an argument is out of its range, or the loss breaks its bounds.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import Gaussian, PrivateKernelClassifier
        >>> learner = PrivateKernelClassifier(Gaussian(1.0), num_projections=20, input_bound=1.0)
        >>> budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1}
        >>> learner.fit(np.ones((9, 2)), np.ones(9), **budget)(np.ones((3, 2))).shape
        (3,)
    """

    loss: AbstractClassificationLoss = eqx.field(default_factory=Logistic, converter=on_host)

    def __check_init__(self):
        expected = "a margin loss, such as jaxdp.losses.Logistic(), or Softmax(k)"
        require_kind("loss", self.loss, AbstractClassificationLoss, expected)
