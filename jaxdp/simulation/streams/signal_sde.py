r"""Homogenized DP-SGD where labels follow one direction of isotropic inputs.

As AC (3), with the mean and the second moment of the clipped slope beside a signal (`SignalSlope`)
in place of a residual's:

$$ d\Theta = -g\,(a\,e + D\,\Theta_\perp)\,dt + g\sqrt{M/n}\;dB^s
   + (2\sqrt d/n)\,c\,\tilde\sigma\,dB^p, $$

where e is the target's direction, $\Theta_\perp$ what is orthogonal to it and $g =
\min(\tilde\eta, 2/(\ell\gamma B))$. The private noise of a step of the path has the variance by
which $\tilde\eta^2$ falls. Means agree with Algorithm 1, standard deviations do not. For the
squared loss it is AC (3) itself. Derived: test_signal_sde.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax import lax
from jaxtyping import Array, Float, Key

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import float_dtype
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.core.trajectory import Trajectory, trajectory_of
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.simulation.driver import average_so_far


@eqx.filter_jit
def signal_paths(
    problem: AbstractSignalProblem,
    algorithm: OnePassDPSGD,
    keys: Key[Array, " runs"],
    times: Float[Any, " counts"],
    slots,
    per_record: int,
) -> Trajectory:
    """Paths by Euler and Maruyama's rule; record j is the state at times[slots[j]]."""
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
