r"""Private kernel classification by objective perturbation: a public projection, a function.

PK Algorithm 2 with four changes. (1) Each record's features come from a public seed and that
record alone, and are clipped to a public bound. (2) The noise is calibrated by a bound that is
proved (`objective_calibration`); the published one is violated for some budgets. (3) What is
released is an approximate minimiser, with the noise that hides how far it is from the exact one.
(4) The solver ends with a certificate, or nothing is released.

*Proof.* Fix the public seed: z is a fixed function of one input, rounded onto a grid such that
$|z| \le B$ in exact arithmetic. `objective_calibration` proves the rest, for every data set, seed
and input. Neighbours differ in one record (replace-one), n is public. The ridge stands inside the
objective, so trying several on private data costs the budget of each.

*Arithmetic.* The linear term and the noise on the coefficients are exact normal numbers rounded to
grids (`SecretNoise.noisy_integers`). An objective whose linear term is off by at most half a unit
in each of M entries has a gradient that is off by $\sqrt M/2$ units over n, which is added to the
solver's tolerance; rounding the coefficients to their grid moves each centre by $\sqrt M/2$ units,
which their noise hides too.

Outside the guarantee: that a fit raised an error, whether for its arguments or because the solver
did not meet its tolerance, its running time, and warnings.
"""

import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import host_number, require_count, require_positive
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.features.public_features import AbstractFeatureLearner, unit_features
from jaxdp.kernels.margin.objective_calibration import (
    ObjectiveCalibration,
    objective_perturbation_std,
)
from jaxdp.kernels.margin.objective_solver import minimise
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective
from jaxdp.losses import AbstractMarginLoss, Logistic
from jaxdp.losses.margin import check_margin_loss
from jaxdp.privacy.arguments import check_budget
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import SecretNoise, grid_unit

# The noise for the tolerance is that of a Gaussian mechanism with this share of the shift R: it
# makes the linear term's noise larger by 5e-5 of itself.
_APPROXIMATION_SHARE = 0.01
# Where two losses are compared.
_MARGINS = np.linspace(-16, 16, 513)
_ASSUMPTIONS = (
    "each record's features are a function of that record alone, to the last bit",
    "public, and chosen without looking at the data: the number of records, the names of columns, "
    "the bounds, the kernel or feature map, the seed of the features, the loss and the ridge; "
    "inputs are scaled by public ranges, if at all",
    "the loss is convex, and its slope and curvature are bounded as it states",
    "errors, such as a tolerance that is not met, warnings and running times are not released",
)
_CERTIFIED = (
    "proved in the arithmetic of the machine: the solver's certificate bounds its rounding, and "
    "what is released has exactly the law of rounded normal noise"
)


class PrivateKernelClassifier(AbstractFeatureLearner):
    r"""$(\epsilon, \delta)$-DP kernel classification, proved for a published projection.

    Args:
        kernel: k; None is allowed where a feature map is given.
        num_projections: M, how many Gaussian-process paths the features are.
        num_features: L, of the random features that the paths are made of.
        loss: $\ell$, of the margin y f(x): `jaxdp.losses.Logistic()` or `HuberHinge`.
        ridge: $\lambda > 0$ of $\frac\lambda2 \|\beta\|^2$ beside the average loss; raised to the
            floor that the proof needs. None: as large as the noise, $\sigma B/n$ with the floor's
            $\sigma$, so that the linear term moves no score by more than 1 in standard deviation.
        max_steps: of the solver, >= 1; None for a number that is enough for every data set, by a
            bound in exact arithmetic.
        tolerance: of the gradient's norm over $c_1 B$, > 0; the noise on the coefficients is
            proportional to it.
        input_bound: rows are scaled down to this Euclidean norm first; needed where the kernel is
            bounded nowhere else. Infinity says that public numbers have scaled them already.
        feature_map: instead of sample paths, a map of one input that is public: drawn without the
            data.

    Raises:
        ValueError, TypeError: an argument is out of its range, or the loss is not what it states.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import Gaussian, PrivateKernelClassifier
        >>> learner = PrivateKernelClassifier(Gaussian(1.0), num_projections=20, input_bound=1.0)
        >>> inputs = np.linspace(-1, 1, 200)[:, None]
        >>> budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1}
        >>> release = learner.fit(inputs, np.where(inputs[:, 0] > 0, 1, -1), **budget)
        >>> release(inputs[:3]).shape, release.cost.adjacency
        ((3,), 'replace-one')
    """

    kernel: AbstractKernel | None
    num_projections: int = eqx.field(static=True, converter=plain_number, default=200)
    num_features: int = eqx.field(static=True, converter=plain_number, default=2048)
    loss: AbstractMarginLoss = eqx.field(default_factory=Logistic)
    ridge: float | None = eqx.field(static=True, converter=plain_number, default=None)
    max_steps: int | None = eqx.field(static=True, converter=plain_number, default=None)
    tolerance: float = eqx.field(static=True, converter=plain_number, default=1e-9)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_number, default=None, kw_only=True
    )
    feature_map: AbstractFeatureMap | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        if self.max_steps is not None:
            require_count("max_steps", self.max_steps)
        for name in ("ridge", "tolerance"):
            if getattr(self, name) is not None:
                require_positive(name, host_number(name, getattr(self, name)))
        check_margin_loss(self.loss)

    def calibration(self, num_samples: int, epsilon: float, delta: float) -> ObjectiveCalibration:
        """The noise and the ridge that a fit uses, in units of B = 1.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """
        check_budget(epsilon, delta)

        def calibrated(ridge: float) -> ObjectiveCalibration:
            return objective_perturbation_std(
                float(epsilon),
                float(delta),
                input_bound=1.0,
                lipschitz=self.loss.lipschitz,
                smoothness=self.loss.smoothness,
                num_samples=num_samples,
                ridge=ridge,
                margin_loss=self.loss.is_decreasing,
                approximation_share=_APPROXIMATION_SHARE,
            )

        if self.ridge is not None:
            return calibrated(self.ridge / self.feature_bound**2)
        return calibrated(calibrated(0.0).noise_std / num_samples)

    def noise_std(self, num_samples: int, epsilon: float, delta: float) -> dict[str, float]:
        r"""Standard deviations of the noise.

        Returns:
            "b": on every entry of the linear term, which stands over n in the objective.
            "coefficients": on every coefficient of the approximate minimiser.

        Raises:
            ValueError, TypeError: an argument is out of its range.
        """
        found, bound = self.calibration(num_samples, epsilon, delta), self.feature_bound
        coefficient_std = self._coefficient_std(found, num_samples)
        return {"b": found.noise_std * bound, "coefficients": coefficient_std / bound}

    def _release(self, request):
        _check_labels(request.targets)
        features = self.features(request.dim, request.public_seed)
        rows = unit_features(features, request.table)
        calibration = self.calibration(request.num_samples, request.epsilon, request.delta)
        source = request.noise(rows).hiding(*self._fingerprint(calibration))
        linear_term = noisy_on_grid(
            np.zeros(features.num_outputs), calibration.noise_std, source, "linear term"
        )
        objective = PerturbedObjective(
            rows, request.targets, self.loss, calibration.ridge, linear_term, input_bound=1.0
        )
        tolerance = self.tolerance * self.loss.lipschitz
        found = minimise(objective, tolerance=tolerance, max_steps=self.max_steps).coefficients
        std = self._coefficient_std(calibration, request.num_samples)
        hidden = source.hiding(found)
        coefficients = noisy_on_grid(found, std, hidden, "coefficients") / self.feature_bound
        statement = Release(
            "an approximate minimiser of a perturbed objective, with noise, and its function",
            "replace-one",
            source.proved(calibration.mechanism),
            (*_ASSUMPTIONS, *source.assumptions(_CERTIFIED)),
            is_certified=not source.is_guessable,
        )
        return request.released(features, request.in_precision(coefficients), statement)

    def _coefficient_std(self, calibration: ObjectiveCalibration, num_samples: int) -> float:
        """Of the noise that hides the solver's tolerance and both roundings, for B = 1."""
        maps = self.feature_map
        root = math.sqrt(self.num_projections if maps is None else maps.num_outputs)
        linear_rounding = root / 2 * grid_unit(calibration.noise_std) / num_samples
        gradient_norm = self.tolerance * self.loss.lipschitz + linear_rounding
        # The unit is at most 2^-29 of the result, which so bounds a geometric series.
        share = root * 2.0**-29 / calibration.mechanism.approximation_mu
        if share > 0.5:
            raise ValueError(
                "expected a budget at which the coefficients' grid is finer than their noise, got "
                f"an epsilon too small for {round(root**2)} coefficients"
            )
        return calibration.coefficient_std(gradient_norm) / (1 - share) * (1 + 2.0**-50)

    def _fingerprint(self, calibration: ObjectiveCalibration) -> tuple[Any, ...]:
        """What decides the release, besides features, labels, budget and seed.

        A loss is told by its values: two of a user's own may have one name. Features are hashed as
        numbers too, for the same map differs by its rounding from one device to another.
        """
        slopes = np.asarray(self.loss.slope_of_margin(_MARGINS), np.float64).tobytes()
        sizes = calibration.noise_std, calibration.ridge, self.tolerance, self.max_steps
        return eqx.tree_pformat(self.loss), slopes, *sizes


def noisy_on_grid(
    values: Float[np.ndarray, " outputs"], std: float, source: SecretNoise, purpose: str
) -> Float[np.ndarray, " outputs"]:
    """The values rounded to the noise's grid, plus rounded normal noise: integers times a unit."""
    unit = grid_unit(std)
    noise = source.noisy_integers(np.zeros(len(values), np.int64), std / unit, purpose)
    # Python's integers: a value may be more units than 64 bits hold.
    sums = [
        int(place) + int(added) for place, added in zip(np.rint(values / unit), noise, strict=True)
    ]
    return np.asarray([float(total) * unit for total in sums])


def _check_labels(targets: Float[np.ndarray, " n"]) -> None:
    """Raise ValueError unless all labels are -1 or +1; says what to do with labels 0 and 1."""
    if np.all(np.abs(targets) == 1):
        return
    other = targets[np.abs(targets) != 1][0]
    is_binary = np.isin(targets, (0, 1)).all()
    hint = "; of labels 0 and 1 give 2 * labels - 1" if is_binary else ""
    raise ValueError(f"expected labels -1 and +1 alone, got {other:g}{hint}")
