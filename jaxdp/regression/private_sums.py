r"""Three noisy sums over private rows: a histogram of residuals, second moments, a gradient.

A row is held as whole numbers: its features over their public bound, rounded toward zero to
multiples of $2^{-16}$, so that its norm is at most one in exact arithmetic (`unit_rows`). The
slope of the loss at a row is rounded in the same way. Sums of their products over a block of rows
do not exceed $2^{53}$, so float64 adds them without any rounding, in whatever order; sums of blocks
are exact for any number of rows (`_exact_sum`), and rounded once. So the sensitivities below are
those of the machine's numbers. Noise is that of `SecretNoise.noisy_integers`, whose proof covers
the grid.

Neighbours are tables of n rows that differ in one. A sum of terms of norm at most C then has the
sensitivity 2 C.
"""

import math
from collections.abc import Iterable, Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.features.public_features import whole_features
from jaxdp.privacy.secret.secret_noise import SecretNoise, grid_unit, widened_for_grid

# A row has 16 bits, a slope 20: sums over 2^16 rows stay within 2^52, of weighted squares 2^53.
_ROW_BITS, _SLOPE_BITS, _BLOCK_ROWS = 16, 20, 2**16
# Of what a row counts for among second moments.
_WEIGHT_BITS = 5
# At a norm this many times below the typical one a row's slope is clipped as if it had that norm.
_SHORTEST = 8.0
# Half octaves of the magnitudes of residuals whose labels are within one: 2^-12 to 2.
_RESIDUALS = -24, 2
# In a histogram of more bins than these the noise of all that are empty would be as large as the
# counts: the fullest run of bins is looked for, and the median in it and a little above. Noise
# alone makes a run as full as so many of its standard deviations once in ten thousand times.
_MOST_BINS, _WINDOW, _ABOVE, _STANDS_OUT = 30, 7, 2, 5.0
# The share of the residuals that tell of a tail.
_FEW = 0.03
# The median of |g| for g ~ N(0, 1).
_MEDIAN = 0.6744897501960817
_EPS = 2.0**-53


class PrivateRows(NamedTuple):
    """Features of private records, multiples of 2^-16 of their bound, and the noise's source."""

    units: Float[np.ndarray, "n features"]
    source: SecretNoise

    @classmethod
    def of(
        cls, features: AbstractFeatureMap, table: Float[np.ndarray, "n dim"], source: SecretNoise
    ) -> "PrivateRows":
        """The features of a table over the map's bound."""
        return cls(whole_features(features, table, features.norm_bound, _ROW_BITS), source)

    def blocks(self) -> Iterator[tuple[slice, Float[np.ndarray, "rows features"]]]:
        """Consecutive rows in float64, in which sums over one block are exact."""
        for start in range(0, len(self.units), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            yield rows, self.units[rows].astype(np.float64)

    def times(
        self, weights: Float[np.ndarray, "features outputs"]
    ) -> Float[np.ndarray, "n outputs"]:
        """x w of every row."""
        scaled = weights * 2.0**-_ROW_BITS
        return np.concatenate([block @ scaled for _, block in self.blocks()])

    def norms(self, transform: Float[np.ndarray, "features features"]) -> Float[np.ndarray, " n"]:
        """No less than |P x| of every row, in exact arithmetic."""
        return np.concatenate([_norms(block, transform) for _, block in self.blocks()])


def _norms(
    block: Float[np.ndarray, "rows features"], transform: Float[np.ndarray, "features features"]
) -> Float[np.ndarray, " rows"]:
    r"""No less than |P x| of every row of a block, in exact arithmetic.

    A product of p terms in float64 is off by less than $p\,2^{-52} \|P\|_F |x|$.
    """
    slack = 4 * len(transform) * _EPS * np.linalg.norm(transform)
    return np.linalg.norm(block @ transform.T, axis=1) * 2.0**-_ROW_BITS * (1 + 1e-12) + slack


def _exact_sum(
    parts: Iterable[Float[np.ndarray, "features columns"]],
) -> Float[np.ndarray, "features columns"]:
    r"""The sum of arrays of whole numbers of size at most $2^{53}$, exact but for one rounding.

    It is kept in two halves, $2^{32}$ high + low with $0 \le$ low $< 2^{32}$. Rows add at most
    $2^{37}$ each, so that high is below $2^{53}$ for fewer than $2^{48}$ rows, more than a process
    has addresses for.
    """
    high, low = np.zeros(()), np.zeros((), np.int64)
    for part in parts:
        low = low + part.astype(np.int64)
        high, low = high + (low >> 32), low & 0xFFFFFFFF
    return high * 2.0**32 + low


def released_scale(
    residuals: Float[np.ndarray, " n"],
    mu: float,
    source: SecretNoise,
    *,
    half_octaves: tuple[int, int] = _RESIDUALS,
) -> float:
    r"""A noisy standard deviation of residuals: their median magnitude over that of a normal.

    A histogram of $2 \log_2 |r|$ within `half_octaves`, its ends counting what is beyond, has each
    record in one bin, and so the sensitivity $\sqrt 2$. The median is found from above, where the
    bins hold little noise: the logarithm of a normal number has a long tail below. Among more than
    thirty bins the median is that of the fullest seven and of what is above them: zeros, and what
    is far smaller than most, do not count.

    Where most residuals are far smaller than some, as of labels of which nine in ten are zero, the
    scale is half of what the largest three in a hundred say, were they normal: as many more as
    stand out of the noise.

    Raises:
        ValueError: among more than thirty bins none stand out of the noise. The released counts
            alone decide it.
    """
    lowest, num_bins = half_octaves[0], half_octaves[1] - half_octaves[0] + 1
    with np.errstate(divide="ignore"):
        places = np.floor(2 * np.log2(np.abs(residuals))) - lowest
    inside = np.clip(np.nan_to_num(places), 0, num_bins - 1).astype(np.int64)
    counts = np.bincount(inside, minlength=num_bins)
    # Counts are whole; twelve more bits let little noise be added.
    unit = 2.0**12
    std = math.sqrt(2) / mu * (1 + 1e-10) * unit
    values = counts.astype(np.int64) * int(unit)
    noisy = source.hiding(values, std).noisy_integers(values, std, "scale") / unit
    top, most = num_bins, float(len(residuals))
    if num_bins > _MOST_BINS:
        # Not at the lowest, where zeros are.
        runs = np.convolve(noisy[1:], np.ones(_WINDOW), "valid")
        if runs.max() < _STANDS_OUT * math.sqrt(_WINDOW) * std / unit:
            raise ValueError(
                "expected label_range=(low, high): too few labels differ from zero for their "
                "magnitudes to stand out of the noise of this budget"
            )
        window = 1 + int(runs.argmax())
        top = min(num_bins, window + _WINDOW + _ABOVE)
        most = noisy[window:top].sum()
    above = np.cumsum(noisy[:top][::-1])[::-1]
    reached = np.flatnonzero(above >= most / 2)
    place = int(reached.max()) if len(reached) else 0
    scale = 2.0 ** ((lowest + place + 0.5) / 2) / _MEDIAN
    return max(scale, _scale_of_the_largest(noisy, std / unit, lowest))


def _scale_of_the_largest(noisy: Float[np.ndarray, " bins"], std: float, lowest: int) -> float:
    """Half of the scale of a normal that has as many residuals above some bin; 0 if none tells."""
    num_rows, above = noisy.sum(), np.cumsum(noisy[::-1])
    few = np.maximum(_FEW * num_rows, _STANDS_OUT * std * np.sqrt(np.arange(1, len(noisy) + 1)))
    reached = np.flatnonzero(above >= few)
    if not len(reached) or 2 * few[reached[0]] > num_rows:
        return 0.0
    quantile = NormalDist().inv_cdf(1 - float(few[reached[0]] / num_rows) / 2)
    return 2.0 ** ((lowest + len(noisy) - 1 - int(reached[0]) + 0.5) / 2) / quantile / 2


def released_second_moments(
    rows: PrivateRows,
    mu: float,
    transform: Float[np.ndarray, "features features"] | None = None,
    clip_norm: float = 1 + 1e-6,
) -> tuple[Float[np.ndarray, "features features"], float]:
    r"""Noisy averages of $z z^\top$, z = A x clipped to the norm C, and the noise's deviation.

    *Sensitivity.* $|z z^\top - z' z'^\top|_F \le \sqrt 2\,C^2$ for norms of at most C. A row is
    clipped by a weight w, rounded down to a multiple of 1/32, with $w |A x|^2 \le C^2$ in exact
    arithmetic; so the sum S of all $w x x^\top$ is one of whole numbers. S rounded once and
    $A S A^\top$ in float64 are together within $e = (2 p + 4)\,2^{-52} \|A\|_F^2 n$ of the exact
    product, and are then rounded to the grid of the noise, u. The matrix is a vector of its
    diagonal and of $\sqrt 2$ times its upper triangle, so that noise off the diagonal is $\sqrt 2$
    times less; neighbours are moved apart by at most $\sqrt 2 (C^2 + 2 e) + p u$. Source:
    `jaxdp.kernels.release.joint_release`.

    A is public, None for 1, for which C clips none by default.
    """
    num_rows, size = rows.units.shape
    transform = np.eye(size) if transform is None else transform

    def of_block(block):
        share = (clip_norm / np.maximum(_norms(block, transform), 1e-300)) ** 2 * (1 - 1e-12)
        weights = np.floor(np.minimum(share, 1.0) * 2.0**_WEIGHT_BITS)
        return block.T @ (block * weights[:, None])

    total = _exact_sum(of_block(block) for _, block in rows.blocks())
    product = transform @ (total * 2.0 ** -(2 * _ROW_BITS + _WEIGHT_BITS)) @ transform.T
    slack = (2 * size + 4) * 2 * _EPS * float(np.linalg.norm(transform)) ** 2 * num_rows
    sensitivity = math.sqrt(2) * (clip_norm**2 + 2 * slack)
    std = widened_for_grid(sensitivity / mu, 1 / mu, size**2)
    grid, upper = grid_unit(std), np.triu_indices(size)
    stds = np.where(upper[0] == upper[1], std, std / math.sqrt(2)) / grid
    values = np.rint(product[upper] / grid)
    hidden = rows.source.hiding(values, std)
    noisy = np.zeros((size, size))
    noisy[upper] = noisy.T[upper] = hidden.noisy_integers(values, stds, "second moments") * grid
    return noisy / num_rows, std / num_rows


def released_gradient(
    rows: PrivateRows,
    slopes: Float[np.ndarray, "n outputs"],
    transform: Float[np.ndarray, "features features"],
    norms: Float[np.ndarray, " n"],
    clip_norm: float,
    typical_norm: float,
    mu: float,
) -> Float[np.ndarray, "features outputs"]:
    r"""The noisy mean over the rows of $P x g^\top$, each clipped to the norm C.

    *Sensitivity.* The slopes g of a row are scaled down until $|g| |P x| \le C$ and rounded toward
    zero, so that the term of a row has norm at most C in exact arithmetic. The sum S of all
    $x_i g_i^\top$ is one of whole numbers. What follows is a function of S: S rounded once, and P S
    in float64, together within $e = (p + 2)\,2^{-52} \|P\|_F |S|$ of the exact product, rounded
    to the grid of the noise, u. Neighbours are moved apart by at most $2 C + 2 e + \sqrt{p k}\,u$.

    P, C and `typical_norm`, which sets the grid of the slopes, are public; `norms` are of P x,
    never too small.
    """
    num_rows, (size, outputs) = len(rows.units), (len(transform), slopes.shape[1])
    largest = _SHORTEST * clip_norm / typical_norm
    step = largest / 2.0**_SLOPE_BITS

    def of_block(slopes, norms, block):
        # Those of outputs that have no number add nothing; no square overflows.
        slopes = np.clip(np.nan_to_num(slopes), -1e100, 1e100)
        sizes = np.linalg.norm(slopes, axis=1)
        allowed = np.minimum(clip_norm / np.maximum(norms, 1e-300), largest) * (1 - 1e-12)
        factor = np.minimum(1.0, allowed / np.maximum(sizes, 1e-300))
        return block.T @ np.trunc(slopes * factor[:, None] / step)

    total = _exact_sum(of_block(slopes[at], norms[at], block) for at, block in rows.blocks())
    unit = step * 2.0**-_ROW_BITS
    product = transform @ (total * unit)
    most = num_rows * largest * math.sqrt(outputs)
    slack = 2 * (size + 2) * 2 * _EPS * float(np.linalg.norm(transform)) * most
    sensitivity = 2 * clip_norm + slack
    std = widened_for_grid(sensitivity / mu, 1 / mu, size * outputs)
    grid = grid_unit(std)
    values = np.rint(product / grid)
    noisy = rows.source.hiding(values, std).noisy_integers(values, std / grid, "gradient")
    return noisy * (grid / num_rows)
