r"""The learning rate in the differential equations of one-pass DP-SGD, and what else they share.

Time runs from 0 to 1 over the pass. A gradient's rate is $\min(\tilde\eta(t), \text{cap})$, which
has a kink where a falling schedule comes below the cap. The private noise enters by how much
$\tilde\eta^2$ has yet to fall, so that no schedule is differentiated.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import in_jax, in_numpy
from jaxdp.core.recording import record_steps
from jaxdp.schedules import AbstractSchedule
from jaxdp.theory.solver import Instant, Tolerances
from jaxdp.theory.streams.capped_rate import leaves_cap

# Enough for a rate of 10^5, where an explicit solver's step is bound by stability.
MAX_STEPS = 2**17


def energy_tolerances(norm: Callable[[PyTree], Array]) -> Tolerances:
    """Tolerances of equations for energies of modes, whose risks may be as small as 1e-9."""
    return Tolerances((1e-8, 1e-15), (1e-6, 1e-13), norm, MAX_STEPS)


def recorded_pass(
    algorithm: OnePassDPSGD, records: int
) -> tuple[OnePassDPSGD, Float[Array, " records"]]:
    """The algorithm with a traced length, and the times of the records.

    With a traced length one compiled solver serves every number of steps.
    """
    traced, dtype = algorithm.with_traced_length(), jnp.result_type(float)
    steps = record_steps(algorithm.num_steps, records).astype(dtype)
    # Divided as XLA divides by a scalar, to the bit.
    return traced, in_jax(steps * (1 / in_numpy(traced.num_steps).astype(dtype)))


class OnePassRate(NamedTuple):
    r"""The learning rate of a pass, as it is capped and as it sets the noise.

    Attributes:
        schedule: $\tilde\eta$.
        gamma: d over the number of samples.
        cap: the largest rate of a gradient, for inputs of each scale.
        starts_above: whether the schedule is above the cap at time 0.
        last_square: $\tilde\eta^2(1)$.
        kinks: the times at which the rate is not smooth, those of leaving the cap last.
    """

    schedule: AbstractSchedule
    gamma: Float[Array, ""]
    cap: Float[Array, "*levels"]
    starts_above: Bool[Array, "*levels"]
    last_square: Float[Array, ""]
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
        r"""The learning rate of an algorithm on inputs of d dimensions.

        Args:
            dim: d.
            dtype: of the equations' state.
            curvature_bound: of the loss.
            scales: s of inputs $x = \sqrt s\,\Sigma^{1/2} g$.
        """
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
