"""Where the noise of one published fit comes from."""

import hashlib
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from jaxdp.kernels.fit_arguments import digest_of
from jaxdp.privacy.secret_noise import secret_normals


class NoiseSource(NamedTuple):
    """A secret seed and what it is used for, or the operating system's entropy.

    Attributes:
        seed: None for the operating system's.
        context: with a seed, a digest of the records and of all that is public: other records,
            budgets or learners have other noise, which could be subtracted otherwise.
    """

    seed: int | None
    context: bytes

    @classmethod
    def of_fit(
        cls,
        learner: Any,
        table: Float[np.ndarray, "n dim"],
        targets: Float[np.ndarray, " n"],
        seeds: tuple[int, int | None],
        budget: tuple[float, float],
    ) -> "NoiseSource":
        """The source of a fit with these (public, noise) seeds and (epsilon, delta)."""
        public_seed, noise_seed = seeds
        if noise_seed is None:
            return cls(None, b"")
        hashed = hashlib.sha256(repr(learner).encode())
        for array in filter(eqx.is_array, jax.tree.leaves(learner)):
            hashed.update(np.asarray(array).tobytes())
        public = hashed.hexdigest(), int(public_seed), *map(float, budget)
        return cls(noise_seed, digest_of(table, targets, *public))

    def hiding(self, *numbers: Any) -> "NoiseSource":
        """The source of noise for these numbers alone.

        Fits of one context may differ in them: by the rounding of another device, by a function of
        the same name, by paths that were drawn elsewhere. With the same noise their difference
        would be released as it is.
        """
        if self.seed is None:
            return self
        hashed = hashlib.sha256(self.context)
        for array in map(np.asarray, numbers):
            hashed.update(repr((array.shape, str(array.dtype))).encode())
            hashed.update(np.ascontiguousarray(array).tobytes())
        return self._replace(context=hashed.digest())

    def normals(self, shape: Any, purpose: str) -> Float[np.ndarray, "..."]:
        """Independent standard normals, others for every purpose."""
        return secret_normals(shape, purpose=purpose, seed=self.seed, context=self.context)
