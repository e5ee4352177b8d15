"""The optimal estimator of one unknown record: its posterior, its error, and what it beats."""

import itertools
import math

import jax
import jax.random as jr
import numpy as np
import pytest
from attack_problems import ACTIVATIONS, sphere_rows
from dp_gd_numpy import clipped_descent, clipped_gradients
from helpers import assert_mean_close

import jaxdp
from experiments.statements.data_reconstruction.released_direction import released_direction_error
from jaxdp.attacks import (
    LevenbergMarquardt,
    best_guess,
    posterior_rows,
    reconstruct,
    row_errors,
    without_known_rows,
)
from jaxdp.theory import optimal_row_error, row_error_lower_bound

RELU = jax.nn.relu
RATE, CLIP = 0.01, 1.0


def identity(values):
    return values


def _run(generator, rows, labels, weights, activation, *, mu, num_steps=1, clip=CLIP):
    """All iterates of PF's Algorithm 1 in NumPy, and the algorithm that made them."""
    algorithm = jaxdp.DPGD(RATE, clip, num_steps, math.sqrt(RATE * num_steps) / mu)
    std = 2 * clip * RATE * math.sqrt(num_steps) / (mu * len(rows))
    how = {"rate": RATE, "clip": clip, "num_steps": num_steps}
    iterates = clipped_descent(
        activation(rows @ weights.T),
        labels,
        **how,
        draw_noise=lambda size: std * generator.standard_normal(size),
    )
    return iterates, algorithm, std


def _log_density(iterates, rows, labels, weights, clip, std):
    """The increments' log-density given the data, by the box, but for constants."""
    features = np.maximum(rows @ weights.T, 0)
    total = 0.0
    for before, after in itertools.pairwise(iterates):
        pull = clipped_gradients(features, labels, before, clip).sum(0)
        mean = before - RATE / len(rows) * pull
        total -= np.sum((after - mean) ** 2) / (2 * std**2)
    return total


# Clipped, and small enough gradients that late steps are not.
@pytest.mark.parametrize(("num_steps", "clip", "mu"), [(1, 1.0, 2.0), (5, 30.0, 8.0)])
def test_samples_have_the_law_of_the_posterior_on_the_circle(num_steps, clip, mu):
    generator = np.random.default_rng(3)
    rows, labels = sphere_rows(generator, 3, 2), np.array([1.0, -1.0, 1.0])
    weights = generator.standard_normal((60, 2)) / math.sqrt(2)
    relu = ACTIVATIONS["relu"]
    iterates, algorithm, std = _run(
        generator, rows, labels, weights, relu, mu=mu, num_steps=num_steps, clip=clip
    )
    angles = 2 * np.pi * np.arange(180) / 180
    grid = math.sqrt(2) * np.column_stack([np.cos(angles), np.sin(angles)])

    def log_density(point, label):
        data = np.vstack([rows[:2], point]), np.append(labels[:2], label)
        return _log_density(iterates, *data, weights, clip, std)

    logs = [[log_density(point, label) for label in (-1.0, 1.0)] for point in grid]
    shares = np.exp(np.array(logs) - np.max(logs)).sum(axis=1)
    shares /= shares.sum()
    run = iterates, weights, RELU, algorithm, rows[:2], labels[:2]
    chains = {"num_chains": 64, "num_draws": 40, "num_discarded": 40}
    samples = posterior_rows(*run, num_samples=3, key=jr.key(0), **chains)
    # Chains are independent: their means have the right standard errors.
    for statistic in (lambda x: x, lambda x: x[..., ::-1] * x):
        assert_mean_close(statistic(samples).mean(axis=1), shares @ statistic(grid))
    sharper = shares**2 / np.sum(shares**2)
    squares = (samples**2).mean(axis=1)
    assert_mean_close(squares, shares @ grid**2, rejects=[sharper @ grid**2])


def test_best_guess_has_the_least_mean_distance():
    generator = np.random.default_rng(0)
    samples = sphere_rows(generator, 300, 5) + np.array([3.0, 0, 0, 0, 0])
    samples *= math.sqrt(5) / np.linalg.norm(samples, axis=1, keepdims=True)
    guess = best_guess(samples.reshape(3, 100, 5))
    least = np.linalg.norm(samples - guess, axis=1).mean()
    assert np.linalg.norm(guess) == pytest.approx(math.sqrt(5))
    others = guess + 0.05 * generator.standard_normal((50, 5))
    others *= math.sqrt(5) / np.linalg.norm(others, axis=1, keepdims=True)
    distances = np.linalg.norm(samples[:, None] - others, axis=2).mean(axis=0)
    assert np.all(distances > least)


def test_error_on_linear_features_is_the_exact_least_one():
    # Orthonormal columns, so that the released features are a rotation of the row.
    generator, dim, mu = np.random.default_rng(1), 3, 5.0
    weights = np.linalg.qr(generator.standard_normal((6, dim)))[0]
    errors = []
    for seed in range(40):
        row = sphere_rows(generator, 1, dim)
        data = generator, row, np.ones(1), weights
        iterates, algorithm, _ = _run(*data, identity, mu=mu, clip=1e-3)
        run = iterates, weights, identity, algorithm, np.zeros((0, dim)), np.zeros(0)
        chains = {"labels": (1.0,), "num_draws": 100, "num_discarded": 50}
        samples = posterior_rows(*run, num_samples=1, key=jr.key(seed), **chains)
        errors.append(np.linalg.norm(best_guess(samples) - row[0]) / math.sqrt(dim))
    expected = released_direction_error(mu, dim)
    assert_mean_close(
        errors,
        expected,
        sigmas=3,
        rejects=[released_direction_error(0.5 * mu, dim), released_direction_error(2 * mu, dim)],
    )


@pytest.mark.long_runs
@pytest.mark.slow
@pytest.mark.parametrize("mu", [15.0, 40.7])
def test_informed_attack_attains_the_least_error_and_beats_least_squares(mu):
    generator, dim, width, count = np.random.default_rng(2), 20, 40, 3
    found = {"posterior": [], "least squares": []}
    for seed in range(30):
        rows, labels = sphere_rows(generator, count, dim), generator.choice([-1.0, 1.0], count)
        weights = generator.standard_normal((width * dim, dim)) / math.sqrt(dim)
        iterates, algorithm, _ = _run(generator, rows, labels, weights, ACTIVATIONS["relu"], mu=mu)
        run = iterates, weights, RELU, algorithm, rows[:-1], labels[:-1]
        samples = posterior_rows(*run, num_samples=count, key=jr.key(seed))
        guess = best_guess(samples)[None]
        target = without_known_rows(*run, num_samples=count)
        options = {"optimiser": LevenbergMarquardt(), "num_starts": 4, "tolerance": 1e-12}
        squares = reconstruct(target, 1, key=jr.key(seed), **options).inputs
        for name, inputs in (("posterior", guess), ("least squares", squares)):
            found[name].append(row_errors(rows[-1:], inputs)[0])
    # Half of the neurons are dead at a row, and the width costs what it costs least squares.
    effective = mu * math.sqrt(1 - 2 / width)
    expected = float(optimal_row_error(effective, dim, RELU))
    rejects = [float(optimal_row_error(off * effective, dim, RELU)) for off in (2 / 3, 3 / 2)]
    tolerance = {"sigmas": 3, "bias": 0.02 * expected}
    assert_mean_close(found["posterior"], expected, **tolerance, rejects=rejects)
    gaps = np.subtract(found["least squares"], found["posterior"])
    assert gaps.mean() > -2 * gaps.std() / math.sqrt(len(gaps))
    # No attack is below the bound; the bound of half the noise refutes itself.
    squares = np.square(found["posterior"])
    spread = squares.std() / math.sqrt(len(squares))
    assert squares.mean() > float(row_error_lower_bound(mu, dim, RELU)) ** 2 - 3 * spread
    assert squares.mean() < float(row_error_lower_bound(mu / 2, dim, RELU)) ** 2 - 3 * spread


@pytest.mark.parametrize("rows", [np.eye(4)[:1], np.eye(4), np.eye(5)])
def test_best_guess_of_samples_without_a_mean_direction_is_one_of_the_best(rows):
    both = math.sqrt(rows.shape[1]) * np.vstack([rows, -rows])
    guess = best_guess(both)
    assert np.linalg.norm(guess) == pytest.approx(math.sqrt(rows.shape[1]))
    least = min(np.linalg.norm(both - one, axis=1).mean() for one in both)
    assert np.linalg.norm(both - guess, axis=1).mean() == pytest.approx(least)
