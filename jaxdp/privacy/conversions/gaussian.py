r"""Exact Gaussian differential privacy: mu, and its (epsilon, delta) curve.

A mechanism is mu-GDP if telling two neighbours apart is at least as hard as telling N(0, 1) from
N(mu, 1). Source: Dong, Roth and Su (2022), Corollary 2.13; Balle and Wang (2018), Theorem 8.

Concrete arguments are answered on the host in float64 and rounded toward more privacy loss, by less
than 1e-11 of the answer for delta >= 1e-12. Traced ones are neither rounded nor checked (NaN if out
of range). In float32, for mu <= 50 and delta >= 1e-12, the relative error is below 2e-5 for
`gaussian_delta` (the rounding of mu and epsilon alone causes as much) and below 1e-5 for
`gaussian_mu` and for `gaussian_epsilon` >= 1e-6. Derivatives are closed forms, right at the limits
too.

With $n = \epsilon/\mu - \mu/2$ and $f = n + \mu$ both terms of the Gaussian $\delta$ are
$\varphi(n)$ times a Mills ratio $R(x) = \int_0^\infty e^{-xt - t^2/2}\,dt$, so

$$\delta = \varphi(n)\,[R(n) - R(f)] = \varphi(n)\int_0^\infty e^{-nt-t^2/2}(1 - e^{-\mu t})\,dt.$$

The integrand is positive, so a fixed quadrature keeps the digits that the difference would lose.
Derived: test_gaussian.py compares with high precision.
"""

import functools
import math
import sys
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.scipy.special import ndtr as traced_ndtr
from jaxtyping import ArrayLike, Float

from jaxdp.privacy.arguments import (
    answer,
    check_delta,
    check_non_negative,
    false_positive_rates,
    is_probability,
)
from jaxdp.privacy.conversions.bisection import largest_within, log_excess, traced_largest_within

_ROUNDING = 1e-12
_ROOT_TWO_PI = math.sqrt(2 * math.pi)
# Nodes on [0, 1], and the exponent at which the integrand is cut off, by bytes of the type.
_ORDERS = {4: (16, 20.0), 8: (32, 40.0)}
_RULES = {
    size: ((1 + nodes) / 2, weights / 2, cut_off)
    for size, (order, cut_off) in _ORDERS.items()
    for nodes, weights in [np.polynomial.legendre.leggauss(order)]
}


def gaussian_delta(mu: Any, epsilon: Any) -> Any:
    r"""The smallest delta at which mu-GDP gives (epsilon, delta)-DP.

    $\delta(\epsilon) = \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon \Phi(-\mu/2 - \epsilon/\mu)$.

    Args:
        mu: number >= 0; 0 gives 0, infinity gives 1.
        epsilon: number >= 0; infinity gives 0.

    Returns:
        A float for scalars, a float64 NumPy array for arrays, a JAX array for traced arguments.

    Example:
        >>> from jaxdp.privacy import gaussian_delta
        >>> print(f"{gaussian_delta(mu=0.5, epsilon=1.0):.4f}")
        0.0068
    """
    check_non_negative("mu", mu)
    check_non_negative("epsilon", epsilon)
    return answer(host_delta, _traced_delta, mu, epsilon)


def gaussian_epsilon(mu: Any, delta: Any) -> Any:
    """The smallest epsilon >= 0 at which mu-GDP gives (epsilon, delta)-DP.

    Args:
        mu: number >= 0; 0 gives 0, infinity gives infinity.
        delta: number in (0, 1); if traced, at least the smallest normal number of its type.

    Returns:
        Epsilon, in the types of `gaussian_delta`.

    Example:
        >>> from jaxdp.privacy import gaussian_epsilon
        >>> print(f"{gaussian_epsilon(mu=0.5, delta=1e-5):.3f}")
        1.993
    """
    check_non_negative("mu", mu)
    check_delta(delta)
    return answer(_epsilon, _traced_epsilon, mu, delta)


def gaussian_mu(epsilon: Any, delta: Any) -> Any:
    """The largest mu for which mu-GDP gives (epsilon, delta)-DP.

    Args:
        epsilon: number >= 0; infinity gives infinity.
        delta: number in (0, 1); if traced, at least the smallest normal number of its type.

    Returns:
        mu, in the types of `gaussian_delta`.

    Example:
        >>> from jaxdp.privacy import gaussian_mu
        >>> print(f"{gaussian_mu(epsilon=1.0, delta=1e-5):.4f}")
        0.2681
    """
    check_non_negative("epsilon", epsilon)
    check_delta(delta)
    return answer(_mu, _traced_mu, epsilon, delta)


def composed_mu(*mus: Any) -> Any:
    r"""The mu of several releases together, each free to depend on earlier ones.

    $\mu = \sqrt{\mu_1^2 + \dots + \mu_k^2}$. Source: Dong, Roth and Su (2022), Corollary 3.3.

    Args:
        *mus: mu of each release, >= 0; numbers or arrays, traced or not.

    Returns:
        A float for concrete scalars, else an array of the arguments' common shape.

    Example:
        >>> from jaxdp.privacy import composed_mu
        >>> print(f"{composed_mu(0.3, 0.4):.2f}")
        0.50
    """
    for mu in mus:
        check_non_negative("mu", mu)
    if len(mus) == 1:
        return answer(float, lambda mu: mu, *mus)
    return answer(
        lambda *values: math.hypot(*values) * (1 + 2**-51),
        lambda *values: jnp.sqrt(sum(value**2 for value in values)),
        *mus,
    )


def gaussian_tradeoff(mu: ArrayLike, false_positive_rate: ArrayLike) -> Float[np.ndarray, "..."]:
    r"""The least false-negative rate of any membership test at a given false-positive rate.

    $G_\mu(\alpha) = \Phi(\Phi^{-1}(1 - \alpha) - \mu)$ for a test that sees the output of a
    $\mu$-GDP mechanism and guesses which of two neighbouring data sets it came from. Source: Dong,
    Roth and Su (2022).

    Args:
        mu: Gaussian DP of the mechanism, >= 0.
        false_positive_rate: alpha in [0, 1].

    Returns:
        The false-negative rate, of the arguments' common shape.

    Example:
        >>> from jaxdp.privacy import gaussian_tradeoff
        >>> gaussian_tradeoff(1.0, [0.01, 0.1, 0.5]).round(3).tolist()
        [0.908, 0.611, 0.159]
    """
    check_non_negative("mu", mu)
    rate = false_positive_rates(false_positive_rate)
    distance = np.asarray(mu, np.float64)
    with np.errstate(invalid="ignore"):
        place = -scipy.special.ndtri(rate) - distance
    # No false positives at all: an infinite mu separates, and allows no false negatives either.
    return scipy.special.ndtr(np.where(np.isposinf(distance), -math.inf, place))


def host_delta(mu: float, epsilon: float) -> float:
    """delta, never below the truth: a bound on the rounding is added."""
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    near = _near(mu, epsilon)
    if near > 100:
        return sys.float_info.min
    # An error of near is near^2 times as large in the exponent; underflow is rounded up.
    rounding = 2**-52 * (64 + 8 * min(near * near, 1e4))
    density = math.exp(-near * near / 2)
    if mu < 1:
        _, gap = _mills(np, near, mu)
        delta = density * float(gap) / _ROOT_TWO_PI
        return min(1.0, delta * (1 + rounding) + sys.float_info.min)
    far_term = density * scipy.special.erfcx((near + mu) / math.sqrt(2)) / 2
    if near > 0:
        near_term = density * scipy.special.erfcx(near / math.sqrt(2)) / 2
    else:
        near_term = float(scipy.special.ndtr(-near))
    return min(1.0, float(near_term - far_term) + rounding * float(near_term) + sys.float_info.min)


def _near(mu: float, epsilon: float) -> float:
    """epsilon / mu - mu / 2 with a single rounding: in floats its terms may nearly cancel."""
    ratio = epsilon / mu
    if not 0.4 < ratio / mu < 0.6:
        return ratio - mu / 2
    return float(Fraction(epsilon) / Fraction(mu) - Fraction(mu) / 2)


# Searches and repeated fits use the same budgets again.
@functools.lru_cache(maxsize=1024)
def _epsilon(mu: float, delta: float) -> float:
    if math.isinf(mu):
        return math.inf
    if host_delta(mu, 0.0) <= delta:
        return 0.0
    # The largest epsilon that still fails, pushed up: the true one is not above it.
    failing = largest_within(lambda e: -log_excess(host_delta(mu, e), delta), strictly=True)
    return max(failing, 1e-150) * (1 + _ROUNDING)


@functools.lru_cache(maxsize=1024)
def _mu(epsilon: float, delta: float) -> float:
    # Down to 1e-305: at epsilon = 0 mu is about delta, and noise is calibrated to 1 / mu.
    largest = largest_within(lambda mu: log_excess(host_delta(mu, epsilon), delta), 1e-305)
    return largest * (1 - _ROUNDING)


def _traced_curve(mu, epsilon):
    """delta, its derivative by mu, phi(near), and minus that by epsilon, phi(near) R(far)."""
    is_valid = (mu >= 0) & (epsilon >= 0)
    none, all_lost = (mu == 0) | jnp.isinf(epsilon), jnp.isinf(mu)
    apart = is_valid & ~(none | all_lost)
    mu, epsilon = jnp.where(apart, mu, 1), jnp.where(apart, epsilon, jnp.where(none, epsilon, 1))
    near = jnp.where(apart, epsilon / mu - mu / 2, 0)
    density = jnp.exp(-near * near / 2) / _ROOT_TWO_PI
    ratio, gap = _mills(jnp, jnp.maximum(near, -1), jnp.minimum(mu, 1))
    far_term = density * _mills(jnp, near + mu)[0]
    near_term = jnp.where(near > 0, density * ratio, traced_ndtr(-near))
    delta = jnp.where(mu < 1, density * gap, near_term - far_term)
    limits = jnp.where(is_valid, jnp.where(none, 0.0, 1.0), jnp.nan).astype(delta.dtype)
    return jnp.where(apart, delta, limits), density, far_term, apart


@jax.custom_jvp
def _traced_delta(mu, epsilon):
    return _traced_curve(mu, epsilon)[0]


@_traced_delta.defjvp
def _(primals, tangents):
    mu, epsilon = primals
    _, density, far_term, apart = _traced_curve(mu, epsilon)
    # At mu = 0 and epsilon = 0 the curve starts with slope phi(0), which density is there.
    by_mu = jnp.where(apart | ((mu == 0) & (epsilon == 0)), density, 0)
    slope = by_mu * tangents[0] - jnp.where(apart, far_term, 0) * tangents[1]
    return _traced_delta(mu, epsilon), slope


@jax.custom_jvp
def _traced_epsilon(mu, delta):
    root = traced_largest_within(lambda e: _traced_delta(mu, e) > delta, mu)
    is_free = _traced_delta(mu, jnp.zeros_like(mu)) <= delta
    epsilon = jnp.where(jnp.isinf(mu), jnp.inf, jnp.where(is_free, 0, root))
    return jnp.where((mu >= 0) & is_probability(delta), epsilon, jnp.nan)


@_traced_epsilon.defjvp
def _(primals, tangents):
    epsilon = _traced_epsilon(*primals)
    has_slope = (epsilon > 0) & jnp.isfinite(epsilon)
    mu = jnp.where(has_slope, primals[0], 1)
    _, density, far_term, _ = _traced_curve(mu, jnp.where(has_slope, epsilon, 1))
    # delta(mu, epsilon) = delta, differentiated implicitly: phi dmu - phi R(far) depsilon = ddelta.
    slope = (density * tangents[0] - tangents[1]) / far_term
    return epsilon, jnp.where(has_slope, slope, 0)


@jax.custom_jvp
def _traced_mu(epsilon, delta):
    root = traced_largest_within(lambda mu: _traced_delta(mu, epsilon) <= delta, epsilon)
    mu = jnp.where(jnp.isinf(epsilon), jnp.inf, root)
    return jnp.where((epsilon >= 0) & is_probability(delta), mu, jnp.nan)


@_traced_mu.defjvp
def _(primals, tangents):
    mu = _traced_mu(*primals)
    has_slope = jnp.isfinite(mu)
    epsilon = jnp.where(has_slope, primals[0], 1)
    _, density, far_term, _ = _traced_curve(jnp.where(has_slope, mu, 1), epsilon)
    # The equation of the derivative of epsilon, solved for dmu.
    slope = (tangents[1] + far_term * tangents[0]) / density
    return mu, jnp.where(has_slope, slope, 0)


def _mills(library: Any, x: Any, shift: Any = None) -> tuple[Any, Any]:
    """R(x) for x >= -1 and, for 0 <= shift <= 1, R(x) - R(x + shift); by NumPy or by JAX."""
    x = library.asarray(x)
    nodes, weights, cut_off = _RULES[x.dtype.itemsize]
    # The nodes have the last axis.
    nodes, weights = (part.astype(x.dtype).reshape(*(1,) * x.ndim, -1) for part in (nodes, weights))
    # x t + t^2 / 2 = cut_off, in the form that does not cancel.
    width = 2 * cut_off / (x + library.sqrt(x * x + 2 * cut_off))
    times = width[..., None] * nodes
    terms = library.exp(-times * (x[..., None] + times / 2)) * weights
    ratio = width * terms.sum(-1)
    if shift is None:
        return ratio, None
    gap = width * (terms * -library.expm1(-library.asarray(shift)[..., None] * times)).sum(-1)
    return ratio, gap
