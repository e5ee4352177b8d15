"""The picture of accuracy and leak over epsilon."""

import numpy as np
import pytest

from jaxdp.attacks import PredictedMembership
from jaxdp.plots import plot_leak
from jaxdp.privacy import GaussianMechanism, Release


def _memberships(*mus):
    releases = [Release("sums", "zero-out-one", GaussianMechanism(mu)) for mu in mus]
    return [PredictedMembership(0, it.mechanism.mu / 2, 1.0, it) for it in releases]


def test_curves_are_the_numbers_and_the_bound_lies_above():
    found = _memberships(0.3, 1.0, 2.0)
    accuracy, leak = plot_leak([1, 2, 8], [0.7, 0.8, 0.9], found).axes
    np.testing.assert_allclose(accuracy.lines[0].get_ydata(), [0.7, 0.8, 0.9])
    bound, predicted = (line.get_ydata() for line in leak.lines[:2])
    np.testing.assert_allclose(predicted, [each.auc for each in found])
    assert np.all(bound > predicted)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1, 2], [0.7], _memberships(1.0, 2.0)), ValueError, "for each epsilon"),
        (([0.0], [0.7], _memberships(1.0)), ValueError, "epsilons > 0"),
        (([1.0], [0.7], [0.6]), TypeError, "predicted_membership"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        plot_leak(*arguments)
