r"""The deterministic equivalent: coupled differential equations, or their recursion for batches.

Source: AC (62), and Proposition 5 for the last step's noise. The $D_i(0)$ printed after (62) is
wrong: it has a factor $\lambda_i$ too many (docs/papers/ERRATA.md, E1).

The schedule is not differentiated, so its derivative may be singular: with the noise term
$-K\,d\tilde\eta^2/dt$, $K = 2c^2\gamma^2/\rho^2$, $U_i = D_i + K(\tilde\eta^2(t) -
\tilde\eta^2(1))$ obeys the equation without that term. A shift measured from t = 0 would cancel
against a small final risk.

One step of size eta on a batch of B, with g = min(eta, 2/d) the capped gradient rate and Gaussian
inputs (`jaxdp.theory.streams.modes` has the moments of others), is

$$ D_i \leftarrow \bigl(1 - 2\lambda_i g\mu + (1 - 1/B)\lambda_i^2 g^2\mu^2\bigr) D_i
   + \lambda_i g^2 (d/B)\,\nu P + 2c^2 d^2\sigma^2/B^2. $$

Derived (recursion): AC Algorithm 1's one-step second moments with batches; test_discrete_recursion.
"""

import dataclasses
import functools
from collections.abc import Callable

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.core.arrays import float_dtype
from jaxdp.core.checks import NotCoveredError
from jaxdp.core.trajectory import Trajectory, trajectory_of
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.theory.base import AbstractTheory, require_gaussian_pass
from jaxdp.theory.solver import Instant, adjoint_for, recorded_sums, require_adjoint
from jaxdp.theory.streams.modes import (
    Modes,
    OnePassRate,
    are_valid,
    checked_quadratics,
    direction_modes,
    eigen_modes,
    energy_tolerances,
    gradient_moments,
    recorded_pass,
    shares_so_far,
)
from jaxdp.theory.streams.signal import integrate_signal, recurse_signal

# Root mean square of the modes alone: rounding of the clipped area must not set the step.
_TOLERANCES = energy_tolerances(lambda error: jnp.sqrt(jnp.mean(error[0] ** 2)))


class CoupledODE(AbstractTheory):
    r"""Predict the risk of one-pass DP-SGD for large d and n, by differential equations.

    The mean risk of simulated runs differs from it by O(1/d), a single path by O(1/sqrt d). Beyond
    the cap, which AC Theorem 4 does not cover, the gradient's rate is
    $\min(\tilde\eta, 2/(\gamma B))$ and the noise is not capped. Valid for batch sizes much smaller
    than d; use `DiscreteRecursion` for others. For `LogisticRegression` it follows overlap and norm
    (`jaxdp.theory.streams.signal`).

    The solver keeps 1e-6 of max(1, R) in float64, several times that at rates in the thousands, and
    1e-4 relative in float32, for risks above 1e-9. At rates above about 10^5 it may give up:
    `Status.SOLVER_STOPPED`, with NaN risks. Under `vmap` the slowest cell sets the pace: batches of
    100 similar cells (`jax.lax.map` with `batch_size`) take half the time of thousands at once on a
    CPU. Memory per cell: 30 numbers per mode and 3 per record.

    Observable "distance": $\|\theta - \theta^*\|^2$ at the records; the last step's noise then adds
    $4c^2\gamma^2\tilde\eta^2(1)/\rho^2$. Source: AC (62), (63), Proposition 5. Derived (beyond the
    cap): test_beyond_the_cap_the_gradient_rate_saturates_and_the_noise_does_not.

    Args:
        adjoint: how diffrax differentiates the solution. The default serves `jax.grad`;
            `diffrax.ForwardMode()` serves `jvp` and `jacfwd`, and compiles faster.
        quadratics: further observables by name (AC Theorem 14), each the weights m, shape (dim,),
            of $\sum_j m_j(\theta_j - \theta^*_j)^2$ in the eigenbasis; none by default. They take
            one mode per direction. Off-diagonal entries M would add only
            $\sum_{i \ne j} M_{ij}u_iu_je^{-(\lambda_i + \lambda_j)\int g\mu}$ with
            $u = \theta(0) - \theta^*$, since no noise correlates two directions.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> jaxdp.predict(problem, algorithm, theory=jaxdp.CoupledODE()).label
        'ODE'
    """

    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()
    quadratics: dict[str, Float[Array, " dim"]] = eqx.field(
        default_factory=dict, converter=checked_quadratics, kw_only=True
    )

    def __check_init__(self):
        require_adjoint(self.adjoint)

    def read(self, problem, algorithm) -> Callable[[int, diffrax.AbstractAdjoint], Trajectory]:
        """The function that solves the pair's equations, given records and an adjoint."""
        require_gaussian_pass(problem, algorithm)
        if not isinstance(problem, AbstractSignalProblem):
            return functools.partial(integrate, self._modes(problem), algorithm, label="ODE")
        if self.quadratics:
            came = type(problem).__name__
            raise NotCoveredError(f"quadratics are of LinearRegression, got {came}")
        return functools.partial(integrate_signal, problem, algorithm)

    def solve(self, reading, records):
        return reading(records, self.adjoint)

    def _modes(self, problem):
        if not self.quadratics:
            return eigen_modes(problem)
        for name, weights in self.quadratics.items():
            if weights.shape != (problem.dim,):
                raise ValueError(
                    f"expected quadratics[{name!r}] to have a weight for each of the {problem.dim} "
                    f"directions, got shape {weights.shape}"
                )
        return direction_modes(problem, self.quadratics)


def integrate(modes: Modes, algorithm, records: int, adjoint, *, label: str = "") -> Trajectory:
    is_valid = are_valid(modes, algorithm)
    adjoint = adjoint_for(adjoint, modes, algorithm)
    trajectory = _solve(modes, *recorded_pass(algorithm, records), is_valid, adjoint)
    return dataclasses.replace(trajectory, label=label)


@eqx.filter_jit
def _solve(modes, algorithm, time, is_valid, adjoint) -> Trajectory:
    dtype = float_dtype(modes, algorithm)
    time = time.astype(dtype)
    values, _ = modes.levels(dtype)
    bound = modes.curvature_bound
    learning_rate = OnePassRate.of(
        algorithm, modes.dim, dtype, curvature_bound=bound, scales=values
    )
    strength = 2 * (algorithm.noise_ratio * learning_rate.gamma) ** 2

    def noise_to_come(time: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return strength * learning_rate.square_to_come(time)

    def velocity(instant: Instant, state):
        shifted, _ = state
        modal = shifted - noise_to_come(instant.time)
        rates, risk = learning_rate.capped(instant), modes.risk(modal)
        moments = gradient_moments(modes, algorithm.clip, risk, rates, learning_rate.gamma)
        drift = -2 * moments.descent * modes.descent * modal
        return drift + moments.diffusion * modes.diffusion, moments.clipped

    zero = jnp.zeros((), dtype)
    start = modes.initial.astype(dtype) + noise_to_come(zero), zero
    found, stopped = learning_rate.solve(velocity, start, time, _TOLERANCES, adjoint)
    shifted, clipped_area = found
    modal = shifted - noise_to_come(time)[:, None]
    read = jnp.matmul(modal, modes.readout.astype(dtype), precision=Precision.HIGHEST)
    risk = jnp.maximum(read, 0)
    shares = shares_so_far(modes, algorithm, time, clipped_area)
    return trajectory_of(
        is_valid,
        time=time,
        risk=risk,
        # AC Proposition 5: the noise of the last step, which comes after time 1.
        final_risk=risk[-1] + strength * learning_rate.last_square,
        observables=shares | modes.observed(modal),
        # Set by `integrate`: a label here would be part of the compiled program.
        label="",
        stopped=stopped,
    )


class DiscreteRecursion(AbstractTheory):
    """Predict the risk of one-pass DP-SGD in K finite steps, for batches of any size.

    Exact, as d grows, for batches proportional to d. Costs K steps, and memory of a thousand
    numbers and 5 more for each mode and record. With a traced `num_steps` only forward
    differentiation works. For `LogisticRegression` it follows overlap and norm
    (`jaxdp.theory.streams.signal`).

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(3.0), 1.0, 1.0, 50, batch_size=20)
        >>> jaxdp.predict(problem, algorithm, theory=jaxdp.DiscreteRecursion()).label
        'recursion'
    """

    def read(self, problem, algorithm) -> Callable[[int], Trajectory]:
        """The function that solves the pair's equations, given a number of records."""
        require_gaussian_pass(problem, algorithm)
        if isinstance(problem, AbstractSignalProblem):
            return functools.partial(recurse_signal, problem, algorithm)
        return functools.partial(_recurse, eigen_modes(problem), algorithm)

    def solve(self, reading, records):
        return reading(records)


@eqx.filter_jit
def _recurse(modes, algorithm, records: int) -> Trajectory:
    dtype = float_dtype(modes, algorithm)
    count, dim, batch = algorithm.num_steps, modes.dim, algorithm.batch_size
    cap = 2 / (modes.curvature_bound * dim) / modes.levels(dtype)[0]
    # (d/2) (2 C sigma / B)^2 over the squared rate's drop.
    strength = 2 * (algorithm.noise_ratio * algorithm.aspect_ratio(dim)) ** 2

    def changes(state, index):
        modal, step = state[0], index + 1
        rates = jnp.minimum(algorithm.step_size(step), cap)
        risk = modes.risk(modal).astype(dtype)
        moments = gradient_moments(modes, algorithm.clip, risk, rates, dim / batch)
        mean = moments.descent * modes.descent
        change = ((1 - 1 / batch) * mean**2 - 2 * mean) * modal
        change += modes.diffusion * moments.diffusion
        change += jnp.where(step < count, strength * algorithm.squared_rate_drop(step), 0)
        return change, moments.clipped / count

    def read(state):
        modal, clipped = state
        return modes.risk(modal), modes.observed(modal), clipped

    start = (modes.initial.astype(dtype), jnp.zeros((), dtype))
    at_record, found = recorded_sums(changes, start, read, count, records)
    risk, observed, clipped = found
    time = (at_record / jnp.asarray(count, float)).astype(dtype)
    return trajectory_of(
        modes.is_valid & algorithm.is_valid,
        time=time,
        risk=risk,
        final_risk=risk[-1] + strength * algorithm.squared_rate_drop(jnp.asarray(count)),
        observables=shares_so_far(modes, algorithm, time, clipped) | observed,
        label="recursion",
    )
