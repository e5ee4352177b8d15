r"""Exact Gaussian differential privacy: mu, and the (epsilon, delta) curve that it is.

A mechanism is mu-GDP when telling two neighbours apart is at least as hard as telling N(0, 1) from
N(mu, 1). Source: Dong, Roth and Su (2022), Corollary 2.13; Balle and Wang (2018), Theorem 8.

Concrete arguments are computed on the host in float64 and rounded toward more privacy loss. Traced
ones follow their own precision: in float32 delta is known to about 2e-5 (1 + 1/mu) relative.
"""

import math
from typing import Any

import jax.numpy as jnp
from jax.scipy.special import log_ndtr
from scipy.special import erfcx, ndtr

from jaxdp.core.checks import concrete
from jaxdp.privacy.bisection import largest_within, traced_root
from jaxdp.privacy.zcdp import check_delta

_ROUNDING = 1e-12


def gaussian_delta(mu: Any, epsilon: Any) -> Any:
    r"""$\delta(\epsilon) = \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon \Phi(-\mu/2 - \epsilon/\mu)$.

    Args:
        mu: >= 0; 0 gives 0, infinity gives 1.
        epsilon: >= 0.

    Returns:
        A float for concrete arguments, an array for traced ones.
    """
    m, e = concrete(mu), concrete(epsilon)
    if (m is not None and not m >= 0) or (e is not None and not e >= 0):
        raise ValueError(f"expected mu >= 0 and epsilon >= 0, got {mu} and {epsilon}")
    if m is None or e is None:
        return jnp.exp(_traced_log_delta(jnp.asarray(mu), jnp.asarray(epsilon)))
    return _delta(float(m), float(e))


def gaussian_epsilon(mu: Any, delta: Any) -> Any:
    """The smallest epsilon >= 0 at which mu-GDP gives (epsilon, delta)-DP.

    Args:
        mu: >= 0; 0 gives 0, infinity gives infinity.
        delta: in (0, 1).
    """
    check_delta(delta)
    m, d = concrete(mu), concrete(delta)
    if m is not None and not m >= 0:
        raise ValueError(f"expected mu >= 0, got {mu}")
    if m is None or d is None:
        mu, delta = jnp.asarray(mu), jnp.asarray(delta)
        like = jnp.broadcast_to(mu, jnp.broadcast_shapes(mu.shape, delta.shape))
        root = traced_root(lambda e: jnp.log(delta) - _traced_log_delta(mu, e), 1e-9, 1e6, like)
        is_free = jnp.log(delta) >= _traced_log_delta(mu, jnp.zeros_like(like))
        return jnp.where(jnp.isinf(mu), jnp.inf, jnp.where(is_free, 0, root))
    m, d = float(m), float(d)
    if math.isinf(m):
        return math.inf
    if _delta(m, 0.0) <= d:
        return 0.0
    # The largest epsilon that still fails, pushed up: the true one is not above it.
    return largest_within(lambda e: _delta(m, e) > d) * (1 + _ROUNDING)


def gaussian_mu(epsilon: Any, delta: Any) -> Any:
    """The largest mu for which mu-GDP gives (epsilon, delta)-DP, for epsilon > 0."""
    check_delta(delta)
    e, d = concrete(epsilon), concrete(delta)
    if e is not None and not e >= 0:
        raise ValueError(f"expected epsilon >= 0, got {epsilon}")
    if e is None or d is None:
        epsilon, delta = jnp.asarray(epsilon), jnp.asarray(delta)
        like = jnp.broadcast_to(epsilon, jnp.broadcast_shapes(epsilon.shape, delta.shape))
        return traced_root(
            lambda m: _traced_log_delta(m, epsilon) - jnp.log(delta), 1e-6, 1e4, like
        )
    e, d = float(e), float(d)
    return largest_within(lambda m: _delta(m, e) <= d) * (1 - _ROUNDING)


def _delta(mu: float, epsilon: float) -> float:
    """delta, never below the truth: rounding of the two terms is added to their difference."""
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 0.0 if math.isinf(epsilon) else 1.0
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # e^epsilon phi(far) = phi(near): both terms are phi(near) times a Mills ratio.
    density = math.exp(-near * near / 2)
    far_term = density * erfcx(far / math.sqrt(2)) / 2
    near_term = density * erfcx(near / math.sqrt(2)) / 2 if near > 0 else float(ndtr(-near))
    # An error of near is one of near^2 times as much in the exponent.
    rounding = 2**-52 * (8 + 2 * near * near) * near_term
    return min(1.0, max(0.0, near_term - far_term) + rounding)


def _traced_log_delta(mu, epsilon):
    """log delta: -inf at mu = 0, 0 at mu = inf, with derivatives that are not NaN there."""
    none, all_lost = (mu == 0) | jnp.isinf(epsilon), jnp.isinf(mu)
    apart = ~(none | all_lost)
    mu = jnp.where(apart, mu, 1)
    epsilon = jnp.where(apart, epsilon, 1)
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    smallest = jnp.finfo(jnp.result_type(mu, epsilon, float)).eps / 4
    inside = first + jnp.log(-jnp.expm1(jnp.minimum(second - first, -smallest)))
    return jnp.where(apart, inside, jnp.where(none, -jnp.inf, 0.0))
