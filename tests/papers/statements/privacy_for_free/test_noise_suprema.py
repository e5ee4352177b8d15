"""How far the noise takes a prediction at most on its way, on exact paths in NumPy."""

import numpy as np
import pytest
from dp_gd_numpy import rows
from scipy.stats import norm

NUM_RUNS, NUM_TIMES, DURATION = 600, 150, 2.0
# E sup |B| of Brownian motion on [0, 1].
LARGEST = np.sqrt(np.pi / 2)


@pytest.fixture(scope="module")
def suprema():
    """sup |phi^T Theta~| of 30 rows in units of |phi| Sigma sqrt(tau), with and without a drift."""
    data = rows(5, num_train=30, num_test=2, dim=6, num_features=50)
    _, values, basis = np.linalg.svd(data.train_features, full_matrices=False)
    projected = data.train_features @ basis.T
    units = np.linalg.norm(projected, axis=1) * np.sqrt(DURATION)
    rng, step = np.random.default_rng(1), DURATION / NUM_TIMES
    found = []
    for rates in (2 * values**2 / 30, np.zeros(30)):
        decay = np.exp(-rates * step)
        safe = np.where(rates > 0, rates, 1)
        variance = np.where(rates > 0, -np.expm1(-2 * rates * step) / (2 * safe), step)
        state, largest = np.zeros((NUM_RUNS, 30)), np.zeros((NUM_RUNS, 30))
        for _ in range(NUM_TIMES):
            state = state * decay + np.sqrt(variance) * rng.standard_normal(state.shape)
            np.maximum(largest, np.abs(state @ projected.T), out=largest)
        found.append(largest / units)
    return found


def test_the_attractive_drift_makes_the_mean_supremum_smaller(suprema):
    # Source: PF Lemma 6.2, (6.8), by (6.9), (6.98) and (6.99).
    drifting, free = (each.mean(axis=0) for each in suprema)
    error = suprema[1].std(axis=0, ddof=1) / np.sqrt(NUM_RUNS)
    assert np.all(drifting + 5 * error < LARGEST)
    # Free paths, seen at 150 times, have it but for what is missed between two of them.
    missed = 2 * 0.5826 / np.sqrt(NUM_TIMES)
    assert np.all(np.abs(free - LARGEST) < missed + 5 * error)
    assert np.all(free > LARGEST * 2 / 3)


def test_the_supremum_has_gaussian_tails(suprema):
    # Source: PF (6.94), with its exponent corrected, (6.100) and (6.101).
    for each in suprema:
        for level in (1.0, 2.0, 3.0):
            share = (each > level).mean(axis=0)
            error = np.sqrt(share * (1 - share) / NUM_RUNS) + 1 / NUM_RUNS
            # Both sides of sup z >= a, P = 2 P(z(tau) >= a) each.
            assert np.all(share <= 4 * norm.sf(level) + 5 * error)
            assert 4 * norm.sf(level) <= 4 * np.exp(-(level**2) / 2)
    # As printed, without the 2 in the exponent, it is below what is seen, and below the truth.
    assert (suprema[1] > 3).mean() > 2 * 4 * np.exp(-9.0)
    assert 2 * norm.sf(3) > 4 * np.exp(-9.0)


def test_it_concentrates_as_borell_and_tis_say(suprema):
    # Source: PF (6.101) and (6.102), on average over the rows.
    for each in suprema:
        above = each - each.mean(axis=0)
        for level in (0.5, 1.0, 1.5):
            assert (above > level).mean() <= np.exp(-(level**2) / 2)
    assert (suprema[1] - suprema[1].mean(axis=0) > 0.5).mean() > np.exp(-(1.0**2) / 2) / 4
