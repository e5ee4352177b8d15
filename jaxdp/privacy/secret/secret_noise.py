"""Secret noise for certified releases: unpredictable bits, and normals rounded exactly.

Simulated noise can fail in three ways. The state of its generator can be recovered from its output:
an adversary who knows all records but one tests each candidate by whether the noise it leaves is a
stretch of that generator's output. Its key may be guessed. And its low floating-point bits
distinguish sums that differ by less than the noise. Here the bits come from the operating system's
cryptographic generator, or from SHAKE-256 of a secret seed, and the release is an integer with
exactly the probabilities of a rounded normal number (`noisy_integers`).
"""

import hashlib
import math
import os
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jaxtyping import Array, Float, Key, Real, UInt64

from jaxdp.core.checks import concrete_key_data, host_array, require_key, require_kind
from jaxdp.privacy.mechanisms import AbstractMechanism, Unproved, require_mechanism
from jaxdp.privacy.secret.rounded_normals import rounded_sums

_WORD_BYTES = 8
# Smaller seeds can be found by trying.
_LEAST_SEED = 2**128
# Binary logarithm of the noise's standard deviation in units of its grid, at most.
_RESOLUTION_BITS = 30
# The value and sixteen standard deviations fit in 64 bits.
_LARGEST_STD, _LARGEST_INTEGER = 2.0**58, 2**62
# Range in which grids, and sums over them, fit in float64.
_LEAST_GRID_STD, _LARGEST_GRID_STD = 2.0**-900, 2.0**900


def grid_unit(std: float) -> float:
    """Grid spacing: the power of two u with 2^29 <= std / u < 2^30."""
    if not _LEAST_GRID_STD <= std <= _LARGEST_GRID_STD:
        raise ValueError(
            f"expected noise with a standard deviation in [2^-900, 2^900], got {std:.3g}: give "
            "a noise multiplier, or a budget, that is nearer to 1"
        )
    return math.ldexp(1.0, math.frexp(std)[1] - _RESOLUTION_BITS)


def widened_for_grid(std: float, multiplier: float, num_weights: int) -> float:
    r"""The standard deviation that also covers the rounding of one record to the noise's grid.

    It is $z(\Delta + \sqrt d\,u)$ for `std` $= z\Delta$, d weights and the grid's unit u, at most
    $2^{-29}$ of the result. ValueError if rounding would need half of the noise.
    """
    share = multiplier * math.sqrt(num_weights) * 2.0**-29
    if share > 0.5:
        raise ValueError(
            f"expected a noise_multiplier below {2.0**28 / math.sqrt(num_weights):.3g} for "
            f"{num_weights} weights, got {multiplier}"
        )
    return std / (1 - share) * (1 + 2.0**-50)


def check_noise_seed(seed: Any, name: str = "noise_seed") -> None:
    """Raise TypeError or ValueError unless the seed is None or an int >= 0."""
    if seed is None:
        return
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"expected {name} to be None or an int, got {type(seed).__name__}")
    if seed < 0:
        raise ValueError(f"expected {name} >= 0, got {seed}")


class _Seed:
    """A number that no log, traceback or description of a pytree prints."""

    __slots__ = ("number",)

    def __init__(self, number: int):
        self.number = number

    def __repr__(self):
        return "<a seed>"

    def __eq__(self, other):
        return isinstance(other, _Seed) and self.number == other.number

    def __hash__(self):
        return hash((_Seed, self.number))


class SecretNoise(eqx.Module):
    """Secret random numbers for one release, drawn on the host.

    A `PrivateOptimiser` adds them to sums made on the device. The rounding of a TPU's sums is not
    proved, so on a TPU it raises `ValueError`, and `account` certifies nothing.

    Args:
        seed: None (default) for the operating system's entropy, new numbers at every call. An int
            gives reproducible numbers; it must be as secret as the data and serve one release or
            one training run. Seeds of at least $2^{128}$, such as `secrets.randbits(256)`, are
            secure unless SHAKE-256 is broken; smaller ones can be guessed, and `proved` then claims
            nothing.
        context: digest that is hashed along with the seed, from `hiding`; default empty.

    Example:
        >>> from jaxdp.privacy import SecretNoise
        >>> SecretNoise().is_guessable  # from the operating system
        False
        >>> SecretNoise(seed=1).is_guessable
        True
    """

    _seed: _Seed | None = eqx.field(static=True, repr=False)
    context: bytes = eqx.field(static=True, repr=False)

    def __init__(self, seed: int | None = None, context: bytes = b""):
        check_noise_seed(seed, "seed")
        self._seed, self.context = None if seed is None else _Seed(int(seed)), context

    def __reduce__(self):
        if not self.is_reusable:
            raise ValueError(
                "expected a secret seed to stay in its process, got a copy or a pickle of it: a "
                "seed is for one release or one run; give SecretNoise() or another seed there"
            )
        return SecretNoise, (self.seed, self.context)

    @property
    def seed(self) -> int | None:
        """The given seed, or None."""
        return None if self._seed is None else self._seed.number

    @property
    def is_guessable(self) -> bool:
        """True if the seed is below 2^128, so that all such seeds can be tried."""
        return self.seed is not None and self.seed < _LEAST_SEED

    @property
    def is_reusable(self) -> bool:
        """True if a second run with this noise costs what its account states.

        The operating system draws new numbers each time; a guessable seed costs infinity anyway.
        """
        return self.seed is None or self.is_guessable

    def proved(self, mechanism: AbstractMechanism) -> AbstractMechanism:
        """The mechanism, or `Unproved` if this noise can be guessed."""
        require_mechanism("mechanism", mechanism)
        if not self.is_guessable:
            return mechanism
        return Unproved(
            "the noise was drawn from a seed below 2^128, which can be found by trying: anybody "
            "can then take it off. Use None, the operating system's entropy, or "
            "secrets.randbits(256); small seeds are for tests"
        )

    def assumptions(self, *lines: str) -> tuple[str, ...]:
        """The given assumptions, and those on the random bits; none if the seed can be guessed."""
        if self.is_guessable:
            return ()
        if self.seed is None:
            return (*lines, "the operating system's cryptographic generator cannot be predicted")
        return (
            *lines,
            "the seed of the noise is uniformly random, stays secret and is used for nothing else; "
            "what it guarantees is computational: nobody tells SHAKE-256 of it from random bits",
        )

    def hiding(self, *numbers: Any) -> "SecretNoise":
        """The noise for these numbers alone: with a seed, other numbers get other noise.

        If two different sums had the same noise (after rounding on another device, say), their
        difference would be released without noise. So all private and public inputs are hashed
        along with the seed.
        """
        if self.seed is None:
            return self
        hashed = hashlib.sha256(self.context)
        for number in numbers:
            array = np.ascontiguousarray(number)
            content = repr(number).encode() if array.dtype.kind in "OUS" else array.data
            hashed.update(repr((array.shape, str(array.dtype))).encode())
            hashed.update(content)
        return SecretNoise(self.seed, hashed.digest())

    def words(self, count: int, purpose: str) -> UInt64[np.ndarray, " count"]:
        """`count` words of 64 uniform bits; with a seed, other bits for each purpose."""
        return np.frombuffer(self._bytes(count * _WORD_BYTES, purpose), np.dtype("<u8"))

    def normals(self, shape: int | tuple[int, ...], purpose: str) -> Float[np.ndarray, "*shape"]:
        r"""Standard normals in float64 for uncertified use: their low bits are not secret.

        Each is $\Phi^{-1}((k + 1/2) 2^{-64})$ with a random sign, k uniform on 63 bits: no uniform
        number is rounded in the tail, and the largest normal is 9.16.
        """
        shape = (shape,) if isinstance(shape, int) else shape
        words = self.words(math.prod(shape), purpose)
        sizes = -scipy.special.ndtri(((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64)
        return np.where(words & np.uint64(1), sizes, -sizes).reshape(shape)

    def noisy_integers(
        self, values: Real[Any, "*shape"], std: Float[Any, "*#shape"], purpose: str
    ) -> Real[np.ndarray, "*shape"]:
        r"""Each value plus its own normal noise, rounded to a multiple of a power of two.

        The release is $2^h \mathrm{round}((x + sZ)/2^h)$ with the least h for which $s/2^h <
        2^{30}$. *Proof.* s, and so h, is public. $x + sZ$ with an exact standard normal Z is the
        Gaussian mechanism: for x of sensitivity $\Delta$ it is $\Delta/s$-GDP. The release is a
        function of it, the same for every data set, and has exactly its distribution
        (`rounded_sums`), so it is $\Delta/s$-GDP too. Values beyond 64 bits: whole numbers in
        float64 get their noise in float64, which holds both exactly; it rounds their sum, a
        function of the exact sum.

        Args:
            values: x, integers of size at most 2^62, or whole numbers of any size in float64.
            std: s, public, standard deviation of the noise on each value; 0 < s <= 2^58.
            purpose: name of the draw; with a seed, each purpose has noise of its own.
        """
        given = host_array("std", std)
        whole = np.asarray(values)
        is_wide = whole.dtype == np.float64
        if whole.dtype.kind not in "iub" and not is_wide:
            raise TypeError(f"expected values to be whole numbers, got {whole.dtype}")
        if is_wide:
            is_right = np.isfinite(whole) & (np.floor(whole) == whole)
        else:
            is_right = (whole >= -_LARGEST_INTEGER) & (whole <= _LARGEST_INTEGER)
            whole = whole.astype(np.int64)
        if not is_right.all():
            wanted = "whole numbers, integers of size at most 2^62 or of any size in float64"
            raise ValueError(f"expected values to be {wanted}, got others")
        spread = np.broadcast_to(given, whole.shape).ravel()
        if not ((spread > 0) & (spread <= _LARGEST_STD)).all():
            raise ValueError("expected std, of the noise, in (0, 2^58]")
        shift = np.maximum(np.frexp(spread)[1] - _RESOLUTION_BITS, 0).astype(np.int64)
        if is_wide:
            places = np.ldexp(whole.ravel(), -shift)
            high = np.floor(places)
            offsets = places - high
        else:
            high = whole.ravel() >> shift
            offsets = np.ldexp((whole.ravel() - (high << shift)).astype(np.float64), -shift)

        def more_digits(index: int, place: int) -> int:
            drawn = self._bytes(_WORD_BYTES, f"{purpose}: more digits of {index}, round {place}")
            return int.from_bytes(drawn, "little")

        words = self.words(whole.size, purpose)
        rounded = rounded_sums(offsets, np.ldexp(spread, -shift), words, more_digits)
        noisy = high + rounded
        return (np.ldexp(noisy, shift) if is_wide else noisy << shift).reshape(whole.shape)

    def _bytes(self, count: int, purpose: str) -> bytes:
        """Random bytes of the operating system, or SHAKE-256 of seed, purpose and context."""
        if self.seed is None:
            return os.urandom(count)
        hashed = hashlib.shake_256(b"jaxdp secret noise")
        # Each is preceded by its length, so that no two triples collide.
        for part in (str(int(self.seed)).encode(), purpose.encode(), self.context):
            hashed.update(len(part).to_bytes(8, "little"))
            hashed.update(part)
        return hashed.digest(count)


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
        >>> from jaxdp.privacy.secret.secret_noise import key_entropy_bits
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
