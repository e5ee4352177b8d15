r"""The deterministic equivalent where labels follow one direction of isotropic inputs.

Two numbers close the equations of one-pass DP-SGD: the overlap p with the target and the remainder
w, the squared norm of what is orthogonal to it. With $g = \min(\tilde\eta, 2/(\ell\gamma B))$, the
loss's curvature bound $\ell$ and the moments of the slope cut at c (`SignalSlope`: $a = E[\psi
z]$, $D = E[\psi']$, $M = E[\psi^2]$),

$$ p' = -g\,a, \qquad w' = -2g D\,w + g^2\gamma M - 4\frac{c^2\gamma^2}{\rho^2}
   \frac{d\tilde\eta^2}{dt}, $$

because $\|x\|^2/d \to 1$: a slope is clipped at c, the clipped gradient's part across the target
is $D\,\theta_\perp$ by Stein's identity, and its squared norm is d times $\psi^2$. The private
noise of a step has d coordinates of variance $4C^2\sigma_k^2/B^2$. As in
`jaxdp.theory.streams.coupled_ode` no schedule is differentiated: the state is w with all the noise
still to come. For the squared loss a = D (p - S), and the risk $((p - S)^2 + w)/2$ obeys AC (62).

Derived: one step's change of p and w under Algorithm 1, as d and n grow together; test_signal_ode.
"""

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import float_dtype
from jaxdp.core.recording import record_steps
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.theory.solver import SLOW_AT_THE_END, Instant, Tolerances, prediction, solve
from jaxdp.theory.streams.capped_rate import capped_share, leaves_cap


def _norm_of_the_state(error):
    """Root mean square; the clipped area goes along, its rounding must not set the step."""
    overlap, remainder, _ = error
    return jnp.sqrt((overlap**2 + remainder**2) / 2)


_TOLERANCES = Tolerances((1e-9, 1e-12), (1e-6, 1e-10), _norm_of_the_state, max_steps=2**17)


def integrate_signal(
    problem: AbstractSignalProblem,
    algorithm: OnePassDPSGD,
    records: int,
    adjoint: diffrax.AbstractAdjoint,
) -> Trajectory:
    """The predicted trajectory; observables "overlap" and "norm_squared" beside the shares."""
    count = jnp.asarray(algorithm.num_steps, float)
    time = jnp.asarray(record_steps(algorithm.num_steps, records)) / count
    # The length is traced, so that one compiled solver serves every number of steps.
    return _solve(problem, algorithm.with_traced_length(), time, adjoint)


@eqx.filter_jit
def _solve(problem, algorithm, time, adjoint) -> Trajectory:
    dtype = float_dtype(problem, algorithm)
    time = time.astype(dtype)
    schedule = algorithm.learning_rate
    gamma = algorithm.aspect_ratio(problem.dim).astype(dtype)
    cap = 2 / (problem.loss.curvature_bound * gamma * algorithm.batch_size)
    strength = 4 * (algorithm.noise_ratio * gamma) ** 2
    last_square = schedule(jnp.ones((), dtype)) ** 2
    limit = algorithm.clip_scale.astype(dtype)

    def noise_to_come(time: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return strength * (schedule(time) ** 2 - last_square)

    def velocity(instant: Instant, state):
        overlap, shifted, _ = state
        remainder = jnp.maximum(shifted - noise_to_come(instant.time), 0)
        moments = problem.slope_moments(overlap, remainder, limit)
        rate = jnp.where(starts_above & ~instant.passed[-1], cap, schedule(instant.time))
        drift = -2 * rate * moments.derivative * remainder
        return -rate * moments.along, drift + rate**2 * gamma * moments.square, moments.clipped

    zero = jnp.zeros((), dtype)
    starts_above = schedule(zero) > cap
    (overlap, shifted, clipped_area), stopped = solve(
        velocity,
        (zero, noise_to_come(zero), zero),
        time,
        tolerances=_TOLERANCES,
        adjoint=adjoint,
        clock=SLOW_AT_THE_END,
        kinks=jnp.append(schedule.kinks.astype(dtype), leaves_cap(schedule, cap)),
    )
    remainder = jnp.maximum(shifted - noise_to_come(time), 0)
    return signal_trajectory(
        problem,
        algorithm,
        time=time,
        overlap=overlap,
        remainder=remainder,
        # As in AC Proposition 5: the noise of the last step, which comes after time 1.
        final_remainder=remainder[-1] + strength * last_square,
        clipped_area=clipped_area,
        label="ODE",
        stopped=stopped,
    )


def signal_trajectory(
    problem: AbstractSignalProblem,
    algorithm: OnePassDPSGD,
    *,
    time: Float[Array, " records"],
    overlap: Float[Array, " records"],
    remainder: Float[Array, " records"],
    final_remainder: Float[Array, ""],
    clipped_area: Float[Array, " records"],
    label: str,
    stopped: Bool[Array, ""] | bool = False,
) -> Trajectory:
    """A prediction of overlap and remainder as a Trajectory, with what is made of them."""
    rates = problem.loss.curvature_bound * algorithm.aspect_ratio(problem.dim)
    cap = (2 / (rates * algorithm.batch_size)).astype(time.dtype)
    return prediction(
        problem.is_valid & algorithm.is_valid,
        time=time,
        risk=problem.risk_at(overlap, remainder),
        final_risk=problem.risk_at(overlap[-1], final_remainder),
        observables={
            "clipped_fraction": clipped_area / jnp.where(time > 0, time, 1),
            "capped_fraction": capped_share(algorithm.learning_rate, cap, problem.dim, time),
            "overlap": overlap,
            "norm_squared": overlap**2 + remainder,
        },
        label=label,
        stopped=stopped,
    )
