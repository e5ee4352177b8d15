"""Where the cap on a sample's step binds: until when, and for which share of the samples."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.schedules import AbstractSchedule

# Nodes per record interval of the capped share's quadrature.
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
    schedule: AbstractSchedule, cap: Float[Array, ""], dim: int, time: Float[Array, " records"]
) -> Float[Array, " records"]:
    r"""Expected share of the samples up to each time whose step is capped; 0 at time 0.

    The step of a sample of isotropic inputs is capped where $\|x\|^2/d$ exceeds the cap over the
    rate. The cube root of that chi-square of d degrees is taken as Gaussian (Wilson and Hilferty):
    within .002 for d >= 10, within .01 for d = 2. Derived: test_signal_ode.

    Args:
        schedule: of the learning rate.
        cap: that of an input with $\|x\|^2 = d$.
        dim: d.
    """
    spread = 2 / (9 * dim)
    width = jnp.diff(time)
    nodes = time[:-1, None] + width[:, None] * (_NODES + 1).astype(time.dtype)[None] / 2
    rate = jnp.maximum(schedule(nodes), jnp.finfo(time.dtype).tiny)
    beyond = ndtr((1 - spread - jnp.cbrt(cap / rate)) / np.sqrt(spread))
    areas = width * jnp.sum(beyond * _WEIGHTS.astype(time.dtype)[None], axis=1) / 2
    total = jnp.concatenate([jnp.zeros_like(areas[:1]), jnp.cumsum(areas)])
    return total / jnp.where(time > 0, time, 1)
