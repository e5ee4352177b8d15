r"""Overlap and remainder: the deterministic equivalent if labels depend on one direction.

Inputs are isotropic. The state is the overlap p with the target and the remainder w, the squared
norm of the part orthogonal to it. With $g = \min(\tilde\eta, 2/(\ell\gamma B))$, the loss's
curvature bound $\ell$ and the moments of the slope cut at c (`SignalSlope`: $a = E[\psi z]$,
$D = E[\psi']$, $M = E[\psi^2]$),

$$ p' = -g\,a, \qquad w' = -2g D\,w + g^2\gamma M - 4\frac{c^2\gamma^2}{\rho^2}
   \frac{d\tilde\eta^2}{dt}, $$

because $\|x\|^2/d \to 1$: a slope is clipped at c, the clipped gradient's part across the target is
$D\,\theta_\perp$ by Stein's identity, and its squared norm is d times $\psi^2$. The private noise
of a step has d coordinates of variance $4C^2\sigma_k^2/B^2$, and the state includes all the noise
still to come, as in `jaxdp.theory.streams.coupled_ode`. For the squared loss a = D (p - S), and the
risk $((p - S)^2 + w)/2$ obeys AC (62).

One step of size eta on a batch of B, with $g = \min(\eta, 2/(\ell d))$, is

$$ p \leftarrow p - g\,a, \qquad w \leftarrow \bigl(1 - 2gD + (1 - 1/B)\,g^2D^2\bigr) w
   + g^2 (d/B)\,M + 4c^2d^2\sigma^2/B^2. $$

Derived: one step's change of p and w under Algorithm 1, with batches for the recursion, as d and n
grow together for the equation; test_signal_ode, test_discrete_recursion.
"""

from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import float_dtype
from jaxdp.core.trajectory import Trajectory, trajectory_of
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.theory.solver import Instant, Tolerances, adjoint_for, recorded_sums
from jaxdp.theory.streams.modes import MAX_STEPS, OnePassRate, capped_share, recorded_pass

# Root mean square without the clipped area, whose rounding must not set the step.
_TOLERANCES = Tolerances(
    (1e-9, 1e-12),
    (1e-6, 1e-10),
    lambda error: jnp.sqrt((error[0] ** 2 + error[1] ** 2) / 2),
    MAX_STEPS,
)


def integrate_signal(
    problem: AbstractSignalProblem,
    algorithm: OnePassDPSGD,
    records: int,
    adjoint: diffrax.AbstractAdjoint,
) -> Trajectory:
    """The trajectory of the differential equation, also with "overlap" and "norm_squared"."""
    adjoint = adjoint_for(adjoint, problem, algorithm)
    return _solve(problem, *recorded_pass(algorithm, records), adjoint)


@eqx.filter_jit
def _solve(problem, algorithm, time, adjoint) -> Trajectory:
    dtype = float_dtype(problem, algorithm)
    time = time.astype(dtype)
    bound = problem.loss.curvature_bound
    learning_rate = OnePassRate.of(algorithm, problem.dim, dtype, curvature_bound=bound)
    strength = 4 * (algorithm.noise_ratio * learning_rate.gamma) ** 2
    limit = algorithm.clip_scale.astype(dtype)

    def noise_to_come(time: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return strength * learning_rate.square_to_come(time)

    def velocity(instant: Instant, state):
        overlap, shifted, _ = state
        remainder = jnp.maximum(shifted - noise_to_come(instant.time), 0)
        moments = problem.slope_moments(overlap, remainder, limit)
        rate = learning_rate.capped(instant)
        drift = -2 * rate * moments.derivative * remainder
        spread = rate**2 * learning_rate.gamma * moments.square
        return -rate * moments.along, drift + spread, moments.clipped

    zero = jnp.zeros((), dtype)
    start = zero, noise_to_come(zero), zero
    found, stopped = learning_rate.solve(velocity, start, time, _TOLERANCES, adjoint)
    overlap, shifted, clipped_area = found
    remainder = jnp.maximum(shifted - noise_to_come(time), 0)
    # As in AC Proposition 5: the noise of the last step, which comes after time 1.
    final = remainder[-1] + strength * learning_rate.last_square
    path = time, overlap, remainder, final, clipped_area
    return _trajectory(problem, algorithm, path, label="ODE", stopped=stopped)


@eqx.filter_jit
def recurse_signal(
    problem: AbstractSignalProblem, algorithm: OnePassDPSGD, records: int
) -> Trajectory:
    """The trajectory of the recursion, at the cost of the algorithm's steps."""
    dtype = float_dtype(problem, algorithm)
    count, dim, batch = algorithm.num_steps, problem.dim, algorithm.batch_size
    cap = 2 / (problem.loss.curvature_bound * dim)
    # d (2 C sigma / B)^2 over the squared rate's drop.
    strength = 4 * (algorithm.noise_ratio * algorithm.aspect_ratio(dim)) ** 2
    limit = algorithm.clip_scale.astype(dtype)

    def changes(state, index):
        overlap, remainder, _ = state
        step = index + 1
        moments = problem.slope_moments(overlap, remainder, limit)
        rate = jnp.minimum(algorithm.step_size(step), cap)
        mean = rate * moments.derivative
        change = ((1 - 1 / batch) * mean**2 - 2 * mean) * remainder
        change += rate**2 * (dim / batch) * moments.square
        change += jnp.where(step < count, strength * algorithm.squared_rate_drop(step), 0)
        return -rate * moments.along, change, moments.clipped / count

    start = (jnp.zeros((), dtype),) * 3
    at_record, found = recorded_sums(changes, start, lambda state: state, count, records)
    overlap, remainder, clipped = found
    final = remainder[-1] + strength * algorithm.squared_rate_drop(jnp.asarray(count))
    time = (at_record / jnp.asarray(count, float)).astype(dtype)
    path = time, overlap, remainder, final, clipped
    return _trajectory(problem, algorithm, path, label="recursion")


def _trajectory(problem, algorithm, path, *, label, stopped: Any = False) -> Trajectory:
    """The trajectory of a solution: times, overlap, remainder, its release, and clipped area."""
    time, overlap, remainder, final, clipped_area = path
    rates = problem.loss.curvature_bound * algorithm.aspect_ratio(problem.dim)
    cap = (2 / (rates * algorithm.batch_size)).astype(time.dtype)
    schedule, variance = algorithm.learning_rate, 2 / (9 * problem.dim)

    def threshold(nodes):
        return cap / jnp.maximum(schedule(nodes), jnp.finfo(time.dtype).tiny)

    # The inputs are isotropic.
    capped = capped_share(threshold, time, mean=1 - variance, deviation=np.sqrt(variance))
    return trajectory_of(
        problem.is_valid & algorithm.is_valid,
        time=time,
        risk=problem.risk_at(overlap, remainder),
        final_risk=problem.risk_at(overlap[-1], final),
        observables={
            "clipped_fraction": clipped_area / jnp.where(time > 0, time, 1),
            "capped_fraction": capped,
            "overlap": overlap,
            "norm_squared": overlap**2 + remainder,
        },
        label=label,
        stopped=stopped,
    )
