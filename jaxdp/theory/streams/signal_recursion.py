r"""Overlap and remainder at a finite number of steps, for batches of any size.

For one step of size eta on a batch of B, with $g = \min(\eta, 2/(\ell d))$ the capped gradient
rate and the moments of `jaxdp.theory.streams.signal_ode`,

$$ p \leftarrow p - g\,a, \qquad w \leftarrow \bigl(1 - 2gD + (1 - 1/B)\,g^2D^2\bigr) w
   + g^2 (d/B)\,M + 4c^2d^2\sigma^2/B^2 : $$

the squared mean gradient, which B samples share, is what the differential equation loses.

Derived: one step's second moments under Algorithm 1 with batches; test_signal_recursion.
"""

import equinox as eqx
import jax.numpy as jnp

from jaxdp.core.arrays import float_dtype
from jaxdp.core.numerics.compensated_sum import add
from jaxdp.core.recording import longest_stretch, record_steps
from jaxdp.core.trajectory import Trajectory
from jaxdp.theory.recorded_steps import recorded
from jaxdp.theory.streams.signal_ode import signal_trajectory


@eqx.filter_jit
def recurse_signal(problem, algorithm, records: int) -> Trajectory:
    """The predicted trajectory, as `integrate_signal`'s; costs the algorithm's steps."""
    dtype = float_dtype(problem, algorithm)
    count, dim, batch = algorithm.num_steps, problem.dim, algorithm.batch_size
    at_record = jnp.asarray(record_steps(count, records))
    cap = 2 / (problem.loss.curvature_bound * dim)
    # d (2 C sigma / B)^2 over the squared rate's drop.
    strength = 4 * (algorithm.noise_ratio * algorithm.aspect_ratio(dim)) ** 2
    limit = algorithm.clip_scale.astype(dtype)

    def step(state, index):
        overlap, remainder, _ = (total for total, _ in state)
        step = index + 1
        moments = problem.slope_moments(overlap, remainder, limit)
        rate = jnp.minimum(algorithm.step_size(step), cap)
        mean = rate * moments.derivative
        change = ((1 - 1 / batch) * mean**2 - 2 * mean) * remainder
        change += rate**2 * (dim / batch) * moments.square
        change += jnp.where(step < count, strength * algorithm.squared_rate_drop(step), 0)
        changes = (-rate * moments.along, change, moments.clipped / count)
        return tuple(
            add(total, excess, change.astype(dtype))
            for (total, excess), change in zip(state, changes, strict=True)
        )

    def read(state):
        return tuple(total for total, _ in state)

    zero = jnp.zeros((), dtype)
    # Overlap, remainder and the share clipped, with what rounding has added to each.
    state = ((zero, zero),) * 3
    longest = longest_stretch(count, records)
    overlap, remainder, clipped = recorded(step, state, read, at_record, longest)
    last_noise = strength * algorithm.squared_rate_drop(jnp.asarray(count))
    return signal_trajectory(
        problem,
        algorithm,
        time=(at_record / jnp.asarray(count, float)).astype(dtype),
        overlap=overlap,
        remainder=remainder,
        final_remainder=remainder[-1] + last_noise,
        clipped_area=clipped,
        label="recursion",
    )
