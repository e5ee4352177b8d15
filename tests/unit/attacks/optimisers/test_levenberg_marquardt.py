import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from attack_problems import kaufman_jacobian, sphere_rows

from jaxdp import attacks
from jaxdp.attacks.objective import loss_and_gradient
from jaxdp.attacks.optimisers.base import Ending
from jaxdp.attacks.optimisers.levenberg_marquardt import normal_equations

DIM, COUNT, FEATURES = 5, 3, 120


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def _problem(seed, count, dim, num_features, outputs=()):
    """Rows, and a target whose parameters interpolate noisy linear labels."""
    generator = np.random.default_rng(seed)
    inputs = sphere_rows(generator, count, dim)
    labels = generator.standard_normal((count, *outputs))
    weights = generator.standard_normal((num_features, dim)) / np.sqrt(dim)
    parameters = attacks.minimum_norm_parameters(inputs, labels, weights, jax.nn.relu)
    return inputs, attacks.RandomFeaturesTarget(weights, jax.nn.relu, parameters)


def _minimise(target, start, *, optimiser=None, tolerance=1e-7, num_known=0, **more):
    """Steps from one start, which costs all these tests but one compilation."""
    how = {"key": jr.key(0), "tolerance": tolerance, "num_known": num_known, **more}
    starts = jnp.asarray(start)[None]
    attempt = (optimiser or attacks.LevenbergMarquardt()).minimise(target, starts, **how)
    return attempt._replace(inputs=attempt.inputs[0], loss=float(attempt.loss[0]))


@pytest.mark.usefixtures("float64")
def test_the_normal_equations_are_those_of_kaufmans_jacobian():
    generator = np.random.default_rng(0)
    weights = generator.standard_normal((40, 4))
    parameters = generator.standard_normal((40, 2))
    guess = sphere_rows(generator, 3, 4)
    is_free = np.array([False, True, True])
    target = attacks.RandomFeaturesTarget(weights, jnp.tanh, parameters, block_size=16)
    # A matter of seconds without a compilation of the whole.
    compiled = eqx.filter_jit(normal_equations)
    matrix, slope = compiled(target, jnp.asarray(guess), jnp.asarray(is_free))

    features = np.tanh(guess @ weights.T)
    outside = parameters - features.T @ np.linalg.lstsq(features.T, parameters)[0]
    columns = kaufman_jacobian(weights, parameters, guess) * is_free[:, None]
    columns = columns.reshape(80, 12)
    np.testing.assert_allclose(matrix, columns.T @ columns, atol=1e-11)
    np.testing.assert_allclose(slope, columns.T @ outside.reshape(80), atol=1e-11)
    # The slope belongs to the loss: -|theta|^2 / 2 times its gradient, tangent.
    found = eqx.filter_jit(loss_and_gradient)(target, jnp.asarray(guess))
    gradient = np.asarray(found.gradient)
    gradient = gradient - guess * (guess * gradient).sum(1, keepdims=True) / 4
    expected = np.where(is_free[:, None], -gradient * (parameters**2).sum() / 2, 0)
    np.testing.assert_allclose(slope.reshape(3, 4), expected, atol=1e-11)


@pytest.mark.usefixtures("float64")
def test_it_converges_quadratically_to_the_truth():
    inputs, target = _problem(1, COUNT, DIM, FEATURES)
    near = inputs + 0.02 * sphere_rows(np.random.default_rng(2), COUNT, DIM)
    how = {"tolerance": 1e-29, "optimiser": attacks.LevenbergMarquardt(damping=1e-7)}
    # The first loss, and a matrix and a trial for each step.
    budgets = [0.5 + steps * (DIM * COUNT + 1) / 2 for steps in (1, 2, 3, 6)]
    losses = [_minimise(target, near, max_passes=most, **how).loss for most in budgets]
    # The error is squared at each step, and the loss is the error's square.
    assert 1e-10 < losses[0] < 1e-5
    assert np.log(losses[1]) < 1.6 * np.log(losses[0])
    assert losses[-1] < 1e-25


@pytest.mark.usefixtures("float64")
def test_known_rows_stay_and_the_others_are_found():
    inputs, target = _problem(3, COUNT, DIM, FEATURES)
    start = sphere_rows(np.random.default_rng(0), COUNT, DIM)
    start[:2] = inputs[:2]
    attempt = _minimise(target, start, max_passes=2000, num_known=2)
    assert attempt.status[0] == Ending.CONVERGED
    np.testing.assert_array_equal(attempt.inputs[:2], inputs[:2])
    assert attacks.reconstruction_error(inputs, attempt.inputs) < 1e-8


@pytest.mark.usefixtures("float64")
def test_passes_are_counted_and_bound_the_work():
    _, target = _problem(3, COUNT, DIM, FEATURES)
    start = sphere_rows(np.random.default_rng(4), COUNT, DIM)

    def passes(most):
        attempt = _minimise(target, start, max_passes=most, tolerance=1e-30)
        assert attempt.num_passes <= most
        assert attempt.status[0] == Ending.OUT_OF_PASSES
        return attempt.num_passes

    # Three normal matrices, the first loss and at least one trial for each.
    least = 3 * DIM * COUNT / 2 + 2
    assert all(passes(most) >= least for most in (least, least + 0.5, 4 * DIM * COUNT / 2 + 2))
    # Half a pass less is too little for the third.
    assert least - (DIM * COUNT + 1) / 2 <= passes(least - 0.5) < least - 0.5
    # No budget is overrun, however small.
    for most in (2, 9.5, 17, 31):
        passes(most)
