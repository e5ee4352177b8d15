r"""The deterministic equivalent: coupled ordinary differential equations, one per eigenvalue.

Source: AC (62), with the right D_i(0), and Proposition 5 for the last step's noise.

No schedule is differentiated. The noise term is $-K\,d\tilde\eta^2/dt$ with
$K = 2c^2\gamma^2/\rho^2$, so $U_i = D_i + K(\tilde\eta^2(t) - \tilde\eta^2(1))$ obeys the equation
without it: U is the state as it would be if all the noise still to come came now. Any schedule
works, also one whose derivative is singular; measured from t = 1, not from t = 0, the shift does
not cancel against a small final risk. The solver's clock is s with $t = 1 - (1 - s)^2$, in which a
schedule that ends like $\sqrt{1-t}$ is smooth: a third of the steps.
"""

import abc
import dataclasses
from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import float_dtype
from jaxdp.core.checks import require_kind
from jaxdp.core.recording import record_steps
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.linear import LinearRegression
from jaxdp.theory.base import AbstractTheory
from jaxdp.theory.linear_modes import Modes, as_trajectory, eigen_modes, require_one_pass

# Enough for a rate of 10^5, where an explicit solver's step is bound by stability.
_MAX_STEPS = 2**17


class AbstractModalTheory(AbstractTheory):
    """A theory of one-pass DP-SGD that integrates linear modes and differs only in which.

    Args:
        adjoint: how diffrax differentiates the solution. The default serves `jax.grad`;
            `diffrax.ForwardMode()` serves `jax.jvp` and `jax.jacfwd` and compiles faster.
    """

    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()

    def __check_init__(self):
        require_kind("adjoint", self.adjoint, diffrax.AbstractAdjoint, "one of diffrax's adjoints")

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """Its name in tables and legends."""

    @abc.abstractmethod
    def modes(self, problem: LinearRegression) -> Modes:
        """The modes that it follows."""

    def covers(self, problem, algorithm):
        return require_one_pass(problem, algorithm)

    def predict(self, problem, algorithm, *, records):
        trajectory = integrate(self.modes(problem), algorithm, records, self.adjoint)
        return dataclasses.replace(trajectory, label=self.label)


class CoupledODE(AbstractModalTheory):
    r"""The deterministic equivalent of Algorithm 1: its risk as d and n grow together.

    The mean risk of simulated runs differs from it by O(1/d), a single path by O(1/sqrt d).
    Beyond the cap, where AC Theorem 4 does not reach, the gradient's rate is
    $\min(\tilde\eta, 2/(\gamma B))$ and the noise is not capped; simulation agrees.
    For batches it is the limit of a batch small against d; `DiscreteRecursion` has the others.

    Keeps 1e-6 absolute in float64 and 1e-4 relative in float32, there of risks above 1e-9. Where a
    rate beyond about 10^5 makes the equations stiff, the solver may give up:
    `Status.SOLVER_STOPPED`, with NaN risks.

    Source: AC (62), (63), Proposition 5. Derived (beyond the cap):
    test_beyond_the_cap_the_gradient_rate_saturates_and_the_noise_does_not.
    """

    @property
    def label(self):
        return "ODE"

    def modes(self, problem):
        return eigen_modes(problem)


def integrate(
    modes: Modes, algorithm: OnePassDPSGD, records: int, adjoint: diffrax.AbstractAdjoint
) -> Trajectory:
    """The trajectory of a theory's modes."""
    count = jnp.asarray(algorithm.num_steps, float)
    time = jnp.asarray(record_steps(algorithm.num_steps, records)) / count
    # The length is traced, so that one compiled solver serves every number of steps.
    return _solve(modes, algorithm.with_traced_length(), time, adjoint)


@eqx.filter_jit
def _solve(modes, algorithm, time, adjoint) -> Trajectory:
    dtype = float_dtype(modes, algorithm)
    time = time.astype(dtype)
    schedule = algorithm.learning_rate
    gamma = algorithm.aspect_ratio(modes.dim).astype(dtype)
    cap = 2 / (gamma * algorithm.batch_size)
    strength = 2 * (algorithm.noise_ratio * gamma) ** 2
    last_square = schedule(jnp.ones((), dtype)) ** 2

    def noise_to_come(time: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return strength * (schedule(time) ** 2 - last_square)

    def field(clock, state, _):
        time, speed = clock * (2 - clock), 2 * (1 - clock)
        shifted, _ = state
        modal = shifted - noise_to_come(time)
        second_moment = modes.second_moment(modes.risk(modal))
        descent, variance = algorithm.clip.moments(second_moment)
        # By the clock: at the kink rounding would take the other side's derivative.
        rate = jnp.where(starts_above & (clock < leaves), cap, schedule(time))
        drift = -2 * rate * descent * modes.descent * modal
        spread = rate**2 * gamma * variance * second_moment / 2 * modes.diffusion
        return (drift + spread) * speed, (1 - descent) * speed

    zero = jnp.zeros((), dtype)
    start = modes.initial.astype(dtype) + noise_to_come(zero), zero
    starts_above, leaves = schedule(zero) > cap, _on_the_clock(_leaves_cap(schedule, cap))
    rtol, atol = (1e-9, 1e-15) if dtype == jnp.float64 else (1e-6, 1e-13)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        jnp.zeros((), dtype),
        jnp.ones((), dtype),
        None,
        start,
        saveat=_saved(time),
        stepsize_controller=diffrax.ClipStepSizeController(
            diffrax.PIDController(rtol=rtol, atol=atol, norm=_norm_of_the_modes),
            jump_ts=jnp.append(_on_the_clock(schedule.kinks.astype(dtype)), leaves),
        ),
        adjoint=adjoint,
        max_steps=_MAX_STEPS,
        throw=False,
    )
    ys: Any = solution.ys
    shifted, clipped_area = ys
    modal = shifted - noise_to_come(time)[:, None]
    read = jnp.matmul(modal, modes.readout.astype(dtype), precision=Precision.HIGHEST)
    risk = jnp.maximum(read, 0)
    return as_trajectory(
        modes,
        algorithm,
        time=time,
        risk=risk,
        # AC Proposition 5: the noise of the last step, which comes after time 1.
        final_risk=risk[-1] + strength * last_square,
        clipped_area=clipped_area,
        stopped=solution.result != diffrax.RESULTS.successful,
    )


def _norm_of_the_modes(error):
    """Root mean square; the clipped area goes along, its rounding must not set the step."""
    modal, _ = error
    return jnp.sqrt(jnp.mean(modal**2))


def _on_the_clock(time):
    """s in t = 1 - (1 - s)^2; what lies beyond the end stays there."""
    before = jnp.minimum(time, 1)
    # 1 - sqrt(1 - t), in a form that keeps the digits of a small t.
    return jnp.where(time < 1, before / (1 + jnp.sqrt(1 - before)), time)


def _saved(time):
    """What the solver keeps: the ends alone need no interpolation."""
    if len(time) == 2:
        return diffrax.SaveAt(t0=True, t1=True)
    return diffrax.SaveAt(ts=_on_the_clock(time))


def _leaves_cap(schedule, cap):
    """The time at which a falling learning rate meets the cap; beyond 1 when it never does.

    The equation has a kink there, which the solver must not step across.
    """

    def halve(_, ends):
        above, below = ends
        middle = (above + below) / 2
        over = schedule(middle) > cap
        return jnp.where(over, middle, above), jnp.where(over, below, middle)

    start, end = jnp.zeros_like(cap), jnp.ones_like(cap)
    _, time = lax.fori_loop(0, 60, halve, (start, end))
    meets = (schedule(start) > cap) & (schedule(end) < cap)
    return lax.stop_gradient(jnp.where(meets, time, 2))
