r"""Normals that nobody can predict: the noise of certified releases, in float64 on the host.

Two things that simulated noise may have, certified noise may not. Float32 normals end at 5.42
standard deviations; these reach 9.1. And the state of a statistical generator can be recovered
from its output: who knows all records but one could test each value of that one by whether the
noise which it leaves is a stretch of such a generator's. So the bits come from the operating
system's cryptographic generator, or from SHAKE-256 of a seed that stays secret.

Left out: the law is normal up to 64-bit uniform numbers and the rounding of float64, and no
guarantee here takes that difference into account (Mironov 2012, "On significance of the least
significant bits for differential privacy").
"""

import hashlib
import math
import os

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

_BYTES = 8


def secret_normals(
    shape: int | tuple[int, ...], *, purpose: str, seed: int | None = None, context: bytes = b""
) -> Float[np.ndarray, "*shape"]:
    r"""Independent standard normals in float64, from the operating system or from a secret seed.

    Each is $\Phi^{-1}((k + 1/2) 2^{-64})$ with a random sign, k uniform on 63 bits: in the tail,
    where float64 is fine, no uniform number is rounded, and the largest is 9.16.

    Args:
        shape: of the result.
        purpose: what they are for, in words: with one seed, every purpose has numbers of its own.
        seed: None for the operating system's entropy; an int >= 0 for numbers that can be drawn
            again. It is as secret as the data: who knows it can take the noise off.
        context: hashed along with the seed. With a digest of the data and of all that is public,
            one seed gives independent noise for different data or budgets, which could
            otherwise be subtracted from one another.

    Raises:
        TypeError: seed is not an int.
        ValueError: seed is negative.
    """
    check_noise_seed(seed)
    shape = (shape,) if isinstance(shape, int) else shape
    count = math.prod(shape)
    if seed is None:
        stream = os.urandom(_BYTES * count)
    else:
        stream = _expanded(seed, purpose, context, _BYTES * count)
    words = np.frombuffer(stream, np.dtype("<u8"))
    below_half = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
    magnitudes = -ndtri(below_half)
    return np.where(words & np.uint64(1), magnitudes, -magnitudes).reshape(shape)


def check_noise_seed(seed: int | None) -> None:
    """Raise TypeError or ValueError unless it is None or an int >= 0."""
    if seed is None:
        return
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"expected noise_seed to be None or an int, got {type(seed).__name__}")
    if seed < 0:
        raise ValueError(f"expected noise_seed >= 0, got {seed}")


def _expanded(seed: int, purpose: str, context: bytes, num_bytes: int) -> bytes:
    """SHAKE-256 of the three, each preceded by its length, so that no two triples collide."""
    hashed = hashlib.shake_256(b"jaxdp secret noise")
    for part in (str(int(seed)).encode(), purpose.encode(), context):
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.digest(num_bytes)
