import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import ACTIVATIONS, JAX_ACTIVATIONS, projector_loss, random_victim, sphere_rows

from jaxdp.attacks import RandomFeaturesTarget
from jaxdp.attacks.objective import checked_loss, loss_and_gradient, relative_loss

DIM, COUNT, FEATURES = 5, 3, 40
GUESS = sphere_rows(np.random.default_rng(5), COUNT, DIM)
evaluate = eqx.filter_jit(loss_and_gradient)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def _differences(loss, guess, step=1e-6):
    """Central differences of a function of the rows."""
    gradient = np.zeros_like(guess)
    for place in np.ndindex(guess.shape):
        moved = np.zeros_like(guess)
        moved[place] = step
        gradient[place] = (loss(guess + moved) - loss(guess - moved)) / (2 * step)
    return gradient


# Source: DR (11), (164).
@pytest.mark.parametrize(
    ("activation", "outputs"), [("relu", None), ("tanh", None), ("relu_tanh", 3)]
)
def test_the_gradient_is_that_of_the_projection(activation, outputs):
    victim = random_victim(0, DIM, COUNT, FEATURES, activation=activation, outputs=outputs)
    target = RandomFeaturesTarget(victim.weights, JAX_ACTIVATIONS[activation], victim.parameters)
    evaluation = evaluate(target, GUESS)

    def loss(guess):
        return projector_loss(ACTIVATIONS[activation](guess @ victim.weights.T), victim.parameters)

    np.testing.assert_allclose(evaluation.loss, loss(GUESS), rtol=1e-9)
    expected = _differences(loss, GUESS)
    np.testing.assert_allclose(evaluation.gradient, expected, atol=1e-7 * np.abs(expected).max())
    # The check sees a factor as small as the sphere's radial part.
    assert np.abs(1.001 * evaluation.gradient - expected).max() > 1e-4 * np.abs(expected).max()


# Source: DR (11).
@pytest.mark.parametrize("block_size", [None, 13])
def test_the_reference_case(block_size):
    path = pathlib.Path(__file__).with_name("reference_case.json")
    case = {name: np.array(value) for name, value in json.loads(path.read_text()).items()}
    target = RandomFeaturesTarget(
        case["weights"], jax.nn.relu, case["parameters"], block_size=block_size
    )
    evaluation = evaluate(target, case["found"])
    np.testing.assert_allclose(evaluation.loss, case["loss"], rtol=1e-12)
    np.testing.assert_allclose(evaluation.gradient, case["gradient"], atol=1e-12)
    np.testing.assert_allclose(checked_loss(target, case["found"]), case["loss"], rtol=1e-9)


def test_the_sum_of_squares_is_right_in_float32_where_the_difference_stops_falsely():
    victim = random_victim(0, DIM, COUNT, 400)
    # A true loss of about 1e-6.
    generator = np.random.default_rng(2)
    noise = generator.standard_normal(400) * np.linalg.norm(victim.parameters) * 1e-3 / 20
    single = (victim.parameters + noise).astype(np.float32)
    target = RandomFeaturesTarget(victim.weights.astype(np.float32), jax.nn.relu, single)
    truth = checked_loss(target, victim.inputs)
    assert 5e-7 < truth < 2e-6
    features = np.maximum(victim.inputs @ victim.weights.T, 0).astype(np.float32)
    direct = eqx.filter_jit(relative_loss)(target, jnp.asarray(victim.inputs, jnp.float32))
    np.testing.assert_allclose(direct, truth, rtol=1e-2)
    moments = features @ single
    solved = np.linalg.solve(features @ features.T, moments).astype(np.float32)
    difference = (single @ single - moments @ solved) / (single @ single)
    assert abs(difference - truth) > 2e-2 * truth
