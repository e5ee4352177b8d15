"""Standard normals as functions of a key and two counters, and chi-squares from one normal each.

`jax.random` hashes once for each float32 and, on a CPU, in a loop over buffers. Here the compiler
fuses one hash with the arithmetic on its two words, several times faster if random numbers are most
of the work. Source: Salmon, Moraes, Dror and Shaw (2011), Threefry-2x32 with 20 rounds.
"""

import functools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jax import lax
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float, Int, Key, UInt32
from numpy.polynomial import chebyshev

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA

Words = tuple[UInt32[Array, "*#shape"], UInt32[Array, "*#shape"]]


def key_words(keys: Key[Array, "*shape"]) -> Words:
    """Two random words for each key, for any generator."""
    data = jr.key_data(keys)
    if data.shape[-1] == 4:
        # Generators whose bits under vmap depend on the batch.
        return hashed((data[..., 0], data[..., 1]), data[..., 2], data[..., 3])
    # A clone: the same key gives the same words however often it is asked.
    draw = jnp.vectorize(lambda key: jr.bits(key, (2,), jnp.uint32), signature="()->(k)")
    words = draw(jr.clone(keys))
    return words[..., 0], words[..., 1]


def hashed(
    words: Words, first: UInt32[Array, "*#shape"], second: UInt32[Array, "*#shape"]
) -> Words:
    """Two random words for each pair of counters, with broadcasting.

    Independent over pairs and keys as far as Threefry-2x32 is a good block cipher.
    """
    rank = max(array.ndim for array in (*words, first, second))
    key_left, key_right, first, second = (
        lax.broadcast_to_rank(array, rank) for array in (*words, first, second)
    )
    schedule = (key_left, key_right, key_left ^ key_right ^ np.uint32(_PARITY))
    left, right = first + schedule[0], second + schedule[1]
    for group in range(5):
        for count in _ROTATIONS[group % 2]:
            left = left + right
            right = left ^ ((right << np.uint32(count)) | (right >> np.uint32(32 - count)))
        # Every four rounds the key is added again, with the number of the group.
        left = left + schedule[(group + 1) % 3]
        right = right + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return left, right


def normal_pairs(
    words: Words, first: Int[Array, "*#shape"], second: Int[Array, "*#shape"], dtype
) -> tuple[Float[Array, "*#shape"], Float[Array, "*#shape"]]:
    """Two independent standard normals for each pair of counters in [0, 2^31), with broadcasting.

    By inversion, as in `jax.random.normal`, of uniform numbers that are symmetric about 0; in
    magnitude at most 5.42 in float32 and 8.3 in float64.
    """
    first, second = first.astype(jnp.uint32), second.astype(jnp.uint32)
    if dtype == jnp.float32:
        left, right = hashed(words, first, second)
        return _normal(_signed(left, dtype)), _normal(_signed(right, dtype))
    pair = (hashed(words, first, 2 * second + np.uint32(half)) for half in (0, 1))
    # The second word goes on where the first one's 32 bits end.
    uniform = [_signed(left, dtype) + right.astype(dtype) * 2.0**-63 for left, right in pair]
    return _normal(uniform[0]), _normal(uniform[1])


def _signed(word: Array, dtype) -> Array:
    return lax.bitcast_convert_type(word, jnp.int32).astype(dtype) * np.asarray(2.0**-31, dtype)


def _normal(uniform: Array) -> Array:
    below = np.nextafter(np.ones((), uniform.dtype), np.zeros((), uniform.dtype))
    root = np.sqrt(np.asarray(2.0, uniform.dtype))
    return lax.erf_inv(jnp.clip(uniform, -below, below)) * root


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
    # A block's numbers, with axes for the others of the normals.
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
