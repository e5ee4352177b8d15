"""AC Figures 3 and 4 and what goes beyond them: fits, clips, the tuned optimum, the benchmark."""

import numpy as np
import pytest
import xarray

from experiments.aggressive_clipping.small_gamma import fitted, shifted
from experiments.aggressive_clipping.tuning import Setting, predicted, tune


def _risk_of(log_power, shift=0.0):
    gamma = np.geomspace(1e-2, 1e-10, 17)
    values = 3 * gamma * (np.log(1 / gamma) + shift) ** log_power
    return xarray.DataArray(values, {"gamma": gamma}, name="risk")


def test_fits_find_the_exponents_of_powers():
    (gamma, gamma_error), (log, log_error) = fitted(_risk_of(0.7))
    np.testing.assert_allclose([gamma, log], [1, 0.7], atol=1e-9)
    assert gamma_error < 1e-9
    assert log_error < 1e-9
    exponent, error = shifted(_risk_of(0.7, 5.0))
    assert abs(exponent - 0.7) < 1e-3
    assert error < 1e-3
    # Without the shift the same data give a wrong exponent.
    assert abs(fitted(_risk_of(0.7, 5.0))[1][0] - 0.7) > 0.05


@pytest.mark.slow
def test_the_tuned_optimum_is_lower_than_all_around_it():
    powers, gammas = [0.0, 0.5, 2.0], [0.1, 0.01, 0.03]
    best = tune(Setting(), powers, gammas)
    assert best.is_interior.all()
    for clip, rate in ((1.01, 1), (0.99, 1), (1, 1.01), (1, 0.99), (0.99, 1.01), (1.01, 0.99)):
        moved = predicted(Setting(), powers, gammas, best.clip_scale * clip, best.rate * rate)
        assert np.all(moved > best.risk)
    held = tune(Setting(), powers, gammas, best.clip_scale)
    np.testing.assert_allclose(held.rate, best.rate, rtol=2e-3)
    np.testing.assert_allclose(held.risk, best.risk, rtol=1e-6)
