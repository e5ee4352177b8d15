r"""What Algorithms 2 and 4 share: the minimiser of a perturbed objective, and what is proved of it.

The noise, $2c_1\Delta\sqrt{2\log(\cdot/\delta) + \epsilon}/\epsilon$, is that of Kifer, Smith and
Thakurta (2012) for a record that is left out. The proof in PK A.13 replaces it, and then

- bounds the Gaussian exponent by $\epsilon/2$, where it is $\epsilon$;
- takes the shift to be independent of the noise, though it is evaluated at the minimiser.

The theorems are false: with the Huber hinge, one record in the corner of the loss gives a
divergence of 9.7 times $\delta$ (Algorithm 2) and 15 times (Algorithm 4) at $\epsilon = 10$,
$\delta = 10^{-9}$. No violation is known at $\delta \ge 10^{-5}$ and $\epsilon \le 10$, and no
proof of what is printed either. What is reported is the curve that `objective_calibration` proves,
at the noise, ridge and norm as they are.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import require_non_negative
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.blocks import blockwise
from jaxdp.kernels.fit_arguments import check_budget, check_seeds, training_table
from jaxdp.kernels.losses import AbstractMarginLoss, check_loss
from jaxdp.kernels.objective_solver import minimise
from jaxdp.kernels.perturbed_objective import PerturbedObjective
from jaxdp.kernels.published.noise_source import noise_of_learner
from jaxdp.kernels.published.statements import statement
from jaxdp.kernels.released import ReleasedFunction
from jaxdp.kernels.table_inputs import columns_of
from jaxdp.privacy.mechanisms import AbstractMechanism, Unproved
from jaxdp.privacy.objective_perturbation import ObjectivePerturbation

_WHAT = "the minimiser of an objective with a noisy linear term, and the function made of it"
_EXACT = "proved of the exact minimiser; this one is found to rounding, and no noise hides the rest"
_UNBOUNDED = "nothing bounds the features of a published projection, and the paper's proof is wrong"
# Of the norm of the gradient, where rounding allows for it.
_TOLERANCE = 1e-11
_ROUNDING = 1e-9
# Where two losses are compared.
_MARGINS = np.linspace(-16, 16, 513)


class Perturbation(NamedTuple):
    r"""As printed.

    Attributes:
        noise_std: of every entry of b.
        ridge: $\lambda_0$, in $\frac{\lambda_0}2|\beta|^2$.
    """

    noise_std: float
    ridge: float


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
    floor = loss.smoothness * norm**2 / (num_samples * growth)
    return Perturbation(2 * loss.lipschitz * norm * root / epsilon, max(ridge, floor))


def check_learner(loss: AbstractMarginLoss, ridge: float) -> None:
    """Raise ValueError or TypeError unless this is a loss with true constants, and ridge >= 0."""
    check_loss(loss)
    require_non_negative("ridge", ridge)


def proved_mechanism(
    loss: AbstractMarginLoss, perturbation: Perturbation, *, norm_bound: float, num_samples: int
) -> AbstractMechanism:
    """What the corrected proof says of the exact minimiser, for features of that norm at most."""
    if not math.isfinite(norm_bound):
        return Unproved(_UNBOUNDED)
    curvature = loss.smoothness * norm_bound**2 / num_samples
    return ObjectivePerturbation(
        2 * loss.lipschitz * norm_bound / perturbation.noise_std * (1 + _ROUNDING),
        math.log1p(curvature / perturbation.ridge) * (1 + _ROUNDING),
        has_signed_slopes=loss.is_decreasing,
    )


def signed_table(inputs: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """As `training_table`, with labels -1 and +1; ValueError where another one stands."""
    table, targets = training_table(inputs, labels)
    if not np.isin(targets, (-1, 1)).all():
        raise ValueError("expected labels -1 and +1, got others")
    return table, targets


def least_tolerance(objective: PerturbedObjective) -> float:
    """The tolerance of the published minimisers: what rounding leaves, or less than matters."""
    return max(_TOLERANCE, 4 * objective.gradient_rounding(objective.coefficient_bound))


def fitted(
    learner: Any,
    inputs: Float[Any, "n dim"],
    labels: Float[Any, " n"],
    *,
    epsilon: float,
    delta: float,
    public_seed: int,
    noise_seed: int | None,
    remark: str,
) -> ReleasedFunction:
    """The release of a learner that has `features(dim, seed)`, `perturbation(n, eps, delta)`.

    Raises:
        ValueError, TypeError: an argument is out of its range, or not finite.
        RuntimeError: the minimiser was not found.
    """
    check_budget(epsilon, delta)
    check_seeds(public_seed, noise_seed)
    columns = columns_of(inputs, labels)
    table, targets = signed_table(inputs, labels)
    features: AbstractFeatureMap = learner.features(table.shape[1], int(public_seed))
    bound, size = features.norm_bound, features.num_outputs
    rows = _within(blockwise(features, table), bound)
    perturbation: Perturbation = learner.perturbation(len(table), epsilon, delta)
    source = noise_of_learner(learner, table, targets, (public_seed, noise_seed), (epsilon, delta))
    largest = bound if math.isfinite(bound) else float(np.linalg.norm(rows, axis=1).max())
    slopes = learner.loss.slope(_MARGINS)
    source = source.hiding(rows, targets, slopes, *perturbation)
    linear_term = perturbation.noise_std * source.normals(size, "b")
    objective = PerturbedObjective(
        rows, targets, learner.loss, perturbation.ridge, linear_term, largest
    )
    tolerance = least_tolerance(objective)
    sizes = {"norm_bound": bound, "num_samples": len(table)}
    mechanism = proved_mechanism(learner.loss, perturbation, **sizes)
    return ReleasedFunction(
        features=features,
        coefficients=minimise(objective, tolerance=tolerance).coefficients,
        public_seed=int(public_seed),
        statement=statement(_WHAT, mechanism, source, remark, _EXACT, epsilon=epsilon, delta=delta),
        delta=float(delta),
        columns=columns,
    )


def _within(rows: np.ndarray, bound: float) -> Float[np.ndarray, "n outputs"]:
    """The rows in float64, those that rounding took beyond the bound scaled back."""
    wide = np.asarray(rows, np.float64)
    if not math.isfinite(bound):
        return wide
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide * (bound / np.maximum(norms, bound))
