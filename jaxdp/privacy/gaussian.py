r"""Exact Gaussian differential privacy: mu, and the (epsilon, delta) curve that it is.

A mechanism is mu-GDP when telling two neighbours apart is at least as hard as telling N(0, 1) from
N(mu, 1). Source: Dong, Roth and Su (2022), Corollary 2.13; Balle and Wang (2018), Theorem 8.

Concrete arguments are computed on the host in float64 and rounded toward more privacy loss; traced
ones follow their own precision (about 1e-4 relative in float32 for delta >= 1e-12).
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
    return min(1.0, _delta(float(m), float(e)) * (1 + _ROUNDING))


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
        return jnp.where(jnp.log(delta) >= _traced_log_delta(mu, jnp.zeros_like(like)), 0, root)
    m, d = float(m), float(d)
    if math.isinf(m):
        return math.inf
    if _delta(m, 0.0) <= d:
        return 0.0
    # The largest epsilon that still fails, pushed up: the true one is not above it.
    return largest_within(lambda e: _delta(m, e) > d) * (1 + _ROUNDING) + 1e-12


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
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 0.0 if math.isinf(epsilon) else 1.0
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # e^epsilon phi(far) = phi(near): both terms are phi(near) times a Mills ratio.
    density = math.exp(-near * near / 2)
    far_term = density * erfcx(far / math.sqrt(2)) / 2
    if near > 0:
        return max(0.0, density * erfcx(near / math.sqrt(2)) / 2 - far_term)
    return max(0.0, float(ndtr(-near)) - far_term)


def _traced_log_delta(mu, epsilon):
    mu = jnp.maximum(mu, jnp.finfo(jnp.result_type(mu, float)).tiny ** 0.25)
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return first + jnp.log1p(-jnp.exp(jnp.minimum(second - first, -1e-7)))
