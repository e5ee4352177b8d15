"""Exactly rounded normals: against mpmath, draw by draw."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri

from jaxdp.privacy.secret import rounded_normals
from jaxdp.privacy.secret.rounded_normals import erfc_bounds, rounded_sums


def _exact(offset, std, word, more=()):
    """The rounded sum by mpmath, or None where the digits given do not decide it."""
    with mpmath.workprec(1200):
        digits, precision = word >> 1, 63
        for added in more:
            digits, precision = (digits << 64) | added, precision + 64
        sign = 1 if word & 1 else -1
        found = set()
        for numerator in (digits, digits + 1):
            uniform = mpmath.mpf(numerator) / mpmath.mpf(2) ** precision
            if uniform in (0, 1):
                size = mpmath.inf if uniform == 0 else mpmath.mpf(0)
            else:
                guess = -float(ndtri(max(float(uniform) / 2, 1e-300)))
                size = mpmath.findroot(
                    lambda t, u=uniform: mpmath.log(mpmath.erfc(t / mpmath.sqrt(2)) / u), guess
                )
            place = mpmath.mpf(offset) + sign * mpmath.mpf(std) * size
            found.add(int(mpmath.floor(place + 0.5)) if mpmath.isfinite(place) else None)
        return found.pop() if len(found) == 1 else None


@pytest.mark.parametrize("precision", [79, 143, 400])
def test_bounds_on_erfc_hold_and_are_near(precision):
    ratios = [Fraction(k, 7) for k in (1, 3, 10, 30, 60, 100, 280)] + [Fraction(1, 10**12)]
    with mpmath.workprec(precision + 2400):
        for ratio in ratios:
            low, high = erfc_bounds(ratio, precision)
            argument = mpmath.mpf(ratio.numerator) / ratio.denominator / mpmath.sqrt(2)
            true = mpmath.erfc(argument) * mpmath.mpf(2) ** precision
            assert low <= true <= high
            assert high - low == 3


@pytest.mark.parametrize(
    "std",
    [
        0.7,
        pytest.param(3e4, marks=pytest.mark.slow),
        2.0**30 * 1.9,
        pytest.param(2.0**40, marks=pytest.mark.slow),
    ],
)
def test_each_draw_is_the_exactly_rounded_sum(std):
    generator = np.random.default_rng(0)
    words = generator.integers(0, 2**64, 60, dtype=np.uint64)
    # Near zero and far out too: few or only ones among the first digits.
    words[:20] = words[:20] >> np.arange(0, 60, 3, dtype=np.uint64)
    words[20:30] |= np.uint64(2**64 - 2**40)
    offsets = np.round(generator.uniform(size=60), 6)
    extra = {}

    def more(index, place):
        digits = extra.setdefault(index, [])
        assert place == len(digits)
        digits.append(int(generator.integers(0, 2**64, dtype=np.uint64)))
        return digits[-1]

    found = rounded_sums(offsets, np.full(60, std), words, more)
    for index, (offset, word) in enumerate(zip(offsets, words, strict=True)):
        digits = extra.get(index, [])
        while (exact := _exact(offset, std, int(word), digits)) is None:
            digits = [*digits, 0]
        assert found[index] == exact, (index, word)


def _word_at(size, sign=1):
    """The word whose digits of V stop just where |Z| is `size`, and the digits that follow."""
    with mpmath.workprec(600):
        uniform = mpmath.erfc(mpmath.mpf(size) / mpmath.sqrt(2)) * mpmath.mpf(2) ** 191
        digits = int(mpmath.floor(uniform))
    return (digits >> 128) << 1 | (sign > 0), [digits >> 64 & (2**64 - 1), digits & (2**64 - 1)]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("steps", [10.5, 3 * 2**29 + 0.5, 2**31 + 0.5, 2**32 + 0.5])
def test_draws_at_a_place_where_rounding_turns_are_decided_by_further_digits(steps, sign):
    std = 2.0**30
    word, digits = _word_at(Fraction(steps) / Fraction(std), sign)
    for shift in (-1, 1):
        asked = []

        def more(index, place, shift=shift, asked=asked):
            asked.append(place)
            return (digits[place] + (shift if place == 1 else 0)) % 2**64

        (found,) = rounded_sums(np.zeros(1), np.asarray([std]), np.asarray([word], np.uint64), more)
        # A smaller V is a larger |Z|.
        assert abs(found) == int(steps - 0.5) + (shift < 0)
        assert np.sign(found) == sign
        assert asked == [0, 1]


def test_numbers_without_leading_digits_are_found_far_out():
    # 63, 127 and 191 zeros.
    for zeros, least in ((0, 9.3), (1, 13.1), (2, 16.0)):
        digits = [0] * zeros + [2**63] * 3
        found = rounded_sums(
            np.zeros(1),
            np.asarray([2.0**30]),
            np.asarray([1], np.uint64),
            lambda index, place, digits=digits: digits[place],
        )
        assert found[0] / 2**30 == pytest.approx(least, abs=0.4)


def test_float64_is_much_closer_than_the_margin():
    """`ndtri` against 40 digits, over all its branches."""
    generator = np.random.default_rng(1)
    digits = generator.integers(2**45, 2**63, 200, dtype=np.uint64)
    digits = digits >> generator.integers(0, 18, 200, dtype=np.uint64)
    digits = np.maximum(digits, 2**45)
    sizes = -ndtri((digits.astype(np.float64) + 0.5) * 2.0**-64)
    worst = 0.0
    with mpmath.workprec(150):
        for number, size in zip(digits, sizes, strict=True):
            uniform = (mpmath.mpf(int(number)) + 0.5) / mpmath.mpf(2) ** 63
            exact = mpmath.findroot(
                lambda t, u=uniform: mpmath.log(mpmath.erfc(t / mpmath.sqrt(2)) / u), size
            )
            worst = max(worst, float(abs(exact - size)) / max(1.0, size))
    assert worst < rounded_normals._MARGIN / 50
