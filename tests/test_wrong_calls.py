"""Wrong calls of public functions: one error at the entry that names the argument.

Another entry is one line of `CALLS`: a call that is right, an argument, and what it may not be.
Nothing is compiled: all of these are refused before any work.
"""

import inspect
import re
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from scipy.sparse import csr_array, csr_matrix

import jaxdp
from jaxdp import (
    algorithms,
    attacks,
    data,
    estimators,
    kernels,
    planning,
    privacy,
    regression,
    theory,
)
from jaxdp.attacks.optimisers.base import Ending
from jaxdp.clipping.per_sample import clipped_gradient_sum_in_parts
from jaxdp.comparison import average

KEY = jr.key(0)
LINEAR = jaxdp.LinearRegression(np.ones(2), np.ones(2), 0.1)
ONE_PASS = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 5)
FEATURES = jaxdp.RandomFeatures.from_arrays(
    np.ones((2, 2)), np.ones(2), np.ones((2, 2)), np.ones(2), np.ones((3, 2))
)
FULL_BATCH = jaxdp.DPGD(0.1, 1.0, 5, 1.0)
SAMPLER = privacy.ShuffledEpochs(4, 2)
PRIVATE = jaxdp.PrivateOptimiser(
    optax.sgd(0.1), clip_norm=1.0, noise_multiplier=1.0, num_steps=2, sampler=SAMPLER
)
MODEL = {"weights": np.ones(3, np.float32)}
INPUTS, TARGETS = np.ones((4, 3), np.float32), np.ones(4, np.float32)
STATE = PRIVATE.init(MODEL)
GAUSSIAN = privacy.GaussianMechanism(1.0)
PREDICTED = jaxdp.Trajectory(np.ones(2), np.ones(2), np.ones(()), np.zeros((), int), {})
SPECTRUM = theory.KernelSpectrum(np.ones(2), np.ones(2))


def _loss(model, input, target):
    return (input @ model["weights"] - target) ** 2


BATCH = {"loss": _loss, "model": MODEL, "inputs": INPUTS, "targets": TARGETS}
PAIR = {"problem": LINEAR, "algorithm": ONE_PASS}
TRAIN = {"optimiser": PRIVATE, **BATCH, "key": KEY}
PRIVATE_ARGUMENTS = {
    "optimiser": optax.sgd(0.1),
    "clip_norm": 1.0,
    "noise_multiplier": 1.0,
    "num_steps": 2,
    "sampler": SAMPLER,
}
CORRELATED = {"rates": [1.0], "clip_scale": 1.0, "rho": 1.0, "batch_size": 2}
BEST = {"problem": LINEAR, **CORRELATED}
CORRELATED["strategy"] = np.eye(1)
SIZES = {"num_train": 2, "num_test": 2, "dim": 2, "num_features": 3}
RATES = {"source": 0.75, "capacity": 0.5}
AUDIT = {"first": 0.0, "second": 1.0, "num_trials": 100, "delta": 0.1, "key": KEY}
AUDIT["mechanism"] = lambda data, key: data

CALLS = [
    (jaxdp.simulate, PAIR | {"key": KEY}, "problem", [None, ONE_PASS, jaxdp.LinearRegression]),
    (jaxdp.simulate, PAIR | {"key": KEY}, "algorithm", [None, LINEAR, jaxdp.OnePassDPSGD, 3.0]),
    (jaxdp.simulate, PAIR | {"key": KEY}, "num_runs", ["3", 1.5, None, True]),
    (jaxdp.simulate, PAIR | {"key": KEY}, "simulator", ["x", jaxdp.Iterates, jaxdp.CoupledODE()]),
    (jaxdp.simulate, PAIR | {"key": KEY}, "progress", ["bar", 3]),
    (jaxdp.simulate, PAIR | {"key": KEY}, "keep_parameters", ["yes"]),
    (jaxdp.predict, PAIR, "problem", [None, ONE_PASS, "linear"]),
    (jaxdp.predict, PAIR, "algorithm", [None, LINEAR, jaxdp.DPGD]),
    (jaxdp.predict, PAIR, "theory", ["ode", jaxdp.CoupledODE, jaxdp.Iterates()]),
    (jaxdp.Iterates().covers, PAIR, "problem", [None, ONE_PASS]),
    (jaxdp.FunctionSpace().covers, PAIR, "algorithm", [None, LINEAR]),
    (jaxdp.CoupledODE().covers, PAIR, "problem", [None, ONE_PASS]),
    (jaxdp.GaussianClosure().covers, PAIR, "algorithm", [None, LINEAR]),
    (jaxdp.CoupledODE, {}, "adjoint", [None, "forward"]),
    (jaxdp.GaussianClosure, {}, "rank", ["3", 1.5]),
    (jaxdp.account, {"thing": ONE_PASS, "delta": 0.1}, "thing", [None, LINEAR, jaxdp.DPGD]),
    (jaxdp.compare, {"simulated": PREDICTED}, "simulated", [None, LINEAR]),
    (average, {"runs": PREDICTED}, "runs", [None, LINEAR]),
    (
        jaxdp.DPGD.calibrated,
        {"epsilon": 1.0, "delta": 0.1, "learning_rate": 0.1, "clip_norm": 1.0, "num_steps": 5},
        "calibration",
        ["exact", jaxdp.ExactCalibration],
    ),
    (jaxdp.CorrelatedDPSGD, CORRELATED, "rates", [None, "1", jaxdp.Constant(1.0)]),
    (jaxdp.CorrelatedDPSGD, CORRELATED, "strategy", [None, "optimal"]),
    (planning.optimal_strategy, BEST, "problem", [None, ONE_PASS]),
    (privacy.square_root_strategy, {"num_steps": 2}, "nu", [None, "0"]),
    (jaxdp.PrivateOptimiser, PRIVATE_ARGUMENTS, "optimiser", [None, "sgd", optax.sgd, PRIVATE]),
    (jaxdp.PrivateOptimiser, PRIVATE_ARGUMENTS, "sampler", [None, "poisson", type(SAMPLER)]),
    (jaxdp.PrivateOptimiser, PRIVATE_ARGUMENTS, "noise", ["secret", privacy.SecretNoise, 3]),
    (algorithms.NonPrivateOptimiser, {"num_steps": 2}, "optimiser", [None, PRIVATE, optax.sgd]),
    (PRIVATE.init, {"model": MODEL}, "model", [None, "model", eqx.nn.Linear, [1, 2]]),
    (PRIVATE.step, BATCH | {"state": STATE, "key": KEY}, "state", [None, 0, MODEL]),
    (PRIVATE.step, BATCH | {"state": STATE, "key": KEY}, "model", [None, eqx.nn.Linear]),
    (PRIVATE.update, {"gradient_sum": MODEL, "model": MODEL, "key": KEY}, "state", [None, 0]),
    (PRIVATE.noisy_sum, {"gradient_sum": MODEL, "key": KEY}, "step", [None, "0", 1.5]),
    (algorithms.train, TRAIN, "optimiser", [None, optax.sgd(0.1), FULL_BATCH]),
    (algorithms.train, TRAIN, "loss", [None, "hinge", lambda model, input: 0.0]),
    (algorithms.train, TRAIN, "model", [None, "model"]),
    (algorithms.train, TRAIN, "inputs", ["rows", object()]),
    (algorithms.train, TRAIN, "evaluate", ["accuracy", 0]),
    (algorithms.train, TRAIN, "every", ["12", 2.5, [5]]),
    (algorithms.train, TRAIN, "progress", ["bar", 3]),
    (algorithms.train, TRAIN, "mesh", [8, "devices"]),
    (algorithms.train, TRAIN, "delta", ["1e-5", 1j]),
    (algorithms.train, TRAIN, "checkpoint", [3, 0.5]),
    (algorithms.AdaptiveClip, {"initial": 1.0}, "count_noise", ["1", None]),
    (privacy.Release, {"what": "x", "adjacency": "replace-one"}, "mechanism", [None, FULL_BATCH]),
    (privacy.Composition, {}, "mechanisms", [None, GAUSSIAN, (FULL_BATCH,)]),
    (privacy.SecretNoise(2**200).proved, {}, "mechanism", [None, FULL_BATCH]),
    (privacy.PoissonSampler, {"num_records": 4}, "sampling_rate", [None, 1j]),
    (SAMPLER.sample, {"step": 0, "key": KEY}, "step", [None, "0", 1.5]),
    (
        privacy.PoissonSampler(4, 0.5).sample_secretly,
        {"step": 0, "key": KEY},
        "noise",
        [None, privacy.SecretNoise],
    ),
    (
        privacy.calibrated_noise_multiplier,
        {"epsilon": 1.0, "delta": 0.1, "num_steps": 2},
        "sampler",
        [None, "poisson", PRIVATE],
    ),
    (privacy.audit, AUDIT, "mechanism", [None, "laplace"]),
    (privacy.audit, AUDIT, "confidence", ["0.9", None]),
    (privacy.reconstruction_bound, {"mu": 1.0}, "baseline", [None, "0.1"]),
    (jaxdp.per_sample_gradient_norms, BATCH, "loss", [None, lambda model, input: 0.0]),
    (jaxdp.per_sample_gradient_norms, BATCH, "model", [None, eqx.nn.Linear]),
    (jaxdp.LinearRegression.from_data, {"labels": TARGETS}, "inputs", ["table", [[1], [2, 3]]]),
    (jaxdp.RandomFeatures.sample, SIZES | {"key": KEY}, "inputs", [None, "gaussian"]),
    (FEATURES.ridge_risk, {}, "ridge", [None, "1"]),
    (data.column_scaling, {"rows": INPUTS}, "rows", [[["a"]], 1j * INPUTS]),
    (jaxdp.hermite_coefficients, {"max_order": 2}, "activation", [None, "tanh"]),
    (theory.predicted_excess_risk, {"ridge": 0.1}, "spectrum", [None, theory.KernelSpectrum]),
    (theory.predicted_excess_risk, {"spectrum": SPECTRUM, "ridge": 0.1}, "noise", [None, 0.1]),
    (
        theory.last_iterate_reconstruction_errors,
        {"algorithm": FULL_BATCH},
        "problem",
        [None, LINEAR],
    ),
]
CASES = [
    pytest.param(call, good, name, value, id=f"{call.__qualname__}-{name}-{place}")
    for call, good, name, values in CALLS
    for place, value in enumerate(values)
]


@pytest.mark.parametrize(("call", "good", "name", "wrong"), CASES)
def test_an_argument_of_the_wrong_kind_is_named(call, good, name, wrong):
    with pytest.raises(TypeError, match=rf"^expected .*\b{re.escape(name)}\b") as caught:
        call(**good | {name: wrong})
    # In one line, and of a length that can be read.
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


SIGNS = np.where(np.arange(40) % 3 == 0, -1.0, 1.0)
X = np.random.default_rng(0).uniform(size=(40, 3))
TABLE = {"inputs": X, "labels": SIGNS}
ROWS = {"train_features": X, "train_labels": SIGNS, "test_features": X, "test_labels": SIGNS}
RANDOM_ROWS = {name.replace("features", "inputs"): value for name, value in ROWS.items()}
NETWORK_ROWS = TABLE | {"test_inputs": X, "test_labels": SIGNS, "loss": jaxdp.losses.Squared()}
UNIT = kernels.ClippedFeatures(kernels.IdentityFeatures(3), 1.5)
RIDGE = kernels.PrivateKernelRidge(kernels.InnerProduct(), 2, label_bound=1.0, input_bound=2.0)
BUDGET = {"epsilon": 8.0, "delta": 1e-6}
LINEAR_FIT = regression.PrivateLinearRegression(UNIT, label_range=(-1, 1)).fit
RELEASE = LINEAR_FIT(**TABLE, **BUDGET).release
MADE = {
    "linear": lambda: estimators.DPLinearRegression(
        **BUDGET, input_range=(0, 1), label_range=(-1, 1)
    ),
    "logistic": lambda: estimators.DPLogisticRegression(
        **BUDGET, input_range=(0, 1), classes=(-1, 1)
    ),
    "ridge": lambda: estimators.DPKernelRidge(
        **BUDGET, input_range=(0, 1), label_bound=1.0, num_projections=2, num_features=4
    ),
    "classifier": lambda: estimators.DPKernelClassifier(
        **BUDGET, input_range=(0, 1), classes=(-1, 1), num_projections=2, num_features=4
    ),
}
FITTED = {name: MADE[name]().fit(X, SIGNS) for name in ("linear", "logistic")}
LABELLED = {"X": X, "y": SIGNS}
V = np.random.default_rng(1).normal(size=(90, 3))
ATTACKED = {"inputs": X[:2], "labels": SIGNS[:2], "weights": V, "activation": jax.nn.relu}
CANARIES = {"scores": X[:, 0], "included": SIGNS > 0}
KNOWN_RUN = {
    "iterates": np.ones((2, 90)),
    "weights": V,
    "activation": jax.nn.relu,
    "algorithm": jaxdp.DPGD(0.1, 1.0, 1, 1.0),
    "known_inputs": X[:1],
    "known_labels": SIGNS[:1],
    "num_samples": 3,
}
SCORED = {"member_scores": SIGNS, "other_scores": SIGNS, "false_positive_rates": [0.1]}
TARGET = attacks.span_target(X[:2], V, jax.nn.relu)
FOUND = attacks.Reconstruction(
    jnp.asarray(X[:2]), *(jnp.zeros(()), False, 1.0, Ending.CONVERGED, jnp.zeros(1))
)
# Everything that takes data, with which of its arguments are data.
TAKES_DATA = [
    (algorithms.train, TRAIN, ["inputs", "targets"]),
    (jaxdp.clipped_gradient_sum, BATCH | {"clip_norm": 1.0}, ["inputs", "targets", "clip_norm"]),
    (jaxdp.clipped_gradient_sum, BATCH | {"clip_norm": 1.0}, ["mask", "model"]),
    (clipped_gradient_sum_in_parts, BATCH | {"clip_norm": 1.0}, ["inputs"]),
    (jaxdp.per_sample_gradient_norms, BATCH, ["inputs", "targets"]),
    (PRIVATE.step, BATCH | {"state": STATE, "key": KEY}, ["inputs", "targets"]),
    (PRIVATE.update, {"model": MODEL, "state": STATE, "key": KEY}, ["gradient_sum"]),
    (jaxdp.clipping.explain, {"loss": _loss, "model": MODEL, "target": TARGETS[0]}, ["input"]),
    (jaxdp.FixedFeatures.from_arrays, ROWS, [*ROWS]),
    (jaxdp.RandomFeatures.from_arrays, RANDOM_ROWS | {"weights": V}, [*RANDOM_ROWS, "weights"]),
    (jaxdp.FixedFeatures.from_network, NETWORK_ROWS | {"body": jnp.sin}, [*NETWORK_ROWS][:4]),
    (jaxdp.Linearised, NETWORK_ROWS | {"model": jnp.sum}, [*NETWORK_ROWS][:4]),
    (jaxdp.TabularRegression, TABLE, [*TABLE]),
    (jaxdp.LinearRegression.from_data, TABLE, [*TABLE]),
    (RIDGE.fit, TABLE | BUDGET | {"public_seed": 1}, [*TABLE]),
    (LINEAR_FIT, TABLE | BUDGET, [*TABLE]),
    (regression.PrivateLinearClassifier(UNIT).fit, TABLE | BUDGET, [*TABLE]),
    (RELEASE, {}, ["inputs"]),
    (RELEASE.predict, {}, ["inputs"]),
    (kernels.blockwise, {"function": UNIT}, ["inputs"]),
    *((MADE[name]().fit, LABELLED, [*LABELLED]) for name in MADE),
    *((one.predict, {}, ["X"]) for one in FITTED.values()),
    *((one.score, LABELLED, ["X", "y", "sample_weight"]) for one in FITTED.values()),
    (FITTED["logistic"].predict_proba, {}, ["X"]),
    (data.column_scaling, {}, ["rows"]),
    (data.column_scaling(X), {}, ["rows"]),
    (attacks.reconstruction_error, {"found_inputs": X, "true_inputs": X}, ["true_inputs"]),
    (attacks.row_errors, {"true_inputs": X}, ["found_inputs"]),
    (attacks.span_target, {"weights": V, "activation": jax.nn.relu}, ["inputs"]),
    (attacks.minimum_norm_parameters, ATTACKED, ["inputs", "labels", "weights"]),
    (attacks.without_known_rows, KNOWN_RUN, ["iterates", "weights", "known_inputs"]),
    (attacks.RandomFeaturesTarget, ATTACKED | {"parameters": V[:, 0]}, ["weights", "parameters"]),
    (attacks.leak_report, {"target": TARGET, "found": FOUND}, ["true_inputs"]),
    (attacks.reconstruct, {"target": TARGET, "num_samples": 2, "key": KEY}, ["known_inputs"]),
    (attacks.attained_tradeoff, SCORED, [*SCORED]),
    (lambda first_scores: privacy.audit(first_scores, SIGNS, delta=0.1), {}, ["first_scores"]),
    (privacy.audit_one_run, CANARIES | {"delta": 0.1}, [*CANARIES]),
]
NO_ARRAYS = [
    (np.ma.masked_less(X, 0.1), "a masked one: fill in what is missing first"),
    (np.ma.array(SIGNS), "a masked one: fill in what is missing first"),
    (csr_matrix(X), r"a sparse csr_matrix: its method toarray\(\) makes an array"),
    (csr_array(X), r"a sparse csr_array: its method toarray\(\) makes an array"),
    (types.MappingProxyType({"train": X}), r"arrays by name \(mappingproxy\): give one of them"),
]


@pytest.mark.parametrize(
    ("call", "good", "name"),
    [
        pytest.param(call, good, name, id=f"{getattr(call, '__qualname__', 'call')}-{name}-{place}")
        for place, (call, good, names) in enumerate(TAKES_DATA)
        for name in names
    ],
)
def test_everything_that_takes_data_refuses_what_is_no_array_in_the_same_words(call, good, name):
    good = {key: value for key, value in good.items() if key in inspect.signature(call).parameters}
    for value, came in NO_ARRAYS:
        if name in ("model", "gradient_sum"):
            if not isinstance(value, np.ma.MaskedArray):
                continue
            value = {"weights": value}
        message = rf"^expected {name}s?.* to be an array of numbers, got {came}$"
        with pytest.raises(TypeError, match=message) as seen:
            call(**good | {name: value})
        assert seen.value.__cause__ is None


@pytest.mark.parametrize("large", [np.full(4, 2**31), [2**40] * 4, np.full(4, 2**63, np.uint64)])
def test_whole_numbers_are_refused_where_they_would_wrap_and_else_become_floats(large):
    message = "expected (inputs|targets) of whole numbers that u?int32 can .* enable jax_enable_x64"
    for call, good in ((algorithms.train, TRAIN), (PRIVATE.step, BATCH | {"state": STATE})):
        for name in ("inputs", "targets"):
            with pytest.raises(ValueError, match=message):
                call(**good | {"key": KEY, name: large})
    with pytest.raises(ValueError, match=message):
        jaxdp.clipped_gradient_sum(**BATCH | {"targets": large}, clip_norm=1.0)
    wide = np.asarray(large, float)
    labelled = ROWS | {"train_labels": np.tile(wide, 10)}
    assert jaxdp.FixedFeatures.from_arrays(**labelled).train_labels[0] == np.float32(wide[0])
    rows = {"inputs": np.tile(large, 10)[:, None], "test_inputs": np.ones((40, 1))}
    with pytest.raises(ValueError, match=message):
        jaxdp.FixedFeatures.from_network(jnp.sin, **NETWORK_ROWS | rows)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda value: privacy.PoissonSampler(4, value), "sampling_rate"),
        (
            lambda value: privacy.calibrated_noise_multiplier(
                value, 0.1, sampler=SAMPLER, num_steps=2
            ),
            "epsilon",
        ),
        (lambda value: theory.KernelSpectrum(jnp.ones(2) * value, np.ones(2)), "eigenvalues"),
        (lambda value: privacy.reconstruction_bound(1.0, value), "baseline"),
        (lambda value: jaxdp.LinearRegression.from_data(INPUTS * value, TARGETS), "inputs"),
        (lambda value: data.column_scaling(INPUTS * value), "rows"),
        (lambda value: _trajectory(value).check(), "status"),
        (lambda value: jaxdp.compare(_trajectory(value), PREDICTED), "simulated"),
    ],
)
def test_a_traced_value_is_named_where_the_host_needs_it(call, name):
    with pytest.raises(TypeError, match=rf"^expected .*\b{name}\b.*traced"):
        jax.eval_shape(lambda value: (call(value), value)[1], 0.75)


def _trajectory(value):
    zero = (0 * value).astype(int)
    return jaxdp.Trajectory(jnp.ones(2), jnp.ones((1, 2)) * value, jnp.ones(1), zero[None], {})


def test_a_composition_of_algorithms_says_which_part_is_none():
    with pytest.raises(TypeError, match=r"expected things\[1\] to be something that states"):
        privacy.compose(FULL_BATCH, LINEAR)


def test_an_error_in_a_loss_says_what_it_was_given():
    with pytest.raises(TypeError) as caught:
        jaxdp.clipped_gradient_sum(_loss, MODEL, {"rows": INPUTS}, TARGETS, clip_norm=1.0)
    assert "an input of shape {'rows': (3,)} and a target of shape ()" in caught.value.__notes__[0]


def test_no_error_prints_a_key():
    with pytest.raises(TypeError, match=r"got a jax\.random\.key") as caught:
        jaxdp.predict(KEY, ONE_PASS)
    assert "overlaying" not in str(caught.value)


def test_a_frame_of_several_types_is_made_of_numbers():
    table = np.array([[True, 0.5, 3]] * 12, dtype=object)
    table[:, 1] = np.arange(12.0)
    table[::2, 0], table[::3, 2] = False, 7
    problem = jaxdp.LinearRegression.from_data(table, np.arange(12.0))
    assert problem.dim == 3
