r"""The mean softmax loss, and how often it names the class, where the logits are Gaussian.

The loss is a mean over nodes (`jaxdp.losses.gaussian.nodes`). Of k independent logits of one
variance v, the label's is largest with probability $\int\varphi(t)\prod_{j \ne y}\Phi(t + (f_y -
f_j)/\sqrt v)\,dt$, which is summed by Gauss and Legendre's rule. Of correlated ones, along each ray
from the mean the label's logit is largest between two distances, which the chi distribution with
k - 1 degrees weighs: only directions are sampled, the answer is smooth in mean and covariance, and
for two classes it is exact. Derived: test_softmax_metrics.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import Precision
from jax.scipy.special import erfc, gammaincc, ndtr
from jaxtyping import Array, Float

from jaxdp.losses.gaussian.nodes import contrasts, directions
from jaxdp.losses.gaussian.softmax_slope import (
    correlated_spread,
    floor_of,
    isotropic_spread,
    reduced_covariance,
    root_of,
)

# The normal's mass beyond so many deviations is 1e-11.
_DEVIATIONS = 6.7
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# Beyond this distance a chi variable of a few hundred degrees never lies; its square is finite.
_FARTHEST = 40.0
# So many terms of the chi distribution's finite sum may be taken in single precision.
_MOST_DEGREES = 200


def expected_value(gaps, is_label, variance, num_nodes) -> Float[Array, "*batch"]:
    """The expected loss of logits whose mean exceeds the label's own by `gaps` (..., k).

    Args:
        gaps: of the means.
        is_label: which entry is the label's.
        variance: of all logits (...), or their covariance (..., k, k).
        num_nodes: at least so many are used.
    """
    is_one = jnp.ndim(variance) < gaps.ndim
    spread = (isotropic_spread if is_one else correlated_spread)(gaps, variance, num_nodes)
    logits, is_label = gaps[..., None] + spread, is_label[..., None]
    own = jnp.sum(jnp.where(is_label, logits, 0), axis=-2)
    others = jax.nn.logsumexp(jnp.where(is_label, -jnp.inf, logits), axis=-2)
    return jnp.mean(jnp.logaddexp(0.0, others - own), axis=-1)


def isotropic_probability(gaps, is_label, variance) -> Float[Array, "*batch"]:
    """That the label's logit is the largest, for a variance > 0 of all."""
    points, weights = (jnp.asarray(part, gaps.dtype) for part in (_NODES, _WEIGHTS))
    points = _DEVIATIONS * points
    weights = weights * jnp.exp(-(points**2) / 2) * (_DEVIATIONS / np.sqrt(2 * np.pi))
    levels = gaps / jnp.sqrt(variance)[..., None]
    points = lax.broadcast_to_rank(points, levels.ndim + 1)
    below = jnp.where(is_label[..., None], 1, ndtr(points - levels[..., None]))
    return jnp.matmul(jnp.prod(below, axis=-2), weights, precision=Precision.HIGHEST)


def correlated_probability(gaps, is_label, covariance, num_nodes) -> Float[Array, "*batch"]:
    """That the label's logit is the largest, for a covariance whose differences are not all zero.

    Where they are, it is that of a covariance of one.
    """
    dim = gaps.shape[-1] - 1
    basis = jnp.asarray(contrasts(dim + 1), gaps.dtype)
    reduced = reduced_covariance(covariance, basis)
    trace = jnp.trace(reduced, axis1=-2, axis2=-1)
    is_fixed = ~(trace > 0)
    identity = lax.broadcast_to_rank(jnp.eye(dim, dtype=gaps.dtype), reduced.ndim)
    reduced = jnp.where(is_fixed[..., None, None], identity, reduced)
    root = root_of(reduced, floor_of(gaps) * jnp.where(is_fixed, 1, trace))
    rays = jnp.matmul(basis, root, precision=Precision.HIGHEST)
    turned = jnp.asarray(directions(dim, num_nodes).T, gaps.dtype)
    rays = jnp.matmul(rays, turned, precision=Precision.HIGHEST)
    own = jnp.sum(jnp.where(is_label[..., None], rays, 0), axis=-2, keepdims=True)
    # Another logit stays below the label's where distance * rise < room.
    rise, room = rays - own, -gaps[..., None]
    is_rising, is_falling = rise > 0, rise < 0
    crossing = room / jnp.where(is_rising | is_falling, rise, 1)
    crossing = jnp.clip(crossing, -_FARTHEST, _FARTHEST)
    first = jnp.max(jnp.where(is_falling, crossing, 0), axis=-2, initial=0)
    last = jnp.min(jnp.where(is_rising, crossing, _FARTHEST), axis=-2, initial=_FARTHEST)
    share = _beyond(first, dim) - _beyond(jnp.maximum(last, first), dim)
    return jnp.mean(share, axis=-1)


def _beyond(distance, degrees):
    """The probability that a chi variable is larger: a finite sum, of e^(-t) t^i / i! or halves."""
    power = distance**2 / 2
    if degrees > _MOST_DEGREES:
        return gammaincc(degrees / 2, power)
    # The exponential in two parts, so that neither underflows where the sum does not.
    half = jnp.exp(-power / 2)
    if degrees % 2:
        total, term = erfc(distance / np.sqrt(2)), half * distance * np.sqrt(2 / np.pi)
    else:
        total, term = jnp.zeros_like(distance), half
    summed = jnp.zeros_like(distance)
    for index in range(degrees // 2):
        summed += term
        term *= power / (index + (1.5 if degrees % 2 else 1))
    return total + half * summed
