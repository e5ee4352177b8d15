"""DP-GD on features against PF Algorithm 1 as its box reads, and in function space."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from dp_gd_numpy import clipped_descent

import jaxdp
from jaxdp.problems import ReducedFeatures
from jaxdp.simulation.rows.fixed_rows import simulate_on_rows

NUM_TRAIN, NUM_TEST, DIM = 30, 20, 6


def _problem(num_features, activation=jnp.tanh):
    return jaxdp.RandomFeatures.sample(
        NUM_TRAIN, NUM_TEST, DIM, num_features, activation=activation, key=jr.key(5)
    )


def _algorithm(problem, duration=3.0):
    """Twelve steps, of a duration in units of d/p."""
    width = problem.num_features
    return jaxdp.DPGD(duration * DIM / width / 12, 0.6 * np.sqrt(width), 12, 5.0 / np.sqrt(width))


# p < n, n < p < n + m, p > n + m.
# Source: PF Algorithm 1.
@pytest.mark.slow
@pytest.mark.parametrize("num_features", [12, 41, 90])
def test_paths_are_those_of_the_box_for_the_same_noise(num_features):
    with jax.enable_x64():
        problem = _problem(num_features)
        algorithm = _algorithm(problem)
        normals = np.random.default_rng(0).normal(size=(12, num_features))
        eta, clip = float(algorithm.learning_rate), float(algorithm.clip_norm)
        deviation = np.sqrt(eta) * 2 * clip / NUM_TRAIN * float(algorithm.noise_scale)
        drawn, labels = iter(deviation * normals), np.asarray(problem.train_labels)
        train, test = (np.asarray(f()) for f in (problem.train_features, problem.test_features))
        path = clipped_descent(
            train, labels, rate=eta, clip=clip, num_steps=12, draw_noise=lambda _: next(drawn)
        )
        residuals = path[:-1] @ train.T - labels
        clipped = 2 * np.abs(residuals) * np.linalg.norm(train, axis=1) > clip
        expected = np.mean((path @ test.T - np.asarray(problem.test_labels)) ** 2, axis=1)
        assert 0.2 < clipped.mean() < 0.95
        reduced = problem.reduced()
        # Rows of the rotation: what takes theta to its reduced coordinates.
        factor = np.concatenate([reduced.train_features(), reduced.test_features()])
        rotation = np.linalg.lstsq(factor, np.concatenate([train, test]), rcond=None)[0]
        seen = reduced.train_factor.shape[1]

        def draw(key, step, count, dtype, parts):
            # The coordinates that training never sees ask once a record, here once a step.
            part = parts[0] if count == parts[0].shape[1] else parts[1]
            return jnp.asarray(part)[step - 1]

        explicit = ReducedFeatures(
            train, test, np.zeros((NUM_TEST, 0)), problem.train_labels, problem.test_labels
        )
        rotated = normals @ rotation.T
        for described, parts in [
            (explicit, (normals, normals[:, :0])),
            (reduced, (rotated[:, :seen], rotated[:, seen:])),
        ]:
            runs = simulate_on_rows(
                described,
                algorithm,
                key=jr.key(0),
                num_runs=1,
                records=12,
                keep_parameters=False,
                progress=None,
                draw=functools.partial(draw, parts=parts),
            )
            np.testing.assert_allclose(runs.risk[0], expected, atol=1e-12)
            share = np.cumsum(clipped.mean(axis=1)) / np.arange(1, 13)
            fraction = runs.observables["clipped_fraction"][0]
            np.testing.assert_allclose(fraction, np.append(0, share), atol=1e-12)


@pytest.mark.slow
def test_a_rate_beyond_the_stability_limit_is_said_before_running():
    problem = _problem(90, jax.nn.relu)
    limit = problem.reduced().stability_limit()
    fast = jaxdp.DPGD(1.5 * limit, jnp.inf, 400, 0.0)
    for simulator in (jaxdp.Iterates(), jaxdp.FunctionSpace()):
        with pytest.warns(UserWarning, match=f"learning_rate < {limit:.4g}"[:25]):
            runs = jaxdp.simulate(problem, fast, key=jr.key(0), simulator=simulator)
        assert runs.status.tolist() == [jaxdp.Status.DIVERGED]
