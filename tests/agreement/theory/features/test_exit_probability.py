"""How likely a path leaves the no-clip set, against paths that are watched."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_gd_numpy import relu, rows, scaled
from scipy.stats import norm

import jaxdp
from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.problems.rows.features import ReducedFeatures
from jaxdp.problems.rows.random_features import RandomFeatures
from jaxdp.theory.features.unclipped import GradientFlow, OrnsteinUhlenbeck


def _exits(data, settings, num_runs, seed=0):
    """Share of unclipped runs of which some sample has been at its limit, at four records."""
    rng = np.random.default_rng(seed)
    features, labels = data.train_features, data.train_labels
    count, steps, eta = len(labels), settings["num_steps"], settings["learning_rate"]
    noise_std = np.sqrt(eta) * 2 * settings["clip_norm"] * settings["noise_scale"] / count
    limits = settings["clip_norm"] / np.linalg.norm(features, axis=1)
    theta = np.zeros((num_runs, features.shape[1]))
    out, shares = np.zeros(num_runs, bool), []
    for step in range(1, steps + 1):
        slopes = 2 * (theta @ features.T - labels)
        theta = theta - eta / count * slopes @ features
        theta += noise_std * rng.standard_normal(theta.shape)
        out |= np.any(np.abs(2 * (theta @ features.T - labels)) >= limits, axis=1)
        if step * 4 % steps == 0:
            shares.append(out.mean())
    return np.asarray(shares)


def _with_exits(data, settings, share=0.1):
    """The settings with noise by which about that share of runs leaves, whatever the rows are."""
    low, high = 0.1, 10.0
    for _ in range(8):
        factor = np.sqrt(low * high)
        louder = {**settings, "noise_scale": factor * settings["noise_scale"]}
        is_much = _exits(data, louder, 300, seed=1)[-1] > share
        low, high = (low, factor) if is_much else (factor, high)
    return louder


def _probability(data, settings, theory, activation=jax.nn.relu, records=4):
    problem = RandomFeatures.from_arrays(*data[:5], activation=activation)
    predicted = jaxdp.predict(problem, DPGD(**settings), theory=theory, records=records)
    return np.asarray(predicted.observables["exit_probability"])


TANH = np.tanh, jnp.tanh
RELU = relu, jax.nn.relu


# Source: PF (6.2), (6.3), (6.5).
@pytest.mark.parametrize(
    ("activation", "clip", "epsilon", "tau", "num_steps"),
    [
        (TANH, 2.5, 10, 1, 40),
        pytest.param(RELU, 10, 10, 2, 400, marks=pytest.mark.slow),
    ],
)
def test_agrees_with_simulation(activation, clip, epsilon, tau, num_steps):
    host, traced = activation
    data = rows(1, num_train=60, num_test=5, dim=10, num_features=40, activation=host)
    settings = scaled(data, epsilon=epsilon, clip=clip, tau=tau, num_steps=num_steps)
    settings, num_runs = _with_exits(data, settings), 4000
    shares = _exits(data, settings, num_runs)

    def error(settings):
        found = _probability(data, settings, jaxdp.UnclippedRecursion(), traced)[1:]
        spread = np.sqrt(found * (1 - found) / num_runs) + 1 / num_runs
        # Exits that are not rare are not independent: a fifth.
        return np.max(np.abs(found - shares) - 0.2 * found - 5 * spread)

    assert shares[-1] > 0.02
    assert error(settings) < 0
    assert error({**settings, "noise_scale": settings["noise_scale"] * 3 / 2}) > 0


# One sample and a kernel too weak to pull, beside a limit at -a with which the opposite one cannot
# compete; and the deviation of the noise after a time of one.
KERNEL, LIMIT = 1e-6, 1.3
WEAK_CLIP = 2 * LIMIT * np.sqrt(KERNEL)
WEAK = ReducedFeatures([[np.sqrt(KERNEL)]], [[0.0]], np.zeros((1, 0)), [1.0], [1.0])
SPREAD = 2 * WEAK_CLIP * 4560.0 * np.sqrt(KERNEL)


# Source: PF (6.94).
def test_exits_in_one_dimension_are_exact():
    for duration in (10.0, 20.0, 40.0):
        algorithm = DPGD(duration / 1000, WEAK_CLIP, 1000, 4560.0)
        predicted = jaxdp.predict(WEAK, algorithm, theory=OrnsteinUhlenbeck(), records=1)
        # Residual -1 + Sigma k B(t), by the reflection principle.
        reflected = 2 * norm.sf((LIMIT - 1) / (SPREAD * np.sqrt(duration)))
        assert 1e-5 < reflected < 0.1
        found = predicted.observables["exit_probability"][-1]
        np.testing.assert_allclose(-np.log1p(-found), reflected, rtol=0.01)


def test_exits_that_are_only_seen_after_each_step_are_fewer():
    # The same sample after 16 steps: a random walk, sampled here.
    num_steps = 16
    algorithm = DPGD(40.0 / num_steps, WEAK_CLIP, num_steps, 4560.0)
    step = SPREAD * np.sqrt(40.0 / num_steps)
    walks = np.random.default_rng(0).normal(0, step, (100_000, num_steps)).cumsum(axis=1)
    share = np.mean(walks.max(axis=1) >= LIMIT - 1)
    exits = [
        jaxdp.predict(WEAK, algorithm, theory=theory, records=1).observables["exit_probability"][-1]
        for theory in (jaxdp.UnclippedRecursion(), OrnsteinUhlenbeck())
    ]
    found, watched = -np.log1p(-np.asarray(exits, float))
    error = np.sqrt(share / 100_000)
    assert share > 0.01
    assert abs(found - share) < 0.03 * share + 5 * error
    assert watched > 1.2 * share


@pytest.mark.slow
def test_starting_outside_is_certain_and_an_infinite_limit_never_reached():
    data = rows(1, num_train=60, num_test=5, dim=10, num_features=40, activation=relu)
    settings = scaled(data, epsilon=10, clip=0.5, tau=2, num_steps=20)
    for theory in (OrnsteinUhlenbeck(), GradientFlow(), jaxdp.UnclippedRecursion()):
        np.testing.assert_array_equal(_probability(data, settings, theory), 1)
        free = {**settings, "clip_norm": np.inf, "noise_scale": 0.0}
        np.testing.assert_array_equal(_probability(data, free, theory), 0)


def test_gradient_flow_leaves_when_a_residual_grows_to_its_limit():
    # The third sample's neighbours pull its prediction away from its label at first.
    features = np.asarray([[1.0, 0.0], [1.0, 0.1], [0.9, 0.2]])
    labels = np.asarray([1.0, 1.0, -1.0])
    theta, largest = np.zeros(2), []
    for _ in range(1000):
        residuals = features @ theta - labels
        largest.append(np.max(2 * np.abs(residuals) * np.linalg.norm(features, axis=1)))
        theta = theta - 0.005 * 2 / 3 * residuals @ features
    start, peak = largest[0], max(largest)
    assert peak > 1.1 * start
    problem = ReducedFeatures(features, features, np.zeros((3, 0)), labels, labels)
    for clip, expected in [(0.99 * start, 1), ((start + peak) / 2, 1), (1.01 * peak, 0)]:
        algorithm = DPGD(0.005, clip, 1000, 0.3)
        predicted = jaxdp.predict(problem, algorithm, theory=GradientFlow(), records=1)
        found = predicted.observables["exit_probability"]
        np.testing.assert_array_equal(found, [clip < start, expected])
