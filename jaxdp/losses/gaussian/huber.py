r"""The mean of Huber's loss where the residual is Gaussian, in closed form.

With $r \sim N(m, v)$, $s = \sqrt v$, width w, $a = |w - |m||/s$, $b = (w + |m|)/s$ and
$T(z) = E[(x - z)_+^2] = (z^2 + 1)\Phi(-z) - z\varphi(z)$ for a standard normal x, the loss
$H(r) = r^2/2 - (|r| - w)_+^2/2$ has

$$ E[H(r)] = H(m) + \frac v2\,\begin{cases}1 - T(a) - T(b), & |m| < w\\ T(a) - T(b) & \text{else,}
   \end{cases} $$

where nothing large cancels. Where w is small against the deviation, 1 - T(a) - T(b) does, and
$E[H(r)] = \int_0^w E(|r| - t)_+\,dt$ is summed by Gauss and Legendre's rule instead.
Derived: test_expected_value.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.core.numerics.clipped_gaussian import clipped_mean, inside_probability
from jaxdp.losses.base import alike

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
# Below this ratio of width to deviation the integral is summed; ten nodes then are exact.
_SMALL_RATIO = 0.5
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(10))
_NODES = _NODES + 0.5
# Beyond this many deviations every tail is zero to the last bit of float64.
_LARGEST = 40.0


def expected_huber(
    mean: Float[Array, "*shape"], variance: Float[Array, "*shape"], width: Float[Array, ""]
) -> Float[Array, "*shape"]:
    """The mean of Huber's loss of a residual of this mean and variance >= 0."""
    return _expected(*alike(mean, variance, width))


@jax.custom_jvp
def _expected(mean, variance, width):
    is_fixed = ~(variance > 0)
    std = jnp.sqrt(jnp.where(is_fixed, 1, variance))
    size = jnp.abs(mean)
    slope = jnp.minimum(size, width)
    at_mean = slope * (size - slope / 2)
    near, far = jnp.abs(width - size) / std, (width + size) / std
    # Each tail is below one half, so that their difference from 1 keeps its digits.
    excess = jnp.where(size < width, 1 - _square_tail(near), _square_tail(near))
    direct = at_mean + std**2 / 2 * (excess - _square_tail(far))
    nodes, weights = (
        lax.broadcast_to_rank(jnp.asarray(part, std.dtype), std.ndim + 1)
        for part in (_NODES, _WEIGHTS)
    )
    points = jnp.minimum(width, _SMALL_RATIO * std)[..., None] * nodes
    beyond = _excess(mean[..., None], std[..., None], points)
    summed = width * jnp.sum(beyond * weights, axis=-1)
    random = jnp.where(width < _SMALL_RATIO * std, summed, direct)
    return jnp.where(is_fixed, at_mean, random)


@_expected.defjvp
def _(primals, tangents):
    """The slope's mean, and half the mean of the second derivative."""
    (mean, variance, width), (in_mean, in_variance, in_width) = primals, tangents
    is_fixed = ~(variance > 0)
    std = jnp.sqrt(jnp.where(is_fixed, 1, variance))
    outside = jnp.where(is_fixed, jax.nn.relu(jnp.abs(mean) - width), _excess(mean, std, width))
    slope = clipped_mean(mean, variance, width) * in_mean
    slope += inside_probability(mean, variance, width) / 2 * in_variance
    return _expected(mean, variance, width), slope + outside * in_width


def _excess(mean, std, level):
    r"""$E(|r| - t)_+$ for a level t >= 0."""
    return sum(
        jax.nn.relu(sign * mean - level) + std * _tail_area(jnp.abs(sign * mean - level) / std)
        for sign in (1, -1)
    )


def _tail_area(distance):
    """E(x - z)_+ of a standard normal x, z >= 0."""
    distance = jnp.minimum(distance, _LARGEST)
    return jnp.maximum(_density(distance) - distance * ndtr(-distance), 0)


def _square_tail(distance):
    """T(z) for z >= 0."""
    distance = jnp.minimum(distance, _LARGEST)
    tail = (distance**2 + 1) * ndtr(-distance) - distance * _density(distance)
    return jnp.maximum(tail, 0)


def _density(z):
    return jnp.exp(-(z**2) / 2) / _ROOT_TWO_PI
