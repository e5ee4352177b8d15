"""The adversary who knows all records but one, and their labels."""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from attack_problems import relu_problem, sphere_rows
from dp_gd_numpy import clipped_descent, clipped_gradients, logistic_slope, twice_the_residual
from helpers import assert_mean_close, released_parameters

import jaxdp
from jaxdp import attacks
from jaxdp.attacks.informed import run_without_one
from jaxdp.losses import Logistic
from jaxdp.privacy import error_lower_bound
from jaxdp.theory import last_iterate_reconstruction_errors

RELU = jax.nn.relu
RATE, CLIP = 2e-3, 3.0


def _problem(count, dim, num_features, seed=0):
    rng = np.random.default_rng(seed)
    inputs = sphere_rows(rng, count, dim)
    weights = rng.standard_normal((num_features, dim)) / np.sqrt(dim)
    labels = rng.choice([-1.0, 1.0], count)
    return relu_problem(inputs, labels, weights)


def _without_known(problem, iterates, algorithm, loss=None):
    known = problem.train_inputs[:-1], problem.train_labels[:-1]
    given = iterates, problem.weights, RELU, algorithm, *known
    return attacks.without_known_rows(*given, num_samples=problem.num_train, loss=loss)


def _descent(problem, num_steps, slope=twice_the_residual):
    """All iterates without noise, and the features."""
    inputs, weights = (np.asarray(part, float) for part in (problem.train_inputs, problem.weights))
    features, labels = np.maximum(inputs @ weights.T, 0), np.asarray(problem.train_labels, float)
    how = {"rate": RATE, "clip": CLIP, "num_steps": num_steps, "slope": slope}
    return clipped_descent(features, labels, **how), features


def _cosine_with_the_unknown_row(problem, target, features):
    left = float(problem.train_labels[-1]) * np.asarray(target.parameters, float).ravel()
    return left @ features[-1] / np.linalg.norm(left) / np.linalg.norm(features[-1])


def test_what_remains_is_the_unknown_row_alone():
    problem = _problem(4, 5, 60)
    for num_steps in (1, 30):
        iterates, features = _descent(problem, num_steps)
        target = _without_known(problem, iterates, jaxdp.DPGD(RATE, CLIP, num_steps, 0.0))
        cosine = _cosine_with_the_unknown_row(problem, target, features)
        assert cosine == pytest.approx(1, abs=1e-6)
        # Of the iterate itself that cannot be said.
        whole = abs(iterates[-1] @ features[-1])
        assert whole < 0.9 * np.linalg.norm(iterates[-1]) * np.linalg.norm(features[-1])


# Gradients of the logistic loss are shorter than the clip norm: the loss decides what is taken off.
def test_the_known_rows_are_taken_off_by_the_loss_that_trained():
    problem = _problem(4, 5, 60)
    algorithm = jaxdp.DPGD(RATE, 100.0, 30, 0.0)
    iterates, features = _descent(problem, 30, logistic_slope)

    def cosine(loss):
        target = _without_known(problem, iterates, algorithm, loss)
        return _cosine_with_the_unknown_row(problem, target, features)

    assert cosine(Logistic()) == pytest.approx(1, abs=1e-6)
    assert cosine(None) < 0.9


# Clipped, and small enough gradients that late steps are not.
@pytest.mark.parametrize(("num_steps", "clip"), [(1, 1.0), (5, 30.0)])
def test_the_likelihood_of_one_record_is_the_density_of_the_run(num_steps, clip):
    generator, count, std = np.random.default_rng(3), 3, 0.002
    rows, labels = sphere_rows(generator, count, 2), np.array([1.0, -1.0, 1.0])
    weights = generator.standard_normal((60, 2)) / math.sqrt(2)
    features, rate = np.maximum(rows @ weights.T, 0), 0.01
    noise_scale = std * count / (2 * clip * math.sqrt(rate))
    algorithm = jaxdp.DPGD(rate, clip, num_steps, noise_scale)
    how = {"rate": rate, "clip": clip, "num_steps": num_steps}
    how["draw_noise"] = lambda size: std * generator.standard_normal(size)
    iterates = clipped_descent(features, labels, **how)

    def log_density(point, label):
        """The increments' log-density given all data, by the box, but for constants."""
        data = np.vstack([features[:2], np.maximum(weights @ point, 0)]), [*labels[:2], label]
        pulls = [clipped_gradients(data[0], np.array(data[1]), at, clip).sum(0) for at in iterates]
        gaps = np.diff(iterates, axis=0) + rate / count * np.array(pulls[:-1])
        return -np.sum(gaps**2) / (2 * std**2)

    given = iterates, weights, RELU, algorithm, rows[:2], labels[:2]
    run = run_without_one(*given, num_samples=count, loss=None)
    points, answers = [*sphere_rows(generator, 8, 2), rows[2]], np.array([-1.0, 1.0])
    found = np.array([run.log_likelihoods(jnp.asarray(point), answers) for point in points])
    exact = np.array([[log_density(point, label) for label in answers] for point in points])
    assert np.ptp(exact) > 10
    np.testing.assert_allclose(found - found[0, 0], exact - exact[0, 0], rtol=1e-3, atol=0.02)


def _squared_ratios_to_the_law(attack, num_runs):
    """Squared errors of the unknown row after one step, over what the theory says of them."""
    count, dim, mu = 3, 10, 150.0
    algorithm = jaxdp.DPGD(RATE, CLIP, 1, math.sqrt(RATE) / mu)
    generator = np.random.default_rng(7)
    ratios = []
    for seed in range(num_runs):
        problem = _problem(count, dim, 800, seed)
        # The box of PF's Algorithm 1, whose noise has the standard deviation 2 C sigma sqrt(eta)/n.
        noise = 2 * CLIP * RATE / mu / count * generator.standard_normal(800)
        parameters = jnp.asarray(_descent(problem, 1)[0][-1] + noise, jnp.float32)
        expected = last_iterate_reconstruction_errors(problem, algorithm, num_known=count - 1)[0]
        options = {"key": jr.key(seed), "optimiser": attacks.LevenbergMarquardt(), "num_starts": 6}
        found = attack(problem, algorithm, parameters, tolerance=1e-12, **options)
        error = attacks.row_errors(problem.train_inputs[-1:], found.inputs[-1:])[0]
        ratios.append((error / expected) ** 2)
    return ratios


def _knowing_rows(problem, algorithm, parameters, **options):
    target = attacks.RandomFeaturesTarget(problem.weights, RELU, parameters)
    known = problem.train_inputs[:-1]
    return attacks.reconstruct(target, problem.num_train, known_inputs=known, **options)


def _knowing_labels_too(problem, algorithm, parameters, **options):
    target = _without_known(problem, jnp.stack([0 * parameters, parameters]), algorithm)
    return attacks.reconstruct(target, 1, **options)


@pytest.mark.slow
def test_the_attack_that_knows_the_other_rows_has_the_error_of_the_law():
    ratios = _squared_ratios_to_the_law(_knowing_rows, 80)
    # The same check sees errors that are off by a third.
    assert_mean_close(ratios, 1.0, bias=0.05, rejects=[(3 / 4) ** 2, (4 / 3) ** 2])


@pytest.mark.long_runs
@pytest.mark.slow
def test_the_attack_that_knows_labels_too_has_the_error_of_the_law():
    ratios = _squared_ratios_to_the_law(_knowing_labels_too, 100)
    # Labels spare the fit of the known rows' coefficients: n - 1 = 2 of d = 10 directions at most.
    assert_mean_close(ratios, 1.0, bias=0.2, rejects=[(4 / 3) ** 2])
    assert np.mean(ratios) < np.mean(_squared_ratios_to_the_law(_knowing_rows, 100))


@pytest.mark.slow
def test_no_attack_is_below_the_bound():
    dim, mu, num_runs = 4, 6.0, 100
    algorithm = jaxdp.DPGD(RATE, CLIP, 1, math.sqrt(RATE) / mu)
    errors = []
    for seed in range(num_runs):
        problem = _problem(2, dim, 200, seed)
        (parameters,) = released_parameters(problem, algorithm, jr.key(seed))
        options = {"key": jr.key(seed), "optimiser": attacks.LevenbergMarquardt(), "num_starts": 6}
        found = _knowing_labels_too(problem, algorithm, parameters, tolerance=1e-12, **options)
        errors.append(attacks.row_errors(problem.train_inputs[-1:], found.inputs)[0])
    spread = np.std(errors) / math.sqrt(num_runs)
    assert np.mean(errors) > error_lower_bound(mu / 2, dim) - 3 * spread
    # A guess without the parameters is further off.
    assert np.mean(errors) < error_lower_bound(0.0, dim) - 3 * spread
