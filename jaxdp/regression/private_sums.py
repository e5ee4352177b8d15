"""Three noisy sums over private rows: a histogram of residuals, second moments, a gradient.

A row is held as whole numbers: its features over their public bound, rounded toward zero to
multiples of $2^{-16}$, so that its norm is at most one in exact arithmetic; so are slopes. Sums
of their products over a block of rows do not exceed $2^{53}$, so float64 adds them without rounding
in any order; sums of blocks are exact (`_exact_sum`), and rounded once. So the sensitivities below
hold in machine arithmetic. Noise is that of `SecretNoise.noisy_integers`, whose proof covers the
grid. Neighbours differ in one of n rows: a sum of terms of norm at most C has sensitivity 2 C.
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
_WEIGHT_BITS = 5  # bits of a row's weight in second moments
_SHORTEST = 8.0  # rows shorter than the typical norm over this are clipped as if that long
_RESIDUALS = -24, 2  # half octaves of the residuals' magnitudes, 2^-12 to 2, for labels within one
# With more bins the median is that of the fullest run (window) and a little above. Noise alone
# makes a run stand out by this many standard deviations once in ten thousand times.
_MOST_BINS, _WINDOW, _ABOVE, _STANDS_OUT = 30, 7, 2, 5.0
_FEW = 0.03  # share of the residuals that form the tail
_MEDIAN = 0.6744897501960817  # the median of |g| for g ~ N(0, 1)
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
        """Consecutive rows in float64, with exact sums over one block."""
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
        """Upper bounds of |P x| of every row, in exact arithmetic."""
        return np.concatenate([_norms(block, transform) for _, block in self.blocks()])


def _norms(
    block: Float[np.ndarray, "rows features"], transform: Float[np.ndarray, "features features"]
) -> Float[np.ndarray, " rows"]:
    """Upper bounds of |P x| of every row of a block, in exact arithmetic."""
    # A product of p terms in float64 is off by less than p 2^-52 |P|_F |x|.
    slack = 4 * len(transform) * _EPS * np.linalg.norm(transform)
    return np.linalg.norm(block @ transform.T, axis=1) * 2.0**-_ROW_BITS * (1 + 1e-12) + slack


def _exact_sum(
    parts: Iterable[Float[np.ndarray, "features columns"]],
) -> Float[np.ndarray, "features columns"]:
    r"""The sum of arrays of whole numbers of size at most $2^{53}$, rounded only once.

    It is $2^{32}$ high + low with $0 \le$ low $< 2^{32}$. Rows add at most $2^{37}$ each, so high
    is below $2^{53}$ for fewer than $2^{48}$ rows, more than fit in an address space.
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
    r"""Release the standard deviation of residuals: their median magnitude over that of a normal.

    A histogram of $2 \log_2 |r|$ within `half_octaves`, its end bins open, has each record in one
    bin: its sensitivity is $\sqrt 2$. The median is found from above, where bins hold little noise:
    the logarithm of a normal has a long lower tail. With more than thirty bins it is the median of
    the fullest seven bins and those above, without values far smaller than most. If most residuals
    are far smaller than some, the result is half of the scale of a normal with the same largest 3 %
    (or more, until they exceed the noise).

    Raises:
        ValueError: with more than thirty bins none exceeds the noise, by the released counts alone.
    """
    lowest, num_bins = half_octaves[0], half_octaves[1] - half_octaves[0] + 1
    with np.errstate(divide="ignore"):
        places = np.floor(2 * np.log2(np.abs(residuals))) - lowest
    inside = np.clip(np.nan_to_num(places), 0, num_bins - 1).astype(np.int64)
    counts = np.bincount(inside, minlength=num_bins)
    # Twelve fractional bits, for noise below 1.
    unit = 2.0**12
    std = math.sqrt(2) / mu * (1 + 1e-10) * unit
    values = counts.astype(np.int64) * int(unit)
    noisy = source.hiding(values, std).noisy_integers(values, std, "scale") / unit
    top, most = num_bins, float(len(residuals))
    if num_bins > _MOST_BINS:
        # Without the lowest bin, of zeros.
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
    """Half of the scale of a normal with as many residuals above some bin; 0 if hidden by noise."""
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
    r"""Release averages of $z z^\top$, with z = A x clipped to norm C, and the noise's deviation.

    *Sensitivity.* $|z z^\top - z' z'^\top|_F \le \sqrt 2\,C^2$ for norms of at most C. A weight w,
    rounded down to a multiple of 1/32, clips a row: $w |A x|^2 \le C^2$ in exact arithmetic. So the
    sum S of all $w x x^\top$ is one of whole numbers. S rounded once and $A S A^\top$ in float64
    are together within $e = (2 p + 4)\,2^{-52} \|A\|_F^2 n$ of the exact product, and are then
    rounded to the grid u of the noise. The matrix is a vector of its diagonal and of $\sqrt 2$
    times its upper triangle, so noise off the diagonal is $\sqrt 2$ times less; neighbours differ
    by at most $\sqrt 2 (C^2 + 2 e) + p u$. Source: `jaxdp.kernels.release.joint_release`.

    A is public; None for the identity, for which the default C clips nothing.
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
    r"""Release the mean over the rows of $P x g^\top$, each term clipped to norm C.

    *Sensitivity.* The slopes g of a row are scaled down until $|g| |P x| \le C$ and rounded toward
    zero, so the term of a row has norm at most C in exact arithmetic. The sum S of all $x_i
    g_i^\top$ is one of whole numbers. S rounded once, and P S in float64, are together within
    $e = (p + 2)\,2^{-52} \|P\|_F |S|$ of the exact product, and are then rounded to the grid u of
    the noise. Neighbours differ by at most $2 C + 2 e + \sqrt{p k}\,u$.

    P, C and `typical_norm`, which sets the grid of the slopes, are public; `norms` are upper bounds
    of |P x|.
    """
    num_rows, (size, outputs) = len(rows.units), (len(transform), slopes.shape[1])
    largest = _SHORTEST * clip_norm / typical_norm
    step = largest / 2.0**_SLOPE_BITS

    def of_block(slopes, norms, block):
        # Slopes that are not numbers add nothing; no square overflows.
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
