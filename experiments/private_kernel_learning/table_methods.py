"""What is compared on real tables: each method's test error on one split, under one budget.

Projected features are drawn once a split, in weight space (joint draws are cubic in the rows); the
first M of the most, rescaled, serve a smaller M. The published algorithms and output perturbation
are simulated with NumPy's noise at their own `noise_std`; the certified learners are fitted.
"""

from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key

from experiments.private_kernel_learning.feature_draws import CLIPPED_PATHS
from experiments.private_kernel_learning.synthetic import Split
from jaxdp.core.keys import purpose_key
from jaxdp.kernels import (
    CosineFeatures,
    Gaussian,
    SamplePaths,
    blockwise,
)


class Sizes(NamedTuple):
    """How many projections there are at most, which M an oracle tries, how many features."""

    most: int
    oracle: tuple[int, ...]
    num_features: int

    def ridges(self, num_samples: int) -> Float[np.ndarray, " ridges"]:
        """What an oracle tries: n to the powers -1, -.8, ..., 0."""
        return float(num_samples) ** -np.linspace(1, 0, 6)


class Draw(NamedTuple):
    """The features of one split, at the training rows and then at the test rows."""

    split: Split
    paths: Float[np.ndarray, "rows most"]
    cosines: Float[np.ndarray, "rows most"]
    generator: np.random.Generator

    @classmethod
    def of(cls, split: Split, kernel: Gaussian, sizes: Sizes, *, key: Key[Array, ""]) -> "Draw":
        """Drawn from the key, as is the noise."""
        init, dim = purpose_key(key, "init"), split.train_inputs.shape[1]
        paths = SamplePaths.sample(kernel, sizes.most, sizes.num_features, dim, key=init)
        cosines = CosineFeatures.sample(kernel, sizes.most, dim, key=init)
        seed = np.asarray(jr.key_data(purpose_key(key, "noise")))
        inner, waves = (blockwise(one, split.inputs).astype(np.float64) for one in (paths, cosines))
        return cls(split, inner, waves, np.random.default_rng(seed))

    def projected(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The first paths, at training and at test rows."""
        return self._parts(self.paths, size)

    def waves(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The first cosines, at training and at test rows."""
        return self._parts(self.cosines, size)

    def clipped(self) -> tuple[np.ndarray, np.ndarray]:
        """All paths, each row's norm at most one."""
        count = self.split.num_train
        rows = CLIPPED_PATHS.leading(self.paths, self.paths.shape[1])
        return rows[:count], rows[count:]

    def _parts(self, columns: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        count = self.split.num_train
        rows = columns[:, :size] * np.sqrt(columns.shape[1] / size)
        return rows[:count], rows[count:]
