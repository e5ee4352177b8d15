"""Private optimisers on fixed features, for any loss: against NumPy, and against training."""

import functools

import everyday_numpy
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import FALSE_ALARM, quick_and_slow
from scipy.stats import ks_2samp

import jaxdp
from jaxdp.core.trajectory import variables_of_trajectory
from jaxdp.losses import Huber, Logistic, Softmax, Squared
from jaxdp.privacy import FixedSizeBatches, PoissonSampler, ShuffledEpochs
from jaxdp.problems import ReducedFeatures
from jaxdp.simulation.rows import fixed_rows

NUM_TRAIN, NUM_TEST, WIDTH, NUM_STEPS, NUM_CLASSES = 40, 25, 60, 15, 3
RATE, CLIP, NOISE, SAMPLING_RATE = 0.05, 1.0, 2.0, 0.3
SAMPLER = PoissonSampler(NUM_TRAIN, SAMPLING_RATE)
SLOW = pytest.mark.slow
SIMULATORS = [jaxdp.Iterates(), jaxdp.FunctionSpace()]


def _rows():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(NUM_TRAIN + NUM_TEST, 6))
    features = np.tanh(inputs @ rng.normal(size=(6, WIDTH)) / np.sqrt(6)).astype(np.float32)
    return features[:NUM_TRAIN].astype(float), features[NUM_TRAIN:].astype(float), inputs


TRAIN, TEST, INPUTS = _rows()
SIGNS = np.where(INPUTS[:, 0] > 0, 1.0, -1.0)
CLASSES = np.argmax(INPUTS[:, :NUM_CLASSES], axis=1).astype(float)
LOSSES = {
    "squared": (Squared(), SIGNS, everyday_numpy.squared, 1),
    "logistic": (Logistic(), SIGNS, everyday_numpy.logistic, 1),
    "softmax": (Softmax(NUM_CLASSES), CLASSES, everyday_numpy.softmax, NUM_CLASSES),
}


def _problem(name="squared"):
    loss, labels, _, _ = LOSSES[name]
    rows = TRAIN, labels[:NUM_TRAIN], TEST, labels[NUM_TRAIN:]
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)


MOMENTUM = functools.partial(optax.sgd, momentum=0.9)


def _optimiser(factory=MOMENTUM, rate=RATE, **change):
    settings = dict(clip_norm=CLIP, noise_multiplier=NOISE, num_steps=NUM_STEPS, sampler=SAMPLER)
    return jaxdp.PrivateOptimiser(factory, learning_rate=rate, **settings | change)


def _final(problem, algorithm, simulator, num_runs=2000):
    runs = jaxdp.simulate(
        problem, algorithm, num_runs=num_runs, key=jr.key(1), simulator=simulator, records=2
    )
    return np.asarray(runs.check().final_risk, np.float64)


def _assert_same_law(first, second):
    assert ks_2samp(first, second).pvalue > FALSE_ALARM


def _numpy_heavy(rate):
    return everyday_numpy.Momentum(rate, 0.9)


LOUDER, ON_WEIGHTS = {"noise_multiplier": NOISE * 4 / 3}, {"noise_is_in": "weights"}
NOT_AVERAGED = {"is_averaged": False}
# The loss; the optimiser here, in NumPy, and its rate; whether it averages; what is wrong. Adam
# divides by the size of what it sees, so that more noise moves little where steps are small.
LOOPS = {
    "momentum": (
        *("squared", MOMENTUM, _numpy_heavy, RATE, False),
        [LOUDER, ON_WEIGHTS, {"noise_is_in": "mean"}],
    ),
    "adam": ("squared", optax.adam, everyday_numpy.Adam, 0.2, False, [LOUDER, ON_WEIGHTS]),
    "logistic": ("logistic", MOMENTUM, _numpy_heavy, 0.6, True, [LOUDER, NOT_AVERAGED]),
    "softmax": ("softmax", MOMENTUM, _numpy_heavy, 0.6, True, [LOUDER, NOT_AVERAGED]),
}


# That function space has the law of the iterates is tested below.
@pytest.mark.parametrize("case", quick_and_slow(LOOPS, "softmax"))
def test_private_training_has_the_law_of_the_loop_in_numpy(case):
    name, factory, in_numpy, rate, is_averaged, wrongs = LOOPS[case]
    average = jaxdp.PolyakAverage() if is_averaged else None
    simulator = None if case == "adam" else jaxdp.FunctionSpace()
    found = _final(_problem(name), _optimiser(factory, rate, average=average), simulator)
    _, labels, loss, num_outputs = LOSSES[name]
    given = {"loss": loss, "num_outputs": num_outputs, "sampling_rate": SAMPLING_RATE}
    given |= {"clip_norm": CLIP, "noise_multiplier": NOISE, "num_steps": NUM_STEPS}
    # The noise of one output moves the loss less than that of several.
    num_runs = 2000 if name == "logistic" else 600

    def assert_same_law(is_averaged=is_averaged, **change):
        rows, rng = (TRAIN, labels[:NUM_TRAIN]), np.random.default_rng(3)
        settings = given | {"optimiser": in_numpy(rate)} | change
        path = everyday_numpy.dp_sgd(*rows, rng, num_runs, **settings)
        released = path[1:].mean(axis=0) if is_averaged else path[-1]
        expected = np.mean(loss(TEST @ released, labels[NUM_TRAIN:])[0], axis=1)
        _assert_same_law(found, expected)

    assert_same_law()
    for wrong in wrongs:
        with pytest.raises(AssertionError):
            assert_same_law(**wrong)


NESTEROV = functools.partial(optax.sgd, nesterov=True, momentum=0.8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sampler", "average", "factory"),
    [
        ("squared", ShuffledEpochs(NUM_TRAIN, 10), None, NESTEROV),
        ("logistic", FixedSizeBatches(NUM_TRAIN, 10), jaxdp.TailAverage(), MOMENTUM),
        ("softmax", SAMPLER, jaxdp.algorithms.ExponentialAverage(0.7), optax.sgd),
        ("squared", None, None, None),
    ],
)
def test_function_space_has_the_law_of_the_iterates(name, sampler, average, factory):
    problem = _problem(name)
    if sampler is None:
        algorithm, noise = jaxdp.DPGD(0.1, CLIP, NUM_STEPS, 3.0), "noise_scale"
    else:
        algorithm = _optimiser(factory, rate=0.1, sampler=sampler, average=average)
        noise = "noise_multiplier"
    # The noise moves the loss of one logistic output less, and that of a long average.
    is_seen_less = name == "logistic" or sampler is SAMPLER
    num_runs = 4000 if is_seen_less else 2000
    first, second = (_final(problem, algorithm, simulator, num_runs) for simulator in SIMULATORS)
    _assert_same_law(first, second)
    wrong = algorithm.replace(**{noise: getattr(algorithm, noise) * 4 / 3})
    with pytest.raises(AssertionError):
        _assert_same_law(first, _final(problem, wrong, jaxdp.FunctionSpace(), num_runs))


@pytest.mark.slow
def test_records_of_function_space_move_together_as_those_of_the_iterates():
    # Also in the coordinates that training never sees: kernels, not features, are given.
    problem = _problem("softmax")
    labels = problem.train_labels, problem.test_labels
    by_kernel = ReducedFeatures.from_kernel(problem.joint_kernel(), *labels, loss=problem.loss)
    algorithm = _optimiser(rate=0.3, average=jaxdp.PolyakAverage())
    growths = []
    for each, simulator in ((problem, jaxdp.Iterates()), (by_kernel, jaxdp.FunctionSpace())):
        runs = jaxdp.simulate(
            each, algorithm, num_runs=2000, key=jr.key(2), simulator=simulator, records=2
        )
        readings = {**runs.observables, "risk": runs.risk}
        growths.append({name: value[:, 2] - value[:, 1] for name, value in readings.items()})
    for name in ("risk", "train_risk", "clipped_fraction", "accuracy", "train_accuracy"):
        _assert_same_law(*(np.asarray(growth[name]) for growth in growths))


@pytest.mark.parametrize("name", [pytest.param("logistic", marks=SLOW), "softmax"])
def test_one_step_is_that_of_the_book_with_gradients_clipped_as_a_whole(name):
    problem, rate = _problem(name), 0.5
    _, labels, loss, num_outputs = LOSSES[name]
    _, first_slopes = loss(np.zeros((NUM_TRAIN, num_outputs)), labels[:NUM_TRAIN])
    _, first_norms = everyday_numpy.clipped_gradients(TRAIN, first_slopes, 1.0)
    clip_norm = float(np.median(first_norms))
    step = _optimiser(
        optax.sgd,
        rate,
        clip_norm=clip_norm,
        noise_multiplier=0.0,
        num_steps=1,
        sampler=PoissonSampler(NUM_TRAIN, 1.0),
    )
    runs = jaxdp.simulate(problem, step, key=jr.key(0), records=1, keep_parameters=True)

    def book(clip):
        gradients, norms = clip(first_slopes)
        return -rate * gradients.mean(axis=0), np.mean(norms > clip_norm)

    whole, share = book(lambda slopes: everyday_numpy.clipped_gradients(TRAIN, slopes, clip_norm))
    assert share == 0.5
    parameters = np.reshape(runs.parameters[0], whole.shape)
    np.testing.assert_allclose(parameters, whole, atol=1e-6)
    if name == "softmax":
        assert runs.parameters.shape == (1, WIDTH, NUM_CLASSES)
        dims = {each.name: each.dims for each, _ in variables_of_trajectory(runs)}
        assert dims["parameters"] == ("run", "parameter", "output")

        def of_each_output(slopes):
            parts = [
                everyday_numpy.clipped_gradients(TRAIN, slopes[:, [output]], clip_norm)
                for output in range(num_outputs)
            ]
            return np.concatenate([part for part, _ in parts], axis=2), parts[0][1]

        assert not np.allclose(parameters, book(of_each_output)[0], atol=1e-3)
        # Descent by full batches has the loss of the problem too.
        descent = jaxdp.DPGD(rate, clip_norm, 1, 0.0)
        full = jaxdp.simulate(problem, descent, key=jr.key(0), records=1)
        np.testing.assert_allclose(full.risk, runs.risk, rtol=1e-5)
    seen = {key: float(value[0, -1]) for key, value in runs.observables.items()}
    assert seen["clipped_fraction"] == pytest.approx(share)
    for rows, targets, risk, accuracy in (
        (TEST, labels[NUM_TRAIN:], float(runs.final_risk[0]), seen["accuracy"]),
        (TRAIN, labels[:NUM_TRAIN], seen["train_risk"], seen["train_accuracy"]),
    ):
        predictions = rows @ whole
        assert risk == pytest.approx(np.mean(loss(predictions, targets)[0]), rel=1e-5)
        named = np.sign(predictions[:, 0]) if name == "logistic" else predictions.argmax(axis=1)
        assert accuracy == pytest.approx(np.mean(named == targets), abs=1e-6)
    # Where all predictions are zero every class is named.
    guess = 1 / 2 if name == "logistic" else 1 / NUM_CLASSES
    assert float(runs.observables["accuracy"][0, 0]) == pytest.approx(guess)


def test_a_record_whose_gradient_is_not_finite_counts_as_zero():
    algorithm = _optimiser()
    slopes = jnp.asarray([[[3.0, 4.0, 0.0], [jnp.nan, 0.0, 0.0], [0.0, 0.0, 0.0], [0.1, 0.0, 0.0]]])
    norms = jnp.asarray([1.0, 1.0, 1.0, 2.0])
    clipped, is_clipped = fixed_rows.clipped_slopes(
        fixed_rows.OptimiserOnRows(algorithm), slopes, norms
    )
    expected = [[0.6, 0.8, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.1, 0.0, 0.0]]
    np.testing.assert_allclose(clipped[0], expected, rtol=1e-6)
    assert is_clipped[0].tolist() == [True, False, False, False]
    # Training by full batches hides nothing.
    clipped, _ = fixed_rows.clipped_slopes(jaxdp.DPGD(0.1, 1.0, 1, 0.0), slopes, norms)
    assert jnp.isnan(clipped[0, 1]).any()


@pytest.mark.slow
def test_infinite_width_is_covered_where_the_optimiser_is_linear():
    infinite = jaxdp.RandomFeatures.sample(
        NUM_TRAIN, NUM_TEST, 4, None, loss=Huber(1.0), key=jr.key(0)
    )
    linear, other = _optimiser(), _optimiser(optax.adam)
    runs = jaxdp.simulate(infinite, linear, num_runs=3, key=jr.key(0), records=2).check()
    assert runs.risk.shape == (3, 3)
    assert "use FunctionSpace()" in jaxdp.Iterates().why_not(infinite, linear)
    with pytest.raises(jaxdp.NotCoveredError, match=r"FunctionSpace: .*optimiser that is linear"):
        jaxdp.simulate(infinite, other, key=jr.key(0))
