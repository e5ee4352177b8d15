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
from jaxtyping import Float, Int

from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.features.public_features import whole_features
from jaxdp.privacy.secret.secret_noise import SecretNoise, grid_unit, widened_for_grid
from jaxdp.regression.structure import Structure

# A row has 16 bits, a slope 20: sums over 2^16 rows stay within 2^52, of weighted squares 2^53.
_ROW_BITS, _SLOPE_BITS, _BLOCK_ROWS = 16, 20, 2**16
_WEIGHT_BITS = 5  # bits of a row's weight in second moments
_SHORTEST = 8.0  # rows shorter than the typical norm over this are clipped as if that long
_RESIDUALS = -24, 2  # half octaves of the residuals' magnitudes, 2^-12 to 2, for labels within one
# With more bins the median is that of the fullest run (window) and a little above. Noise alone
# makes a run stand out by this many standard deviations once in ten thousand times.
_MOST_BINS, _WINDOW, _ABOVE, _STANDS_OUT = 30, 7, 2, 5.0
_LABEL_BINS = 8, 64  # least and largest number of bins of the labels' range
_HIDDEN = 1 / 10  # share of the rows up to which the noise of all bins together is no matter
_FEW = 0.03  # share of the residuals that form the tail
_MEDIAN = 0.6744897501960817  # the median of |g| for g ~ N(0, 1)
_EPS = 2.0**-53


class PrivateRows(NamedTuple):
    """Features of private records, multiples of 2^-16 of their bound, and the noise's source."""

    units: Float[np.ndarray, "n features"]
    source: SecretNoise
    structure: Structure  # what is public about the features

    @classmethod
    def of(
        cls,
        features: AbstractFeatureMap,
        table: Float[np.ndarray, "n dim"],
        source: SecretNoise,
        is_tested: bool = False,
    ) -> "PrivateRows":
        """The features of a table over the map's bound; `is_tested` as in `Structure.of`."""
        units = whole_features(features, table, features.norm_bound, _ROW_BITS)
        return cls(units, source, Structure.of(features, is_tested))

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
    slack = 4 * transform.shape[1] * _EPS * np.linalg.norm(transform)
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


class Magnitudes(NamedTuple):
    """A noisy histogram of magnitudes in half octaves, and the scale that it tells."""

    scale: float  # a standard deviation, as of normal residuals
    lowest: int  # the lower end of the first bin is 2^(lowest / 2)
    above: Float[np.ndarray, " bins+1"]  # share of the residuals above each end, never growing

    def share_within(self, bound: float) -> float:
        """The share of the residuals of magnitudes up to a bound > 0."""
        return 1 - float(np.interp(2 * math.log2(bound), self._ends, self.above))

    def mean_square(self, bound: float) -> float:
        """The mean square of the residuals, clipped to a bound."""
        sizes = np.minimum(2.0 ** ((self._ends[:-1] + 0.5) / 2), bound)
        return float(np.sum(sizes**2 * -np.diff(self.above)))

    @property
    def _ends(self) -> Float[np.ndarray, " bins+1"]:
        return self.lowest + np.arange(len(self.above), dtype=np.float64)


def released_magnitudes(
    residuals: Float[np.ndarray, " n"],
    mu: float,
    source: SecretNoise,
    *,
    half_octaves: tuple[int, int] = _RESIDUALS,
) -> Magnitudes:
    r"""Release a histogram of magnitudes, and their scale: the median over that of a normal.

    A histogram of $2 \log_2 |r|$ within `half_octaves`, its end bins open, has each record in one
    bin: its sensitivity is $\sqrt 2$. The median is found from above, where bins hold little noise:
    the logarithm of a normal has a long lower tail. With more than thirty bins it is the median of
    the fullest seven bins and those above, without values far smaller than most. If most residuals
    are far smaller than some, the scale is half of that of a normal with the same largest 3 % (or
    more, until they exceed the noise).

    Raises:
        ValueError: with more than thirty bins none exceeds the noise, by the released counts alone.
    """
    lowest, num_bins = half_octaves[0], half_octaves[1] - half_octaves[0] + 1
    with np.errstate(divide="ignore"):
        places = np.floor(2 * np.log2(np.abs(residuals))) - lowest
    inside = np.clip(np.nan_to_num(places), 0, num_bins - 1).astype(np.int64)
    noisy, std = noisy_counts(inside, num_bins, mu, source, "scale")
    top, most = num_bins, float(len(residuals))
    if num_bins > _MOST_BINS:
        # Without the lowest bin, of zeros.
        runs = np.convolve(noisy[1:], np.ones(_WINDOW), "valid")
        if runs.max() < _STANDS_OUT * math.sqrt(_WINDOW) * std:
            raise ValueError(
                "expected label_range=(low, high): too few labels differ from zero for their "
                "magnitudes to stand out of the noise of this budget"
            )
        window = 1 + int(runs.argmax())
        top = min(num_bins, window + _WINDOW + _ABOVE)
        most = noisy[window:top].sum()
    above = np.append(np.cumsum(noisy[:top][::-1])[::-1], 0.0)
    reached = np.flatnonzero(above >= most / 2)
    place = int(reached.max()) if len(reached) else 0
    # Within its bin the median divides the count.
    part = np.clip((most / 2 - above[place + 1]) / max(noisy[place], 1.0), 0, 1)
    scale = 2.0 ** ((lowest + place + 1 - part) / 2) / _MEDIAN
    scale = max(scale, _scale_of_the_largest(noisy, std, lowest))
    shares = np.append(np.cumsum(noisy[::-1])[::-1], 0.0) / len(residuals)
    # Between the largest share to come and the least so far, no share grows.
    most = np.maximum.accumulate(shares[::-1])[::-1]
    shares = np.clip((most + np.minimum.accumulate(shares)) / 2, 0, 1)
    return Magnitudes(scale, lowest, np.append(1.0, shares[1:]))


def released_quantiles(
    labels: Float[np.ndarray, " n"], shares: tuple[float, ...], mu: float, source: SecretNoise
) -> Float[np.ndarray, " shares"]:
    """Release quantiles of labels in [-1, 1]."""
    counts, ends = released_distribution(labels, mu, source)
    below = np.append(0.0, np.cumsum(counts)) / counts.sum()
    # In an empty stretch a quantile is in the middle.
    return np.interp(shares, below + 1e-9 * np.arange(len(ends)), ends)


def released_mean(labels: Float[np.ndarray, " n"], mu: float, source: SecretNoise) -> float:
    """Release the mean of labels in [-1, 1]."""
    counts, ends = released_distribution(labels, mu, source)
    return float(counts @ (ends[1:] + ends[:-1])) / 2 / float(counts.sum())


def released_distribution(
    labels: Float[np.ndarray, " n"], mu: float, source: SecretNoise
) -> tuple[Float[np.ndarray, " bins"], Float[np.ndarray, " bins+1"]]:
    r"""A noisy histogram of labels in [-1, 1], of 64 equal bins, or fewer if noise hides them.

    One record moves two counts by one: the sensitivity is $\sqrt 2$. Counts below two standard
    deviations of the noise are dropped.
    """
    num_bins = max(_LABEL_BINS)
    while num_bins > min(_LABEL_BINS) and math.sqrt(2 * num_bins) / mu > _HIDDEN * len(labels):
        num_bins //= 2
    inside = np.clip((labels + 1) / 2 * num_bins, 0, num_bins - 1).astype(np.int64)
    noisy, std = noisy_counts(inside, num_bins, mu, source, "labels")
    counts = np.where(noisy > 2 * std, noisy, 0.0)
    return counts if counts.any() else np.ones(num_bins), np.linspace(-1, 1, num_bins + 1)


def noisy_counts(
    places: Int[np.ndarray, " n"], num_bins: int, mu: float, source: SecretNoise, purpose: str
) -> tuple[Float[np.ndarray, " bins"], float]:
    r"""A histogram with the noise of sensitivity $\sqrt 2$, and the deviation of the noise."""
    # Twelve fractional bits, for noise below 1.
    unit = 2.0**12
    std = math.sqrt(2) / mu * (1 + 1e-10) * unit
    values = np.bincount(places, minlength=num_bins).astype(np.int64) * int(unit)
    noisy = source.hiding(values, std).noisy_integers(values, std, purpose)
    return noisy / unit, std / unit


def released_means(
    values: Float[np.ndarray, "n numbers"], mu: float, source: SecretNoise
) -> tuple[float, ...]:
    r"""Release the means of a few numbers of each row, which are clipped to [0, 1/4].

    They are rounded down to multiples of $2^{-22}$, so their sums are exact. Neighbours differ by
    at most $\sqrt q / 4$, for q numbers.
    """
    units = np.floor(np.clip(np.nan_to_num(values), 0, 0.25) * 2.0**22).astype(np.int64)
    std = math.sqrt(values.shape[1]) / 4 * 2.0**22 / mu * (1 + 1e-10)
    total = units.sum(axis=0)
    noisy = source.hiding(total, std).noisy_integers(total, std, "means")
    return tuple((noisy / 2.0**22 / len(values)).tolist())


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
    num_rows, inner = rows.units.shape
    transform = np.eye(inner) if transform is None else transform
    size = len(transform)

    def of_block(block):
        share = (clip_norm / np.maximum(_norms(block, transform), 1e-300)) ** 2 * (1 - 1e-12)
        weights = np.floor(np.minimum(share, 1.0) * 2.0**_WEIGHT_BITS)
        return block.T @ (block * weights[:, None])

    total = _exact_sum(of_block(block) for _, block in rows.blocks())
    product = transform @ (total * 2.0 ** -(2 * _ROW_BITS + _WEIGHT_BITS)) @ transform.T
    slack = (2 * inner + 4) * 2 * _EPS * float(np.linalg.norm(transform)) ** 2 * num_rows
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
) -> tuple[Float[np.ndarray, "features outputs"], float]:
    r"""Release the mean of $P x g^\top$, each term clipped to norm C, and its noise's deviation.

    *Sensitivity.* The slopes g of a row are scaled down until $|g| |P x| \le C$ and rounded toward
    zero, so the term of a row has norm at most C in exact arithmetic. The sum S of all $x_i
    g_i^\top$ is one of whole numbers. S rounded once, and P S in float64, are together within
    $e = (p + 2)\,2^{-52} \|P\|_F |S|$ of the exact product, and are then rounded to the grid u of
    the noise. Neighbours differ by at most $2 C + 2 e + \sqrt{p k}\,u$.

    P, C and `typical_norm`, which sets the grid of the slopes, are public; `norms` are upper bounds
    of |P x|.
    """
    num_rows, (size, inner), outputs = len(rows.units), transform.shape, slopes.shape[1]
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
    slack = 2 * (inner + 2) * 2 * _EPS * float(np.linalg.norm(transform)) * most
    sensitivity = 2 * clip_norm + slack
    std = widened_for_grid(sensitivity / mu, 1 / mu, size * outputs)
    grid = grid_unit(std)
    values = np.rint(product / grid)
    noisy = rows.source.hiding(values, std).noisy_integers(values, std / grid, "gradient")
    return noisy * (grid / num_rows), std / num_rows
