"""The bound on two probabilities: failures summed exactly, power against rectangles, corners."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from jaxdp.privacy.audits.two_data_sets import lower_bound


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
