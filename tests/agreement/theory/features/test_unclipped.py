"""The unclipped process, and how far it is from the interpolator, in the parameters' own space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_gd_numpy import algorithm_1, relu, rows, scaled
from helpers import assert_mean_close, quick_and_slow
from scipy.linalg import expm

import jaxdp
from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.problems.rows.random_features import RandomFeatures
from jaxdp.theory.features.unclipped import GradientFlow, OrnsteinUhlenbeck

ACTIVATIONS = {"tanh": (np.tanh, jnp.tanh), "relu": (relu, jax.nn.relu)}
CASES = {
    "wide": dict(num_features=60, activation="tanh"),
    "narrow": dict(num_features=12, activation="tanh"),
    "a spike": dict(num_features=40, activation="relu"),
}


def _case(name, *, dtype=np.float64):
    case = CASES[name]
    host, traced = ACTIVATIONS[case["activation"]]
    data = rows(
        7, num_train=30, num_test=20, dim=6, num_features=case["num_features"], activation=host
    )
    arrays = [part.astype(dtype) for part in data[:5]]
    return data, RandomFeatures.from_arrays(*arrays, activation=traced)


def _linear_system(data):
    """dtheta = -(drift theta - pull) dt + Sigma dB."""
    count = len(data.train_labels)
    features = data.train_features
    return 2 * features.T @ features / count, 2 * features.T @ data.train_labels / count


def _risk(data, mean, covariance):
    bias = np.mean((data.test_features @ mean - data.test_labels) ** 2)
    variance = np.trace(data.test_features @ covariance @ data.test_features.T)
    return bias, variance / len(data.test_labels)


def _distance(data, mean):
    """Of the mean's predictions to the interpolator's."""
    solution = np.linalg.pinv(data.train_features) @ data.train_labels
    return np.mean((data.test_features @ (mean - solution)) ** 2)


def _ou(data, diffusion, time):
    """Mean and covariance by matrix exponentials of augmented systems (Van Loan)."""
    drift, pull = _linear_system(data)
    size = len(pull)
    augmented = np.zeros((size + 1, size + 1))
    augmented[:size, :size], augmented[:size, size] = -drift, pull
    mean = expm(augmented * time)[:size, size]
    blocks = np.zeros((2 * size, 2 * size))
    blocks[:size, :size], blocks[size:, size:] = drift, -drift.T
    blocks[:size, size:] = diffusion**2 * np.eye(size)
    exponential = expm(blocks * time)
    return mean, exponential[size:, size:].T @ exponential[:size, size:]


def _finite_steps(data, rate, noise_std, num_steps):
    """Mean and covariance after every step, by their recursion."""
    drift, pull = _linear_system(data)
    kept = np.eye(len(pull)) - rate * drift
    mean, covariance = np.zeros(len(pull)), np.zeros_like(drift)
    for _ in range(num_steps):
        mean = kept @ mean + rate * pull
        covariance = kept @ covariance @ kept.T + noise_std**2 * np.eye(len(pull))
    return mean, covariance


# Source: PF (6.1), (6.88), Lemma 6.4, the left side of (6.11), with (6.4).
@pytest.mark.parametrize("name", quick_and_slow(("narrow", "a spike"), "narrow"))
def test_ou_agrees_with_matrix_exponentials(name):
    with jax.enable_x64():
        data, problem = _case(name)
        algorithm = DPGD(0.003, 40.0, 100, 0.7)
        predicted = jaxdp.predict(problem, algorithm, theory=OrnsteinUhlenbeck(), records=3).check()
        assert predicted.risk.dtype == jnp.float64
        for record, time in enumerate(predicted.time):
            mean, covariance = _ou(data, 2 * 40.0 * 0.7 / 30, float(time))
            expected = _risk(data, mean, covariance)
            parts = predicted.observables
            np.testing.assert_allclose(parts["bias"][record], expected[0], rtol=1e-8)
            np.testing.assert_allclose(parts["variance"][record], expected[1], rtol=1e-8)
            distance = parts["interpolator_distance"][record]
            np.testing.assert_allclose(distance, _distance(data, mean), rtol=1e-7)


# Slopes 1 - q of the largest eigenvalue: small, over-relaxed (q < 0), exactly 2, and diverging.
@pytest.mark.filterwarnings("ignore:expected learning_rate")
@pytest.mark.parametrize(
    ("name", "largest_loss"), [("narrow", 0.01), *(("wide", loss) for loss in (1.0, 1.7, 2.0, 2.3))]
)
def test_recursion_is_the_recursion(name, largest_loss):
    with jax.enable_x64():
        data, problem = _case(name)
        largest = np.linalg.eigvalsh(_linear_system(data)[0])[-1]
        rate = largest_loss / largest
        for num_steps in (1, 6, 7):
            algorithm = DPGD(rate, 40.0, num_steps, 0.7)
            predicted = jaxdp.predict(
                problem, algorithm, theory=jaxdp.UnclippedRecursion(), records=2
            ).check()
            noise_std = np.sqrt(rate) * 2 * 40.0 * 0.7 / 30
            mean, covariance = _finite_steps(data, rate, noise_std, num_steps)
            expected = sum(_risk(data, mean, covariance))
            np.testing.assert_allclose(predicted.final_risk, expected, rtol=1e-9)
            distance = predicted.observables["interpolator_distance"][-1]
            np.testing.assert_allclose(distance, _distance(data, mean), rtol=1e-8)
    assert predicted.label == "unclipped recursion"


def test_recursion_is_what_unclipped_dp_gd_does():
    data, problem = _case("narrow", dtype=np.float32)
    settings = scaled(data, epsilon=20.0, clip=30.0, tau=2.0, num_steps=12)
    parts = data.train_features, data.train_labels, data.test_features, data.test_labels
    runs, clipped = algorithm_1(*parts, num_runs=3000, seed=1, **settings)
    assert clipped.max() == 0
    right, noisier = (
        DPGD(**settings),
        DPGD(**settings).replace(noise_scale=settings["noise_scale"] * 4 / 3),
    )
    predicted, wrong = (
        jaxdp.predict(problem, one, theory=jaxdp.UnclippedRecursion(), records=4).final_risk
        for one in (right, noisier)
    )
    assert_mean_close(runs, predicted, rejects=[wrong])


# Source: PF (3.7), (6.4).
def test_gradient_flow_is_the_noiseless_mean():
    _, problem = _case("wide", dtype=np.float32)
    algorithm = DPGD(0.003, 40.0, 100, 0.7)
    ou = jaxdp.predict(problem, algorithm, theory=OrnsteinUhlenbeck(), records=5)
    flow = jaxdp.predict(problem, algorithm, theory=GradientFlow(), records=5)
    np.testing.assert_allclose(flow.risk, ou.observables["bias"], rtol=1e-6)
    np.testing.assert_array_equal(flow.observables["variance"], 0)


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
