"""Hermite coefficients of an activation by quadrature that is right at kinks and jumps.

The line is cut into panels on which the activation is a polynomial to rounding, with edges at kinks
and jumps, and Gauss-Legendre nodes on each panel. All is computed on the host in float64.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.checks import require_callable, require_count
from jaxdp.core.numerics.precision import on_host

HostFunction = Callable[[np.ndarray], np.ndarray]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
_CHECKED = np.linspace(-0.99, 0.99, 100)
# Values at the nodes -> Legendre coefficients -> their polynomial at the checked points.
_TO_LEGENDRE = np.linalg.inv(np.polynomial.legendre.legvander(NODES, 23).T)
_BETWEEN = _TO_LEGENDRE @ np.polynomial.legendre.legvander(_CHECKED, 23).T
# The reach in standard deviations, beyond which exp(-g^2/4), a bound on the Hermite functions, is
# below 1e-21.
_REACH = 14.0
_TOLERANCE, _MOST_HALVINGS, _MOST_PANELS = 1e-13, 50, 20_000
_NARROW = 0.1
# Places for the test that an activation is elementwise.
_PROBE = np.linspace(-2.0, 2.2, 8)
# Fewest values of a call, to compile few shapes.
_FEWEST = 4096


class Panels(NamedTuple):
    """Cuts of a line segment: a function is a polynomial to rounding between two edges.

    `kinks` are the edges at which it is not smooth, or changes over a small part of the scale.
    """

    edges: Float[np.ndarray, " edges"]
    kinks: Float[np.ndarray, " kinks"]


def hermite_coefficients(
    activation: Callable[[Array], Array], max_order: int
) -> Float[Array, " orders"]:
    r"""Coefficients of an activation in the orthonormal Hermite basis.

    $\mu_k = E[\phi(g)\,h_k(g)]$, g ~ N(0, 1).

    Source: PF Section 4 (Assumption 2), where $\mu_l$ are these coefficients.

    Args:
        activation: phi, an elementwise JAX function, possibly with kinks and jumps.
        max_order: last order, >= 0.

    Returns:
        Orders 0 to `max_order` in JAX's precision, from values right to about 1e-13 of the root
        mean square of phi(g).

    Raises:
        ValueError: `max_order` is negative, or the activation is not elementwise, not finite, grows
            too fast or has too many kinks.
        TypeError: `max_order` is not a Python int, or the activation is not a real function.

    Example:
        >>> import jax, jaxdp
        >>> found = jaxdp.problems.hermite_coefficients(jax.numpy.tanh, 3)
        >>> [round(abs(float(c)), 3) for c in found]
        [0.0, 0.606, 0.0, 0.148]
    """
    max_order = require_count("max_order", max_order, least=0)
    function = host_function(activation)
    coefficients, _ = scaled_coefficients(function, np.ones(1), max_order + 1)
    return jnp.asarray(coefficients[0])


def host_function(activation: Callable[[Array], Array]) -> HostFunction:
    """An elementwise JAX function as a float64 function of NumPy vectors."""
    require_callable("activation", activation, "a callable, elementwise function such as jnp.tanh")

    def function(values):
        # Padded, so that few shapes are compiled: each takes longer than thousands of values.
        size = 1 << max(len(values) - 1, 1).bit_length()
        padded = np.zeros(size if size <= len(_PROBE) else max(size, _FEWEST))
        padded[: len(values)] = values
        result = evaluate_on_host(activation, padded)[: len(values)]
        if not np.isfinite(result).all():
            first = np.argmin(np.isfinite(result))
            came = f"{result[first]} at {values[first]:.6g}"
            raise ValueError(f"expected a finite activation, got {came}")
        return result

    alone = np.concatenate([function(_PROBE[:3]), function(_PROBE[3:])])
    if not np.allclose(function(_PROBE), alone, rtol=1e-9, atol=1e-12, equal_nan=True):
        raise ValueError("expected an elementwise activation, got one that mixes elements")
    return function


def evaluate_on_host(
    activation: Callable[[Array], Array], values: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """An elementwise JAX function in float64 on the CPU, whatever precision and device JAX has."""
    with on_host(), jax.ensure_compile_time_eval():
        result = np.asarray(activation(jnp.asarray(values, jnp.float64)))
    if result.shape != np.shape(values):
        came = f"got {result.shape} from {np.shape(values)}"
        raise ValueError(f"expected an activation that keeps the shape of its input, {came}")
    if result.dtype.kind not in "fiub":
        raise TypeError(f"expected an activation with real values, got {result.dtype}")
    return result.astype(np.float64)


def scaled_coefficients(
    function: HostFunction, scales: Float[np.ndarray, " scales"], num_orders: int
) -> tuple[Float[np.ndarray, "scales orders"], Float[np.ndarray, " scales"]]:
    r"""$a_k(s) = E[\phi(s g)\,h_k(g)]$ and $E[\phi(s g)^2]$ for scales s > 0 within an octave."""
    smallest = scales.min()
    # The Hermite function of order k has wave number sqrt(k).
    widest = smallest * min(1.0, 10 / math.sqrt(num_orders))
    edges = _subdivide(smooth_panels(function, scales.max()).edges, widest)
    half = np.diff(edges) / 2
    nodes = ((edges[:-1] + half)[:, None] + half[:, None] * NODES).ravel()
    values = function(nodes)
    weights = (half[:, None] * WEIGHTS).ravel()
    coefficients = np.empty((len(scales), num_orders))
    second_moments = np.empty(len(scales))
    rows = max(1, 2**16 // len(nodes))
    for start in range(0, len(scales), rows):
        scale = scales[start : start + rows, None]
        x = nodes / scale
        root_density = np.exp(-(x**2) / 4)
        measure = weights * values * root_density / (math.sqrt(2 * math.pi) * scale)
        second_moments[start : start + rows] = (measure * root_density) @ values
        before, current = np.zeros_like(x), root_density
        for order in range(num_orders):
            coefficients[start : start + rows, order] = np.einsum("sq,sq->s", measure, current)
            # sqrt(k + 1) h_(k+1) = x h_k - sqrt(k) h_(k-1), which is stable upwards.
            following = x * current
            following -= math.sqrt(order) * before
            following /= math.sqrt(order + 1)
            before, current = current, following
    return coefficients, second_moments


def smooth_panels(function: HostFunction, scale: float) -> Panels:
    """Panels that resolve `function` on +-14 `scale`, the range of a Gaussian of that scale.

    ValueError if it is not finite, not piecewise smooth, or grows too fast for a second moment.
    """
    # Unequal ends keep kinks at round numbers off the edges, where they would not be seen.
    left, right = -1.0113 * _REACH * scale, 1.0237 * _REACH * scale
    coarse = np.linspace(left, right, 30)
    edges = _refine(function, coarse, np.zeros(30), scale)
    kinks, doubts = _narrow_places(edges, _NARROW * scale)
    edges = np.concatenate([np.linspace(left, right, 10), kinks])
    order = np.argsort(edges)
    clearances = np.concatenate([np.zeros(10), doubts])[order]
    return Panels(_refine(function, edges[order], clearances, scale), kinks)


def _narrow_places(edges, narrow):
    """Centres of the runs of panels that shrink to a point, and how far off they may be."""
    widths = np.diff(edges)
    # Runs of equal width; a kink lies in a run whose neighbours are wider.
    starts = np.flatnonzero(np.diff(np.log2(widths), prepend=np.inf).round() != 0)
    ends = np.append(starts[1:], len(widths))
    runs = np.concatenate([[np.inf], widths[starts], [np.inf]])
    lowest = (runs[1:-1] < runs[:-2]) & (runs[1:-1] < runs[2:]) & (widths[starts] < narrow)
    left, right = edges[starts[lowest]], edges[ends[lowest]]
    # More panels, or wider ones, are a sharp but smooth bend, which must be checked in full.
    is_kink = (ends - starts)[lowest] <= 2
    is_kink &= right - left < 0.01 * narrow
    return (left + right) / 2, np.where(is_kink, 0.51 * (right - left), 0.0)


def _refine(function, edges, clearances, scale):
    """Halves panels until each holds a polynomial, or is too short to matter.

    A panel is checked at points inside and at its ends, or just beside an end that is a kink.
    """
    left, right, done = edges[:-1], edges[1:], [edges[-1:]]
    near_left, near_right = clearances[:-1], clearances[1:]
    largest = 0.0
    for _ in range(_MOST_HALVINGS):
        middle, half = (left + right) / 2, (right - left) / 2
        ends = np.stack([np.minimum(near_left / half, 0.1) - 1, 1 - near_right / half], axis=1)
        ends[:, 1] = np.maximum(ends[:, 1], 0.9)
        inner = np.broadcast_to(np.concatenate([NODES, _CHECKED]), (len(left), 124))
        x = middle[:, None] + half[:, None] * np.concatenate([inner, ends], axis=1)
        values = function(x.ravel()).reshape(x.shape) * np.exp(-((x / scale) ** 2) / 4)
        if not largest:
            largest = np.abs(values).max()
            if np.abs(values[[0, -1]]).max() > 1e-6 * largest:
                raise ValueError(
                    f"expected an activation with a finite second moment under N(0, {scale:.3g}^2),"
                    f" got one that grows too fast at {left[0]:.3g} or {right[-1]:.3g}"
                )
        at_ends = np.einsum(
            "pn,pen->pe", values[:, :24] @ _TO_LEGENDRE, np.polynomial.legendre.legvander(ends, 23)
        )
        guess = np.concatenate([values[:, :24] @ _BETWEEN, at_ends], axis=1)
        # An error counts by its panel's width, so that rounding errors are not halved for ever.
        weight = np.minimum(1.0, 20 * half / scale)
        bad = np.abs(guess - values[:, 24:]).max(axis=1) * weight > _TOLERANCE * largest
        done.append(left[~bad])
        if not bad.any():
            break
        if bad.sum() > _MOST_PANELS:
            raise ValueError(
                "expected an activation that is smooth in float64 between few kinks, got one that "
                f"is not resolved by {_MOST_PANELS} panels"
            )
        left, middle, right = left[bad], middle[bad], right[bad]
        near_left, near_right = near_left[bad], near_right[bad]
        unknown = np.zeros(len(left))
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        near_left = np.concatenate([near_left, unknown])
        near_right = np.concatenate([unknown, near_right])
    else:
        done.append(left)
    return np.unique(np.concatenate(done))


def _subdivide(edges, widest):
    counts = np.ceil(np.diff(edges) / widest).astype(int)
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    inner = np.repeat(edges[:-1], counts) + steps * np.repeat(np.diff(edges) / counts, counts)
    return np.append(inner, edges[-1])


# Reaches of the two integrals in standard deviations; the inner one is also taken by Gauss-Hermite
# nodes, which are exact where no edge is near.
_OUTER_REACH, _INNER_REACH = 12.0, 9.0
_GRADES = np.array([-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0])
_INNER_NODES, _INNER_WEIGHTS = np.polynomial.legendre.leggauss(48)
_HERMITE_NODES, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
_HERMITE_WEIGHTS = _HERMITE_WEIGHTS / math.sqrt(2 * math.pi)


def pair_expectations(function, outer, inner, outer_scale, inner_scale, cosine, sine):
    """E[phi(s g) phi(s' (rho g + sqrt(1 - rho^2) h))], the inner expectation over h first.

    For functions with kinks or jumps and correlations near one, for which Hermite series converge
    too slowly. As a function of g the inner expectation changes over sqrt(1 - rho^2) / rho at each
    kink, so panels in g are graded around the kinks.
    """
    slope = inner_scale * cosine
    graded = inner.kinks[:, None] / slope[:, None, None] + (
        (sine / np.abs(cosine))[:, None, None] * _GRADES
    )
    cuts = [
        np.broadcast_to(np.linspace(-_OUTER_REACH, _OUTER_REACH, 13), (len(slope), 13)),
        outer.edges / outer_scale[:, None],
        inner.edges / slope[:, None],
        graded.reshape(len(slope), -1),
    ]
    edges = np.sort(np.clip(np.concatenate(cuts, axis=1), -_OUTER_REACH, _OUTER_REACH), axis=1)
    half = np.diff(edges, axis=1) / 2
    pair, panel = np.nonzero(half > 1e-16)
    half = half[pair, panel][:, None]
    g = edges[pair, panel][:, None] + half * (1 + NODES)
    measure = half * WEIGHTS * np.exp(-(g**2) / 2) / math.sqrt(2 * math.pi)
    pair = np.repeat(pair, len(NODES))
    g = g.ravel()
    smoothed = _smoothed(function, inner.edges, slope[pair] * g, (inner_scale * sine)[pair])
    terms = measure.ravel() * function(outer_scale[pair] * g) * smoothed
    return np.bincount(pair, terms, minlength=len(slope))


def _smoothed(function, edges, mean, std):
    """E[phi(mean + std h)] at each entry; phi is a polynomial between the edges."""
    result = np.empty(len(mean))
    low = np.searchsorted(edges, mean - _INNER_REACH * std)
    num_inside = np.searchsorted(edges, mean + _INNER_REACH * std) - low
    exact = std <= 1e-15 * np.abs(edges).max()
    result[exact] = function(mean[exact]) if exact.any() else 0.0
    num_inside[exact] = -1
    for count in np.unique(num_inside[~exact]):
        of_count = np.flatnonzero(num_inside == count)
        rows = max(1, 2**19 // (len(_INNER_NODES) * (count + 1)))
        for start in range(0, len(of_count), rows):
            part = of_count[start : start + rows]
            m, s = mean[part, None], std[part, None]
            if count == 0:
                h, weights = _HERMITE_NODES, _HERMITE_WEIGHTS
            else:
                ends = np.full((len(part), 1), _INNER_REACH)
                inside = (edges[low[part, None] + np.arange(count)] - m) / s
                cuts = np.concatenate([-ends, inside, ends], axis=1)
                half = np.diff(cuts, axis=1)[..., None] / 2
                h = (cuts[:, :-1, None] + half * (1 + _INNER_NODES)).reshape(len(part), -1)
                weights = (half * _INNER_WEIGHTS).reshape(h.shape) * np.exp(-(h**2) / 2)
                weights /= math.sqrt(2 * math.pi)
            x = m + s * h
            result[part] = (function(x.ravel()).reshape(x.shape) * weights).sum(axis=1)
    return result
