"""Eigenvalues and targets of kernels: power laws, effective dimensions, what is refused."""

import math

import numpy as np
import pytest

from jaxdp.theory import KernelSpectrum, effective_dimension


# Source: PK Assumption 3.
def test_a_power_law_has_the_effective_dimension_of_its_integral():
    for capacity in (0.3, 0.5, 0.8):
        spectrum = KernelSpectrum.power_law(capacity, 0.6)
        for ridge in (1e-3, 1e-6):
            leading = math.pi * capacity / math.sin(math.pi * capacity) * ridge**-capacity
            found = spectrum.effective_dimension(ridge)
            assert found == pytest.approx(leading - 0.5, rel=2e-4)


def test_summing_ranges_is_summing_indices():
    index = np.arange(1, 10**6 + 1.0)
    spectrum = KernelSpectrum.power_law(0.3, 0.6, num_exact=50)
    expected = effective_dimension(index ** (-1 / 0.3), 1e-9)
    assert spectrum.effective_dimension(1e-9) == pytest.approx(expected, rel=1e-4)
    tail = spectrum.multiplicities @ (
        spectrum.squared_target * (spectrum.eigenvalues < 100 ** (-1 / 0.3))
    )
    assert tail == pytest.approx(np.sum((index**-5.0)[index > 100]), rel=0.05)


def test_effective_dimension_takes_many_ridges():
    dims = effective_dimension([1.0, 0.5], np.array([[0.5], [1e9]]))
    np.testing.assert_allclose(dims[0, 0], 2 / 3 + 1 / 2)
    assert dims.shape == (2, 1)
