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
# privacy-for-free.json: seed, sizes, learning rate, steps, clip norm, noise scale, and from an
# independent study the OU process's risk and bias, and the recursion's.
REFERENCE = [
    (
        (101, 60, 12, 200, "tanh", 0.0075, 40, 707.1067811865476, 1.3),
        (5350.967896374543, 0.5010471512447541, 5493.838565897679, 0.4997686573019496),
    ),
    (
        (102, 60, 12, 30, "tanh", 0.02666666666666667, 25, 273.8612787525831, 0.8),
        (159.89336580392637, 0.5540681197939558, 164.22043051090913, 0.5545855451927819),
    ),
    (
        (103, 50, 15, 120, "relu", 0.0020833333333333333, 30, 547.7225575051662, 1.0),
        (987.2962352451681, 0.7893323333163405, 996.4442722320049, 0.7886754804027971),
    ),
]


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
@pytest.mark.parametrize("name", quick_and_slow(CASES, "narrow"))
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
@pytest.mark.parametrize("largest_loss", [0.01, 1.0, 1.7, 2.0, 2.3])
@pytest.mark.parametrize("name", CASES)
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


@pytest.mark.slow
def test_a_diverged_recursion_says_so():
    _, problem = _case("wide", dtype=np.float32)
    algorithm, theory = DPGD(10.0, 40.0, 500, 0.7), jaxdp.UnclippedRecursion()
    with pytest.warns(UserWarning, match="stability limit of gradient descent, got 10"):
        predicted = jaxdp.predict(problem, algorithm, theory=theory)
    with pytest.raises(RuntimeError, match="diverged"):
        predicted.check()


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        pytest.param(*case, marks=[] if place == 1 else [pytest.mark.slow])
        for place, case in enumerate(REFERENCE)
    ],
)
def test_reference_values(described, expected):
    seed, num_train, dim, width, name, rate, num_steps, clip, sigma = described
    host, traced = ACTIVATIONS[name]
    with jax.enable_x64():
        data = rows(
            seed, num_train=num_train, num_test=40, dim=dim, num_features=width, activation=host
        )
        problem = RandomFeatures.from_arrays(*data[:5], activation=traced)
        algorithm = DPGD(rate, clip, num_steps, sigma)
        theories = OrnsteinUhlenbeck(), jaxdp.UnclippedRecursion(), GradientFlow()
        ou, recursion, flow = (
            jaxdp.predict(problem, algorithm, theory=theory, records=1) for theory in theories
        )
    found = [
        value
        for predicted in (ou, recursion)
        for value in (predicted.final_risk, predicted.observables["bias"][-1])
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(flow.final_risk, expected[1], rtol=1e-10)


def test_euler_maruyama_converges_to_ou_at_order_one():
    data, _ = _case("wide")
    with jax.enable_x64():
        _, problem = _case("wide")
        algorithm = DPGD(0.01, 40.0, 30, 0.7)
        ou = jaxdp.predict(problem, algorithm, theory=OrnsteinUhlenbeck(), records=1).final_risk
    diffusion = 2 * 40.0 * 0.7 / 30
    errors = []
    for num_steps in (50, 100, 200, 400):
        rate = 0.3 / num_steps
        moments = _finite_steps(data, rate, np.sqrt(rate) * diffusion, num_steps)
        errors.append(abs(sum(_risk(data, *moments)) - float(ou)))
    ratios = np.asarray(errors[:-1]) / errors[1:]
    np.testing.assert_allclose(ratios, 2, atol=0.1)


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
