"""Predicted power of membership tests, against tests of the weights of simulated runs."""

import functools

import jax
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import released_parameters
from scipy.stats import norm, rankdata

import jaxdp
from jaxdp.attacks import (
    PredictedMembership,
    predicted_loss_threshold_auc,
    predicted_membership,
)
from jaxdp.core.keys import purpose_key, run_keys
from jaxdp.losses import Logistic, Softmax
from jaxdp.privacy import BandedNoise, FixedOrder, GaussianMechanism, PoissonSampler, Release
from jaxdp.theory.features.weight_law import read_weights, weight_law

NUM, DIM, STEPS, RUNS = 60, 4, 25, 4000
HEAVY = functools.partial(optax.sgd, momentum=0.7)
# Of a loss: the optimiser, its rate, the share of the rows in a batch, clip norm and noise.
CASES = {
    "logistic": (Logistic(), HEAVY, 0.1, 0.5, 0.6, 3.0),
    "softmax": (Softmax(3), optax.sgd, 0.8, 1.0, 1.0, 5.0),
}


def _problem(loss, num=NUM, num_test=NUM, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((num + num_test, DIM)) / np.sqrt(DIM)
    features *= rng.uniform(0.5, 2.5, (num + num_test, 1))
    scores = features[:, :3] + rng.standard_normal((num + num_test, 3))
    labels = {None: np.sign(scores[:, 0]), 3: scores.argmax(axis=1)}[loss.num_outputs]
    rows = features[:num], labels[:num], features[num:], labels[num:]
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)


def _algorithm(optimiser, rate, share, clip, noise, num=NUM):
    return jaxdp.PrivateOptimiser(
        optimiser(rate),
        clip_norm=clip,
        noise_multiplier=noise,
        num_steps=STEPS,
        sampler=PoissonSampler(num, share),
    )


def _case(name):
    loss, *numbers = CASES[name.removesuffix(", bands")]
    algorithm = _algorithm(*numbers)
    if name.endswith(", bands"):
        noise = BandedNoise(np.eye(STEPS) + 0.7 * np.eye(STEPS, k=-1) + 0.5 * np.eye(STEPS, k=-4))
        algorithm = algorithm.replace(sampler=FixedOrder(NUM, 5), noise=noise)
    return _problem(loss), algorithm


def _without(problem, record):
    """The neighbour in which the record contributes nothing."""
    inputs = np.array(problem.train_inputs)
    inputs[record] = 0
    rows = inputs, problem.train_labels, problem.test_inputs, problem.test_labels
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=problem.loss)


def _weights(problem, algorithm, seed):
    parameters = released_parameters(problem, algorithm, jr.key(seed), RUNS)
    return np.asarray(parameters, np.float64).reshape(RUNS, -1)


def _area(members, others):
    ranks = rankdata(np.concatenate([others, members]))[len(others) :]
    return (ranks.sum() / len(members) - (len(members) + 1) / 2) / len(others)


def _attacked(problem, algorithm, record):
    """Area and true positives at 5 % of Fisher's discriminant, fitted on the other half."""
    worlds = [_weights(problem, algorithm, 1), _weights(_without(problem, record), algorithm, 2)]
    found = []
    for part in (0, 1):
        fitted, judged = ([world[side::2] for world in worlds] for side in (part, 1 - part))
        metric = sum(np.cov(world.T) for world in fitted)
        weights = np.linalg.solve(metric, fitted[0].mean(axis=0) - fitted[1].mean(axis=0))
        members, others = (world @ weights for world in judged)
        found.append((_area(members, others), np.mean(members > np.quantile(others, 0.95))))
    return np.mean(found, axis=0)


@pytest.mark.slow
@pytest.mark.long_runs
@pytest.mark.parametrize("name", [*CASES, "logistic, bands", "softmax, bands"])
def test_predicted_area_is_that_of_a_test_of_simulated_weights(name):
    problem, algorithm = _case(name)
    found = predicted_membership(problem, algorithm, "worst")
    area, share = _attacked(problem, algorithm, found.record)
    error = np.sqrt(1 / (6 * RUNS))  # near one half, where it is largest
    # Of several classes the closure takes modes to be uncorrelated, and says a little too much.
    off = 0.01 if name.startswith("logistic") else 0.025
    assert abs(found.auc - area) < off + 2 * error
    # With no record removed it would be one half.
    assert abs(0.5 - area) > off + 5 * error
    assert abs(found.true_positive_rate(0.05) - share) < off + 4 * np.sqrt(share / RUNS)
    assert found.auc <= found.bound


@pytest.mark.slow
def test_the_worst_record_is_that_of_two_closures_for_every_record():
    pair = _case("logistic")
    areas = [predicted_membership(*pair, record).auc for record in range(NUM)]
    found = predicted_membership(*pair, "worst")
    assert found.auc == pytest.approx(max(areas), abs=2e-3)
    assert found.auc > np.quantile(areas, 0.95)


def test_first_order_response_is_the_difference_of_two_closures():
    reading = read_weights(*_case("softmax"))
    law = weight_law(reading, rows=np.arange(NUM))
    found = law.responses
    for record in (0, 7):
        without = weight_law(reading, record)
        moved = law.means[0] - without.means[0]
        gap = np.linalg.norm(found[record] - moved)
        assert gap < 0.2 * np.linalg.norm(moved)
        assert np.linalg.norm(found[record + 1] - moved) > 2 * gap


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Logistic(), Softmax(2)], ids=["logistic", "softmax"])
def test_among_many_records_one_that_is_alone_in_its_column_is_found(loss):
    num, rng = 1000, np.random.default_rng(0)
    features = np.pad(rng.standard_normal((num, DIM)) / np.sqrt(DIM), ((0, 0), (0, 1)))
    features[0] = [0.0] * DIM + [3.0]
    is_first = features[:, 0] + rng.standard_normal(num) > 0
    labels = is_first.astype(int) if loss.num_outputs else np.where(is_first, 1, -1)
    problem = jaxdp.FixedFeatures.from_arrays(features, labels, features, labels, loss=loss)
    pair = problem, _algorithm(optax.sgd, 20.0, 1.0, 1.0, 10.0, num)
    found = predicted_membership(*pair, "worst")
    assert found.record == 0
    # If it is asked for alone, other rows share quadrature nodes, and the area differs slightly.
    assert found.auc == pytest.approx(predicted_membership(*pair, 0).auc, rel=1e-6)
    # The first order, which chooses it, counts its own fit twice.
    length = weight_law(read_weights(*pair), rows=np.arange(1)).lengths()[0]
    assert found.auc > norm.cdf(length / np.sqrt(2)) + 0.003


def test_a_covariance_without_a_cholesky_root_does_not_stop_the_prediction():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((NUM, 20)) / np.sqrt(20) * np.geomspace(1, 1e-3, 20)
    rows = features, rng.integers(0, 3, NUM)
    problem = jaxdp.FixedFeatures.from_arrays(*rows, *rows, loss=Softmax(3))
    algorithm = _algorithm(optax.sgd, 3.0, 0.2, 1.0, 1e-5).replace(num_steps=200)
    assert predicted_membership(problem, algorithm, 3).separation > 1


@pytest.mark.slow
def test_a_row_that_is_left_out_has_all_quadrature_nodes():
    num, rng, loss = 4000, np.random.default_rng(0), Softmax(5)
    features = rng.standard_normal((num, DIM)) / np.sqrt(DIM)
    labels = rng.integers(0, 5, num)
    problem = jaxdp.FixedFeatures.from_arrays(features, labels, features, labels, loss=loss)
    reading = read_weights(problem, _algorithm(optax.sgd, 10.0, 1.0, 0.3, 2000.0, num))

    def moved(rows):
        laws = (weight_law(reading, place, rows=rows) for place in (-1, 3))
        with_all, without = (law.means[0] for law in laws)
        return with_all - without

    exact = moved(np.arange(num))
    length = np.linalg.norm(exact)
    assert np.linalg.norm(moved(np.array([3])) - exact) < 0.015 * length
    # With 6 of the 56 nodes it would be wrong.
    assert np.linalg.norm(moved(()) - exact) > 0.04 * length


def _two_rows():
    rows = [[1.0, 0.0], [0.6, 0.8]], [1.0, -1.0], [[1.0, 0.0]], [1.0]
    return jaxdp.FixedFeatures.from_arrays(*rows), jaxdp.DPGD(0.1, 10.0, 1, 0.1)


def test_a_full_batch_without_clipping_is_known_in_closed_form():
    # One step: the means differ by the record's gradient, and the noise is all that varies.
    problem, algorithm = _two_rows()
    found = predicted_membership(problem, algorithm, 1)
    distance = 0.1 / 2 * 2.0 / float(algorithm.noise_std(2))
    assert found.separation == pytest.approx(distance, rel=1e-5)
    assert found.spread_ratio == pytest.approx(1, rel=1e-5)
    assert found.auc == pytest.approx(norm.cdf(distance / np.sqrt(2)), rel=1e-5)
    # A step clips at C, moved by which the sum is half as far as replacing a record moves it.
    assert found.bound == pytest.approx(norm.cdf(algorithm.mu / 2 / np.sqrt(2)), rel=1e-9)


def test_a_record_without_features_leaves_no_trace():
    problem, algorithm = _two_rows()
    found = predicted_membership(_without(problem, 1), algorithm, 1)
    assert (found.auc, found.true_positive_rate(0.2)) == (0.5, pytest.approx(0.2))


def test_errors_of_the_test_are_binormal():
    release = Release("sums", "zero-out-one", GaussianMechanism(2.0))
    found = PredictedMembership(0, separation=1.2, spread_ratio=0.8, release=release)
    rng = np.random.default_rng(0)
    others, members = rng.standard_normal(200_000), 1.2 + 0.8 * rng.standard_normal(200_000)
    assert found.auc == pytest.approx(_area(members, others), abs=0.003)
    for rate in (0.01, 0.3):
        share = np.mean(members > np.quantile(others, 1 - rate))
        assert found.true_positive_rate(rate) == pytest.approx(share, abs=0.006)
        assert found.true_positive_bound(rate) > found.true_positive_rate(rate)
    assert "bound" in str(found)


@pytest.mark.slow
@pytest.mark.long_runs
def test_predicted_loss_threshold_area_is_that_of_simulated_runs_on_the_same_sets():
    num, num_sets, key = 500, 6, jr.key(5)
    problem = _problem(Logistic(), num, num)
    algorithm = _algorithm(optax.sgd, 0.5, 0.25, 2.0, 3.0, num)
    found = predicted_loss_threshold_auc(
        problem, algorithm, key=key, num_sets=num_sets, num_models=20
    )
    features = np.concatenate([problem.train_inputs, problem.test_inputs])
    labels = np.concatenate([problem.train_labels, problem.test_labels])
    simulated = []
    for one in run_keys(purpose_key(key, "sampling"), num_sets):
        order = np.asarray(jr.permutation(one, 2 * num))
        rows = [values[part] for part in np.split(order, 2) for values in (features, labels)]
        trained = jaxdp.FixedFeatures.from_arrays(*rows, loss=Logistic())
        weights = released_parameters(trained, algorithm, one, 20)
        losses = [-(inputs @ weights.T).T * signs for inputs, signs in (rows[:2], rows[2:])]
        simulated.append(np.mean([_area(-a, -b) for a, b in zip(*losses, strict=True)]))
    gap = found - np.asarray(simulated)
    assert abs(gap.mean()) < 0.002
    assert np.abs(gap).max() < 0.005
    # What is predicted for other sets is further away.
    assert np.abs(np.roll(found, 1) - simulated).max() > 0.02


def test_what_is_not_predicted_is_refused():
    problem, algorithm = _two_rows()
    for record in (2, -1, 1.5, "best"):
        with pytest.raises((TypeError, ValueError), match="record"):
            predicted_membership(problem, algorithm, record)
    with pytest.raises(ValueError, match="with noise"):
        predicted_membership(problem, algorithm.replace(noise_scale=0.0), 0)
    with pytest.raises(jaxdp.NotCoveredError, match="linear"):
        predicted_membership(problem, _algorithm(optax.adam, 0.1, 0.5, 1.0, 1.0, num=2), 0)
    with pytest.raises(TypeError, match="outside jit"):
        jax.jit(lambda problem: predicted_membership(problem, algorithm, 0).separation)(problem)
    with pytest.raises(ValueError, match=r"rates in \[0, 1\]"):
        predicted_membership(problem, algorithm, 0).true_positive_rate(1.5)
    with pytest.raises(ValueError, match="num_sets >= 1"):
        predicted_loss_threshold_auc(problem, algorithm, key=jr.key(0), num_sets=0)
