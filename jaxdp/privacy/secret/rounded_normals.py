r"""Normal numbers rounded to integers with exactly the right probabilities.

A float64 normal takes too few values, with slightly wrong probabilities. Rounded to a grid about as
fine as float64 it leaves gaps and favours even integers, and an adversary who knows all records but
one can infer the last one (Mironov 2012, "On significance of the least significant bits for
differential privacy"). This module rounds an exact normal number.

*Method.* Let V be uniform on (0, 1) and $|Z|$ the number with $P(|Z| > z) = \mathrm{erfc}(z/\sqrt
2)$ equal to V there, with a random sign: Z is standard normal. From the first 63 binary digits of
V, float64 computes $x + sZ$ with an error below `_MARGIN` (relative to s and to the larger of 1 and
|Z|); if that leaves no doubt about the nearest integer, it is the answer. Otherwise (about once in
10^4 draws for s = 2^30) V is compared with $\mathrm{erfc}(t/\sqrt 2)$, t the place where rounding
turns, in integer arithmetic with a proved error, and 64 more digits of V are drawn as long as the
known ones do not decide. So the answer is the rounded $x + sZ$ of a real V: its distribution is
exact if the digits are uniform, except for numbers beyond 56 standard deviations, whose probability
is 1e-683. Digits on demand: Karney (2016), "Sampling exactly from the normal distribution".

*Measured, not proved:* the error of `scipy.special.ndtri` is below 1e-15 of its value by its own
documentation and tests; `_MARGIN` is 5.7e-14. All else is proved in the docstrings.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy
from jaxtyping import Float, Int, UInt64

# Error of |Z| as float64 computes it from 63 digits of V, relative to max(1, |Z|), twice over.
_MARGIN = 2.0**-44
# Below this many units of 2^-63 the known digits of V do not determine |Z| to _MARGIN.
_FEW_DIGITS = np.uint64(2**45)
_DIGITS, _MORE_DIGITS = 63, 64
# Most standard deviations: beyond them V would begin with 2,200 zeros.
_FARTHEST = 56.0


def rounded_sums(
    offsets: Float[np.ndarray, " n"],
    std: Float[np.ndarray, " n"],
    words: UInt64[np.ndarray, " n"],
    more_digits: Callable[[int, int], int],
) -> Int[np.ndarray, " n"]:
    """The integers nearest to offset + std Z, for independent standard normal Z.

    Args:
        offsets, std: in [0, 1), and in (0, 2^40], so that the answer fits in 64 bits.
        words: 64 uniform bits for each: a sign and the first 63 digits of V.
        more_digits: function from i and a round, 0, 1, ... in turn, to 64 further digits of V
            number i.
    """
    digits, is_positive = words >> np.uint64(1), (words & np.uint64(1)).astype(bool)
    sizes = -scipy.special.ndtri((digits.astype(np.float64) + 0.5) * 2.0**-64)
    moved = offsets + np.where(is_positive, std, -std) * sizes
    nearest = np.rint(moved)
    doubt = _MARGIN * (std * np.maximum(sizes, 1.0) + 1.0)
    is_open = (0.5 - np.abs(moved - nearest) <= doubt) | (digits < _FEW_DIGITS)
    answer = nearest.astype(np.int64)
    for index in np.flatnonzero(is_open):
        uniform = _Uniform(int(digits[index]), lambda place, i=int(index): more_digits(i, place))
        place, spread = Fraction(float(offsets[index])), Fraction(float(std[index]))
        guess = int(nearest[index])
        answer[index] = _decided(place, spread, bool(is_positive[index]), uniform, guess=guess)
    return answer


class _Uniform:
    """A uniform number on (0, 1) whose binary digits are drawn on demand."""

    def __init__(self, digits: int, more_digits: Callable[[int], int]):
        self.numerator, self.precision = digits, _DIGITS
        self._more_digits, self._rounds = more_digits, 0

    def is_below_erfc(self, ratio: Fraction) -> bool:
        r"""Whether it is below $\mathrm{erfc}(t/\sqrt2)$, that is, whether |Z| is above t > 0."""
        if ratio > _FARTHEST:
            return False
        while True:
            low, high = erfc_bounds(ratio, self.precision + 16)
            if (self.numerator + 1) << 16 <= low:
                return True
            if self.numerator << 16 >= high:
                return False
            added = self._more_digits(self._rounds)
            self.numerator = (self.numerator << _MORE_DIGITS) | added
            self.precision, self._rounds = self.precision + _MORE_DIGITS, self._rounds + 1


def _decided(
    offset: Fraction, std: Fraction, is_positive: bool, uniform: _Uniform, *, guess: int
) -> int:
    """The integer nearest to offset +- std |Z|, by comparisons in exact arithmetic alone."""

    def is_above(place: Fraction) -> bool:
        ratio = (place - offset) / std
        if is_positive:
            return ratio <= 0 or uniform.is_below_erfc(ratio)
        return ratio < 0 and not uniform.is_below_erfc(-ratio)

    half = Fraction(1, 2)
    lowest, highest, reach = guess, guess, 1
    while is_above(highest + half):
        lowest, highest, reach = highest + 1, highest + reach, 2 * reach
    while not is_above(lowest - half):
        lowest, highest, reach = lowest - reach, lowest - 1, 2 * reach
    while lowest < highest:
        middle = (lowest + highest) // 2
        if is_above(middle + half):
            lowest = middle + 1
        else:
            highest = middle
    return lowest


def erfc_bounds(ratio: Fraction, precision: int) -> tuple[int, int]:
    r"""Integers around $2^p\,\mathrm{erfc}(t/\sqrt2)$, three apart, for 0 < t <= 56.

    With $\tau = t^2/2$ and $a_n = \tau^n/n!$ it is one minus $t\sqrt{2/\pi}\sum_n (-1)^n
    a_n/(2n+1)$. In units of $2^{-P}$ each $a_n$ is computed from the one before by one product and
    one quotient, both rounded down: with $A = e^\tau$ its error is at most $n A(A + 2)$, because an
    error made at $a_m$ grows by at most $\tau^{n-m} m!/n! \le A$. N terms are summed, the last of
    them computed as zero and N > 2 tau, so that the omitted ones are less than twice the error of
    the last. The sum's error is at most $N^2A(A + 2) + 3N A(A+2) + N$, that of the product with
    $t\sqrt{2/\pi}$, $t \le 56$, at most $(t + 2)$ times that: P has room for it.
    """
    growth = int(1.4427 * float(ratio) ** 2 / 2) + 2
    work = precision + 2 * growth + 48
    half_square = (ratio.numerator**2 << work) // (2 * ratio.denominator**2)
    term, total, order = 1 << work, 1 << work, 0
    least = float(ratio) ** 2 + 2
    while term or order <= least:
        order += 1
        term = ((term * half_square) >> work) // order
        total += (-term if order % 2 else term) // (2 * order + 1)
    product = (ratio.numerator * total * _root_two_over_pi(work)) // ratio.denominator >> work
    below = ((1 << work) - product) >> (work - precision)
    return below - 1, below + 2


@lru_cache(maxsize=64)
def _root_two_over_pi(precision: int) -> int:
    r"""$2^p\sqrt{2/\pi}$ to within 2, by Machin's formula for pi with 32 digits to spare."""
    work = precision + 32

    def arctan_of_inverse(number: int) -> int:
        term, total, order = (1 << work) // number, 0, 0
        while term:
            total += (-term if order % 2 else term) // (2 * order + 1)
            term, order = term // number**2, order + 1
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return math.isqrt((1 << (3 * work + 1)) // pi) >> 32
