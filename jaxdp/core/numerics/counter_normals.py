"""Standard normals as functions of a key and two counters, two for each hash.

`jax.random` hashes once for each float32 and, on a CPU, in a loop over buffers. Here the compiler
fuses one hash with the arithmetic on its two words, several times faster if random numbers are most
of the work.

Source: Salmon, Moraes, Dror and Shaw (2011), Threefry-2x32 with 20 rounds.
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key, UInt32

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
    """Uniform on [-1, 1)."""
    return lax.bitcast_convert_type(word, jnp.int32).astype(dtype) * np.asarray(2.0**-31, dtype)


def _normal(uniform: Array) -> Array:
    below = np.nextafter(np.ones((), uniform.dtype), np.zeros((), uniform.dtype))
    root = np.sqrt(np.asarray(2.0, uniform.dtype))
    return lax.erf_inv(jnp.clip(uniform, -below, below)) * root
