"""The unclipped process against independent solutions in the parameters' own space."""

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


# Source: PF (6.1), (6.88).
@pytest.mark.parametrize("name", quick_and_slow(("narrow", "a spike"), "narrow"))
def test_ou_agrees_with_matrix_exponentials(name):
    with jax.enable_x64():
        data, problem = _case(name)
        algorithm = DPGD(0.003, 40.0, 100, 0.7)
        predicted = jaxdp.predict(problem, algorithm, theory=OrnsteinUhlenbeck(), records=3).check()
        assert predicted.risk.dtype == jnp.float64
        for record, time in enumerate(predicted.time):
            expected = _risk(data, *_ou(data, 2 * 40.0 * 0.7 / 30, float(time)))
            parts = predicted.observables
            np.testing.assert_allclose(parts["bias"][record], expected[0], rtol=1e-8)
            np.testing.assert_allclose(parts["variance"][record], expected[1], rtol=1e-8)


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
            expected = sum(_risk(data, *_finite_steps(data, rate, noise_std, num_steps)))
            np.testing.assert_allclose(predicted.final_risk, expected, rtol=1e-9)
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
