r"""Zero-concentrated differential privacy and what it says about (epsilon, delta).

Concrete arguments are computed on the host in float64 and rounded toward more privacy loss. Traced
ones follow their own precision: in float32 about 2e-4 relative for zcdp >= 1e-6.
"""

import math
from typing import Any

import jax.numpy as jnp
from jax import lax
from scipy.optimize import minimize_scalar

from jaxdp.core.checks import concrete
from jaxdp.privacy.bisection import largest_within, traced_root

_ROUNDING = 1e-12
_GOLDEN = (math.sqrt(5) - 1) / 2
# The best order lies between 1 + e^-25 and 1 + e^40 for every zcdp and delta of use.
_LOG_ORDERS = (-25.0, 40.0)


def check_delta(delta: Any) -> None:
    """Raise ValueError unless a concrete delta lies strictly between 0 and 1."""
    known = concrete(delta)
    if known is not None and not (known.shape == () and 0 < known < 1):
        raise ValueError(f"expected 0 < delta < 1, got {delta}")


def check_epsilon(epsilon: Any) -> None:
    """Raise ValueError unless a concrete epsilon is a positive number."""
    known = concrete(epsilon)
    if known is not None and not (known.shape == () and known > 0):
        raise ValueError(f"expected epsilon > 0, got {epsilon}")


def zcdp_epsilon(zcdp: Any, delta: Any) -> Any:
    r"""The best epsilon at delta that follows from `zcdp`-zCDP through one Renyi order.

    $\epsilon = \min_{\alpha>1} \alpha z + \frac{\ln(1/(\alpha\delta))}{\alpha-1}
    + \ln(1 - 1/\alpha)$.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12; every order gives a valid epsilon.

    Args:
        zcdp: z >= 0 such that every Renyi divergence of order alpha is at most alpha z.
        delta: in (0, 1).

    Returns:
        A float for concrete arguments, an array for traced ones.

    Raises:
        ValueError: an argument is outside its range.
    """
    check_delta(delta)
    z, d = concrete(zcdp), concrete(delta)
    if z is not None and not z >= 0:
        raise ValueError(f"expected zcdp >= 0, got {zcdp}")
    if z is None or d is None:
        return _traced_epsilon(jnp.asarray(zcdp), jnp.asarray(delta))
    z, d = float(z), float(d)
    if z == 0 or math.isinf(z):
        return z

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)
        tail = -math.log(d) - math.log1p(excess)
        return (1 + excess) * z + tail / excess + log_excess - math.log1p(excess)

    found = minimize_scalar(bound, bounds=_LOG_ORDERS, method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(found.fun)) * (1 + _ROUNDING)


def zcdp_epsilon_published(zcdp: Any, delta: Any) -> Any:
    r"""The published conversion $\epsilon = z + 2\sqrt{z \ln(1/\delta)}$: valid, but loose.

    Source: AC Proposition 10 with $z = \rho^2/2$ (Bun and Steinke 2016, Proposition 1.3).
    """
    check_delta(delta)
    z, d = concrete(zcdp), concrete(delta)
    if z is None or d is None:
        zcdp, delta = jnp.asarray(zcdp), jnp.asarray(delta)
        return zcdp + 2 * jnp.sqrt(-zcdp * jnp.log(delta))
    z, d = float(z), float(d)
    return (z + 2 * math.sqrt(-z * math.log(d))) * (1 + _ROUNDING)


def epsilon_to_zcdp(epsilon: Any, delta: Any) -> Any:
    """The largest z for which z-zCDP implies (epsilon, delta)-DP by `zcdp_epsilon`."""
    check_delta(delta)
    check_epsilon(epsilon)
    e, d = concrete(epsilon), concrete(delta)
    if e is None or d is None:
        epsilon, delta = jnp.asarray(epsilon), jnp.asarray(delta)
        like = jnp.broadcast_to(epsilon, jnp.broadcast_shapes(epsilon.shape, delta.shape))
        return traced_root(lambda z: _traced_epsilon(z, delta) - epsilon, 1e-9, 1e6, like)
    return largest_within(lambda z: zcdp_epsilon(z, float(d)) <= float(e))


def _traced_epsilon(zcdp, delta):
    dtype = jnp.result_type(zcdp, delta, float)
    shape = jnp.broadcast_shapes(zcdp.shape, delta.shape)

    def bound(log_excess):
        excess = jnp.exp(log_excess)
        tail = -jnp.log(delta) - jnp.log1p(excess)
        return (1 + excess) * zcdp + tail / excess + log_excess - jnp.log1p(excess)

    def shrink(_, ends):
        lower, upper = ends
        width = _GOLDEN * (upper - lower)
        left_better = bound(upper - width) < bound(lower + width)
        return (
            jnp.where(left_better, lower, upper - width),
            jnp.where(left_better, lower + width, upper),
        )

    ends = tuple(jnp.full(shape, end, dtype) for end in _LOG_ORDERS)
    lower, upper = lax.fori_loop(0, 60, shrink, ends)
    # At the best order the derivative with respect to the order is zero: it needs no gradient.
    best = lax.stop_gradient((lower + upper) / 2)
    return jnp.where(zcdp > 0, jnp.maximum(bound(best), 0), 0)
