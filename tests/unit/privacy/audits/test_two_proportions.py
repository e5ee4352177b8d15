"""The bound on two probabilities: failures summed exactly, power against rectangles, corners."""

import numpy as np
import pytest
from scipy.special import betaincinv, ndtri
from scipy.stats import binom

from jaxdp.privacy.audits.events import lower_bound


def _ratio(p, q):
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log(q)


def _shift(p, q):
    return ndtri(p) - ndtri(q)


def _failure(value, p, q, num_trials, weights, error):
    """The exact probability that the bound exceeds the truth."""
    counts = np.arange(num_trials + 1)
    fails = [
        [
            lower_bound(value, x, y, num_trials, weights=weights, error=error) > value(p, q)
            for y in counts
        ]
        for x in counts
    ]
    return binom.pmf(counts, num_trials, p) @ fails @ binom.pmf(counts, num_trials, q)


@pytest.mark.parametrize(
    "weights",
    [
        (1, 1),
        pytest.param((1, 4), marks=pytest.mark.slow),
        pytest.param((30, 1), marks=pytest.mark.slow),
        (0, 1),
    ],
)
@pytest.mark.parametrize(
    ("value", "p", "q"),
    [
        (_shift, 0.5, 0.5),
        (_shift, 0.7, 0.3),
        (_ratio, 0.5, 0.2),
        pytest.param(_ratio, 0.08, 0.02, marks=pytest.mark.slow),
    ],
)
def test_the_bound_fails_no_more_often_than_stated(value, p, q, weights):
    assert _failure(value, p, q, 20, weights, 0.05) <= 0.05


@pytest.mark.slow
def test_the_bound_spends_its_error():
    # As much of it as so few counts allow; twice the error fails the check above.
    assert _failure(_shift, 0.7, 0.3, 30, (1, 1), 0.05) > 0.02
    assert _failure(_shift, 0.7, 0.3, 30, (1, 1), 0.1) > 0.05


@pytest.mark.parametrize("value", [_shift, _ratio])
@pytest.mark.parametrize(("x", "y", "num_trials"), [(700, 300, 1000), (60, 5, 3000)])
def test_no_clopper_pearson_rectangle_is_better(value, x, y, num_trials):
    p, q = x / num_trials, y / num_trials
    slopes = (np.exp(ndtri(p) ** 2 / 2), np.exp(ndtri(q) ** 2 / 2))
    slopes = slopes if value is _shift else (1 / p, 1 / q)
    weights = (slopes[0] * np.sqrt(p * (1 - p)), slopes[1] * np.sqrt(q * (1 - q)))
    found = lower_bound(value, x, y, num_trials, weights=weights, error=0.05)
    shares = np.linspace(0.01, 0.99, 99) * 0.05
    least = betaincinv(x, num_trials - x + 1, shares)
    most = betaincinv(y + 1, num_trials - y, 1 - (0.05 - shares))
    assert np.max(value(least, most)) < found < value(p, q)


def test_counts_at_the_ends_are_answered():
    for value in (_shift, _ratio):
        for x, y in [(0, 0), (0, 50), (50, 50)]:
            assert lower_bound(value, x, y, 50, weights=(1, 1), error=0.05) < 0
        separated = lower_bound(value, 50, 0, 50, weights=(1, 1), error=0.05)
        assert 0 < separated < np.inf
        for x, y in [(49, 0), (50, 1)]:
            assert lower_bound(value, x, y, 50, weights=(1, 1), error=0.05) < separated
