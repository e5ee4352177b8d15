r"""The kernel of infinitely many random features: $k(x, x') = E[\phi(v^\top x)\,\phi(v^\top x')]$.

With v ~ N(0, I/d), s = |x|/sqrt(d) and rho the cosine of two inputs it is $E[\phi(s g)\phi(s' g')]$
for standard Gaussians of correlation rho. ReLU has a closed form. Any other activation is summed in
Hermite polynomials, $k = \sum_k a_k(s)\,a_k(s')\,\rho^k$ with $a_k(s) = E[\phi(s g)\,h_k(g)]$
(Mehler), until a bound on the remainder, which Parseval's identity makes computable, is below the
tolerance: $|\sum_{k\ge K}| \le |\rho|^K\,t_K(s)^{1/2}\,t_K(s')^{1/2}$ with
$t_K(s) = E[\phi(s g)^2] - \sum_{k<K} a_k(s)^2$. The few pairs that would need too many terms (a
kink or jump, and nearly parallel inputs) are integrated in two dimensions.
"""

import math
from collections.abc import Callable, Iterator

import jax
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.numerics.hermite import (
    HostFunction,
    host_function,
    pair_expectations,
    scaled_coefficients,
    smooth_panels,
)

# Error relative to the root of the product of the two diagonal entries.
_TOLERANCE = 1e-11
_LEVELS = [8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048]
_FIRST_ORDERS = 64
# Pairs times panels for each order whose integration costs about as much as doubling the orders.
_FEW_PAIRS = 256
_TILE = 2**15


def infinite_width_kernel(
    activation: Callable[[Array], Array], inputs: Float[np.ndarray, "rows dim"]
) -> Float[np.ndarray, "rows rows"]:
    """k(x, x') per feature, for all pairs of inputs of any norms, in float64 on the host.

    Errors are below 1e-10 of the largest diagonal entry, and up to them it is positive
    semi-definite. The activation may have kinks and jumps; `jax.nn.relu` has a closed form.

    Source: PF Section 4, the kernel K/p as p -> infinity; for ReLU the arc-cosine kernel of order
    one. Derived: tests/unit/problems/rows/test_infinite_width.py compares with closed forms.
    """
    function = host_function(activation)
    scales, directions = _norms_and_directions(inputs)
    cosines = np.clip(directions @ directions.T, -1.0, 1.0)
    if activation is jax.nn.relu:
        return _arc_cosine(scales, cosines)
    return _mehler(function, scales, directions, cosines)


def _norms_and_directions(inputs):
    """|x|/sqrt(d) and x/|x| (zero for x = 0), safe for very large and small entries."""
    rows = np.asarray(inputs, np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"expected inputs of shape (rows, dim), got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("expected finite inputs, got NaN or infinite entries")
    largest = np.abs(rows).max(axis=1)
    largest[largest == 0] = 1.0
    rows = rows / largest[:, None]
    norms = np.linalg.norm(rows, axis=1)
    directions = rows / np.where(norms == 0, 1.0, norms)[:, None]
    return norms / math.sqrt(rows.shape[1]) * largest, directions


def _arc_cosine(scales, cosines):
    r"""$s s'\,[\sin\theta + (\pi - \theta)\cos\theta] / (2\pi)$."""
    np.fill_diagonal(cosines, np.where(scales > 0, 1.0, 0.0))
    kernel = np.sqrt((1 - cosines) * (1 + cosines))
    kernel += (np.pi - np.arccos(cosines)) * cosines
    kernel *= scales[:, None] / (2 * np.pi)
    kernel *= scales
    return (kernel + kernel.T) / 2


def _mehler(function, scales, directions, cosines):
    coefficients, diagonal, tails = _enough_orders(function, scales, cosines)
    kernel = np.zeros_like(cosines)
    firsts, seconds, needs = [], [], []
    for rows in _row_tiles(len(scales)):
        tile = cosines[rows, rows.start :]
        need = np.full(tile.shape, len(tails))
        for index in reversed(range(len(tails))):
            need[_converged(tile, rows, tails[index], _LEVELS[index])] = index
        counts = np.cumsum(np.bincount(need.ravel(), minlength=len(tails) + 1))
        most = min(int(np.argmax(counts >= 0.8 * need.size)), len(tails) - 1)
        kernel[rows, rows.start :] = _horner(
            coefficients[: _LEVELS[most], rows, None],
            coefficients[: _LEVELS[most], None, rows.start :],
            tile,
        )
        first, second = np.nonzero(np.triu(need > most, 1))
        needs.append(need[first, second])
        firsts.append(first + rows.start)
        seconds.append(second + rows.start)
    first, second, need = (np.concatenate(parts) for parts in (firsts, seconds, needs))
    for index in range(len(tails)):
        of_level = np.flatnonzero(need == index)
        for start in range(0, len(of_level), _TILE):
            i, j = (pairs[of_level[start : start + _TILE]] for pairs in (first, second))
            orders = slice(0, _LEVELS[index])
            kernel[i, j] = _horner(
                coefficients[orders], coefficients[orders], cosines[i, j], (i, j)
            )
    slow = need == len(tails)
    i, j = first[slow], second[slow]
    kernel[i, j] = _integrate(function, scales, directions, i, j)
    kernel = np.triu(kernel, 1)
    kernel += kernel.T
    np.fill_diagonal(kernel, diagonal)
    return kernel


def _enough_orders(function, scales, cosines):
    """Coefficients a_k(s_i), (orders, rows), the diagonal, and the tails at each level.

    The orders are doubled until the bound is met at all but a few pairs.
    """
    num_orders = _FIRST_ORDERS
    panels = smooth_panels(function, scales.max() or 1.0)
    few_an_order = _FEW_PAIRS / (len(panels.edges) + 5 * len(panels.kinks))
    while True:
        coefficients, diagonal = _coefficients(function, scales, num_orders)
        sums = np.cumsum(coefficients**2, axis=0)
        floor = 1e-12 * diagonal.max() + np.finfo(np.float64).tiny
        levels = [level for level in _LEVELS if level <= num_orders]
        left = (diagonal - sums[np.array(levels) - 1]) / np.maximum(diagonal, floor)
        # Rounding hides a smaller tail.
        tails = np.log(np.maximum(left, 1e-15)) / 2
        num_slow = 0
        for rows in _row_tiles(len(scales)):
            reached = _converged(cosines[rows, rows.start :], rows, tails[-1], num_orders)
            num_slow += int(np.triu(~reached, 1).sum())
        if num_slow <= few_an_order * num_orders or num_orders == _LEVELS[-1]:
            return coefficients, diagonal, tails
        num_orders *= 2


def _row_tiles(num_rows) -> Iterator[slice]:
    """Rows whose part of the upper triangle fits in the cache."""
    start = 0
    while start < num_rows:
        stop = min(num_rows, start + max(1, _TILE // (num_rows - start)))
        yield slice(start, stop)
        start = stop


def _converged(tile, rows, log_root_tails, level):
    """Where the bound on the terms from `level` on is below the tolerance."""
    with np.errstate(divide="ignore"):
        log_bound = level * np.log(np.abs(tile))
    log_bound += log_root_tails[rows, None]
    log_bound += log_root_tails[rows.start :]
    return log_bound <= math.log(_TOLERANCE)


def _horner(first, second, cosines, pairs=(slice(None), slice(None))):
    """sum_k first_k second_k rho^k, from the last term down, at pairs of entries."""
    i, j = pairs
    total = np.zeros_like(cosines)
    term = np.empty_like(cosines)
    for left, right in zip(first[::-1], second[::-1], strict=True):
        total *= cosines
        np.multiply(left[i], right[j], out=term)
        total += term
    return total


def _coefficients(function: HostFunction, scales, num_orders):
    """a_k(s_i), (orders, rows), and E[phi(s_i g)^2]."""
    distinct, member = np.unique(scales, return_inverse=True)
    coefficients = np.zeros((len(distinct), num_orders))
    second_moments = np.zeros(len(distinct))
    if distinct[0] == 0:
        coefficients[0, 0] = function(np.zeros(1))[0]
        second_moments[0] = coefficients[0, 0] ** 2
    for chosen in _octaves(distinct):
        coefficients[chosen], second_moments[chosen] = _over_octave(
            function, distinct[chosen], num_orders
        )
    return np.ascontiguousarray(coefficients[member].T), second_moments[member]


def _octaves(scales) -> Iterator[np.ndarray]:
    """Indices of the positive scales, by powers of two below the largest."""
    positive = np.flatnonzero(scales > 0)
    if positive.size:
        octave = np.floor(np.log2(scales.max() / scales[positive]))
        for value in np.unique(octave):
            yield positive[octave == value]


def _over_octave(function, scales, num_orders):
    """Coefficients and second moments, interpolated in log s if there are many scales.

    The Gaussian density of s g makes both analytic in s on the sector |arg s| < pi/4 for any
    activation: Chebyshev interpolation in log s converges geometrically, and its last coefficients
    show when it has.
    """
    low, high = math.log(scales[0]), math.log(scales[-1])
    count = 24
    while count < len(scales):
        points = np.cos(np.pi * (np.arange(count) + 0.5) / count)
        at_points = np.exp((low + high) / 2 + (high - low) / 2 * points)
        coefficients, second_moments = scaled_coefficients(function, at_points, num_orders)
        table = np.concatenate([coefficients, second_moments[:, None]], axis=1)
        size = np.append(np.full(num_orders, math.sqrt(max(second_moments))), max(second_moments))
        series = np.polynomial.chebyshev.chebvander(points, count - 1).T @ table * (2 / count)
        series[0] /= 2
        if np.all(np.abs(series[-4:]).max(axis=0) <= 1e-13 * size):
            at_scales = np.clip((2 * np.log(scales) - low - high) / (high - low), -1, 1)
            table = np.polynomial.chebyshev.chebvander(at_scales, count - 1) @ series
            return table[:, :-1], table[:, -1]
        count *= 2
    return scaled_coefficients(function, scales, num_orders)


def _integrate(function, scales, directions, first, second):
    """The kernel at pairs of rows by quadrature that resolves kinks and nearly parallel rows."""
    values = np.empty(len(first))
    if not len(first):
        return values
    panels, octave_of = [], np.zeros(len(scales), int)
    for rows in _octaves(scales):
        octave_of[rows] = len(panels)
        panels.append(smooth_panels(function, scales[rows].max()))
    group = octave_of[first] * len(panels) + octave_of[second]
    for value in np.unique(group):
        chosen = np.flatnonzero(group == value)
        outer, inner = (panels[int(octave_of[rows[chosen[0]]])] for rows in (first, second))
        # The nodes fill some tens of megabytes.
        at_once = max(1, 8192 // (len(outer.edges) + len(inner.edges) + 9 * len(inner.kinks) + 13))
        for start in range(0, len(chosen), at_once):
            batch = chosen[start : start + at_once]
            i, j = first[batch], second[batch]
            # Chords keep the digits of a small angle, the cosine would not.
            near = np.linalg.norm(directions[i] - directions[j], axis=1)
            far = np.linalg.norm(directions[i] + directions[j], axis=1)
            cosine, sine = (far - near) * (far + near) / 4, near * far / 2
            values[batch] = pair_expectations(
                function, outer, inner, scales[i], scales[j], cosine, sine
            )
    return values
