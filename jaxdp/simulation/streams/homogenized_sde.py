r"""Homogenized DP-SGD: sampled paths of the diffusion that has the algorithm's risk in the limit.

Source: AC equation (3), with $\|x\|^2 \to d$ and the residual's Gaussian moments:

$$ d\Theta = -\tilde\eta\,\mu_c\,\Sigma(\Theta - \theta^*)\,dt
   + \tilde\eta\sqrt{2\nu_c P\,\Sigma/n}\;dB^s + (2\sqrt d/n)\,c\,\tilde\sigma\,dB^p, $$

with $B^p$ through its clock $\tau(t) = (\tilde\eta^2(0) - \tilde\eta^2(t))/\rho^2$, without a
derivative of the schedule. For inputs of random scale s and Huber's loss, the prediction's error is
$N(0, 2sR + \zeta^2)$, slopes are clipped at $c/\sqrt s$, and the rate is at most $2/(\gamma B s)$
over the loss's curvature, all averaged over s (Derived: test_gradient_moments). AC Theorem 4 is a
law of large numbers: means agree with Algorithm 1, standard deviations do not.

If labels follow one direction e of isotropic inputs, the mean and second moment of the clipped
slope (`SignalSlope`) replace a residual's (Derived: test_signal_sde): the first two terms are
$-g\,(a\,e + D\,\Theta_\perp)\,dt + g\sqrt{M/n}\;dB^s$, with $\Theta_\perp$ orthogonal to e and $g =
\min(\tilde\eta, 2/(\ell\gamma B))$.
"""

from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import lineax
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import float_dtype, in_jax, plain_number
from jaxdp.core.checks import require_count
from jaxdp.core.keys import numbered_key, purpose_key, run_keys, stream_key
from jaxdp.core.trajectory import Trajectory, trajectory_of
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.problems.streams.tabular import TabularRegression
from jaxdp.schedules import AbstractSchedule
from jaxdp.simulation.base import AbstractSimulator, length_of_pass
from jaxdp.simulation.driver import announced, average_so_far, ranges_of


class HomogenizedSDE(AbstractSimulator):
    r"""Paths of homogenized DP-SGD, AC equation (3): Euler-Maruyama with a fixed step, by diffrax.

    The mean risk has a step-size bias of relative order $\tilde\eta^2 / \text{num\_steps}$. The
    gradient's rate is at most 2/(gamma B), as in the coupled equations. Memory besides the result:
    20 numbers a run for each distinct eigenvalue.

    Args:
        num_steps: number of steps of the path over [0, 1], rounded up to a whole number per record.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> run = {"num_runs": 3, "records": 2, "key": jax.random.key(1)}
        >>> jaxdp.simulate(problem, algorithm, simulator=jaxdp.HomogenizedSDE(), **run).risk.shape
        (3, 3)
    """

    has_parameters: ClassVar[bool] = True
    num_steps: int = eqx.field(static=True, converter=plain_number, default=4000)

    def __check_init__(self):
        require_count("num_steps", self.num_steps)

    def reason_against(self, problem, algorithm):
        if not isinstance(problem, (LinearRegression, AbstractSignalProblem)):
            fits = isinstance(problem, TabularRegression) and isinstance(algorithm, OnePassDPSGD)
            came = f"{type(problem).__name__}{'; use its .surrogate' if fits else ''}"
            covered = "LinearRegression, LogisticRegression"
            return f"AC (3) needs Gaussian inputs ({covered}), got {came}"
        if not isinstance(algorithm, OnePassDPSGD):
            return f"AC (3) is the limit of OnePassDPSGD, got {type(algorithm).__name__}"
        return None

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        num_steps = length_of_pass(problem, algorithm)
        ranges = ranges_of(num_steps, records, progress)
        per_record = -(-self.num_steps // (len(ranges.steps) - 1))
        # Apart from the keys of other simulators, so that two of them can share a key.
        keys = run_keys(stream_key(key, "HomogenizedSDE"), num_runs)
        times = ranges.steps / num_steps
        if isinstance(problem, AbstractSignalProblem):
            paths = signal_paths(problem, algorithm, keys, times, ranges.slots, per_record)
        else:
            is_valid = in_jax(problem.is_valid & algorithm.is_valid)
            paths = _paths(problem, algorithm, is_valid, keys, times, ranges.slots, per_record)
        trajectory = announced(paths, progress)
        if keep_parameters:
            return trajectory
        return eqx.tree_at(lambda tree: tree.parameters, trajectory, None)


class MeanGradient(NamedTuple):
    """Mean and spread of a sample's part in a step."""

    descent: Float[Array, ""]  # factor of $\Sigma(\theta - \theta^*)$ in the mean
    spread: Float[Array, ""]  # root of the factor of $\Sigma$ in the second moment, over n samples
    clipped: Float[Array, ""]  # the probability that the gradient's norm is clipped


def mean_gradient(problem: LinearRegression, algorithm: OnePassDPSGD, risk, rate) -> MeanGradient:
    """The mean gradient at a risk; `rate` is the learning rate before it is capped."""
    gamma = algorithm.aspect_ratio(problem.dim).astype(risk.dtype)
    cap = 2 / (gamma * algorithm.batch_size)
    if problem.input_scales is None and problem.loss.square_curvature == 1:
        second_moment = 2 * risk + problem.label_noise**2
        descent, variance = algorithm.clip.moments(second_moment)
        capped = jnp.minimum(rate, cap)
        spread = capped * jnp.sqrt(variance * second_moment * gamma / problem.dim)
        return MeanGradient(capped * descent, spread, 1 - descent)
    values = weights = jnp.ones(1, risk.dtype)
    if problem.input_scales is not None:
        values = problem.input_scales.values.astype(risk.dtype)
        weights = problem.input_scales.weights.astype(risk.dtype)
    error = 2 * values * risk + problem.label_noise**2
    zero, limit = jnp.zeros_like(error), algorithm.clip_scale / jnp.sqrt(values)
    slope = problem.loss.clipped_slope(zero, error, zero, limit)
    capped = jnp.minimum(rate, cap / (problem.loss.curvature_bound * values))
    heavy = weights * values * capped
    power = jnp.sum(heavy * capped * slope.square)
    return MeanGradient(
        jnp.sum(heavy * slope.derivative),
        jnp.sqrt(power * gamma / problem.dim),
        jnp.sum(weights * slope.clipped),
    )


class _PrivateNoisePath(diffrax.AbstractPath):
    """Independent increments of the private Brownian motion, with the squared rate as clock."""

    t0: ClassVar[float] = 0.0
    t1: ClassVar[float] = 1.0
    schedule: AbstractSchedule
    dim: int = eqx.field(static=True)
    dtype: jnp.dtype = eqx.field(static=True)
    grid: Float[Array, " steps"]
    key: Key[Array, ""]

    def evaluate(self, t0, t1=None, left=True, use_levy=False):
        if t1 is None:
            raise ValueError("the private noise is known by its increments only")
        step = jnp.searchsorted(self.grid, t0)
        normal = jr.normal(numbered_key(self.key, step), (self.dim,), self.dtype)
        drop = jnp.maximum(self.schedule(t0) ** 2 - self.schedule(t1) ** 2, 0)
        return jnp.sqrt(drop) * normal


@eqx.filter_jit
def _paths(problem, algorithm, is_valid, keys, times, slots, per_record: int) -> Trajectory:
    """Paths over increasing times; record j is the state at times[slots[j]]."""
    dtype = float_dtype(problem, algorithm)
    dim, schedule = problem.dim, algorithm.learning_rate
    gamma = algorithm.aspect_ratio(dim).astype(dtype)
    times = times.astype(dtype)
    # A grid with `per_record` equal steps between neighbouring times.
    share = (np.arange(per_record) / per_record).astype(dtype)
    inner = times[:-1, None] + jnp.diff(times)[:, None] * share[None]
    grid = jnp.append(inner.reshape(-1), times[-1])
    spectrum, target = problem.spectrum.astype(dtype), problem.target.astype(dtype)

    def risk(parameters):
        return jnp.sum(spectrum * (parameters - target) ** 2) / 2

    def gradient(time, parameters):
        return mean_gradient(problem, algorithm, risk(parameters), schedule(time))

    def drift(time, parameters, _):
        return -gradient(time, parameters).descent * spectrum * (parameters - target)

    def sampling(time, parameters, _):
        spread = gradient(time, parameters).spread
        return lineax.DiagonalLinearOperator(spread * jnp.sqrt(spectrum))

    private_scale = 2 * algorithm.noise_ratio * gamma / jnp.sqrt(jnp.asarray(dim, dtype))

    def private(time, parameters, _):
        return lineax.DiagonalLinearOperator(jnp.full(dim, private_scale, dtype))

    def one_run(key):
        noise_key = purpose_key(key, "noise")
        shape = jax.ShapeDtypeStruct((dim,), dtype)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(drift),
            diffrax.ControlTerm(
                sampling, diffrax.UnsafeBrownianPath(shape, purpose_key(key, "sampling"))
            ),
            diffrax.ControlTerm(private, _PrivateNoisePath(schedule, dim, dtype, grid, noise_key)),
        )

        def save(time, parameters, _):
            return risk(parameters), gradient(time, parameters).clipped

        solution = diffrax.diffeqsolve(
            terms,
            diffrax.Euler(),
            grid[0],
            grid[-1],
            None,
            jnp.zeros(dim, dtype),
            saveat=diffrax.SaveAt(
                subs=[diffrax.SubSaveAt(ts=times, fn=save), diffrax.SubSaveAt(t1=True)]
            ),
            stepsize_controller=diffrax.StepTo(grid),
            max_steps=len(grid),
            adjoint=diffrax.ForwardMode(),
            throw=False,
        )
        ys: Any = solution.ys
        (risks, clipped), last = ys
        last_key = numbered_key(noise_key, len(grid))
        jump = private_scale * schedule(grid[-1]) * jr.normal(last_key, (dim,), dtype)
        final = last[0] + jnp.where(private_scale > 0, jump, 0)
        stopped = solution.result != diffrax.RESULTS.successful
        return risks[slots], clipped[slots], risk(final), final, stopped

    risks, clipped, final_risk, parameters, stopped = jax.vmap(one_run)(keys)
    time = times[slots]
    return trajectory_of(
        is_valid,
        time=time,
        risk=risks,
        final_risk=final_risk,
        observables={"clipped_fraction": average_so_far(clipped, time)},
        stopped=stopped,
        parameters=parameters,
        label="SDE",
    )


@eqx.filter_jit
def signal_paths(problem, algorithm, keys, times, slots, per_record: int) -> Trajectory:
    """Paths by the Euler-Maruyama rule; record j is the state at times[slots[j]]."""
    dtype, dim = float_dtype(problem, algorithm), problem.dim
    times, schedule = times.astype(dtype), algorithm.learning_rate
    gamma = algorithm.aspect_ratio(dim).astype(dtype)
    cap = 2 / (problem.loss.curvature_bound * gamma * algorithm.batch_size)
    private = 2 * algorithm.noise_ratio * gamma / jnp.sqrt(jnp.asarray(dim, dtype))
    limit = algorithm.clip_scale.astype(dtype)

    def moments(parameters):
        remainder = jnp.sum(parameters[1:] ** 2)
        return problem.slope_moments(parameters[0], remainder, limit)

    def step(parameters, start, end, normals):
        """The path a step further."""
        found, rate = moments(parameters), jnp.minimum(schedule(start), cap)
        pull = (found.derivative * parameters).at[0].set(found.along)
        # n = d / gamma samples in all.
        sampled = rate * jnp.sqrt(found.square * gamma / dim * (end - start))
        dropped = jnp.sqrt(jnp.maximum(schedule(start) ** 2 - schedule(end) ** 2, 0))
        moved = parameters - rate * (end - start) * pull
        return moved + sampled * normals[0] + private * dropped * normals[1]

    def one_run(key):
        sampling, noise = (purpose_key(key, purpose) for purpose in ("sampling", "noise"))

        def normals(number):
            pair = (numbered_key(sampling, number), numbered_key(noise, number))
            return tuple(jr.normal(key, (dim,), dtype) for key in pair)

        def record(parameters, bounds):
            interval, first, last = bounds

            def inner(index, parameters):
                share = jnp.stack([index, index + 1]).astype(dtype) / per_record
                start, end = first + (last - first) * share
                return step(parameters, start, end, normals(interval * per_record + index))

            parameters = lax.fori_loop(0, per_record, inner, parameters)
            return parameters, read(parameters)

        def read(parameters):
            observed = problem.observables(parameters)
            return problem.risk(None, parameters), moments(parameters).clipped, observed

        begin = jnp.zeros(dim, dtype)
        count = len(times) - 1
        last, read_out = lax.scan(record, begin, (jnp.arange(count), times[:-1], times[1:]))
        read_out = jax.tree.map(
            lambda first, later: jnp.append(first[None], later), read(begin), read_out
        )
        jump = private * schedule(times[-1]) * normals(count * per_record)[1]
        return read_out, last + jnp.where(private > 0, jump, 0)

    (risk, clipped, observed), parameters = jax.vmap(one_run)(keys)
    time = times[slots]
    shares = {"clipped_fraction": average_so_far(clipped, times)}
    return trajectory_of(
        problem.is_valid & algorithm.is_valid,
        time=time,
        risk=risk[:, slots],
        final_risk=jax.vmap(lambda last: problem.risk(None, last))(parameters),
        observables={name: values[:, slots] for name, values in (shares | observed).items()},
        parameters=parameters,
        label="SDE",
    )
