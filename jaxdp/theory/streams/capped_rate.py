r"""The cap $2/(\ell\|x\|^2)$ on the step of a sample, for a loss of curvature at most $\ell$.

One-pass DP-SGD takes the smaller one of the scheduled step and the cap. In the theories the cap is
a bound on the learning rate; here are the time at which a falling learning rate comes below that
bound, and the share of the samples whose step is capped.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.schedules import AbstractSchedule

# Per interval between two records.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def leaves_cap(schedule: AbstractSchedule, cap: Float[Array, "*caps"]) -> Float[Array, "*caps"]:
    """The times at which a falling learning rate meets each cap; beyond 1 where it never does.

    The equations have kinks there, which the solver must not step across.
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


def capped_share(
    threshold: Callable[[Float[Array, "intervals nodes"]], Float[Array, "intervals nodes"]],
    time: Float[Array, " records"],
    *,
    mean: Any,
    deviation: Any,
    scales: Any = None,
) -> Float[Array, " records"]:
    r"""Expected share of the samples up to each time whose step is capped; 0 at time 0.

    The step of a sample is capped where $\|x\|^2/d$ exceeds a threshold that changes with time. The
    cube root of that weighted chi-square of d degrees is taken as Gaussian (Satterthwaite, Wilson
    and Hilferty): its variance is $2/(9d)$ for isotropic inputs, $2\,\mathrm{tr}(\Sigma^2)/(9d^2)$
    for others of mean eigenvalue 1, and its mean is 1 less that variance. With isotropic inputs
    the share is within .002 for d >= 10, within .01 for d = 2. Derived: test_signal_ode.

    Args:
        threshold: from times to the cap over the learning rate, of inputs with $\|x\|^2 = d$.
        mean, deviation: of the cube root.
        scales: values and probabilities of the inputs' random scale; None where it is 1.
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
