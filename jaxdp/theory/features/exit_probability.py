r"""How likely the unclipped process leaves the no-clip set of PF (6.2), without sampling.

Residual i is a Gaussian process of mean $m_i(t)$ and covariance

$$ R_i(s, t) = \sum_j W_{ij}^2\,\frac{\Sigma_j^2}{2\kappa_j}
   \bigl(e^{-\kappa_j(t-s)} - e^{-\kappa_j(t+s)}\bigr), \qquad s \le t, $$

and the set is left when one of them first reaches $\pm a_i$, $a_i = C/(2\|\varphi_i\|)$. The rate
of that, side by side, is taken from the tangent approximation

$$ p(t) = \Bigl(-h'(t) + h(t)\,\frac{\partial_s R(s, t)|_{s=t^-}}{R(t, t)}\Bigr)\,
   \frac{e^{-h^2/2R}}{\sqrt{2\pi R}}, \qquad h = a \mp m, $$

exact for Brownian motion and a straight boundary and for exits that are rare. Exits of different
samples are added and made a probability as if independent: 1 - exp(-sum), never below the largest
probability that a sample is outside at one time.

Source: Durbin (1985), equation (3), with Broadie, Glasserman and Kou (1997) for a process that is
only seen at discrete times. Derived (the sum): test_exit_probability compares it with simulation.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.theory.features.modes import KernelModes, product

# -zeta(1/2)/sqrt(2 pi): a boundary watched at discrete times lies this many steps further out.
DISCRETE_SHIFT = 0.5826
_MIN_NODES = 256
_NODES_PER_RECORD = 4


class Relaxation(eqx.Module):
    r"""The unclipped process as one Ornstein-Uhlenbeck process per mode.

    The mean coordinates are $g_j(t) (W^\top y)_j$ with $g_j' = (2/n)\,\beta_j e^{-\kappa_j t}$.
    """

    rate: Float[Array, " modes"]  # $\kappa_j$; may be negative
    pull_factor: Float[Array, " modes"]  # $\beta_j$, 1 in continuous time
    noise: Float[Array, " modes"]  # $\Sigma_j^2$ per unit of time


def decay_area(rate, time):
    r"""$\int_0^t e^{-\kappa s}\,ds$, also at a rate of zero and below."""
    exponent = rate * time
    is_small = jnp.abs(exponent) < 1e-6
    ratio = -jnp.expm1(-exponent) / jnp.where(is_small, 1, exponent)
    return time * jnp.where(is_small, 1 - exponent / 2, ratio)


def exit_probability(
    modes: KernelModes,
    process: Relaxation,
    limits: Float[Array, " train"],
    time: Float[Array, " records"],
) -> Float[Array, " records"]:
    """Probability that some residual has left $(-a_i, a_i)$ by each record."""
    starts_outside = jnp.any(jnp.abs(modes.train_labels) >= limits)
    per_record = max(_NODES_PER_RECORD, -(-_MIN_NODES // (time.shape[0] - 1)))
    nodes, weights = (part / 2 for part in np.polynomial.legendre.leggauss(per_record))
    squares = modes.factor**2
    # Axes are (times, modes), and (times, train) of what is projected.
    rate, pull_factor, noise = (
        each[None] for each in (process.rate, process.pull_factor, process.noise)
    )
    pull = modes.loss.curvature_bound * modes.pull[None] / modes.num_train

    def interval(carry, ends):
        total, outside = carry
        start, end = ends
        # The end itself too, where being outside is looked at.
        at = start + (end - start) * jnp.append(jnp.asarray(nodes + 0.5, time.dtype), 1)
        decay = jnp.exp(-rate * at[:, None])
        gain = pull_factor * decay_area(rate, at[:, None])
        mean = product(gain * pull, modes.factor.T) - modes.train_labels[None]
        slope = product(pull_factor * decay * pull, modes.factor.T)
        variance = product(noise * decay_area(2 * rate, at[:, None]), squares.T)
        mixing = product(noise * (1 + decay**2) / 2, squares.T)
        rates, now = jnp.zeros(len(at), time.dtype), jnp.zeros((), time.dtype)
        for side in (1, -1):
            gap = limits[None] - side * mean
            rates += jnp.sum(_crossing_rate(gap, side * slope, variance, mixing), axis=1)
            now = jnp.maximum(now, jnp.max(_outside(gap, variance)))
        total += (end - start) * jnp.sum(jnp.asarray(weights, time.dtype) * rates[:-1])
        outside = jnp.maximum(outside, now)
        return (total, outside), jnp.maximum(-jnp.expm1(-total), outside)

    zero = jnp.zeros((), time.dtype)
    _, later = lax.scan(interval, (zero, zero), (time[:-1], time[1:]))
    probability = jnp.append(zero, later)
    return jnp.where(starts_outside | ~jnp.isfinite(probability), 1, probability)


def _crossing_rate(gap, slope, variance, mixing):
    """Durbin's p(t) at one side; the gap shrinks at the rate `slope`."""
    is_random = (variance > 0) & (gap > 0) & jnp.isfinite(gap)
    safe = jnp.where(is_random, variance, 1)
    gap = jnp.where(is_random, gap, 1)
    density = jnp.exp(-(gap**2) / (2 * safe)) / jnp.sqrt(2 * jnp.pi * safe)
    rate = jnp.maximum(slope + gap * mixing / safe, 0)
    # A density that underflows wins over a rate that overflows.
    return jnp.where(is_random & (density > 0), rate * density, 0)


def _outside(gap, variance):
    is_random = variance > 0
    beyond = ndtr(-gap / jnp.sqrt(jnp.where(is_random, variance, 1)))
    return jnp.where(is_random, beyond, (gap <= 0).astype(beyond.dtype))
