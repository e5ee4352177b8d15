"""The learning rate in the differential equations of one-pass DP-SGD, over time from 0 to 1."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Bool, Float, PyTree

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import in_jax, in_numpy
from jaxdp.core.trajectory import record_steps
from jaxdp.schedules import AbstractSchedule
from jaxdp.theory.solver import SLOW_AT_THE_END, Instant, Tolerances, solve

# Enough for a rate of 10^5, for which stability limits an explicit solver's step.
MAX_STEPS = 2**17
# Quadrature nodes of an interval between two records.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def energy_tolerances(norm: Callable[[PyTree], Array]) -> Tolerances:
    """Tolerances for energies of modes, whose risks may be as small as 1e-9."""
    return Tolerances((1e-8, 1e-15), (1e-6, 1e-13), norm, MAX_STEPS)


def recorded_pass(
    algorithm: OnePassDPSGD, records: int
) -> tuple[OnePassDPSGD, Float[Array, " records"]]:
    """The algorithm with a traced length, for a shared compilation, and the record times."""
    traced, dtype = algorithm.with_traced_length(), jnp.result_type(float)
    steps = record_steps(algorithm.num_steps, records).astype(dtype)
    # As XLA divides by a scalar, bit for bit.
    return traced, in_jax(steps * (1 / in_numpy(traced.num_steps).astype(dtype)))


class OnePassRate(NamedTuple):
    r"""The learning rate of a pass: capped, for gradients, and its squared drop, for the noise.

    A gradient's rate is $\min(\tilde\eta(t), \text{cap})$, with the cap $2/(\ell\|x\|^2)$ for a
    loss of curvature at most $\ell$; it has a kink where a falling schedule comes below the cap.
    """

    schedule: AbstractSchedule  # $\tilde\eta$
    gamma: Float[Array, ""]  # d over the number of samples
    cap: Float[Array, "*levels"]  # the largest rate of a gradient, for inputs of each scale
    starts_above: Bool[Array, "*levels"]  # whether the schedule is above the cap at time 0
    last_square: Float[Array, ""]  # $\tilde\eta^2(1)$
    # Times at which the rate is not smooth; those of leaving the cap are last.
    kinks: Float[Array, " kinks"]

    @classmethod
    def of(
        cls,
        algorithm: OnePassDPSGD,
        dim: Any,
        dtype: Any,
        *,
        curvature_bound: float,
        scales: Any = 1.0,
    ) -> "OnePassRate":
        r"""The rate of an algorithm on inputs $x = \sqrt s\,\Sigma^{1/2} g$ of scales s."""
        schedule = algorithm.learning_rate
        gamma = algorithm.aspect_ratio(dim).astype(dtype)
        cap = 2 / (curvature_bound * gamma * algorithm.batch_size) / scales
        kinks = jnp.append(schedule.kinks.astype(dtype), leaves_cap(schedule, cap))
        starts_above = schedule(jnp.zeros((), dtype)) > cap
        last_square = schedule(jnp.ones((), dtype)) ** 2
        return cls(schedule, gamma, cap, starts_above, last_square, kinks)

    def capped(self, instant: Instant) -> Float[Array, "*levels"]:
        """The rate of a gradient, for inputs of each scale."""
        has_left = instant.passed[-self.cap.size :].reshape(self.cap.shape)
        return jnp.where(self.starts_above & ~has_left, self.cap, self.schedule(instant.time))

    def square_to_come(self, time: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        r"""$\tilde\eta^2(t) - \tilde\eta^2(1)$."""
        return self.schedule(time) ** 2 - self.last_square

    def solve(self, velocity, start, time, tolerances: Tolerances, adjoint, read=None):
        """`solver.solve` on a clock that slows down toward the end of the pass."""
        given = {"tolerances": tolerances, "adjoint": adjoint, "read": read, "kinks": self.kinks}
        return solve(velocity, start, time, clock=SLOW_AT_THE_END, **given)


def leaves_cap(schedule: AbstractSchedule, cap: Float[Array, "*caps"]) -> Float[Array, "*caps"]:
    """The times at which a falling learning rate meets each cap, kinks of the equations; else 2."""

    def halve(_, ends):
        above, below = ends
        middle = (above + below) / 2
        over = schedule(middle) > cap
        return jnp.where(over, middle, above), jnp.where(over, below, middle)

    start, end = jnp.zeros_like(cap), jnp.ones_like(cap)
    _, time = lax.fori_loop(0, 60, halve, (start, end))
    meets = (schedule(start) > cap) & (schedule(end) < cap)
    return lax.stop_gradient(jnp.where(meets, time, 2))


def capped_share(
    threshold: Callable[[Float[Array, "intervals nodes"]], Float[Array, "intervals nodes"]],
    time: Float[Array, " records"],
    *,
    mean: Any,
    deviation: Any,
    scales: Any = None,
) -> Float[Array, " records"]:
    r"""Expected share of the samples up to each time whose step is capped; 0 at time 0.

    A sample's step is capped if $\|x\|^2/d$ exceeds a threshold that changes with time. The cube
    root of that weighted chi-square of d degrees is taken as Gaussian (Satterthwaite, Wilson and
    Hilferty): its variance is $2/(9d)$ for isotropic inputs, $2\,\mathrm{tr}(\Sigma^2)/(9d^2)$ for
    others of mean eigenvalue 1, and its mean is 1 less that variance. The error for isotropic
    inputs is 0.002 for d >= 10, 0.01 for d = 2. Derived: test_signal_ode.
    """
    width = jnp.diff(time)
    nodes = time[:-1, None] + width[:, None] * (_NODES + 1).astype(time.dtype)[None] / 2
    limits = threshold(nodes)
    if scales is None:
        share = ndtr((mean - jnp.cbrt(limits)) / deviation)
    else:
        values, weights = (part[None, None] for part in scales)
        excess = (mean - jnp.cbrt(limits[..., None] / values)) / deviation
        share = jnp.sum(weights * ndtr(excess), axis=-1)
    areas = width * jnp.sum(share * _WEIGHTS.astype(time.dtype)[None], axis=1) / 2
    total = jnp.concatenate([jnp.zeros_like(areas[:1]), jnp.cumsum(areas)])
    return total / jnp.where(time > 0, time, 1)
