"""The closure of everyday DP-SGD: all batch sequences by enumeration, and stored numbers."""

import functools
import itertools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import quick_and_slow

import jaxdp
from jaxdp import losses
from jaxdp.privacy import FixedSizeBatches, PoissonSampler, ShuffledEpochs
from jaxdp.problems.rows.features import ReducedFeatures
from jaxdp.theory.features import modes as mode_basis
from jaxdp.theory.features.linear_recursion import linear_recursion
from jaxdp.theory.features.modes import kernel_modes
from jaxdp.theory.features.stability import growth

_STORED = json.loads(pathlib.Path(__file__).with_name("everyday.json").read_text())["configs"]
REFERENCE = {stored["name"]: stored for stored in _STORED}
NUM, STEPS, RATE, BETA = 4, 3, 0.3, 0.6
RNG = np.random.default_rng(0)
FEATURES, TEST = RNG.standard_normal((NUM, 3)), RNG.standard_normal((5, 3))
LABELS, TEST_LABELS = RNG.standard_normal(NUM), RNG.standard_normal(5)
NOISE = 0.2
# Steps of the field's optimisers, written out: (F, g) on (weight, velocity).
OPTIMISERS = {
    "sgd": ([[1.0]], [-RATE], optax.sgd),
    "heavy ball": (
        [[1, -RATE * BETA], [0, BETA]],
        [-RATE, 1.0],
        functools.partial(optax.sgd, momentum=BETA),
    ),
    "nesterov": (
        [[1, -RATE * BETA**2], [0, BETA]],
        [-RATE * (1 + BETA), 1.0],
        functools.partial(optax.sgd, momentum=BETA, nesterov=True),
    ),
}


def _poisson():
    for bits in itertools.product([0, 1], repeat=NUM * STEPS):
        yield 0.5 ** (NUM * STEPS), np.reshape(bits, (STEPS, NUM))


def _pairs():
    pairs = [np.isin(np.arange(NUM), pair) for pair in itertools.combinations(range(NUM), 2)]
    for drawn in itertools.product(pairs, repeat=STEPS):
        yield len(pairs) ** -STEPS, np.asarray(drawn)


SAMPLERS = {
    "poisson": (_poisson, PoissonSampler(NUM, 0.5)),
    "fixed size": (_pairs, FixedSizeBatches(NUM, 2)),
}


def _enumerated(sequences, transition, gradient, shares):
    """Mean test error of the average over all batch sequences, and over the noise exactly."""
    size = len(gradient)
    transition, gradient = np.asarray(transition, float), np.asarray(gradient)
    dim = FEATURES.shape[1]
    total = 0.0
    for probability, batches in sequences():
        mean, cov = np.zeros((size + 1) * dim), np.zeros(((size + 1) * dim,) * 2)
        for batch, share in zip(batches, shares, strict=True):
            rows = FEATURES[batch == 1]
            hessian, pull = 2 * rows.T @ rows / 2, 2 * rows.T @ LABELS[batch == 1] / 2
            moved = np.kron(transition, np.eye(dim))
            moved[:, :dim] += np.kron(gradient[:, None], hessian)
            added, noise = -np.kron(gradient, pull), np.kron(gradient[:, None], np.eye(dim))
            step = np.zeros_like(cov)
            step[: size * dim, : size * dim] = moved
            step[size * dim :, : size * dim] = share * moved[:dim]
            step[size * dim :, size * dim :] = (1 - share) * np.eye(dim)
            added = np.concatenate([added, share * added[:dim]])
            noise = np.concatenate([noise, share * noise[:dim]])
            mean = step @ mean + added
            cov = step @ cov @ step.T + NOISE**2 * noise @ noise.T
        residual = TEST @ mean[-dim:] - TEST_LABELS
        spread = np.einsum("ij,jk,ik->i", TEST, cov[-dim:, -dim:], TEST)
        total += probability * np.mean(residual**2 + spread)
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimiser", "sampler", "average"),
    [
        ("heavy ball", "poisson", jaxdp.PolyakAverage()),
        ("nesterov", "poisson", None),
        ("sgd", "fixed size", None),
    ],
)
def test_without_clipping_it_is_exact(optimiser, sampler, average):
    transition, gradient, factory = OPTIMISERS[optimiser]
    sequences, sampler = SAMPLERS[sampler]
    shares = np.ones(STEPS) if average is None else 1 / np.arange(1, STEPS + 1)
    expected = _enumerated(sequences, transition, gradient, shares)
    with jax.enable_x64():
        # A clip that nothing reaches: the noise is z C over the expected batch of two.
        algorithm = jaxdp.PrivateOptimiser(
            factory,
            learning_rate=RATE,
            clip_norm=2.0**40,
            noise_multiplier=NOISE * 2 / 2.0**40,
            num_steps=STEPS,
            sampler=sampler,
            average=average,
        )
        problem = ReducedFeatures(FEATURES, TEST, np.zeros((5, 0)), LABELS, TEST_LABELS)
        found = jaxdp.predict(problem, algorithm, records=3)
    np.testing.assert_allclose(found.final_risk, expected, rtol=1e-13)
    # Without the noise of the draw it is another number.
    wrong = _enumerated(lambda: [(1.0, np.full((STEPS, NUM), 1))], transition, gradient, shares)
    assert abs(wrong / expected - 1) > 1e-3


def _cosine_grid(config):
    """Rows, labels, and how they are trained on, of a stored configuration."""
    num_train, num_test, num_features = config["problem"]
    i, j = np.arange(num_train + num_test)[:, None], np.arange(num_features)[None]
    phase = 0.37 * (i + 1) * (j + 1) + 0.2 * (j + 1) ** 2
    features, i = np.sqrt(2 / num_features) * np.cos(phase), i[:, 0]
    labels = np.sin(0.53 * (i + 1)) + 0.3 * np.cos(1.9 * (i + 1))
    loss = losses.Squared()
    if config.get("loss") == "logistic":
        labels, loss = np.where(labels > 0, 1.0, -1.0), losses.Logistic()
    if config.get("loss") == "softmax":
        labels, loss = i % config["classes"], losses.Softmax(config["classes"])
    split = features[:num_train], labels[:num_train], features[num_train:], labels[num_train:]
    return jaxdp.FixedFeatures.from_arrays(*split, loss=loss)


def _algorithm(config, num_train):
    beta, batch = config.get("beta"), round(config["q"] * num_train)
    factory = {
        None: optax.sgd,
        "heavy": functools.partial(optax.sgd, momentum=beta),
        "ema": lambda rate: optax.chain(optax.ema(beta, debias=False), optax.sgd(rate)),
        "adam": optax.adam,
    }[config.get("optimiser")]
    samplers = {
        None: PoissonSampler(num_train, config["q"]),
        "fixed": FixedSizeBatches(num_train, batch),
        "shuffle": ShuffledEpochs(num_train, batch),
    }
    average = config.get("average")
    if average is not None:
        named = {"polyak": jaxdp.PolyakAverage, "tail": jaxdp.TailAverage}.get(average)
        average = named() if named else jaxdp.algorithms.ExponentialAverage(average)
    return jaxdp.PrivateOptimiser(
        factory,
        learning_rate=config["eta"],
        clip_norm=config["C"],
        noise_multiplier=config["z"],
        num_steps=config["T"],
        sampler=samplers[config.get("sampling")],
        average=average,
    )


# Each compiles a program of its own, for ten seconds.
@pytest.mark.parametrize("name", quick_and_slow(REFERENCE, "softmax_modes"))
def test_agrees_with_the_stored_numbers(name):
    config, expected = REFERENCE[name], REFERENCE[name]["values"]
    with jax.enable_x64():
        problem = _cosine_grid(config)
        algorithm = _algorithm(config, problem.num_train)
        theory = jaxdp.GaussianClosure(config.get("rank", 256))
        if "kind" in config:
            is_isotropic = config["kind"] == "iso"
            theory = jaxdp.GaussianClosure(0) if is_isotropic else jaxdp.theory.ModewiseClosure()
        found = jaxdp.predict(problem, algorithm, theory=theory, records=1)
        observed = {name: float(value[-1]) for name, value in found.observables.items()}
        spread = None if found.std is None else float(found.std[-1])
    if "loss" in config:
        # The stored ones are quadratures too, of the errors that stand beside them.
        loose = 1e-4 if config["loss"] == "logistic" else 3e-3
        np.testing.assert_allclose(found.final_risk, expected["test_loss"], rtol=loose)
        np.testing.assert_allclose(observed["accuracy"], expected["accuracy"], atol=loose)
        np.testing.assert_allclose(observed["clipped_fraction"], expected["clipped"], atol=loose)
        return
    np.testing.assert_allclose(found.final_risk, expected["test"], rtol=2e-9)
    np.testing.assert_allclose(observed["train_risk"], expected["train"], rtol=2e-9)
    if "clipped" in expected:
        np.testing.assert_allclose(observed["bias"], expected["test_bias"], rtol=2e-9)
        np.testing.assert_allclose(observed["clipped_fraction"], expected["clipped"], rtol=2e-9)
    if "test_sd_with_feedback" in expected:
        # The stored spread leaves out what the slopes' bend has to do with it.
        np.testing.assert_allclose(spread, expected["test_sd_with_feedback"], rtol=1e-3)
    if "sim_sd" in expected:
        error = expected["sim_sd"] / np.sqrt(2 * expected["sim_runs"])
        assert abs(spread - expected["sim_sd"]) < 5 * error
        assert abs(float(found.final_risk) - expected["sim_test"]) < 5 * expected["sim_test_se"]


@pytest.mark.slow
def test_rows_that_share_nodes_predict_what_all_nodes_do(monkeypatch):
    problem = _cosine_grid({"problem": [600, 40, 12], "loss": "softmax", "classes": 3})
    descent = jaxdp.DPGD(3.0, clip_norm=0.3, num_steps=10, noise_scale=500.0)
    theory = jaxdp.theory.ModewiseClosure(spread_draws=None)

    def found(noise_scale=500.0):
        changed = descent.replace(noise_scale=noise_scale)
        predicted = jaxdp.predict(problem, changed, theory=theory, records=1)
        return float(predicted.final_risk), float(predicted.observables["accuracy"][-1])

    shared, noisier = found(), found(510.0)
    monkeypatch.setattr(mode_basis, "_ROW_NODES", 2**30)
    whole = found()
    # Most of the loss is noise: it was ln 3 before the first step.
    assert whole[0] > 1.5
    np.testing.assert_allclose(shared, whole, rtol=1e-3)
    assert not np.allclose(noisier, whole, rtol=1e-3, atol=0)


def _sgd(problem, rate, clip_norm):
    return jaxdp.PrivateOptimiser(
        optax.sgd,
        learning_rate=rate,
        clip_norm=clip_norm,
        noise_multiplier=1e-6,
        num_steps=30,
        sampler=PoissonSampler(problem.num_train, 0.1),
    )


@pytest.mark.slow
def test_beyond_the_limits_of_stability_it_warns_and_says_so():
    problem = _cosine_grid({"problem": [40, 20, 12]})
    limit = problem.reduced().stability_limit()
    quiet = jaxdp.predict(problem, _sgd(problem, 0.9 * limit, 0.05), records=1)
    assert quiet.check().status == 0
    with pytest.warns(UserWarning, match="multiplies deviations along the top mode by 1"):
        found = jaxdp.predict(problem, _sgd(problem, 1.3 * limit, 1e4), records=1)
    assert found.status == jaxdp.Status.UNSTABLE
    # Hardly clipped: the draw of four records of forty alone may make it grow.
    with pytest.warns(UserWarning, match="noise of the batches may grow"):
        found = jaxdp.predict(problem, _sgd(problem, 0.9 * limit, 1e4), records=1)
    assert found.status == jaxdp.Status.UNSTABLE


def test_momentum_lowers_the_limit_of_the_second_moment():
    # One feature, four rows, hardly ever drawn: the exact second moment is a 3 x 3 matrix.
    rows, rate, beta, share = np.array([1.0, 0.5, -0.7, 0.2]), 0.01, 0.9, 0.01
    problem = ReducedFeatures(rows[:, None], rows[:1, None], np.zeros((1, 0)), rows, rows[:1])
    algorithm = jaxdp.PrivateOptimiser(
        functools.partial(optax.sgd, momentum=beta),
        learning_rate=rate,
        clip_norm=2.0**40,
        noise_multiplier=2.0**-60,
        num_steps=5,
        sampler=PoissonSampler(4, share),
    )
    curvature, drawn = 2 * np.sum(rows**2) / 4, (1 - share) / share * 4 * np.sum(rows**4) / 16
    step = np.array([[1 - rate * curvature, -rate * beta], [curvature, beta]])
    square = np.kron(step, step)
    square[:, 0] += drawn * np.kron([-rate, 1.0], [-rate, 1.0])
    exact = np.sqrt(np.abs(np.linalg.eigvals(square)).max())
    modes, recursion = kernel_modes(problem), linear_recursion(algorithm, 4)
    found = growth(modes, recursion, jnp.asarray(curvature))
    assert float(found.mean) < 1 < exact
    # The bound takes every row to be as long as the longest.
    assert exact < float(found.square) < 1.2 * exact
