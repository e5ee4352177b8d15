r"""One Gaussian release of the sums $C = \sum_i z_i z_i^\top$ and $u = \sum_i y_i z_i$, jointly.

PK Algorithm 1 splits its budget between the two. Released together, as the vector (C, w u), they
cost less: the pairs of records that change C most are not those that change u most.

*Sensitivity.* Let $|z| \le B$ and $|y| \le T$ for every record, one of which is replaced, and
measure C in Frobenius norm. With $c = z \cdot z'$ the square of the distance is

$$|z|^4 + |z'|^4 - 2c^2 + w^2 (y^2 |z|^2 + y'^2 |z'|^2 - 2 y y' c).$$

The bracket is a convex function of (y, y'), so it is largest at corners $|y| = |y'| = T$, and
there, with the sign of y y' against c, equal to $T^2 (|z|^2 + |z'|^2 + 2|c|)$. For a fixed c the
whole grows with |z| and |z'|, so both may be set to B: $2B^4 - 2c^2 + 2 w^2 T^2 (B^2 + |c|)$ with
$|c| \le B^2$. Let $a = w^2 T^2 / B^2$, the *balance*. The parabola in |c| has its top at $a B^2 /
2$; for $a \ge 2$ that is beyond B^2, and $z' = z$ with labels T and -T is worst:

$$\Delta(a) = \sqrt 2 B^2 (1 + a/2) \;\; (a \le 2), \qquad 2 \sqrt a B^2 = 2BTw \;\; (a \ge 2).$$

For M >= 2 it is attained, by norms B, labels T and -T, and an angle of cosine min(a/2, 1). Derived:
brute force in test_joint_release.py. As $|zz^\top - z'z'^\top| \le \sqrt 2 B^2$ and $|yz - y'z'|
\le 2TB$ alone, at a = 2 the release of u costs as much as alone, and that of C at most twice.

*Noise.* C is a symmetric matrix: in the Frobenius norm a vector of its diagonal and $\sqrt 2$ times
its upper triangle. Noise of standard deviation $\sigma = \Delta / \mu$ in these coordinates is
$\sigma$ on the diagonal, $\sigma / \sqrt 2$ off it, and $\sigma / w$ on u: exactly mu-GDP.

*Arithmetic.* Every z / B and y / T is rounded toward zero to a multiple of $2^{-q}$: a function of
that record alone, and no norm grows. Sums of products are then integers, computed exactly in any
order: the sensitivity is that of the formula. The release is the sum with exact normal noise,
rounded to a grid on which the noise is about $2^{30}$ units (`SecretNoise.noisy_integers`, with the
proof): a function of the ideal release, with exactly its distribution. On the finest grid that
64-bit integers hold, float64 normals would reach only some of the integers, which would reveal the
last record to an attacker who knows all others.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jaxdp.privacy.secret.secret_noise import SecretNoise

# Blocks of up to 2^11 rows are summed exactly in float64: 2^11 4^21 = 2^53.
MAX_BITS, MAX_BLOCK_ROWS = 21, 2048
_MIN_BITS = 8
_LARGEST_SUM_BITS = 62
# Standard deviations of noise that a sum has room for; larger noise has a probability of 1e-57.
_FARTHEST = 16.0
_ROUNDING = 1e-12


def joint_sensitivity(*, input_bound: float, label_bound: float, weight: float) -> float:
    r"""$\Delta$, the largest distance of (C, w u) between neighbours (replace-one)."""
    balance = (weight * label_bound / input_bound) ** 2
    return input_bound**2 * unit_sensitivity(balance)


def unit_sensitivity(balance: float) -> float:
    """The sensitivity for B = 1 as a function of the balance a, rounded up."""
    exact = math.sqrt(2) * (1 + balance / 2) if balance <= 2 else 2 * math.sqrt(balance)
    return exact * (1 + _ROUNDING)


class JointNoise(NamedTuple):
    """Standard deviations for B = T = 1: on C's diagonal (over sqrt 2 off it), and on u."""

    covariance: float
    correlation: float

    @classmethod
    def calibrated(cls, mu: float, balance: float) -> "JointNoise":
        """The least noise for which the release is mu-GDP, times 1 + 1e-10 for rounding."""
        std = unit_sensitivity(balance) / mu * (1 + 1e-10)
        return cls(std, std / math.sqrt(balance))


class Sums(NamedTuple):
    """Integers: C in units of $B^2 4^{-q}$, u in units of $B T 4^{-q}$."""

    covariance: Int[np.ndarray, "outputs outputs"]
    correlation: Int[np.ndarray, " outputs"]


def grid_bits(num_samples: int, largest_std: float) -> int:
    """The finest q that 64-bit integers allow for this many records and this noise (public)."""
    largest = num_samples + _FARTHEST * largest_std
    bits = min(MAX_BITS, math.floor((_LARGEST_SUM_BITS - math.log2(largest)) / 2))
    if bits < _MIN_BITS:
        raise ValueError(
            f"expected a budget and a number of records that 64-bit sums can hold, got noise of "
            f"{largest_std:.3g} on the sums of {num_samples} records"
        )
    return bits


def unit_rows(
    features: Float[np.ndarray, "rows outputs"], bound: float, bits: int
) -> Float[np.ndarray, "rows outputs"]:
    """Each row clipped to the bound and rounded toward zero, in units of bound / 2^bits.

    Norms are at most 2^bits, checked in exact arithmetic. A row that is not finite becomes zero: an
    error about it would be a second release.
    """
    # Below this range squares could underflow to zero, in float64 too.
    if not 2.0**-500 <= bound <= 2.0**500:
        raise ValueError(f"expected features with a bound in [2^-500, 2^500], got {bound:.3g}")
    rows = np.asarray(features, np.float64)
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    units = np.trunc(rows * (2.0**bits / np.maximum(norms, bound))[:, None])
    while (too_long := np.einsum("ij,ij->i", units, units) > 4.0**bits).any():
        units[too_long] = np.trunc(units[too_long] * (1 - 2.0**-30))
    return units


def unit_labels(
    labels: Float[np.ndarray, " n"], bound: float, bits: int
) -> Float[np.ndarray, " n"]:
    """Each label clipped to [-bound, bound] and rounded toward zero, in units of bound / 2^bits."""
    return np.trunc(np.clip(labels / bound, -1, 1) * 2.0**bits)


def exact_sums(
    blocks: Iterable[Float[np.ndarray, "rows outputs"]],
    labels: Float[np.ndarray, " n"],
    *,
    num_outputs: int,
    feature_bound: float,
    label_bound: float,
    bits: int,
) -> Sums:
    """C and u over blocks of at most `MAX_BLOCK_ROWS` consecutive rows of features."""
    covariance = np.zeros((num_outputs, num_outputs), np.int64)
    correlation = np.zeros(num_outputs, np.int64)
    targets, start = unit_labels(labels, label_bound, bits), 0
    for block in blocks:
        rows = unit_rows(block, feature_bound, bits)
        assert len(rows) <= MAX_BLOCK_ROWS, len(rows)
        covariance += (rows.T @ rows).astype(np.int64)
        correlation += (targets[start : start + len(rows)] @ rows).astype(np.int64)
        start += len(rows)
    return Sums(covariance, correlation)


def num_normals(num_outputs: int) -> int:
    """Number of normals in the release of C and u: M (M + 1) / 2 + M."""
    return num_outputs * (num_outputs + 1) // 2 + num_outputs


def noise_of(
    normals: Float[np.ndarray, " normals"], num_outputs: int, noise: JointNoise
) -> tuple[Float[np.ndarray, "outputs outputs"], Float[np.ndarray, " outputs"]]:
    """The noise on C, symmetric, and on u, for B = T = 1."""
    triangle, rest = np.split(normals, [len(normals) - num_outputs])
    full = np.zeros((num_outputs, num_outputs))
    full[np.triu_indices(num_outputs)] = triangle * noise.covariance / math.sqrt(2)
    # The diagonal is added twice: that makes 2 / sqrt 2 times, too much by sqrt 2.
    symmetric = full + full.T
    symmetric[np.diag_indices(num_outputs)] /= math.sqrt(2)
    return symmetric, rest * noise.correlation


def noisy_sums(
    sums: Sums, source: SecretNoise, noise: JointNoise, bits: int
) -> tuple[Float[np.ndarray, "outputs outputs"], Float[np.ndarray, " outputs"]]:
    """The release: C and u with their noise, for B = T = 1, in float64."""
    unit, size = 4.0**bits, len(sums.correlation)
    rows, columns = np.triu_indices(size)
    stds = np.where(rows == columns, noise.covariance, noise.covariance / math.sqrt(2)) * unit
    hidden = source.hiding(*sums, *noise, bits)
    triangle = hidden.noisy_integers(sums.covariance[rows, columns], stds, "C")
    covariance = np.zeros((size, size))
    covariance[rows, columns] = covariance[columns, rows] = triangle / unit
    correlation = hidden.noisy_integers(sums.correlation, noise.correlation * unit, "u")
    return covariance, correlation / unit
