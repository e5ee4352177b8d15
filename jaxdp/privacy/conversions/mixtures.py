"""Privacy losses of a person with k records, each in a Poisson batch at rate q or not.

*Proof.* Let the person's terms have norms of at most 1, as functions of earlier releases. Given the
other records' coins, a step adds N(0, s^2 I) to a sum without the person's terms, or with the sum
v_S of the drawn subset S of them, |v_S| <= |S|. In units of s the ratio of the densities is L =
sum_S p_S exp(<v_S, x> - |v_S|^2 / 2), and each hockey-stick divergence, in either order, is the
mean of a convex function of L over Gaussian x. By Kahane's convexity inequality (1985) such a mean
does not decrease with any of the covariances <v_S, v_T>, so it is largest for parallel v_S of
length |S|. So whatever directions the terms have, the pair N(0, s^2) and
sum_j Binomial(k, q)(j) N(j, s^2) dominates a step, and by joint convexity the coins of the others
change nothing. It is the pair of Ganesh (2024), arXiv 2401.10294. By the same inequality k / m
records of norm m, each drawn if any of its own m of the k is, dominate it in turn.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

# Noise beyond so many standard deviations, and terms of mass below e^-53, are infinite losses.
_REACH, _LOG_MASS, _NEWTON_STEPS, _BLOCK = 10.0, 53.0, 8, 2**20


class Mixture(NamedTuple):
    """The density of a step's sum with a person's k records, in standard deviations of its noise.

    dp_accounting has such mixtures, but the tolerance of its inverse losses may lower delta.
    """

    weights: Float[np.ndarray, " terms"]
    shifts: Float[np.ndarray, " terms"]

    @classmethod
    def of(cls, count: int, rate: float, noise: float) -> "Mixture":
        coins = [np.array([1 - rate, rate])] * count
        return cls(functools.reduce(np.convolve, coins), np.arange(count + 1) / noise)

    @property
    def highest(self) -> float:
        """A place that the mixture exceeds with a probability below 1e-20."""
        with np.errstate(divide="ignore"):
            left = np.log(self.weights) + _LOG_MASS
        return float((self.shifts + np.sqrt(2 * np.maximum(left, 0)))[left > 0].max())

    def losses(self, places: Any) -> tuple[Any, Any]:
        """The logarithm of the density over that of N(0, 1), and its slope."""
        with np.errstate(divide="ignore"):
            exponents = self.shifts * (np.asarray(places)[..., None] - self.shifts / 2)
            exponents += np.log(self.weights)
        largest = exponents.max(axis=-1)
        terms = np.exp(exponents - largest[..., None])
        total = terms.sum(axis=-1)
        return np.log(total) + largest, terms @ self.shifts / total

    def deltas(self, epsilons: Float[np.ndarray, " n"], sign: int) -> Float[np.ndarray, " n"]:
        """Hockey-stick divergences from N(0, 1), or for sign -1 of N(0, 1) from the mixture."""
        known = np.linspace(-_REACH, self.highest, 2**12)
        places = np.interp(sign * epsilons, self.losses(known)[0], known)
        # The loss is convex and increases: after one step Newton's method comes from the right.
        for _ in range(_NEWTON_STEPS):
            found, slopes = self.losses(places)
            moved = places - (found - sign * epsilons) / np.maximum(slopes, 1e-300)
            places = np.clip(moved, -_REACH, self.highest)
        gaps = np.abs(self.losses(places)[0] - sign * epsilons)
        mixed = scipy.special.ndtr(sign * (self.shifts - places[:, None])) @ self.weights
        first, second = (mixed, scipy.special.ndtr(-sign * places))[::sign]
        with np.errstate(divide="ignore"):
            found = first - np.exp(np.minimum(epsilons + np.log(second), 0))
        # An epsilon beside the place's own changes delta by no more than this.
        found += 2 * gaps * first * ((places > -_REACH) & (places < self.highest))
        return np.clip(found, np.maximum(0, -np.expm1(np.minimum(epsilons, 0))), 1)

    def distribution(self, accounting: Any, step: float, least: int) -> Any:
        """The privacy losses of one step in both orders, bounded on `least` or more of a grid."""
        both = []
        for sign in (1, -1):
            ends = sign * self.losses([-_REACH, self.highest if sign > 0 else _REACH])[0]
            first = math.floor(ends.min() / step)
            last = max(math.ceil(ends.max() / step), first + least)
            grid = np.arange(first, last + 1) * step
            blocks = np.array_split(grid, -(-len(grid) * len(self.shifts) // _BLOCK))
            deltas = np.concatenate([self.deltas(block, sign) for block in blocks])
            deltas = np.maximum.accumulate(deltas[::-1])[::-1]
            create = accounting.pld.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap
            both.append(create(step, first, last, deltas))
        return accounting.pld.privacy_loss_distribution.PrivacyLossDistribution(*both)
