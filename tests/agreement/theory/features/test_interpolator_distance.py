"""How far gradient flow and the unclipped process are from the interpolator."""

import jax
import numpy as np
import pytest
from dp_gd_numpy import rows
from scipy.linalg import expm

import jaxdp


def _case():
    data = rows(7, num_train=30, num_test=20, dim=6, num_features=60)
    return data, jaxdp.RandomFeatures.from_arrays(*data[:5])


def _distances(data, means):
    solution = np.linalg.pinv(data.train_features) @ data.train_labels
    return [np.mean((data.test_features @ (mean - solution)) ** 2) for mean in means]


def test_the_flows_distance_is_that_of_the_matrix_exponential():
    # Source: PF Lemma 6.4, the left side of (6.11), with (6.4).
    with jax.enable_x64():
        data, problem = _case()
        algorithm = jaxdp.DPGD(0.003, 40.0, 100, 0.7)
        theory = jaxdp.OrnsteinUhlenbeck()
        found = jaxdp.predict(problem, algorithm, theory=theory, records=3)
        drift = 2 * data.train_features.T @ data.train_features / len(data.train_labels)
        solution = np.linalg.pinv(data.train_features) @ data.train_labels
        # theta* less what decays: no inverse of the drift.
        means = [solution - expm(-drift * float(time)) @ solution for time in found.time]
        observed = np.asarray(found.observables["interpolator_distance"])
        np.testing.assert_allclose(observed, _distances(data, means), rtol=1e-7)
        assert np.all(np.diff(observed) < 0)
        # At the next record's time it is another number.
        assert not np.allclose(observed[:-1], _distances(data, means[1:]), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:expected learning_rate")
@pytest.mark.parametrize("largest_loss", [0.3, 2.3])
def test_after_finite_steps_it_is_that_of_the_recursion(largest_loss):
    with jax.enable_x64():
        data, problem = _case()
        drift = 2 * data.train_features.T @ data.train_features / 30
        rate = largest_loss / np.linalg.eigvalsh(drift)[-1]
        pull = 2 * data.train_features.T @ data.train_labels / 30
        means = [np.zeros(60)]
        for _ in range(7):
            means.append(means[-1] - rate * (drift @ means[-1] - pull))
        found = jaxdp.predict(
            problem,
            jaxdp.DPGD(rate, 40.0, 7, 0.7),
            theory=jaxdp.UnclippedRecursion(),
            records=7,
        )
        observed = found.observables["interpolator_distance"]
        np.testing.assert_allclose(observed, _distances(data, means), rtol=1e-8)


def test_an_increment_of_the_noise_is_at_most_that_of_free_brownian_motion():
    # Source: PF Lemma 6.9, (6.83) and (6.88) to (6.91), by Ito's isometry on a grid; Derived: the
    # same for sums, which the version of Sudakov and Fernique for absolute values also needs.
    rng = np.random.default_rng(0)
    rates, times = 10.0 ** rng.uniform(-3, 2, 200), np.sort(rng.uniform(0, 2, (2, 200)), axis=0)
    early, late = times

    def covariance(first, second):
        shape = np.linspace(0, 1, 4001)[:, None] * np.minimum(first, second)
        kernel = np.exp(-rates * (first - shape)) * np.exp(-rates * (second - shape))
        return np.trapezoid(kernel, shape, axis=0)

    closed = (np.exp(-rates * (late - early)) - np.exp(-rates * (late + early))) / (2 * rates)
    np.testing.assert_allclose(covariance(early, late), closed, rtol=1e-2, atol=1e-9)
    squares = covariance(early, early), covariance(late, late)
    moved = sum(squares) - 2 * covariance(early, late)
    summed = sum(squares) + 2 * covariance(early, late)
    slack = 1e-3 * np.maximum(late, 1e-3)
    assert np.all(moved <= late - early + slack)
    assert np.all(summed <= early + late + 2 * early + slack)
    # Half the motion is too little for slow modes.
    assert np.any(moved > 0.5 * (late - early) + slack)
