r"""The Gaussian closure of DP-Adam: momentum with a step size for each coordinate.

The mean of squared gradients fluctuates little over many steps and is replaced by its expectation,

$$ v_t = \beta_2 v_{t-1} + (1 - \beta_2)\, E[\hat g_t^2], \qquad
   E[\hat g_{t,j}^2] = \bar g_j^2 + (BSB^\top + Q + \sigma_w^2 I)_{jj}, $$

so that a step is momentum with the preconditioner

$$ P_t = \frac{\eta_t}{1 - \beta_1^t}\,\frac{1 - w_t/4}{\sqrt{v_t/(1 - \beta_2^t)} + \epsilon},
   \qquad w_t = \frac{1 - \beta_2}{1 - \beta_2^t}. $$

The factor $1 - w_t/4$ is the first order of $E[\hat g_t/\sqrt{\hat v_t}]$ for gradients with more
noise than mean; if they are hardly random (a full batch, almost no noise), the first steps are
predicted 2 to 10 % too short. Adam depends on the coordinates, so the closure keeps all
covariances: O(p^3) a step for p features. Derived: here; test_everyday (against stored numbers of
the same closure in NumPy).
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.readings import AdamConstants
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import NotCoveredError
from jaxdp.core.numerics.precision import product
from jaxdp.privacy.secret.secret_noise import SecretNoise
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.theory.features.closed_moments import Closure, Moments

# With more features a step takes longer than 0.15 s on two cores.
LARGEST = 500


class AdamUpdates(eqx.Module):
    """Adam's constants, and the noise of its gradients."""

    b1: float = eqx.field(static=True)
    b2: float = eqx.field(static=True)
    eps: float = eqx.field(static=True)
    learning_rate: Float[Array, " steps"]  # one for each step, or one for all
    noise_std: Float[Array, ""]  # noise on the mean gradient, per coordinate
    own: Float[Array, ""]  # own, joint: draw of a batch, as in `LinearRecursion`
    joint: Float[Array, ""]


class AdamMoments(eqx.Module):
    """Moments of each coordinate's weight and velocity, and the mean of squared gradients."""

    moments: Moments
    square: Float[Array, " features"]


def adam_updates(
    problem: AbstractFeatureProblem, algorithm: PrivateOptimiser, found: AdamConstants
) -> AdamUpdates:
    """Adam's constants and noise; raises NotCoveredError if the closure does not cover them."""
    sampler, features, loss = algorithm.sampler, problem.num_features, problem.loss
    is_known = algorithm.noise is None or isinstance(algorithm.noise, SecretNoise)
    is_small = features is not None and features <= LARGEST
    draw = sampler.inclusion_moments
    for holds, what in (
        (
            is_known,
            f"the same noise in every step, got {type(algorithm.noise).__name__}; use Iterates()",
        ),
        (algorithm.average is None, "no average of iterates, got one; use Iterates()"),
        (loss.num_outputs is None, f"losses of one output, got {type(loss).__name__}"),
        (is_small, f"at most {LARGEST} features, got {features}"),
        (draw.epoch_steps in (None, 1), "independent batches; use FixedSizeBatches"),
    ):
        if not holds:
            raise NotCoveredError(f"Adam is covered with {what}")
    numbers = found.learning_rate, algorithm.nominal_std_of_mean, draw.variance, draw.covariance
    return AdamUpdates(found.b1, found.b2, found.eps, *map(as_wide_float, numbers))


def start_of_adam(closure: Closure, dtype) -> AdamMoments:
    return AdamMoments(closure.start(dtype, 2), jnp.zeros(closure.rank, dtype))


def adam_step(
    closure: Closure, updates: AdamUpdates, state: AdamMoments, index: Int[Array, ""]
) -> AdamMoments:
    """The moments after update number `index`, from 0."""
    moments, b1, b2 = state.moments, updates.b1, updates.b2
    (weights, between), velocities = moments.leading[0], moments.leading[1, 1]
    forces = closure.forces(moments.mean[0], weights, moments.others[0, 0])
    pull, derivative = forces.pull, forces.leading
    drawn = closure.drawn(forces, weights, moments.others[0, 0], updates.own, updates.joint)[0]
    noise = drawn + updates.noise_std**2 * jnp.eye(closure.rank, dtype=drawn.dtype)
    moved = product(derivative, weights)
    pushed = product(moved, derivative)
    square = b2 * state.square + (1 - b2) * (pull**2 + jnp.diagonal(pushed + noise))
    count = (index + 1).astype(pull.dtype)
    rates = updates.learning_rate
    rate = rates[jnp.minimum(index, len(rates) - 1)]
    # 1 - b^t without cancellation.
    first, second = (-jnp.expm1(count * jnp.log(jnp.asarray(b, pull.dtype))) for b in (b1, b2))
    step = rate / first * (1 - (1 - b2) / second / 4) / (jnp.sqrt(square / second) + updates.eps)
    # The velocity is b1 m + (1 - b1) g, and the weight moves by -step times it.
    velocity = b1 * moments.mean[1] + (1 - b1) * pull
    crossed = product(derivative, between)
    velocities = (
        b1**2 * velocities
        + b1 * (1 - b1) * (crossed + crossed.T)
        + (1 - b1) ** 2 * (pushed + noise)
    )
    # Covariance of the weight before the step with the velocity after it.
    between = b1 * between + (1 - b1) * moved.T
    weights = (
        weights
        - between * step[None]
        - (between * step[None]).T
        + velocities * step[:, None] * step[None]
    )
    between = between - velocities * step[:, None]
    leading = jnp.stack([jnp.stack([weights, between]), jnp.stack([between.T, velocities])])
    mean = jnp.stack([moments.mean[0] - step * velocity, velocity])
    clipped = moments.clipped + forces.clipped
    moments = dataclasses.replace(moments, mean=mean, leading=leading, clipped=clipped)
    return AdamMoments(moments, square)
