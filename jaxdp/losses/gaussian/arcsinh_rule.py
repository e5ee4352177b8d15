r"""Nodes for integrals of functions of a logistic sigmoid against a Gaussian of any spread.

With $u \sim N(n, s^2)$ and large s, a function of $\sigma(u)$ turns steeply, against the
deviation, where u = 0: its singularities are $u = \pm i\pi$. With $u = \pi\sinh\tau$ they lie a
distance $\pi/2$ from the real line, however large s is, so that 48 nodes of Gauss and Legendre in
$\tau$, or a few more, suffice. Derived: test_clipped_slope, test_expected_value.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def nodes_of_arcsinh(
    mean: Float[Array, "*shape"],
    std: Float[Array, "*shape"],
    middle: Float[Array, "*shape"],
    half: Float[Array, "*shape"],
    num_nodes: int = 48,
) -> tuple[Float[Array, "*shape nodes"], Float[Array, "*shape nodes"]]:
    r"""Deviations z = (u - n)/s of the nodes, and their weights times the normal density.

    Args:
        mean: n.
        std: s > 0.
        middle: of the range of $\tau$, less the $\tau$ of the mean (`arcsinh_step`).
        half: half the length of the range.
        num_nodes: of Gauss and Legendre's rule.
    """
    start = jnp.arcsinh(mean / jnp.pi)
    rule = np.polynomial.legendre.leggauss(num_nodes)
    nodes, weights = (
        lax.broadcast_to_rank(jnp.asarray(part, mean.dtype), half.ndim + 1) for part in rule
    )
    step = middle[..., None] + half[..., None] * nodes
    # A difference of hyperbolic sines as a product, for deviations that are small.
    scale, start = jnp.pi / std[..., None], start[..., None]
    z = 2 * scale * jnp.cosh(start + step / 2) * jnp.sinh(step / 2)
    measure = half[..., None] * weights * scale * jnp.cosh(start + step)
    return z, measure * jnp.exp(-(z**2) / 2) / _ROOT_TWO_PI


def arcsinh_step(
    start: Float[Array, "*shape"], step: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """arcsinh(start + step) - arcsinh(start), which loses no digits where the step is small.

    No branch depends on a sum: a compiler may round it differently in each place that it is used.
    """
    sign = jnp.where(start < 0, -1, 1)
    start, step = jnp.abs(start), sign * step
    end = start + step
    root, end_root = jnp.sqrt(1 + start**2), jnp.sqrt(1 + end**2)
    rise = step * (1 + (start + end) / (root + end_root)) / (start + root)
    # Beyond zero the two have opposite signs, and a large step would leave nothing of 1 + rise.
    is_beyond = step < -start
    near = jnp.log1p(jnp.where(is_beyond, 0, rise))
    return sign * jnp.where(is_beyond, jnp.arcsinh(end) - jnp.arcsinh(start), near)
