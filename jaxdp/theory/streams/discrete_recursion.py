r"""The deterministic equivalent at a finite number of steps, for batches of any size.

One step of size eta on a batch of B, with g = min(eta, 2/d) the capped gradient rate and Gaussian
inputs (`jaxdp.theory.streams.modes` has the moments of others), is

$$ D_i \leftarrow \bigl(1 - 2\lambda_i g\mu + (1 - 1/B)\lambda_i^2 g^2\mu^2\bigr) D_i
   + \lambda_i g^2 (d/B)\,\nu P + 2c^2 d^2\sigma^2/B^2. $$

The differential equation lacks the squared mean gradient. Derived: AC Algorithm 1's one-step second
moments with batches; test_discrete_recursion.
"""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxdp.core.arrays import float_dtype
from jaxdp.core.numerics.precision import compensated_add
from jaxdp.core.trajectory import Trajectory, longest_stretch, record_steps, trajectory_of
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.theory.base import AbstractTheory, require_gaussian_pass
from jaxdp.theory.solver import recorded
from jaxdp.theory.streams.modes import eigen_modes, gradient_moments, shares_so_far
from jaxdp.theory.streams.signal import recurse_signal


class DiscreteRecursion(AbstractTheory):
    """Predict the risk of one-pass DP-SGD in K finite steps, for batches of any size.

    Exact, as d grows, for batches proportional to d. Costs K steps, and memory of a thousand
    numbers and 5 more for each mode and record. With a traced `num_steps` only forward
    differentiation works. For `LogisticRegression` it follows overlap and norm
    (`jaxdp.theory.streams.signal`).

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> rate = jaxdp.Polynomial(3.0, power=0.5)
        >>> algorithm = jaxdp.OnePassDPSGD(rate, 1.0, 1.0, 50, batch_size=20)
        >>> theory = jaxdp.DiscreteRecursion()
        >>> predicted = jaxdp.predict(problem, algorithm, theory=theory, records=5)
        >>> predicted.risk.shape
        (6,)
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
    at_record = jnp.asarray(record_steps(count, records))
    # (d/2) (2 C sigma / B)^2 over the squared rate's drop.
    strength = 2 * (algorithm.noise_ratio * algorithm.aspect_ratio(dim)) ** 2

    def step(state, index):
        (modal, clipped), errors = state
        step = index + 1
        rates = jnp.minimum(algorithm.step_size(step), cap)
        risk = modes.risk(modal).astype(dtype)
        moments = gradient_moments(modes, algorithm.clip, risk, rates, dim / batch)
        mean = moments.descent * modes.descent
        change = ((1 - 1 / batch) * mean**2 - 2 * mean) * modal
        change += modes.diffusion * moments.diffusion
        change += jnp.where(step < count, strength * algorithm.squared_rate_drop(step), 0)
        (modal, modal_error) = compensated_add(modal, errors[0], change.astype(dtype))
        (clipped, clipped_error) = compensated_add(
            clipped, errors[1], (moments.clipped / count).astype(dtype)
        )
        return (modal, clipped), (modal_error, clipped_error)

    def read(state):
        (modal, clipped), _ = state
        return modes.risk(modal), modes.observed(modal), clipped

    start = (modes.initial.astype(dtype), jnp.zeros((), dtype))
    # With what rounding has added to each.
    state = start, jax.tree.map(jnp.zeros_like, start)
    longest = longest_stretch(count, records)
    risk, observed, clipped = recorded(step, state, read, at_record, longest)
    last_noise = strength * algorithm.squared_rate_drop(jnp.asarray(count))
    time = (at_record / jnp.asarray(count, float)).astype(dtype)
    return trajectory_of(
        modes.is_valid & algorithm.is_valid,
        time=time,
        risk=risk,
        final_risk=risk[-1] + last_noise,
        observables=shares_so_far(modes, algorithm, time, clipped) | observed,
        label="recursion",
    )
