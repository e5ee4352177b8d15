"""Sums of whole numbers are exact for any number of rows and any budget."""

import numpy as np
import pytest

from jaxdp.kernels import ClippedFeatures, IdentityFeatures
from jaxdp.privacy import SecretNoise
from jaxdp.regression import NoisyStatistics
from jaxdp.regression import private_sums as sums
from jaxdp.regression.descent import SquaredSlopes
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.structure import Structure

SOURCE = SecretNoise(2**200)


def _at_the_bound(num_rows):
    """Rows of one feature, each as long as its bound allows, in the memory of one."""
    units = np.broadcast_to(np.float32(2**16), (num_rows, 1))
    return sums.PrivateRows(units, SOURCE, Structure(np.eye(1)))


def test_the_second_moments_of_rows_at_the_bound_are_one(monkeypatch):
    # Of weights with 15 bits more, 2^11 rows add up to what 2^26 do.
    monkeypatch.setattr(sums, "_WEIGHT_BITS", 20)
    monkeypatch.setattr(sums, "_BLOCK_ROWS", 2)
    moments, std = sums.released_second_moments(_at_the_bound(2**11), mu=1e3)
    assert abs(moments[0, 0] - 1) < 1e-6
    assert std < 1e-5


@pytest.mark.parametrize("sign", [1, -1])
def test_a_gradient_of_rows_at_the_bound_is_the_clip_norm(sign, monkeypatch):
    # Of slopes with 16 bits more, 2^12 rows add up to what 2^28 do.
    monkeypatch.setattr(sums, "_SLOPE_BITS", 36)
    monkeypatch.setattr(sums, "_BLOCK_ROWS", 2)
    rows, slopes = _at_the_bound(2**12), np.full((2**12, 1), sign * 100.0)
    norms = np.full(2**12, 1 / 8)
    found, _ = sums.released_gradient(rows, slopes, np.eye(1), norms, 8.0, 8.0, mu=1e6)
    assert found[0, 0] == pytest.approx(sign * 8, rel=1e-6)


def test_a_sum_has_no_rounding_but_the_last():
    draw = np.random.default_rng(0)
    parts = draw.integers(-(2**53), 2**53, size=(5000, 3)).astype(np.float64)
    parts[:4000] = np.array([2.0**53, -(2.0**53), 2.0**53 - 1])
    exact = [float(sum(int(number) for number in column)) for column in parts.T]
    assert sums._exact_sum(iter(parts)).tolist() == exact


@pytest.mark.parametrize("mu", [1e3, 4.5e8, 1e150])
def test_a_budget_of_any_size_releases_the_sums_that_it_names(mu):
    draw = np.random.default_rng(1)
    table = draw.uniform(-1, 1, size=(400, 3))
    labels = table @ np.array([0.3, -0.2, 0.1])
    features = ClippedFeatures(IdentityFeatures(3), 2.0)
    rows = sums.PrivateRows.of(features, table.astype(np.float32), SOURCE)
    moments, std = sums.released_second_moments(rows, mu)
    expected = table.T @ table / 4 / 400
    assert np.abs(moments - expected).max() < 10 * std + 1e-4
    learnt = NoisyStatistics().learnt(rows, SquaredSlopes(labels), Ledger(mu))
    np.testing.assert_allclose(learnt.weights[:, 0], [0.6, -0.4, 0.2], atol=0.05)
