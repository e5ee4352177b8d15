"""Refusals that no kind of argument covers: relations between arguments, ranges, what helps."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from attack_problems import OwnModel
from contracts import named, parts, squared_loss

import jaxdp
from jaxdp import algorithms, attacks, kernels, losses, planning, privacy, theory

NAN, INF = math.nan, math.inf
ERRORS = (TypeError, ValueError, UserWarning, jaxdp.NotCoveredError)
REFUSED = {}


def _each(name, values, message):
    """Several values of one argument that are refused in the same words."""
    return [({name: value}, message) for value in values]


# Problems.
NOT_COVERED = r"HalfSquared\(\) or jaxdp.losses.Huber\(width\), got"
NO_LOSS = r"expected loss to be one of jaxdp.losses such as Squared\(\), got "
CLASSES = np.arange(40) % 3
REFUSED["LinearRegression"] = lambda p: [
    ({"spectrum": [2.0, 2.0]}, "mean 1"),
    ({"spectrum": [2.5, -0.5]}, "eigenvalues >= 0"),
    ({"target": [1.0]}, "one shape"),
    ({"input_scales": [1.0]}, "input_scales to be jaxdp.InputScales or None, got list"),
    *_each("loss", (losses.Squared(), losses.Logistic(), "huber", None), NOT_COVERED),
]
REFUSED["LinearRegression.power_law"] = lambda p: [
    ({"condition_number": 0.5}, "condition_number >= 1, got 0.5")
]
REFUSED["InputScales"] = lambda p: [
    ({"weights": [1.0]}, "one shape"),
    ({"values": [INF, 1.0], "weights": [0.0, 1.0]}, "finite values > 0"),
    ({"weights": [1.5, -0.5]}, "weights >= 0, got one of -0.5"),
    ({"values": [1.0, 2.0]}, "mean 1.5; divide the values by it"),
]
REFUSED["LogisticRegression"] = lambda p: [({"dim": 1}, "expected dim >= 2, got 1")]
REFUSED["RandomFeatures.from_arrays"] = lambda p: [
    ({"train_labels": np.ones(5)}, r"train_labels of shape \(40\), got \(5,\)"),
    ({"test_inputs": np.ones((2, 4))}, r"test_inputs of shape \(any, 3\)"),
    ({"weights": np.ones((0, 3))}, "non-empty weights"),
    ({"train_inputs": np.full((40, 3), INF)}, "finite train_inputs, got 120"),
]
_LABELS = {
    "0 and 1": (CLASSES > 1, losses.Logistic(), r"-1 or \+1 for the Logistic .*2 \* labels - 1"),
    "too many": (CLASSES, losses.Softmax(2), r"from 0 to 1 \(num_classes=2\), got 2"),
    "negative": (CLASSES - 1, losses.Softmax(3), r"from 0 to 2 \(num_classes=3\), got -1"),
    "one-hot": (np.eye(3)[CLASSES], losses.Softmax(3), r"train_labels of shape \(40\)"),
    "texts": (np.array(["a", "b"] * 20), losses.Logistic(), "train_labels .* ndarray of texts"),
}
REFUSED["FixedFeatures.from_arrays"] = lambda p: [
    ({"train_features": np.zeros(4)}, "train_features"),
    ({"test_labels": np.ones((40, 1))}, "test_labels"),
    ({"test_labels": np.full(40, NAN), "loss": losses.Huber(1.0)}, "finite test_labels, got 40"),
    *_each("loss", (None, "logistic", jnp.square), NO_LOSS),
    *(({"train_labels": labels, "loss": loss}, said) for labels, loss, said in _LABELS.values()),
]
REFUSED["problems.ReducedFeatures"] = lambda p: [
    ({"train_factor": np.ones((3, 2))}, r"train_factor of shape \(40, any\), got \(3"),
    ({"test_factor": np.ones((40, 5))}, "one number of columns"),
    ({"train_labels": [], "train_factor": np.ones((0, 2))}, "one training row"),
]
REFUSED["problems.ReducedFeatures.from_kernel"] = lambda p: [
    ({"kernel": np.eye(4)}, r"kernel of shape \(80, 80\)"),
    ({"kernel": np.tri(80)}, "symmetric kernel, got entries that"),
    ({"kernel": -np.eye(80)}, "semi-definite kernel, got an eigenvalue -1"),
    ({"loss": "logistic"}, NO_LOSS),
]

# Algorithms.
_NEEDS_LOSS = "expected an optimiser that needs gradient, state and weights only.*is not released"
REFUSED["OnePassDPSGD"] = lambda p: [
    ({"learning_rate": lambda t: 1 + (t > 0.5) - (t > 0.9)}, "non-increasing learning rate"),
    ({"clip_scale": [1.0, 2.0]}, "vmap over the constructor"),
    ({"clip_scale": INF}, "finite clip_scale"),
    ({"num_steps": 2**31}, "num_steps < 2"),
]
REFUSED["DPGD"] = lambda p: [({"clip_norm": INF}, "expected a finite clip_norm with noise_scale")]
REFUSED["DPGD.calibrated (Published)"] = lambda p: [
    ({"epsilon": 61.0, "delta": 1 / 2000, "num_steps": 1000}, r"8 log\(1/delta\) = 60.8")
]
REFUSED["CorrelatedDPSGD"] = lambda p: [
    ({"strategy": np.eye(3)}, r"of shape \(2, 2\), got \(3, 3\)"),
    *_each("strategy", ([[0.0, 0.0], [1.0, 1.0]], -np.eye(2)), "positive diagonal, got an entry"),
    ({"strategy": [[1.0, 0.0], [0.1, 1.0]]}, r"of norm at most 1, .* norm 1\.00499"),
    ({"strategy": [[0.5, 0.1], [0.0, 0.5]]}, "lower triangular"),
    ({"rates": np.ones(5)}, r"strategy of shape \(5, 5\)"),
    ({"rates": [1.0, -0.5]}, r"finite rates >= 0, got one of -0\.5"),
    ({"rates": 1.0}, r"a vector of one rate a step, got shape \(\)"),
    ({"clip_scale": INF}, "without clipping no finite noise is private"),
]
REFUSED["PrivateOptimiser"] = lambda p: [
    *_each(
        "clip_norm", (0, 2.0**-61, 2.0**61, INF), r"clip_norm > 0, between 2\^-60 and 2\^60 .* got"
    ),
    *(
        ({name: np.ones(3)}, rf"{name} to be a scalar, .*\(3,\); make a batch with")
        for name in ("clip_norm", "noise_multiplier")
    ),
    ({"noise_multiplier": INF}, "finite noise_multiplier"),
    ({"noise_multiplier": 0.0, "noise": p.noise}, "noise_multiplier > 0 with secret noise"),
    ({"average": jaxdp.PolyakAverage}, "expected average to be None or an average"),
    *_each("optimiser", (optax.sgd, p.private), "expected optimiser"),
    ({"optimiser": optax.sgd, "learning_rate": -0.1}, "expected .*learning_rate"),
    *_each(
        "optimiser",
        (optax.polyak_sgd(), optax.lbfgs(), optax.contrib.reduce_on_plateau()),
        _NEEDS_LOSS,
    ),
]
REFUSED["PrivateOptimiser.init"] = lambda p: _each(
    "model", (None, eqx.nn.Linear, [1, 2]), "expected model"
)
REFUSED["algorithms.NonPrivateOptimiser"] = lambda p: _each(
    "optimiser", (p.private, optax.sgd), "expected optimiser"
)
REFUSED["train"] = lambda p: [
    ({"loss": lambda model, input: 0.0}, "expected .*loss"),
    ({"optimiser": p.private.replace(sampler=privacy.ShuffledEpochs(31, 31))}, "31 training rows"),
]
REFUSED["algorithms.ExponentialAverage"] = lambda p: [({"decay": 1.0}, "expected 0 <= decay < 1")]
REFUSED["clipping.per_sample_gradient_norms"] = lambda p: [
    ({"loss": lambda model, input: 0.0}, "expected .*loss"),
    ({"model": eqx.nn.Linear}, "expected model"),
]

# Privacy.
_FEWER = r"fewer than 2\^31 records"
REFUSED["account"] = lambda p: [
    ({"delta": np.ones(2) / 9}, "use vmap over account"),
    (
        {"thing": jax.vmap(lambda rho: p.one_pass.replace(rho=rho))(jnp.ones(2))},
        "use vmap over account",
    ),
]
REFUSED["privacy.PoissonSampler"] = lambda p: [
    *_each("sampling_rate", (0.0, 1e-11), "sampling_rate"),
    *_each("num_records", (2**31, 10**40), _FEWER),
    *_each("capacity", (2**31, 2**40), _FEWER),
]
REFUSED["privacy.ShuffledEpochs"] = lambda p: [
    *(({"num_records": 2**31 - 2, "batch_size": size}, _FEWER) for size in (2, 3)),
    ({"batch_size": 11}, "<= num_records = 10, got 11"),
]
REFUSED["privacy.FixedSizeBatches"] = lambda p: [
    *_each("num_records", (2**31, 2**33), _FEWER),
    ({"batch_size": 11}, "<= num_records = 10, got 11"),
]
REFUSED["privacy.SecretNoise.noisy_integers"] = lambda p: [
    *_each("std", (2.0**59, INF, [1.0, 0.0]), r"in \(0, 2\^58\]"),
    *_each(
        "values",
        ([2**62 + 1, 0], [-(2**62) - 1, 0], np.array([2**63], np.uint64)),
        r"size at most 2\^62",
    ),
    *_each("values", ([0.5], [NAN], [1.0, INF]), "expected values to be whole numbers"),
]
REFUSED["privacy.Release"] = lambda p: [({"adjacency": "unbounded"}, "adjacency to be one of")]
REFUSED["privacy.Composition"] = lambda p: [
    ({"mechanisms": ()}, "at least one mechanism"),
    ({"mechanisms": (p.descent,)}, "expected mechanisms"),
]
REFUSED["privacy.objective_perturbation.SoftmaxPerturbation"] = lambda p: [
    ({"num_classes": 1}, "num_classes")
]
REFUSED["privacy.batches.poisson.PoissonSubsampledGaussian"] = lambda p: [
    ({"sampler": "shuffled"}, r"got shuffled: amplification .* use ShuffledEpochs"),
    ({"sampler": 0.01}, "sampler to be a Poisson"),
]
REFUSED["privacy.gaussian_mu"] = lambda p: _each(
    "delta", (5e-324, 1e-310, 9e-301), "at least 1e-300"
)
REFUSED["privacy.gaussian_noise_std"] = REFUSED["privacy.zcdp_noise_std"] = lambda p: _each(
    "num_releases", (0, 1.5, NAN), "num_releases to be a whole number"
)
REFUSED["privacy.calibrated_noise_multiplier"] = lambda p: [
    ({"epsilon": np.ones(2)}, "expected epsilon to be one number"),
    (
        {"sampler": privacy.PoissonSampler(10_000, 0.01, capacity=100), "delta": 1e-5},
        "capacity of 100, the least epsilon is inf; capacity=10001 holds all",
    ),
]
REFUSED["privacy.square_root_strategy"] = lambda p: [({"nu": 1.1}, "expected 0 <= nu <= 1")]
_SOURCE = [({"source": 7}, r"source to be None .* or a jaxdp.privacy.SecretNoise\(\), got int")]
REFUSED["privacy.ScheduledNoise"] = lambda p: [
    *_each("weights", ([1.0, 0.0], [-1.0], [2.0**61]), r"expected weights from 2\^-60 to 2\^60"),
    *_each("weights", ([NAN, 1.0], [INF]), "expected finite weights"),
    ({"weights": []}, "expected"),
    ({"weights": np.ones((2, 2))}, "expected weights of shape"),
    *_SOURCE,
]
REFUSED["privacy.BandedNoise"] = lambda p: [
    ({"strategy": np.triu(np.ones((2, 2)))}, "lower triang"),
    *_each(
        "strategy",
        (-np.eye(2), np.zeros((2, 2)), 2.0**31 * np.eye(2), 2.0**-31 * np.eye(2)),
        r"from 2\^-30 to 2\^30",
    ),
    ({"strategy": np.ones((2, 3))}, r"expected a square strategy, got shape \(2, 3\)"),
    ({"strategy": [[NAN]]}, "expected finite strategy"),
    ({"strategy": [[1.0, 0.0], [1e4, 1.0]]}, "at most 1,024 times the diagonal of their row"),
    *_SOURCE,
]
REFUSED["privacy.FixedOrder"] = lambda p: [
    ({"num_records": 2**31 - 2, "num_batches": 2**30}, _FEWER),
    ({"num_batches": 11}, "<= num_records = 10, got 11"),
    *_each("adjacency", ("add-or-remove-one", None), 'expected adjacency "zero-out-one" or'),
]
REFUSED["privacy.audit"] = lambda p: [
    *_each("confidence", (0.0, 1.0, 95), "expected 0 < confidence < 1"),
    *_each("delta", (1.0,), "expected 0 <= delta < 1, got"),
    *_each("num_trials", (1, 3), "expected enough trials to show something"),
    ({"delta": 0.999}, "expected enough trials to show something"),
    ({"mechanism": lambda shift, key: jr.normal(key, (1,))}, r"scalar score, got shape \(1,\)"),
    *_each("mechanism", (lambda s, key: (s, s), lambda s, key: s + 1j), "real scalar score"),
    *_each("mechanism", (0.0, p.theta), "expected mechanism to be a function of data and key"),
    ({"mechanism": lambda shift, key: float(shift)}, "that JAX can trace: run it yourself"),
    *_each("measure", ("nu", None), "expected measure to be 'epsilon' or 'mu'"),
]
REFUSED["privacy.audit_one_run"] = lambda p: [
    ({"num_guesses": 21}, "num_guesses <= num_canaries, got 21"),
    ({"confidence": 1.0}, "expected 0 < confidence < 1, got 1"),
    *_each("measure", ("nu", None), "expected measure to be 'epsilon' or"),
]
REFUSED["privacy.sphere_log_baseline"] = lambda p: [({"dim": 1}, "dim >= 2")]

# Planning.
_ONE = "epsilon to be one number, got shape .2,.; make one call"
_INVERSE = "the inverse question is for least squares on Gauss"
REFUSED["plan"] = lambda p: [
    (p.budget, "either rho or epsilon and delta, got both"),
    ({"rho": None}, "either rho or epsilon and delta, got neither"),
    ({"rho": None, "epsilon": 1.0}, "expected delta with epsilon"),
    ({"delta": 1e-5}, "got rho and delta"),
    ({"schedule": lambda peak: lambda time: peak}, "0.7 all the time"),
    (
        {"schedule": lambda peak: lambda step: peak * jnp.minimum(1.0, step / 20)},
        "only rises, from 0 to 0.035; .*use jaxdp.FromSteps",
    ),
    ({"rho": None, "epsilon": 1.0, "delta": 1e-3}, "at least 1/n = 0.001"),
    ({"rho": None, "epsilon": [1.0, 2.0], "delta": 1e-5}, "epsilon to be one number"),
    ({"problem": p.linear.replace(target=np.zeros(2))}, "a problem with something to learn"),
    ({"problem": jaxdp.TabularRegression(**p.table)}, r"the .surrogate of a table"),
]
REFUSED["plan (rows)"] = lambda p: [
    ({"epsilon": [1.0, 2.0]}, _ONE),
    ({"delta": 0.025}, "delta = 0.025 is at least 1/n = 0.025"),
    ({"num_steps": ()}, "expected at least one num_steps, got none"),
    ({"num_steps": (5, 0)}, "expected num_steps >= 1, got 0"),
    ({"num_steps": 2**31}, "expected num_steps <= 2147483647, got 2147483648"),
    ({"sampling_rate": ()}, "expected at least one sampling_rate"),
    ({"sampling_rate": (0.5, 0.0)}, "expected 0 < sampling_rate <= 1, got 0"),
    ({"optimiser": lambda rate: p.sgd}, "uses the learning rate that it is given"),
    (
        {"optimiser": lambda rate: optax.adam(lambda count: rate / (1 + count))},
        "planned with one learning rate",
    ),
    ({"criterion": "accuracy"}, "expected a loss of classes .* got Squared"),
    ({"sampler": privacy.ShuffledEpochs, "sampling_rate": 0.4}, "batch_size that divides"),
]
REFUSED["forecast"] = lambda p: [
    ({"epsilon": [[1.0, 2.0]]}, _ONE),
    ({"epsilon": [1.0, -1.0]}, "0 < epsilon < infinity, got -1"),
    ({"epsilon": []}, "at least one epsilon, got none"),
    ({"delta": [1e-5]}, "expected delta to be one number"),
    # Of the private table, not of the public rows.
    ({"delta": 1e-4}, "delta = 0.0001 is at least 1/n = 0.0001"),
]
REFUSED["required_samples"] = lambda p: [
    ({"rho": None}, "either rho or epsilon and delta, got neither"),
    ({"problem": p.logistic}, _INVERSE),
]
REFUSED["required_epsilon"] = lambda p: [
    ({"problem": p.logistic}, _INVERSE),
    ({"target_risk": 5.0}, "below the initial risk 1, got 5"),
]
REFUSED["planning.best_risks"] = lambda p: [
    ({"num_samples": [9, 0]}, "num_samples > "),
    ({"rho": [1, -1]}, "rho > 0"),
    # In the second half of the inputs never vary: the other eigenvalue is 2, not 1.
    *_each("problem", (p.unequal, p.unequal.replace(spectrum=[2.0, 0.0])), "equal"),
]
REFUSED["planning.optimal_strategy"] = lambda p: [
    ({"rates": [1.0, -1.0]}, "finite rates >= 0"),
    ({"problem": jaxdp.TabularRegression(**p.table)}, "known covariance"),
]
REFUSED["Box"] = lambda p: [
    ({"initial_risk": (5.0, 0.05)}, "initial_risk with low <= high"),
    ({"initial_risk": (0.0, 1.0)}, "initial_risk > 0"),
    ({"initial_risk": (0.1, INF)}, "both finite"),
    *_each("initial_risk", ((0.1, 1.0, 2.0), 0.1), r"a pair \(low, high\)"),
]

# Kernels.
_BOUND = "expected a finite input_bound"
REFUSED["kernels.Matern"] = lambda p: [
    ({"smoothness": 1.0}, "smoothness 0.5, 1.5, 2.5, ... up to 9.5, got 1.0")
]
REFUSED["kernels.TorusKernel"] = lambda p: [
    ({"eigenvalues": [1.0, -0.1]}, "none below 0"),
    ({"eigenvalues": [INF]}, "finite eigenvalues"),
]
REFUSED["kernels.functions.bounded.RangeScaling"] = lambda p: [
    ({"low": np.zeros(2), "high": np.ones(2)}, r"low of shape \(3\)"),
    ({"low": np.zeros(3), "high": np.eye(3)[0]}, "low < high, got 0.0 and 0.0 in"),
]
REFUSED["kernels.blockwise"] = lambda p: [
    ({"inputs": p.rows[0]}, "inputs of shape"),
]
REFUSED["kernels.ColumnNames"] = lambda p: [
    ({"inputs": ("a", "a")}, "names that differ, got 'a' twice"),
    *_each("classes", (("no", "yes", "no"), ("yes",)), "two classes or more that differ"),
    *_each("inputs", (("a", 1),), "expected names of columns and classes as texts"),
    ({"label": 1}, "expected names of columns and classes as texts"),
]
REFUSED["kernels.Theorem11Rule"] = lambda p: [({"source": 0.4}, "0.5 <= source <= 1")]
REFUSED["kernels.PrivateKernelRidge"] = lambda p: [
    ({"label_bound": INF}, "label_bound > 0"),
    ({"intercept_share": 1.0}, "0 <= intercept_share < 1"),
    ({"ridge": "auto"}, "expected ridge to be None, a number or a rule"),
    ({"input_bound": None, "input_range": (np.zeros(3), np.eye(3)[0])}, "low < high"),
    ({"input_bound": None, "input_range": 5.0}, r"expected input_range to be \(low, high\)"),
    ({"input_range": (np.zeros(3), np.ones(3))}, "or input_range, got both"),
    *(
        ({"kernel": kernels.InnerProduct(), "input_bound": bound}, said)
        for bound, said in ((None, _BOUND), (INF, _BOUND), (1e39, "overflows"))
    ),
    ({"kernel": None, "feature_map": p.identity, "input_bound": None}, "ClippedFeatures"),
    ({"kernel": None}, "expected a kernel or a feature_map"),
    *(
        ({"kernel": None, "feature_map": wrong}, "feature_map to be a feature map or a fun")
        for wrong in ("waves", 1.0, kernels.FourierFeatures)
    ),
]
REFUSED["kernels.PrivateKernelClassifier"] = lambda p: [
    ({"kernel": kernels.InnerProduct(), "input_bound": None}, _BOUND),
    *_each("loss", ("logistic", losses.Huber(1.0)), "expected loss to be a margin loss"),
    ({"kernel": None}, "expected a kernel or a feature_map"),
]
REFUSED["kernels.margin.objective_calibration.softmax_perturbation_std"] = lambda p: [
    ({"num_classes": 1}, "num_classes")
]
REFUSED["published.Algorithm1"] = lambda p: [({"kernel": kernels.InnerProduct()}, "input_bound")]


def _own():
    return OwnModel(eqx.nn.Linear(5, 2, key=jr.key(0)), eqx.nn.Linear(4, 5, key=jr.key(1)))


def _spoilt(mlp):
    return eqx.tree_at(lambda mlp: mlp.layers[0].bias, mlp, jnp.full(5, jnp.nan))


# Attacks.
_ROWS = r"true_inputs of shape \(3, 3\)"
REFUSED["attacks.RandomFeaturesTarget"] = lambda p: [
    ({"parameters": p.theta[1:]}, "each of the 20 features"),
    ({"parameters": 0 * p.theta}, "zeros only"),
    ({"activation": np.tanh}, "jax.numpy operations"),
    (
        {"weights": attacks.RegeneratedWeights(p.key, 20, 3), "parameters": p.theta[1:]},
        "one row of parameters for each of the 20 features",
    ),
]
REFUSED["attacks.NetworkTarget"] = lambda p: [
    ({"features": p.mlp, "parameters": np.ones(20), "dim": 4}, r"features of shape \(20,\)"),
    (
        {"features": _spoilt(p.mlp), "parameters": np.ones(2), "dim": 4},
        "finite weights of the network",
    ),
    (
        {"features": lambda x: jnp.ones((4, 3)) @ x, "parameters": np.ones((1, 4))},
        r"transpose the parameters to \(p, k\)",
    ),
]
REFUSED["attacks.network_target"] = lambda p: [
    ({"last_start": np.ones((5, 2))}, r"last_start of shape \(2, 5\)")
]
REFUSED["attacks.two_layer_target"] = lambda p: [
    ({"trained": eqx.nn.MLP(4, 2, 5, 3, key=p.key)}, "depth=1, got depth=3")
]
REFUSED["attacks.reconstruct"] = lambda p: [
    ({"num_samples": 20}, "span all parameters"),
    ({"known_inputs": p.rows[:2, 1:]}, "known_inputs of shape"),
    ({"optimiser": attacks.MomentumDescent}, "expected an optimiser such as"),
    ({"target": p.table}, "expected a target"),
]
REFUSED["attacks.MomentumDescent"] = lambda p: [({"momentum": 1.0}, "0 <= momentum < 1")]
REFUSED["attacks.without_known_rows"] = lambda p: [
    ({"num_samples": 2}, "fewer known rows than 2"),
    ({"iterates": p.iterates[:1]}, "two iterates"),
    ({"iterates": p.iterates[:, 1:]}, "iterates of shape"),
]
REFUSED["attacks.membership_scores"] = lambda p: [
    ({"num_samples": 4}, "expected 3 known records, all but one, got 2"),
    ({"algorithm": jaxdp.DPGD(0.1, 1.0, 3, 0.0)}, "adds noise"),
    ({"iterates": p.iterates}, "iterates of shape"),
    ({"inputs": p.rows[:2, 1:]}, "inputs of shape"),
    ({"iterates": np.zeros((1, 5, 20))}, "at most 4 iterates of 3 steps"),
    ({"loss": losses.Softmax(3)}, "loss that training used"),
]
REFUSED["attacks.attained_tradeoff"] = lambda p: [
    *_each("false_positive_rates", ([0.0], [[0.1]]), "false-positive"),
    ({"other_scores": np.ones(0)}, "other_scores"),
]
REFUSED["attacks.row_errors"] = lambda p: [
    ({"found_inputs": p.rows[:2]}, "as many found rows"),
    ({"true_inputs": p.rows[0], "found_inputs": p.rows[0]}, r"shape \(n, dim\)"),
    ({"true_inputs": p.rows[:0], "found_inputs": p.rows[:0]}, "not empty"),
    ({"found_inputs": NAN * p.rows}, "finite found_inputs, got 120"),
]
REFUSED["attacks.leak_report"] = lambda p: [
    ({"true_inputs": p.rows[:2]}, _ROWS),
    ({"true_inputs": 0 * p.rows[:3]}, "directions of true_inputs"),
]
REFUSED["attacks.minimum_norm_parameters"] = lambda p: [
    ({"inputs": p.rows[[0, 1, 1]]}, "in rows 1, 2: are"),
    ({"inputs": p.rows[:3] * np.arange(3)[:, None]}, "in rows 0: are"),
    ({"labels": p.signs[:2]}, r"labels of shape \(3\)"),
    ({"weights": p.weights[:, :2]}, r"weights of shape \(any, 3\)"),
    ({"weights": NAN * p.weights}, "finite weights"),
]

# Theory.
_HELD = "a rate that float64 holds"
_INFINITE = "infinite width"
REFUSED["theory.local_reconstruction_errors"] = lambda p: [
    ({"coefficients": np.array([1, 0, 1.0])}, "leaves no trace"),
    ({"num_known": 3}, "num_known"),
    ({"coefficients": np.ones(2)}, "coefficients"),
]
REFUSED["theory.last_iterate_reconstruction_errors"] = lambda p: [({"problem": p.wide}, _INFINITE)]
REFUSED["theory.membership_mu"] = lambda p: [
    ({"index": 40}, "index < 40"),
    ({"other_input": p.rows[0, :2]}, "other_input of shape"),
    ({"problem": p.wide}, _INFINITE),
]
REFUSED["theory.row_error_lower_bound"] = lambda p: [
    ({"activation": np.tanh}, "written in jax"),
    ({"dim": 1}, "dim >= 2"),
]
REFUSED["theory.predicted_excess_risk"] = lambda p: [
    ({"num_samples": -1}, "num_samples"),
    ({"noise": theory.ReleaseNoise(1.0)}, "finite num_outputs"),
    ({"noise": theory.ReleaseNoise(0.0, -1.0)}, r"noise\.vector"),
]
REFUSED["theory.KernelSpectrum"] = lambda p: [
    ({"eigenvalues": [1.0, -1.0]}, "eigenvalues"),
    ({"eigenvalues": [0.0, 0.0]}, "positive eigenvalue"),
    ({"squared_target": [1.0]}, "squared_target"),
]
REFUSED["theory.KernelSpectrum.power_law"] = lambda p: [({"capacity": 1.0}, "capacity")]
REFUSED["theory.polynomial_rate"] = lambda p: [
    ({"power": 1e300}, _HELD),
    ({"largest": INF}, "largest < inf"),
    ({"gamma": 1.0}, r"expected gamma in \(0, 1\), got 1.0"),
    ({"power": 0.3}, "expected a finite power of 0, 1/2, or >= 1, got 0.3"),
    *_each("smallest", (1.2,), "expected 0 < smallest <= 1 <= largest"),
]
REFUSED["CoupledODE"] = lambda p: [
    ({"quadratics": [1.0]}, "a dictionary from names"),
    ({"quadratics": {"distance": np.ones(2)}}, "other names .* got 'distance'"),
]
REFUSED["predict"] = lambda p: [
    (
        {"theory": jaxdp.CoupledODE(quadratics={"short": np.ones(3)})},
        r"the 2 directions, got shape \(3,\)",
    ),
    ({"problem": p.key}, r"got a jax\.random\.key"),
]


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kind_covers_is_refused_in_these_words(name, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("work was begun")

    if name == "plan (rows)":
        training = "jaxdp.planning.features.private_training"
        monkeypatch.setattr(f"{training}.multiplier_for", never)
        monkeypatch.setattr(f"{training}.closure_risk", never)
    row = named(name)
    call, good = row.call(), row.given()
    for changes, message in REFUSED[name](parts()):
        with pytest.raises(ERRORS, match=message) as raised:
            call(**good | changes)
        assert "\n" not in str(raised.value), changes


def _levenberg(p, dim):
    target = attacks.RandomFeaturesTarget(np.ones((50, dim)), p.tanh, np.ones(50))
    start = jnp.ones((1, 2, dim))
    return attacks.LevenbergMarquardt().minimise(
        target, start, key=p.key, max_passes=10, tolerance=1e-7
    )


# Calls that are in no row.
CALLS = {
    "composed mus": (lambda p: privacy.composed_mu(1.0, -1.0), "mu >= 0"),
    "adjacencies": (
        lambda p: privacy.compose(
            p.release, privacy.Release("a sum", "zero-out-one", p.gaussian_cost)
        ),
        "expected releases with one adjacency",
    ),
    "a membership with other rows": (
        lambda p: attacks.predicted_membership(
            p.fixed, p.private.replace(sampler=privacy.PoissonSampler(7, 0.5)), 0
        ),
        "expected 7 training rows, as many as the sampler draws from",
    ),
    "nothing to compose": (lambda p: privacy.compose(), "got none"),
    "no algorithm to compose": (
        lambda p: privacy.compose(p.descent, p.linear),
        r"expected things\[1\] to be an algorithm, a Release or a run",
    ),
    "delta of an epsilon": (
        lambda p: privacy.ObjectivePerturbationMechanism(1.0, 0.1).delta(-1.0),
        "expected epsilon >= 0",
    ),
    "no step": (lambda p: p.sampler.mechanism(1.0, 0), "num_steps >= 1"),
    "runs of recorded scores": (
        lambda p: privacy.audit(p.theta, p.theta, measure="mu", num_trials=7),
        "no num_trials and no key with recorded",
    ),
    "one score": (
        lambda p: privacy.audit(p.theta, p.theta[:1], measure="mu"),
        r"enough trials .* got 20 on one input and 1|enough trials .* got 1 on one input and 20",
    ),
    "points of another length": (
        lambda p: p.kernel(p.rows, p.rows[:, :2]),
        r"second of shape \(any, 3\)",
    ),
    "features of no kernel": (
        lambda p: kernels.FourierFeatures.sample(kernels.InnerProduct(), 3, 3, key=p.key),
        "InnerProduct is not: use its own",
    ),
    "a dimension of the torus": (
        lambda p: kernels.TorusKernel([1.0]).features(3, 2, key=p.key),
        "dim = 1, for the circle, got 2",
    ),
    "too many unknowns": (lambda p: _levenberg(p, 2100), r"at most 4096 unknowns d n .* got 4200"),
    "a row of a key": (lambda p: jaxdp.account(p.key, delta=0.1), r"got a jax\.random\.key"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_in_no_row_are_refused_in_these_words(name):
    call, message = CALLS[name]
    with pytest.raises(ERRORS, match=message):
        call(parts())


# What is looked at on the host, of a traced number.
TRACED = {
    "sampling_rate": lambda p, value: privacy.PoissonSampler(4, value),
    "epsilon": lambda p, value: privacy.calibrated_noise_multiplier(
        value, 0.1, sampler=p.poisson, num_steps=2
    ),
    "inputs": lambda p, value: jaxdp.LinearRegression.from_data(p.rows * value, p.signs),
    "simulated": lambda p, value: jaxdp.compare(
        jaxdp.Trajectory(np.ones(2), np.ones(2) * value, np.ones(()), np.zeros((), int), {}), p.run
    ),
    "first_scores": lambda p, value: privacy.audit(p.theta * value, p.theta, measure="mu"),
    "problem": lambda p, value: jaxdp.plan(
        p.linear.replace(label_noise=value), num_samples=1000, rho=1.0
    ),
    "arguments": lambda p, value: privacy.ObjectivePerturbationMechanism(value, 0.1).epsilon(
        1e-5, "replace-one"
    ),
    "parameters": lambda p, value: attacks.reconstruct(
        attacks.RandomFeaturesTarget(p.weights, p.tanh, p.theta * value), 3, key=p.key
    ),
}


@pytest.mark.parametrize("name", TRACED)
def test_a_traced_value_is_named_where_the_host_needs_it(name):
    with pytest.raises(TypeError, match=rf"^expected .*\b{name}\b|outside jit"):
        jax.eval_shape(lambda value: (TRACED[name](parts(), value), value)[1], 0.75)


@pytest.mark.parametrize("large", [np.full(4, 2**31), [2**40] * 4, np.full(4, 2**63, np.uint64)])
def test_whole_numbers_are_refused_where_they_would_wrap_and_else_become_floats(large):
    p = parts()
    step = p.batch | {"state": p.state, "key": p.key}
    train = p.batch | {"optimiser": p.private, "key": p.key}
    message = "expected (inputs|targets) of whole numbers that u?int32 can .* enable jax_enable_x64"
    for call, good in ((algorithms.train, train), (p.private.step, step)):
        for name in ("inputs", "targets"):
            with pytest.raises(ValueError, match=message):
                call(**good | {name: large})
    with pytest.raises(ValueError, match=message):
        jaxdp.clipped_gradient_sum(**p.batch | {"targets": large}, clip_norm=1.0)
    wide = np.tile(np.asarray(large, float), 10)
    problem = jaxdp.FixedFeatures.from_arrays(p.rows, wide, p.rows, p.signs)
    assert problem.train_labels[0] == np.float32(wide[0])
    rows = named("FixedFeatures.from_network").given()
    with pytest.raises(ValueError, match=message):
        jaxdp.FixedFeatures.from_network(**rows | {"inputs": np.tile(large, 10)[:, None]})


def test_an_error_in_a_loss_says_what_it_was_given():
    p = parts()
    inputs = {"rows": p.batch["inputs"]}
    with pytest.raises(TypeError) as caught:
        jaxdp.clipped_gradient_sum(squared_loss, p.model, inputs, p.batch["targets"], clip_norm=1.0)
    assert "an input of shape {'rows': (3,)} and a target of shape ()" in caught.value.__notes__[0]


def test_a_frame_of_several_types_is_made_of_numbers():
    table = np.array([[True, 0.5, 3]] * 12, dtype=object)
    table[:, 1] = np.arange(12.0)
    table[::2, 0], table[::3, 2] = False, 7
    assert jaxdp.LinearRegression.from_data(table, np.arange(12.0)).dim == 3


def test_an_optimiser_made_for_other_weights_is_not_refused():
    """It fails on weights of its own choosing alone, which nobody has given yet."""
    transforms = {"kept": optax.set_to_zero(), "moved": optax.sgd(0.1)}
    optimiser = optax.multi_transform(transforms, {"first": "kept", "second": "moved"})
    given = parts().private_given | {"optimiser": optax.with_extra_args_support(optimiser)}
    weights = {"first": np.ones(2, np.float32), "second": np.ones(3, np.float32)}
    assert jaxdp.PrivateOptimiser(**given, noise_multiplier=1.0).init(weights) is not None


def test_a_sampler_for_another_number_of_rows_is_refused():
    pair = parts().fixed, _everyday(sampler=privacy.PoissonSampler(50, 0.2))
    message = "expected 50 training rows, as many as the sampler .* got 40"
    with pytest.raises(ValueError, match=message):
        jaxdp.predict(*pair)
    for simulator in (None, jaxdp.FunctionSpace(), jaxdp.Iterates()):
        with pytest.raises(ValueError, match=message):
            jaxdp.simulate(*pair, key=jr.key(0), simulator=simulator)


def _everyday(optimiser=optax.sgd, **changes):
    settings = {"learning_rate": 0.1, "clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": 5}
    settings["sampler"] = privacy.PoissonSampler(40, 0.2)
    return jaxdp.PrivateOptimiser(optimiser, **settings | changes)


_NOT_LINEAR = "got one whose step is not linear"
UNCOVERED = {
    "sign": (optax.sign_sgd, {}, False, _NOT_LINEAR),
    "weight decay": (optax.adamw, {}, False, "nor is it Adam: .*weight decay"),
    "nesterov": (optax.nadam, {}, False, "nor is it Adam: .*Nesterov's step"),
    "clipped": (
        lambda rate: optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(rate)),
        {},
        False,
        _NOT_LINEAR,
    ),
    # What the optimiser is not to blame for is said alone.
    "outputs": (optax.adam, {}, True, "Adam is covered with losses of one output"),
    "average": (optax.adam, {"average": jaxdp.PolyakAverage()}, False, "covered with no average"),
    "short batch": (
        optax.sgd,
        {"sampler": privacy.ShuffledEpochs(40, 12)},
        True,
        "that divides num_records = 40, got 12",
    ),
}


@pytest.mark.parametrize("name", UNCOVERED)
def test_what_cannot_be_predicted_is_not_covered_and_every_theory_says_why(name):
    optimiser, changes, has_classes, message = UNCOVERED[name]
    p = parts()
    labels, loss = (CLASSES, losses.Softmax(3)) if has_classes else (p.signs, p.squared)
    problem = jaxdp.FixedFeatures.from_arrays(p.rows, labels, p.rows, labels, loss=loss)
    algorithm = _everyday(optimiser, **changes)
    with pytest.raises(jaxdp.NotCoveredError, match=rf"GaussianClosure: .*{message}") as caught:
        jaxdp.predict(problem, algorithm)
    first, _, said = str(caught.value).partition("GaussianClosure: ")
    # A reason that both give is said once.
    assert first == "ModewiseClosure, " or first.endswith(" | ")
    # Nothing of theories about streams of samples.
    assert "CoupledODE" not in said
    assert "\n" not in said
    if "not linear" not in message and "Adam:" not in message:
        assert "linear" not in said
        assert len(said) < 200
    # It can be accounted for all the same.
    assert np.isfinite(jaxdp.account(algorithm, delta=0.01).epsilon)


@pytest.mark.parametrize("name", ["logistic", "scales", "huber"])
def test_what_rests_on_gaussian_least_squares_refuses_other_streams(name):
    p = parts()
    scales = jaxdp.InputScales(np.array([0.5, 1.5]), [0.5, 0.5])
    stream = {
        "logistic": p.logistic,
        "scales": p.linear.replace(input_scales=scales),
        "huber": p.linear.replace(loss=losses.Huber(width=0.4)),
    }[name]
    said = "is for least squares on Gaussian inputs.*jaxdp.plan"
    box = jaxdp.Box(initial_risk=(0.1, 1.0), label_noise=(0.1, 0.5))
    with pytest.raises(jaxdp.NotCoveredError, match=f"uncertainty {said}"):
        jaxdp.plan(stream, num_samples=1000, rho=1.0, uncertainty=box)
    with pytest.raises(jaxdp.NotCoveredError, match=f"the inverse question {said}"):
        jaxdp.required_samples(stream, 0.1, rho=1.0)
    with pytest.raises(jaxdp.NotCoveredError, match=f"best_risks {said}"):
        planning.best_risks(stream, num_samples=1000, rho=1.0)
