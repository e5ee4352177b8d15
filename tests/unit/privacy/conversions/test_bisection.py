"""Where a function on the host changes its sign."""

import math

import pytest

from jaxdp.privacy.conversions.bisection import largest_within

# Functions of x that are positive above a point, and that point.
POINTS = (1e-130, 3e-9, 0.7, 1.0, math.pi, 4.1e8, 2e140)
KINDS = {
    "a line": lambda x, point: x - point,
    "a high power": lambda x, point: math.expm1(min(9 * math.log(x / point), 700.0)),
    "a root, flat below": lambda x, point: math.sqrt(max(x / point - 1, 0.0)),
    "a step from 0": lambda x, point: 1.0 if x > point else 0.0,
    "infinite below": lambda x, point: 1e-9 if x > point else -math.inf,
    "not a number above": lambda x, point: math.nan if x > point else -1.0,
}
SMOOTH = ("a line", "a high power")


class Counted:
    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, x):
        self.calls += 1
        return self.function(x)


@pytest.mark.parametrize("strictly", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_last_number_within_is_found(kind, strictly):
    for point in POINTS:
        excess = Counted(lambda x, point=point: KINDS[kind](x, point))
        found = largest_within(excess, strictly=strictly)
        # Twice as many as halving takes, where nothing is to be learnt from the sizes.
        assert excess.calls <= (32 if kind in SMOOTH else 130)
        if strictly and kind in ("a step from 0", "a root, flat below"):
            assert found == 0
            continue
        within = [
            size < 0 or (size == 0 and not strictly)
            for size in (excess(found), excess(math.nextafter(found, math.inf)))
        ]
        assert within == [True, False]
        assert found == pytest.approx(point, rel=1e-14)


def test_nothing_within_is_0_and_everything_is_infinity():
    assert largest_within(lambda x: 1.0) == 0
    assert largest_within(lambda x: -1.0) == math.inf
    assert largest_within(lambda x: x - 1.0, 2.0, 3.0) == 0
    assert largest_within(lambda x: x - 3.0, 1.0, 3.0) == math.inf
    assert largest_within(lambda x: x - 3.0, 1.0, 3.0, strictly=True) == math.nextafter(3, 0)
