"""Keys of JAX's generators that nobody can guess, and how many bits a guess has to find."""

import os

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Key

from jaxdp.core.checks import concrete_key_data, require_key, require_kind

_INTEGER_BITS = 32


def secret_key(*, impl: str | None = None) -> Key[Array, ""]:
    """A key from the operating system's entropy, for whatever is trained privately.

    `jax.random.key(n)` has only as much entropy as the integer: without x64 it keeps 32 bits of
    it, so that `key(2**32 + 5)` is `key(5)`, and all of them can be tried within hours. Who finds
    the key takes the noise off. This one has all the bits that its generator has: 64 for
    "threefry2x32", the default, and 128 for "rbg". None of these generators is cryptographic:
    noise that is certified is `SecretNoise`.

    Args:
        impl: the name of the generator, as for `jax.random.key`.

    Returns:
        A key that no other call returns again, to be kept secret.

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
    """The most bits that a guess of this key has to find; None for a traced one.

    A key that an integer below 2^32 makes is told by its zeros: a secret key has them once in
    2^32 times. What was split off such a key, or folded into it, is no harder to find, and is not
    recognised here.

    Args:
        key: of `jax.random.key`.

    Returns:
        A number of bits, or None.

    Example:
        >>> import jax
        >>> from jaxdp.privacy.secret.secret_key import key_entropy_bits
        >>> key_entropy_bits(jax.random.key(7))
        32
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
