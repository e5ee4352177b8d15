"""What private kernel ridge regression makes public of a table: a mean label, and (C, u).

Sums are computed on the host in exact integer arithmetic, and get their noise here. Whatever is
computed from the results is post-processing, and costs no privacy.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.evaluation import row_blocks
from jaxdp.kernels.release.joint_release import (
    MAX_BLOCK_ROWS,
    JointNoise,
    exact_sums,
    grid_bits,
    noisy_sums,
    unit_labels,
)
from jaxdp.kernels.ridge.rules import NoisyStatistics
from jaxdp.privacy.secret.secret_noise import SecretNoise

_ROUNDING = 1e-10


class RidgeNoise(NamedTuple):
    """Standard deviations of the noise on sums, for features and labels of bound one.

    Attributes:
        mean: on the sum of the labels; 0 where none is released.
        joint: on C and u.
    """

    mean: float
    joint: JointNoise

    @classmethod
    def calibrated(cls, mu: float, share: float, balance: float) -> "RidgeNoise":
        r"""For mu in all; the mean label, of sensitivity 2, has the share of $\mu^2$."""
        mean = 2 / (mu * math.sqrt(share)) * (1 + _ROUNDING) if share else 0.0
        return cls(mean, JointNoise.calibrated(mu * math.sqrt(1 - share), balance))

    def grid_bits(self, num_samples: int) -> int:
        """q of the grid on which all that is released lies."""
        return grid_bits(num_samples, max(self.mean, *self.joint))


def released_mean(
    labels: Float[np.ndarray, " n"], bound: float, noise: RidgeNoise, source: SecretNoise
) -> float:
    """The noisy mean of labels within the bound; 0 where none is released."""
    if not noise.mean:
        return 0.0
    bits = noise.grid_bits(len(labels))
    total = unit_labels(labels, bound, bits).astype(np.int64).sum()
    hidden = source.hiding(total, noise.mean, bits)
    released = int(hidden.noisy_integers(total, noise.mean * 2.0**bits, "intercept"))
    return float(np.clip(released / (len(labels) * 2.0**bits), -1, 1)) * bound


def released_statistics(
    features: AbstractFeatureMap,
    table: Float[np.ndarray, "n dim"],
    targets: Float[np.ndarray, " n"],
    *,
    bounds: tuple[float, float],
    noise: RidgeNoise,
    source: SecretNoise,
    epsilon: float,
) -> NoisyStatistics:
    """Noisy averages of z z^T and y z over the records, computed a block of rows at a time.

    Args:
        features: z, public.
        table, targets: the records.
        bounds: to which features and targets are clipped.
        noise: on the sums.
        source: where it comes from.
        epsilon: of the whole release, handed on to the rules.
    """
    bits, num_samples = noise.grid_bits(len(table)), len(table)
    sums = exact_sums(
        row_blocks(features, table, rows=MAX_BLOCK_ROWS),
        targets,
        num_outputs=features.num_outputs,
        feature_bound=bounds[0],
        label_bound=bounds[1],
        bits=bits,
    )
    covariance, correlation = noisy_sums(sums, source, noise.joint, bits)
    return NoisyStatistics(
        covariance / num_samples,
        correlation / num_samples,
        JointNoise(*(std / num_samples for std in noise.joint)),
        num_samples,
        epsilon,
    )
