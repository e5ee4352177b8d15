r"""The deterministic equivalent at a finite number of steps, for batches of any size.

For one step of size eta on a batch of B, with g = min(eta, 2/d) the capped gradient rate,

$$ D_i \leftarrow \bigl(1 - 2\lambda_i g\mu + (1 - 1/B)\lambda_i^2 g^2\mu^2\bigr) D_i
   + \lambda_i g^2 (d/B)\,\nu P + 2c^2 d^2\sigma^2/B^2 : $$

the squared mean gradient, which B samples share, is what the differential equation loses.

Derived: AC Algorithm 1's one-step second moments with batches; test_discrete_recursion.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from jaxdp.core.arrays import float_dtype
from jaxdp.core.recording import record_steps
from jaxdp.core.trajectory import Trajectory
from jaxdp.theory.base import AbstractTheory
from jaxdp.theory.linear_modes import as_trajectory, eigen_modes, require_one_pass


class DiscreteRecursion(AbstractTheory):
    """K finite steps of the coupled equations: exact, as d grows, for batches proportional to d.

    Costs K steps. With a traced `num_steps` it can be differentiated forward only.
    """

    def covers(self, problem, algorithm):
        return require_one_pass(problem, algorithm)

    def predict(self, problem, algorithm, *, records):
        trajectory = _recurse(eigen_modes(problem), algorithm, records)
        return dataclasses.replace(trajectory, label="recursion")


@eqx.filter_jit
def _recurse(modes, algorithm, records: int) -> Trajectory:
    dtype = float_dtype(modes, algorithm)
    count, dim, batch = algorithm.num_steps, modes.dim, algorithm.batch_size
    at_record = jnp.asarray(record_steps(count, records))

    def step(state, step, last):
        modal, clipped = state
        second_moment = modes.second_moment(modes.risk(modal)).astype(dtype)
        descent, variance = algorithm.clip.moments(second_moment)
        rate = jnp.minimum(algorithm.step_size(step), 2 / dim)
        # The noise of one step has this variance in every direction, times d/2 in units of D.
        noise = dim * algorithm.noise_std(step, dim) ** 2 / 2
        mean = rate * descent * modes.descent
        kept = 1 - 2 * mean + (1 - 1 / batch) * mean**2
        spread = modes.diffusion * rate**2 * (dim / batch) * variance * second_moment / 2
        new = kept * modal + spread + jnp.where(step < count, noise, 0)
        active = step <= last
        return (
            jnp.where(active, new, modal).astype(dtype),
            jnp.where(active, clipped + (1 - descent) / count, clipped).astype(dtype),
        )

    def record(state, bounds):
        start, last = bounds
        state = lax.fori_loop(
            0, longest, lambda index, state: step(state, start + index + 1, last), state
        )
        return state, (modes.risk(state[0]), state[1])

    longest = -(-count // records)
    state = (modes.initial.astype(dtype), jnp.zeros((), dtype))
    _, (risks, clipped) = lax.scan(record, state, (at_record[:-1], at_record[1:]))
    risk = jnp.append(modes.risk(state[0])[None], risks)
    last_noise = dim * algorithm.noise_std(jnp.asarray(count), dim) ** 2 / 2
    return as_trajectory(
        modes,
        algorithm,
        time=(at_record / jnp.asarray(count, float)).astype(dtype),
        risk=risk,
        final_risk=risk[-1] + last_noise,
        clipped_area=jnp.append(jnp.zeros(1, dtype), clipped),
        stopped=False,
    )
