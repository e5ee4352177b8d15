r"""Chi-square variables from one normal each, without rejection.

The quantile transform $q = F_k^{-1}(\Phi(z))$ of a standard normal z is chi-square with k degrees
of freedom. Its cube root is almost linear in z (Wilson and Hilferty), so a short polynomial
replaces it; a loop over random proposals would stop a batch at its slowest member.
"""

import functools

import jax.numpy as jnp
import numpy as np
import scipy
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float
from numpy.polynomial import chebyshev

# By bytes of the type: a number above its largest normal, and the size of negligible coefficients.
_REACH = {4: 5.6, 8: 8.4}
_TOLERANCE = {4: 5e-9, 8: 1e-13}
_NODES = 80
# The most degrees: beyond them SciPy's quantiles lose digits and float32 sees no curvature.
_LARGEST_CURVED = 10**6


def chi_square(
    normal: Float[Array, "*batch blocks runs"], degrees: tuple[int, ...]
) -> Float[Array, "*batch blocks runs"]:
    r"""$F_k^{-1}(\Phi(z))$ with each block's own number k >= 0 of degrees of freedom.

    The error is below 8e-6 k in float32 (1.2e-6 k for k >= 50), 3e-12 k in float64 up to k = 10^5
    and 2e-8 k beyond k = 10^6. In the distribution function this is 1e-5 up to k = 1000 in float32,
    and 1e-4 at k = 10^6, due to the rounding of q. k = 0, 1 and 2 have closed forms: 0, $z^2$
    (chi-square, though not the quantile) and $-2\ln\Phi(-z)$. Normals are at most 5.6 in float32
    and 8.4 in float64, which JAX's do not exceed. Derived: test_the_map_is_the_quantile_transform.
    """
    size = normal.dtype.itemsize
    series = [_series(count, size) if count > 2 else (0.0,) for count in degrees]
    table = np.zeros((max(map(len, series)), len(degrees)), normal.dtype)
    for block, terms in enumerate(series):
        table[: len(terms), block] = terms
    # Axes of a block's numbers, beside those of the normals.
    each = (*(1,) * (normal.ndim - 2), len(degrees), 1)
    table = table.reshape(-1, *each)
    # Clenshaw's recurrence: in powers of z the terms of a small k would cancel.
    place, root, above = normal / _REACH[size], table[-1], 0.0
    for terms in table[-2:0:-1]:
        root, above = terms + 2 * place * root - above, root
    root = table[0] + place * root - above
    scale = np.asarray(degrees, normal.dtype).reshape(each)
    value = scale * root * root * root
    for count, closed in ((1, lambda z: z * z), (2, lambda z: -2 * log_ndtr(-z))):
        if count in degrees:
            value = jnp.where(np.asarray(degrees).reshape(each) == count, closed(normal), value)
    return value


@functools.lru_cache(maxsize=4096)
def _series(degrees: int, size: int) -> tuple[float, ...]:
    """Chebyshev coefficients, over the reach of the type, of the cube root of q/k."""
    if degrees > _LARGEST_CURVED:
        variance = 2 / (9 * degrees)
        return 1 - variance, _REACH[size] * variance**0.5
    nodes = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    half, normal = degrees / 2, _REACH[size] * nodes
    # Each tail is computed from its own side, where it keeps its digits.
    quantile = np.where(
        normal < 0,
        scipy.special.gammaincinv(half, scipy.special.ndtr(normal)),
        scipy.special.gammainccinv(half, scipy.special.ndtr(-normal)),
    )
    terms = chebyshev.chebfit(nodes, np.cbrt(quantile / half), _NODES - 1)
    # They fall geometrically, even and odd ones apart, down to the rounding of the quantiles.
    small = np.abs(terms) < _TOLERANCE[size]
    return tuple(terms[: int(np.argmax(small[1:] & small[:-1]))])
