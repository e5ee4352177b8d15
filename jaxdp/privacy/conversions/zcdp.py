"""Conversions between zero-concentrated DP and (epsilon, delta).

Concrete arguments are answered on the host in float64 and rounded toward more privacy loss. Traced
ones are neither rounded nor checked (NaN if out of range); in float32 their relative error is below
1e-5 for epsilon >= 1e-4.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdp.privacy.arguments import answer, check_delta, check_non_negative, is_probability
from jaxdp.privacy.conversions.bisection import largest_within, traced_largest_within

_ROUNDING = 1e-12


def zcdp_epsilon(zcdp: Any, delta: Any) -> Any:
    r"""The best epsilon at delta that follows from `zcdp`-zCDP through one Renyi order.

    $\epsilon = \min_{\alpha>1} \alpha z + \frac{\ln(1/(\alpha\delta))}{\alpha-1} + \ln(1 -
    1/\alpha)$, and 0 if that is negative.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12; every order gives a valid epsilon.
    Derived: the derivative is $z - \ln(1/(\alpha\delta))/(\alpha-1)^2$, which changes sign once, at
    $z(\alpha-1)^2 + \ln\alpha = \ln(1/\delta)$: there is one minimum, and it is found
    (tests/unit/privacy/conversions/test_zcdp.py compares with a fine grid of orders).

    Args:
        zcdp: z >= 0 such that every Renyi divergence of order alpha is at most alpha z; 0 gives 0,
            infinity gives infinity.
        delta: number in (0, 1).

    Returns:
        A float for scalars, a float64 NumPy array for arrays, a JAX array for traced arguments.

    Example:
        >>> from jaxdp.privacy import zcdp_epsilon
        >>> print(f"{zcdp_epsilon(zcdp=0.5, delta=1e-5):.3f}")
        4.728
    """
    check_non_negative("zcdp", zcdp)
    check_delta(delta)
    return answer(_epsilon, _traced_epsilon, zcdp, delta)


def zcdp_epsilon_published(zcdp: Any, delta: Any) -> Any:
    r"""The published conversion $\epsilon = z + 2\sqrt{z \ln(1/\delta)}$: valid, but loose.

    Source: AC Proposition 10 with $z = \rho^2/2$ (Bun and Steinke 2016, Proposition 1.3).

    Args:
        zcdp, delta: see `zcdp_epsilon`.

    Returns:
        Epsilon, at least that of `zcdp_epsilon`, in the same types.

    Example:
        >>> from jaxdp.privacy import zcdp_epsilon_published
        >>> print(f"{zcdp_epsilon_published(zcdp=0.5, delta=1e-5):.3f}")
        5.299
    """
    check_non_negative("zcdp", zcdp)
    check_delta(delta)
    return answer(
        lambda z, d: (z + 2 * math.sqrt(z) * math.sqrt(-math.log(d))) * (1 + _ROUNDING),
        lambda z, d: z + 2 * jnp.sqrt(z) * jnp.sqrt(-jnp.log(d)),
        zcdp,
        delta,
    )


def epsilon_to_zcdp(epsilon: Any, delta: Any) -> Any:
    """The largest z for which `zcdp_epsilon(z, delta)` is at most epsilon.

    Args:
        epsilon: number >= 0; infinity gives infinity.
        delta: number in (0, 1).

    Returns:
        z; a float for numbers, an array under `jit`.

    Example:
        >>> from jaxdp.privacy import epsilon_to_zcdp
        >>> print(f"{epsilon_to_zcdp(epsilon=1.0, delta=1e-5):.4f}")
        0.0306
    """
    check_non_negative("epsilon", epsilon)
    check_delta(delta)
    return answer(
        lambda e, d: largest_within(lambda z: _epsilon(z, d) - e), _traced_zcdp, epsilon, delta
    )


def _epsilon(zcdp: float, delta: float) -> float:
    if zcdp == 0 or math.isinf(zcdp):
        return zcdp
    level = -math.log(delta)
    # alpha - 1; every value is valid, so its rounding costs tightness only.
    excess = largest_within(lambda x: zcdp * x * x + math.log1p(x) - level, 1e-170)
    terms = ((1 + excess) * zcdp, (level - math.log1p(excess)) / excess, -math.log1p(1 / excess))
    rounding = _ROUNDING * (level / excess + sum(abs(term) for term in terms))
    return max(0.0, sum(terms) + rounding)


@jax.custom_jvp
def _best_excess(zcdp, delta):
    """alpha - 1 of the best order alpha."""
    level = -jnp.log(delta)
    return traced_largest_within(lambda x: zcdp * x * x + jnp.log1p(x) <= level, zcdp)


@_best_excess.defjvp
def _(primals, tangents):
    zcdp, delta = primals
    excess = _best_excess(zcdp, delta)
    # z x^2 + ln(1 + x) = ln(1/delta), differentiated implicitly.
    by_excess = 2 * zcdp * excess + 1 / (1 + excess)
    return excess, -(excess**2 * tangents[0] + tangents[1] / delta) / by_excess


def _traced_epsilon(zcdp, delta):
    is_proper = (zcdp > 0) & jnp.isfinite(zcdp)
    proper = jnp.where(is_proper, zcdp, 1)
    excess = _best_excess(proper, delta)
    tail = (-jnp.log(delta) - jnp.log1p(excess)) / excess
    epsilon = jnp.maximum((1 + excess) * proper + tail - jnp.log1p(1 / excess), 0)
    is_valid = (zcdp >= 0) & is_probability(delta)
    return jnp.where(is_valid, jnp.where(is_proper, epsilon, lax.stop_gradient(zcdp)), jnp.nan)


@jax.custom_jvp
def _traced_zcdp(epsilon, delta):
    level = -jnp.log(delta)

    # Along the best orders z = (level - ln alpha) / (alpha - 1)^2, and epsilon follows.
    def is_above(x):
        left = (level - jnp.log1p(x)) / x
        return left * (2 + 1 / x) - jnp.log1p(1 / x) >= epsilon

    excess = traced_largest_within(is_above, epsilon)
    zcdp = jnp.maximum(level - jnp.log1p(excess), 0) / excess**2
    is_valid = (epsilon >= 0) & is_probability(delta)
    return jnp.where(is_valid, jnp.where(jnp.isinf(epsilon), jnp.inf, zcdp), jnp.nan)


@_traced_zcdp.defjvp
def _(primals, tangents):
    zcdp = _traced_zcdp(*primals)
    has_slope = jnp.isfinite(zcdp)
    excess = _best_excess(jnp.where(has_slope, zcdp, 1), primals[1])
    # At the best order, whose own moves cost nothing: d epsilon = alpha dz - d delta / (delta x).
    slope = (tangents[0] + tangents[1] / (primals[1] * excess)) / (1 + excess)
    return zcdp, jnp.where(has_slope, slope, 0)
