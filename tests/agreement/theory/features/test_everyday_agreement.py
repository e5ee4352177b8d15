"""The closures of everyday DP-SGD against many simulated runs: means, and spreads over runs."""

import functools

import jax
import numpy as np
import optax
import pytest
from every_loss import ShiftedSquare
from helpers import assert_mean_close
from privacy.test_noise_over_steps import cosine_rows, numpy_risks, optimiser
from scipy.stats import kurtosis

import jaxdp
from jaxdp.losses import Logistic, Softmax, Squared
from jaxdp.privacy import FixedSizeBatches, PoissonSampler, ShuffledEpochs

NUM, NUM_TEST, WIDTH, DIM, STEPS, CLASSES = 200, 200, 300, 20, 60, 4
HEAVY = functools.partial(optax.sgd, momentum=0.8)
NESTEROV = functools.partial(optax.sgd, momentum=0.8, nesterov=True)
POISSON = PoissonSampler(NUM, 0.1)


def _problem(loss):
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((NUM + NUM_TEST, DIM))
    weights = rng.standard_normal((WIDTH, DIM)) / np.sqrt(DIM)
    features = 2 * np.tanh(inputs @ weights.T) / np.sqrt(WIDTH)
    noise = rng.standard_normal((NUM + NUM_TEST, CLASSES))
    labels = np.argmax(inputs[:, :CLASSES] + 0.5 * noise, axis=1)
    if loss.num_outputs is None:
        labels = inputs @ rng.standard_normal(DIM) / np.sqrt(DIM) + 0.3 * noise[:, 0]
        labels = labels if loss.class_labels is None else np.sign(labels)
    rows = features[:NUM], labels[:NUM], features[NUM:], labels[NUM:]
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)


def _algorithm(factory, clip_norm, noise, share, *, problem, sampler=POISSON, average=None):
    """At a share of the stability limit, momentum's step being five times as long."""
    limit = problem.reduced().stability_limit() * (1 if factory is optax.sgd else 0.2)
    numbers = {"clip_norm": clip_norm, "noise_multiplier": noise, "num_steps": STEPS}
    given = numbers | {"sampler": sampler, "average": average}
    return jaxdp.PrivateOptimiser(factory, learning_rate=share * limit, **given)


def _simulated(problem, algorithm, num_runs):
    """Runs, optimised where programs are compiled cheaply: predictions compile longer than run."""
    name, key = "jax_disable_most_optimizations", jax.random.key(7)
    is_cheap = jax.config.read(name)
    jax.config.update(name, False)
    try:
        return jaxdp.simulate(problem, algorithm, num_runs=num_runs, key=key, records=1)
    finally:
        jax.config.update(name, is_cheap)


# By optimiser, batches, average; half of the slopes are clipped, or four of five.
CASES = {
    "heavy ball": (HEAVY, POISSON, None, 0.6, 1.0),
    "Nesterov, most clipped": (NESTEROV, POISSON, None, 0.4, 4.0),
    "heavy ball, Polyak": (HEAVY, POISSON, jaxdp.PolyakAverage(), 0.4, 4.0),
    "sgd, tail": (optax.sgd, POISSON, jaxdp.TailAverage(), 0.6, 1.0),
    "heavy ball, sets": (HEAVY, FixedSizeBatches(NUM, 20), None, 0.6, 1.0),
    "heavy ball, epochs": (HEAVY, ShuffledEpochs(NUM, 20), None, 0.6, 0.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_mean_and_spread_are_those_of_simulated_runs(case):
    factory, sampler, average, clip_norm, noise = CASES[case]
    problem = _problem(Squared())
    share = 0.1 if isinstance(sampler, ShuffledEpochs) else 0.3
    make = functools.partial(_algorithm, factory, clip_norm, problem=problem, sampler=sampler)
    algorithm = make(noise, share, average=average)
    runs = np.asarray(_simulated(problem, algorithm, 3000).final_risk, float)
    found = jaxdp.predict(problem, algorithm, records=1)
    spread = runs.std(ddof=1)
    error = spread / np.sqrt(len(runs))
    of_spread = spread * np.sqrt((kurtosis(runs) + 2) / (4 * len(runs)))
    assert abs(float(found.final_risk) - runs.mean()) < 0.02 * runs.mean() + 3 * error
    # What a spread with feedback is off by where clipping and noise are largest.
    assert abs(float(found.std[-1]) - spread) < 0.056 * spread + 3 * of_spread
    # A third less noise is told apart, by the spread where it hardly moves the mean.
    other = jaxdp.predict(problem, make(noise / 1.5, share, average=average), records=1)
    mean_is_off = abs(float(other.final_risk) - runs.mean()) > 0.02 * runs.mean() + 3 * error
    assert mean_is_off or abs(float(other.std[-1]) - spread) > 0.056 * spread + 3 * of_spread


def _assert_predicted(problem, algorithm, runs, *, bias, shares, sigmas):
    """Predicted loss, shares and spreads are those of runs; those of less noise are not."""
    noise = algorithm.noise_multiplier
    found, other, quiet = (
        jaxdp.predict(problem, algorithm.replace(noise_multiplier=noise / less), records=1)
        for less in (1, 1.5, 3)
    )
    tolerance = {"sigmas": 3, "bias": bias * float(np.mean(runs.final_risk))}
    rejects = [other.final_risk]
    assert_mean_close(runs.final_risk, found.final_risk, **tolerance, rejects=rejects)
    for name in shares:
        values = np.asarray(runs.observables[name][:, -1], float)
        assert 0.1 < values.mean() < 0.99
        assert_mean_close(values, found.observables[name][-1], sigmas=sigmas, bias=0.01)
    _require_spreads(found, quiet, runs)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", ["Nesterov, most clipped", "heavy ball, Polyak"])
def test_several_outputs_are_predicted_with_momentum_too(case):
    factory, _, average, clip_norm, noise = CASES[case]
    problem = _problem(Softmax(CLASSES))
    algorithm = _algorithm(factory, clip_norm, noise, 0.2, problem=problem, average=average)
    runs = _simulated(problem, algorithm, 1000)
    given = {"bias": 0.02, "shares": ["accuracy"], "sigmas": 3}
    assert _assert_predicted(problem, algorithm, runs, **given).label == "modewise closure"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "clip_norm"),
    [(Logistic(), 0.4), (ShiftedSquare(0.375), 0.2)],
    ids=lambda part: type(part).__name__,
)
def test_losses_that_are_no_squares_are_predicted_too(loss, clip_norm):
    problem = _problem(loss)
    algorithm = _algorithm(optax.sgd, clip_norm, 2.0, 0.3, problem=problem)
    runs = _simulated(problem, algorithm, 1000)
    shares = ["clipped_fraction", *["accuracy"] * (loss.class_labels is not None)]
    found = _assert_predicted(problem, algorithm, runs, bias=0.01, shares=shares, sigmas=0)
    assert ("accuracy" in found.observables) == (loss.class_labels is not None)


def _require_spreads(found, quiet, runs):
    """Spreads of loss and accuracy are within a tenth of simulated ones; of a quieter run not."""
    measured = [(runs.final_risk, lambda each: float(each.std[-1]))]
    if "accuracy" in runs.observables:
        accuracy = runs.observables["accuracy"][:, -1]
        measured.append((accuracy, lambda each: float(each.observables["accuracy_std"][-1])))
    for values, read in measured:
        values = np.asarray(values, float)
        spread = values.std(ddof=1)
        off = 0.1 * spread + 3 * spread * np.sqrt((kurtosis(values) + 2) / (4 * len(values)))
        assert abs(read(found) - spread) < off
        assert abs(read(quiet) - spread) > off


@pytest.mark.slow
def test_banded_noise_has_its_predicted_mean_and_spread():
    algorithm = optimiser()
    with jax.enable_x64():
        found = jaxdp.predict(cosine_rows(), algorithm, records=1)
    inverse = algorithm.correlation_sensitivity * np.linalg.inv(algorithm.noise.strategy)
    # Without the correlation it is another law.
    for matrix, is_right in ((inverse, True), (np.eye(len(inverse)), False)):
        risks = numpy_risks(4000, matrix, seed=6)
        spread = risks.std(ddof=1)
        gap = abs(float(found.final_risk) - risks.mean())
        room = 0.02 * risks.mean() + 3 * spread / np.sqrt(len(risks))
        assert gap < room if is_right else gap > 2 * room
        assert (abs(float(found.std[-1]) / spread - 1) < 0.1) == is_right
