"""Keys of JAX's generators that nobody can guess, and how many bits a guess has to find."""

import os

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Key

from jaxdp.core.checks import concrete_key_data, require_key, require_kind

_INTEGER_BITS = 32


def secret_key(*, impl: str | None = None) -> Key[Array, ""]:
    """A key from the operating system's entropy, for private training.

    Anybody who finds the key can subtract the noise. `jax.random.key(n)` is as easy to find as the
    integer: without x64 it keeps 32 bits, which can be tried within hours. The key of this function
    has as many random bits as its generator: 64 for "threefry2x32", the default, and 128 for "rbg".
    Neither generator is cryptographic; certified noise is `SecretNoise`.

    Args:
        impl: name of the generator, as for `jax.random.key`; None for JAX's default.

    Returns:
        A key that no other call returns, to be kept secret.

    Example:
        >>> from jaxdp.privacy import secret_key
        >>> from jaxdp.privacy.secret.secret_key import key_entropy_bits
        >>> key_entropy_bits(secret_key())
        64
    """
    if impl is not None:
        require_kind("impl", impl, str, "a generator's name, or None")
    like = jr.key(0, impl=impl)
    shape = jr.key_data(like).shape
    words = np.frombuffer(os.urandom(4 * int(np.prod(shape))), np.uint32)
    return jr.wrap_key_data(jnp.asarray(words.reshape(shape)), impl=impl)


def key_entropy_bits(key: Key[Array, ""]) -> int | None:
    """An upper bound on the entropy of a `jax.random.key`, in bits; None for a traced key.

    Keys from an integer below 2^32 (`jax.random.key(7)`: 32 bits) are recognised by their zeros,
    which a secret key has once in 2^32 times. Keys split from such a key, or folded, are not
    recognised, and no harder to find.
    """
    require_key(key)
    words = concrete_key_data(key)
    if words is None:
        return None
    halves = words.reshape(-1, 2)
    # Keys of "rbg" repeat those of "threefry2x32" where an integer makes them.
    if not halves[:, 0].any() and (halves == halves[0]).all():
        return _INTEGER_BITS
    return 32 * words.size
