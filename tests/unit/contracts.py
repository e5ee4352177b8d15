"""The contract table: public constructors and functions, right arguments, and kinds of these."""

import functools
import importlib
import inspect
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

import jaxdp

ROOMS = "algorithms attacks clipping comparison data estimators kernels losses planning privacy"
ROOMS = f"{ROOMS} problems regression schedules simulation sweeps theory".split()


def squared_loss(model, input, target):
    return (input @ model["weights"] - target) ** 2


@functools.cache
def parts() -> SimpleNamespace:
    """What the rows share: data, descriptions, right arguments."""
    for room in ROOMS:
        importlib.import_module(f"jaxdp.{room}")
    from jaxdp import kernels, privacy, regression

    p = SimpleNamespace(rng=np.random.default_rng(0), key=jr.key(0), tanh=jnp.tanh)
    p.linear = jaxdp.LinearRegression(np.ones(2), np.ones(2), 0.5)
    p.one_pass = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 5)
    p.descent = jaxdp.DPGD(0.5, 1.0, 5, 1.0)
    p.rows, p.signs = p.rng.uniform(size=(40, 3)), np.where(np.arange(40) % 3 == 0, -1.0, 1.0)
    p.weights, p.theta = p.rng.normal(size=(20, 3)), p.rng.normal(size=20)
    p.table = {"inputs": p.rows, "labels": p.signs}
    p.split = {"train_labels": p.signs, "test_labels": p.signs}
    p.features = jaxdp.RandomFeatures.from_arrays(p.rows, p.signs, p.rows, p.signs, p.weights)
    p.fixed = jaxdp.FixedFeatures.from_arrays(p.rows, p.signs, p.rows, p.signs)
    p.model = {"weights": np.ones(3, np.float32)}
    p.batch = {"loss": squared_loss, "model": p.model, "inputs": np.ones((4, 3), np.float32)}
    p.batch |= {"targets": np.ones(4, np.float32)}
    p.sampler, p.poisson = privacy.ShuffledEpochs(4, 2), privacy.PoissonSampler(100, 0.5)
    p.sgd = optax.sgd(0.5)
    p.private_given = {"optimiser": p.sgd, "clip_norm": 2.0, "num_steps": 4, "sampler": p.sampler}
    p.private = jaxdp.PrivateOptimiser(**p.private_given, noise_multiplier=2.0)
    p.baseline = jaxdp.algorithms.NonPrivateOptimiser(p.sgd, 4)
    p.state = p.private.init(p.model)
    p.gaussian_cost = privacy.GaussianMechanism(1.0)
    p.release = privacy.Release("a sum", "replace-one", p.gaussian_cost)
    p.noise, p.runs = privacy.SecretNoise(2**200), privacy.PoissonRepetitions(2.0)
    p.strategy = 0.5 * np.eye(2)
    p.run = jaxdp.Trajectory(np.ones(2), np.ones(2), np.ones(()), np.zeros((), int), {})
    p.kernel, p.identity = kernels.Gaussian(2.0), kernels.IdentityFeatures(3)
    p.unit = kernels.ClippedFeatures(p.identity, 2.0)
    p.ridge = kernels.PrivateKernelRidge(kernels.InnerProduct(), 2, label_bound=1.0, input_bound=2)
    p.budget = {"epsilon": 0.5, "delta": 2.0**-7}
    p.fit = p.table | p.budget
    p.columns = regression.Columns({"age": (17, 90), "sex": ["f", "m"]}, bins=8)
    p.spectrum = jaxdp.theory.KernelSpectrum(np.ones(2), np.ones(2))
    p.target = jaxdp.attacks.RandomFeaturesTarget(p.weights, p.tanh, p.theta)
    p.attacked = {"weights": p.weights, "activation": p.tanh}
    ending = jaxdp.attacks.optimisers.base.Ending.STALLED
    p.found = jaxdp.attacks.Reconstruction(
        jnp.asarray(p.rows[:3]), jnp.ones(()), False, 3.0, ending, jnp.ones(1)
    )
    p.iterates = p.rng.normal(size=(3, 20))
    p.known = {"iterates": p.iterates, **p.attacked, "algorithm": jaxdp.DPGD(0.1, 1.0, 3, 0.5)}
    p.known |= {"known_inputs": p.rows[:2], "known_labels": p.signs[:2], "num_samples": 3}
    p.plan = {"problem": p.linear, "rho": 2.0, "num_samples": 1000}
    p.squared, p.logistic = jaxdp.losses.Squared(), jaxdp.LogisticRegression(9, signal=2.0)
    p.fixed_size, p.order = privacy.FixedSizeBatches(4, 2), privacy.FixedOrder(4, 2)
    p.wide = jaxdp.RandomFeatures.from_arrays(p.rows, p.signs, p.rows, p.signs, None)
    p.unequal = p.linear.replace(spectrum=[1.5, 0.5])
    p.mlp = eqx.nn.MLP(4, 2, 5, 1, key=p.key)
    p.network = eqx.nn.MLP(3, "scalar", 4, 1, jnp.tanh, key=p.key)
    p.learner = regression.PrivateLinearRegression(p.unit, (-1, 1))
    p.classifier = regression.PrivateLinearClassifier(p.unit)
    p.correlated = {"rates": [0.5, 0.5], "clip_scale": 2.0, "batch_size": 2}
    return p


# By name of the argument its kind, and a value that is right or the name of one of the parts. Each
# number that is no whole one is held exactly by float16.
_BY_KIND: list[tuple[str, Any, str]] = [
    (
        "count",
        4,
        "batch_size block_size chunk_size dim every max_order max_steps microbatch_size "
        "num_classes num_devices num_eigenfunctions num_eigenvalues num_features "
        "num_frequencies num_guesses num_inputs num_knots num_models num_modes num_places segments "
        "num_projections num_records num_runs num_samples num_sets num_starts num_steps "
        "num_test num_train num_weights records records_per_person rows_per_person ",
    ),
    ("count", 100, "num_trials"),
    ("natural", 4, "num_known public_seed rank spread_draws spread_rank"),
    ("index", 0, "index"),
    (
        "positive",
        2.0,
        "balance bound c_beta clip_norm clip_scale condition_number damping factor initial_risk "
        "input_bound label_bound max_passes radius residual_bound rho step_size target_risk "
        "tolerance width ",
    ),
    ("finite", 2.0, "lipschitz scale signal smoothness"),
    ("finite", 0.5, "epsilon"),
    ("delta", 0.0078125, "delta"),
    (
        "non_negative",
        0.5,
        "approximation_mu approximation_share error floor label_noise learning_rate "
        "log_jacobian mu noise_multiplier noise_scale power ridge sensitivity shift zcdp ",
    ),
    (
        "share",
        0.5,
        "baseline capacity confidence decay false_positive_rate gamma intercept_share momentum "
        "nu quantile sampling_rate source ",
    ),
    ("positive", 0.5, "knee peak value"),
    ("vector", [0.5, 0.5], "rates"),
    ("vector", [1.0, 1.0], "eigenvalues spectrum squared_target target"),
    ("seed", 2, "noise_seed seed"),
    ("key", "key", "key"),
    (
        "data",
        "rows",
        "X found_inputs inputs rows test_features test_inputs train_features train_inputs "
        "true_inputs ",
    ),
    ("data", "signs", "labels member_scores other_scores test_labels train_labels y"),
    ("data", "weights", "weights"),
    ("data", "theta", "parameters"),
    ("function", "tanh", "activation function"),
    ("thing", "squared", "loss"),
    ("thing", "linear", "problem"),
    ("thing", "one_pass", "algorithm"),
    ("thing", "sgd", "optimiser"),
    ("thing", "sampler", "sampler"),
    ("thing", "kernel", "kernel"),
    ("thing", "identity", "base inner outer"),
    ("thing", "unit", "features"),
    ("thing", None, "adjoint feature_map noise schedule"),
    ("thing", "gaussian_cost", "mechanism"),
    ("thing", "runs", "repetitions"),
    ("progress", None, "progress"),
]
ARGUMENTS = {name: (kind, value) for kind, value, names in _BY_KIND for name in names.split()}


class Row(NamedTuple):
    """A public callable, or a method of `owner`, with what its arguments differ in from all others.

    Its name is the path below jaxdp, with words in brackets if several rows have one; `published`
    is the experiments' package of that name.
    """

    name: str
    own: Callable[[SimpleNamespace], dict[str, Any]]
    own_kinds: dict[str, str | None]
    owner: Callable[[SimpleNamespace], Any] | None = None
    takes_arrays: bool = False  # in the place of numbers

    @property
    def path(self) -> str:
        return self.name.partition(" (")[0]

    def call(self) -> Callable[..., Any]:
        path = self.path.split(".")
        if self.owner is not None:
            return getattr(self.owner(parts()), path[-1])
        room = "experiments.private_kernel_learning" if path[0] == "published" else "jaxdp"
        if path[0] in ROOMS or path[0] == "published":
            importlib.import_module(f"{room}.{path[0]}")
        return functools.reduce(getattr, path, importlib.import_module(room))

    def given(self) -> dict[str, Any]:
        """Arguments that are right: the row's own, and of `ARGUMENTS` what has no default."""
        own, known = self.own(parts()), inspect.signature(self.call()).parameters
        # Epsilon needs delta, whose default serves budgets in its place.
        has_pair = "epsilon" in known and known["epsilon"].default is inspect.Parameter.empty
        needed = {
            name: getattr(parts(), value) if isinstance(value, str) else value
            for name, parameter in known.items()
            for _, value in [ARGUMENTS.get(name, (None, None))]
            if parameter.default is parameter.empty or (has_pair and name == "delta")
            if name not in own and value is not None
        }
        return needed | own

    def kinds(self) -> dict[str, str]:
        """The kind of each argument that has one."""
        named = {name: kind for name, (kind, _) in ARGUMENTS.items()} | self.own_kinds
        found = {name: named.get(name) for name in inspect.signature(self.call()).parameters}
        plural = "s" if self.takes_arrays else ""
        return {
            name: f"{kind}{plural if kind in NUMERIC else ''}"
            for name, kind in found.items()
            if kind is not None
        }


NUMERIC = ("positive", "finite", "non_negative", "share", "delta", "count")
TABLE: list[Row] = []


def _row(
    name: str,
    own: Callable[[SimpleNamespace], dict[str, Any]] = lambda p: {},
    kinds: str = "",
    **options: Any,
):
    """One more row; kinds as "names: kind, ...", of which "-" is none."""
    own_kinds = {
        argument: None if kind == "-" else kind
        for names, _, kind in (one.partition(": ") for one in kinds.split(", "))
        for argument in names.split()
    }
    TABLE.append(Row(name, own, own_kinds, **options))


def _rows(names: str, *arguments: Any, **options: Any):
    for name in names.split():
        _row(name, *arguments, **options)


def named(name: str) -> Row:
    return next(row for row in TABLE if row.name == name)


# Problems. Labels alone are looked at in test_refusals.py.
_row("LinearRegression", kinds="target: vector")
_row("LinearRegression.isotropic", lambda p: {"dim": 3, "initial_risk": 2.0})
_row("LinearRegression.power_law", lambda p: {"initial_risk": 2.0})
_rows("TabularRegression LinearRegression.from_data LogisticRegression")
_row(
    "InputScales",
    lambda p: {"values": [1.0, 1.0], "weights": [0.5, 0.5]},
    kinds="values weights: vector",
)
_row("RandomFeatures.sample", kinds="inputs: function")
_rows("RandomFeatures.from_arrays FixedFeatures.from_arrays")
_row("FixedFeatures.from_network", lambda p: {"body": jnp.sin}, kinds="body: function")
_row("Linearised", lambda p: {"model": p.network}, kinds="loss: -")
_row(
    "problems.ReducedFeatures",
    lambda p: {f"{part}_factor": np.ones((40, 2)) for part in ("train", "test", "unseen")},
    kinds="train_factor test_factor unseen_factor: vector, train_labels test_labels: -",
)
_row(
    "problems.ReducedFeatures.from_kernel",
    lambda p: {"kernel": np.eye(80)},
    kinds="kernel: vector, train_labels test_labels: -",
)
_row("problems.sphere_inputs", lambda p: {"count": 2}, kinds="dim: -")

# Schedules and algorithms.
_rows("Constant Polynomial Hyperbolic")
_row(
    "PiecewiseLinear", lambda p: {"knots": [0.0, 0.5], "values": [2.0, 2.0]}, kinds="values: vector"
)
_row("FromSteps", lambda p: {"function": lambda step: 3.0 / (1 + step)})
_row("OnePassDPSGD", lambda p: {"batch_size": 2})
_row("OnePassDPSGD.calibrated", lambda p: {"delta": 2.0**-7})
_row("CorrelatedDPSGD", lambda p: {"strategy": p.strategy}, kinds="strategy: vector")
_row("CorrelatedDPSGD.calibrated", lambda p: {"strategy": p.strategy}, kinds="strategy: vector")
_row("DPGD", kinds="learning_rate: positive")
for _kind in ("Exact", "Published"):
    _row(
        f"DPGD.calibrated ({_kind})",
        lambda p, kind=_kind: {"calibration": getattr(jaxdp, f"{kind}Calibration")()},
        kinds="learning_rate: positive, calibration: thing",
    )
_row("PrivateOptimiser", kinds="clip_norm: finite, learning_rate: -, average: thing")
_row("PrivateOptimiser.calibrated", kinds="clip_norm: finite, learning_rate: -, average: thing")
_row(
    "PrivateOptimiser.init",
    lambda p: {"model": p.model},
    kinds="microbatch_size num_devices: -, model: thing",
    owner=lambda p: p.private,
)
_row(
    "PrivateOptimiser.step",
    lambda p: p.batch | {"state": p.state},
    kinds="microbatch_size num_devices loss: -, targets: data, state: thing",
    owner=lambda p: p.private,
)
_row(
    "PrivateOptimiser.update",
    lambda p: {"gradient_sum": p.model, "model": p.model, "state": p.state},
    kinds="microbatch_size num_devices: -, gradient_sum: tree, state: thing",
    owner=lambda p: p.private,
)
_row(
    "PrivateOptimiser.noisy_sum",
    lambda p: {"gradient_sum": p.model, "step": 0},
    kinds="microbatch_size num_devices: -",
    owner=lambda p: p.private,
)
_row(
    "PrivateOptimiser.release",
    kinds="microbatch_size num_devices num_steps: -",
    owner=lambda p: p.private,
)
_row("algorithms.NonPrivateOptimiser", kinds="learning_rate: -")
_row(
    "algorithms.NonPrivateOptimiser.step",
    lambda p: p.batch | {"state": p.baseline.init(p.model)},
    kinds="inputs loss microbatch_size: -",
    owner=lambda p: p.baseline,
)
_row(
    "train",
    lambda p: {"optimiser": p.private, **p.batch},
    kinds="loss evaluate: function, targets: data, model mesh: thing, microbatch_size: -",
)
_row(
    "train (baseline)",
    lambda p: {"optimiser": p.baseline, **p.batch},
    kinds="loss evaluate: function, targets: data, model: thing, microbatch_size delta: -",
)
_row("algorithms.ExponentialAverage")
_row(
    "algorithms.AdaptiveClip",
    lambda p: {"initial": 2.0, "count_noise": 2.0},
    kinds="initial count_noise: positive",
)
_row("algorithms.linear_state")

# Clipping and data.
_rows(
    "clipped_gradient_sum clipping.clipped_gradient_sum_in_parts",
    lambda p: p.batch | {"clip_norm": 1.0},
    kinds="targets: data, loss: function, clip_norm: number, model: tree",
)
_row(
    "clipping.per_sample_gradient_norms",
    lambda p: p.batch,
    kinds="targets: data, loss: function, clip_norm: number, model: tree",
)
_row(
    "clipping.explain",
    lambda p: {"loss": squared_loss, "model": p.model, "input": p.rows[0], "target": 1.0},
    kinds="loss: function, input: data, target: -",
)
_row("clipping.norm_clip.NormClip", kinds="scale: positive")
_row("clipping.sensitivity_excess")
_row("data.column_scaling")

# Privacy.
_row(
    "privacy.PoissonSampler",
    lambda p: {"num_records": 100, "capacity": 100},
    kinds="capacity: count",
)
_rows(
    "privacy.ShuffledEpochs privacy.FixedSizeBatches",
    lambda p: {"num_records": 10, "batch_size": 2},
)
_row(
    "privacy.ShuffledEpochs.sample",
    lambda p: {"step": 0},
    kinds="step: index",
    owner=lambda p: p.sampler,
)
_row(
    "privacy.FixedSizeBatches.sample",
    lambda p: {"step": 0},
    kinds="step: index",
    owner=lambda p: p.fixed_size,
)
_row(
    "privacy.PoissonSampler.sample",
    lambda p: {"step": 0},
    kinds="step: index",
    owner=lambda p: p.poisson,
)
_row(
    "privacy.PoissonSampler.sample_secretly",
    lambda p: {"step": 0, "noise": p.noise},
    kinds="key: -",
    owner=lambda p: p.poisson,
)
_rows(
    "privacy.GaussianMechanism privacy.mechanisms.ZeroConcentrated "
    "privacy.release.PublishedConversion"
)
_row("privacy.StatedBudget", kinds="epsilon: non_negative")
_row("privacy.ObjectivePerturbationMechanism", lambda p: {"approximation_mu": 2.0})
_row("privacy.objective_perturbation.SoftmaxPerturbation", lambda p: {"approximation_mu": 2.0})
_row(
    "privacy.batches.poisson.PoissonSubsampledGaussian",
    lambda p: {"sampler": p.poisson},
    kinds="sampler: -",
)
_row(
    "privacy.FixedOrder",
    lambda p: {"num_records": 10, "num_batches": 2},
    kinds="num_batches: count",
)
_row(
    "privacy.FixedOrder.sample",
    lambda p: {"step": 0},
    kinds="step: index",
    owner=lambda p: p.order,
)
_row(
    "privacy.ScheduledNoise", lambda p: {"weights": [1.0, 2.0]}, kinds="weights: vector, source: -"
)
_row("privacy.BandedNoise", lambda p: {"strategy": p.strategy}, kinds="strategy: vector, source: -")
_row("privacy.SecretNoise")
_row(
    "privacy.SecretNoise.noisy_integers",
    lambda p: {"values": [1, 2], "std": 2.0, "purpose": "sums"},
    kinds="std: positives",
    owner=lambda p: p.noise,
)
_row("privacy.SecretNoise.proved", owner=lambda p: p.noise)
_row("privacy.NegativeBinomialRepetitions", kinds="eta: number")
_row("privacy.PoissonRepetitions", lambda p: {"rate": 2.0}, kinds="rate: positive")
_row("privacy.tuned", lambda p: {"thing": p.one_pass}, kinds="thing: thing")
_row("privacy.tuned_mu")
_row("privacy.Composition", lambda p: {"mechanisms": (p.gaussian_cost,)})
_row(
    "privacy.Release",
    lambda p: {"what": "a sum", "adjacency": "replace-one"},
    kinds="num_records: -",
)
_row("privacy.secret.secret_noise.key_entropy_bits")
_row("account", lambda p: {"thing": p.one_pass}, kinds="thing: thing")
_rows(
    "privacy.gaussian_delta privacy.gaussian_mu", kinds="epsilon: non_negatives", takes_arrays=True
)
_rows(
    "privacy.gaussian_epsilon privacy.zcdp_epsilon privacy.zcdp_epsilon_published "
    "privacy.epsilon_to_zcdp privacy.gaussian_noise_std privacy.zcdp_noise_std "
    "privacy.gaussian_tradeoff privacy.reconstruction_bound "
    "privacy.approximate_reconstruction_bound privacy.sphere_log_baseline",
    kinds="epsilon: non_negatives, num_releases: positives, dim num_guesses: count",
    takes_arrays=True,
)
_row("privacy.ApproximateDP")
_row("privacy.GaussianDP", kinds="mu: positive")
_row("privacy.MembershipAdvantage", lambda p: {"advantage": 0.125}, kinds="advantage: positive")
_row("privacy.TruePositiveRate", lambda p: {"rate": 0.5, "at": 0.125}, kinds="rate at: positive")
_row(
    "privacy.ReconstructionBound",
    lambda p: {"probability": 0.5, "baseline": 0.125},
    kinds="probability baseline: positive",
)
_row("privacy.error_lower_bound")
_row("privacy.largest_true_positive_rate", lambda p: {"thing": p.one_pass}, takes_arrays=True)
_rows("privacy.independent_strategy privacy.square_root_strategy")
_row("privacy.calibrated_noise_multiplier", lambda p: {"sampler": p.poisson})
_row(
    "privacy.audit",
    lambda p: {
        **{"mechanism": lambda data, key: data, "first": 0.0, "second": 1.0, "num_trials": 100},
        **{"delta": 0.5, "key": p.key},
    },
    kinds="mechanism: function, delta: share",
)
_row(
    "privacy.audit_one_run",
    lambda p: {"scores": p.theta, "included": p.theta > 0, "delta": 0.0},
    kinds="scores included: data, delta: share",
)

# Theory and simulation.
_row("predict", lambda p: {}, kinds="theory: thing")
_row("simulate", lambda p: {}, kinds="simulator: thing, keep_parameters: flag")
_row("compare", lambda p: {"simulated": p.run}, kinds="simulated: thing")
_row("comparison.average", lambda p: {"runs": p.run}, kinds="runs: thing")
for _reader in ("CoupledODE", "GaussianClosure", "Iterates", "FunctionSpace"):
    _row(f"{_reader}.why_not", owner=lambda p, kind=_reader: getattr(jaxdp, kind)())
_rows("CoupledODE Fluctuations LowerBound UpperBound theory.TightLowerBound theory.TightUpperBound")
_row("GaussianClosure", lambda p: {"rank": 4, "spread_rank": 4})
_row("theory.ClippedDiffusion", lambda p: {"rank": 4})
_row("theory.ModewiseClosure", lambda p: {"spread_draws": 4})
_row("MeanPath", lambda p: {"segments": 2, "num_modes": 4, "rank": 4})
_row("Iterates", lambda p: {"chunk_size": 4})
_rows(
    "HomogenizedSDE simulation.ClippedSDE simulation.OrnsteinUhlenbeckSDE",
    lambda p: {"num_steps": 4},
)
_row("theory.KernelSpectrum", kinds="multiplicities: -")
_row(
    "theory.KernelSpectrum.power_law", kinds="source: positive, num_exact ranges_per_decade: count"
)
_row("theory.effective_dimension", kinds="ridge: positives, eigenvalues: -")
_row(
    "theory.predicted_excess_risk",
    lambda p: {"spectrum": p.spectrum},
    kinds="spectrum: thing, ridge: positive, num_samples num_projections: -",
)
_row(
    "theory.tuned_excess_risk",
    lambda p: {"spectrum": p.spectrum, "noise": jaxdp.theory.ReleaseNoise()},
    kinds="spectrum: thing, num_samples: -",
)
_row("theory.polynomial_rate", kinds="smallest largest: positive")
_row(
    "theory.last_iterate_reconstruction_errors",
    lambda p: {"problem": p.features, "algorithm": p.descent},
    kinds="algorithm: -",
)
_row(
    "theory.local_reconstruction_errors",
    lambda p: {"inputs": p.rows[:3], "coefficients": np.ones(3), "noise_std": 0.5},
    kinds="inputs weights: -",
)
_row(
    "theory.membership_mu",
    lambda p: {
        **{"problem": p.features, "algorithm": p.descent},
        **{"other_input": p.rows[0], "other_label": 1.0},
    },
    kinds="index: -",
)
_rows(
    "theory.optimal_row_error theory.row_error_lower_bound theory.one_step_reconstruction_error "
    "theory.mu_at_reconstruction_error",
    lambda p: {"activation": jax.nn.relu},
    kinds="error: positives, dim num_samples num_features: count",
    takes_arrays=True,
)
_row("problems.hermite_coefficients", kinds="max_order: natural")

# Planning.
_row(
    "plan",
    lambda p: {"rho": 2.0, "num_samples": 1000},
    kinds="epsilon delta num_steps sampling_rate optimiser sampler: -",
)
_row(
    "plan (rows)",
    lambda p: {"problem": p.features, **p.budget, "num_steps": 4, "sampling_rate": 0.5},
    kinds="num_steps: counts, sampling_rate: shares, average: thing, schedule rho num_samples "
    "optimiser sampler noise: -",
)
_row(
    "forecast",
    lambda p: {"problem": p.fixed, "num_samples": 10_000, "delta": 1e-5},
    kinds="epsilon num_steps sampling_rate optimiser: -",
)
_row("required_samples", lambda p: {"target_risk": 0.125, "rho": 1.0}, kinds="epsilon delta: -")
_row("required_epsilon", lambda p: {"target_risk": 0.125, "num_samples": 100})
_row("planning.best_risks", kinds="rho num_samples: positives")
_row("planning.optimal_strategy")
_row(
    "Box",
    lambda p: {"initial_risk": (0.5, 1.0), "label_noise": (0.5, 1.0)},
    kinds="initial_risk label_noise: -",
)
_row("planning.FreeForm")

# Kernels and losses.
_rows("kernels.Gaussian kernels.Laplace")
_row("kernels.Matern", lambda p: {"smoothness": 1.5}, kinds="smoothness: positive")
_rows("kernels.Gaussian.frequencies kernels.Gaussian.features", owner=lambda p: p.kernel)
_rows("kernels.FourierFeatures.sample kernels.CosineFeatures.sample kernels.SamplePaths.sample")
_row("kernels.SamplePaths", lambda p: {"weights": np.ones((3, 2))}, kinds="weights: -")
_row("kernels.TorusKernel")
_row("kernels.TorusKernel.power_law", kinds="capacity: positive")
_row(
    "kernels.functions.torus.MercerFeatures",
    lambda p: {"eigenvalues": jnp.ones(3)},
    kinds="eigenvalues: -",
)
_rows(
    "kernels.FunctionFeatures kernels.IdentityFeatures kernels.ClippedFeatures kernels.NormScaling"
)
_row(
    "kernels.functions.bounded.RangeScaling",
    lambda p: {"low": [2.0, 2.0, 2.0], "high": [4.0, 4.0, 4.0]},
    kinds="low high: vector",
)
_row("kernels.blockwise", lambda p: {"function": p.identity}, kinds="function: thing, rows: count")
_row("kernels.ColumnNames", lambda p: {"inputs": ("a", "b"), "label": "y"}, kinds="inputs: -")
_row("kernels.ridge.rules.NoiseRidge", lambda p: {"factor": 2.0})
_row("kernels.Theorem11Rule", lambda p: {"constant": 2.0}, kinds="constant: positive")
_row(
    "kernels.PrivateKernelRidge",
    lambda p: {
        **{"ridge": 0.5, "intercept_share": 0.5, "num_projections": 4, "num_features": 4},
        **{"input_bound": 2.0, "balance": 2.0, "residual_bound": 2.0},
    },
    kinds="ridge: positive",
)
_rows(
    "kernels.PrivateKernelRidge.fit kernels.PrivateKernelRidge.features",
    kinds="public_seed: natural",
    owner=lambda p: p.ridge,
)
_row(
    "kernels.PrivateKernelRidge.noise_std",
    kinds="public_seed: natural, epsilon delta: -",
    owner=lambda p: p.ridge,
)
_row(
    "kernels.PrivateKernelClassifier",
    lambda p: {
        **{"ridge": 0.5, "max_steps": 4, "num_projections": 4, "num_features": 4},
        **{"input_bound": 2.0, "tolerance": 2.0**-20},
    },
    kinds="ridge: positive",
)
_row(
    "kernels.margin.objective_calibration.objective_perturbation_std",
    kinds="input_bound smoothness: finite",
)
_row("kernels.margin.objective_calibration.softmax_perturbation_std", kinds="input_bound: finite")
_row(
    "kernels.ReleasedFunction",
    lambda p: {"coefficients": np.ones(3), "statement": p.release, "features": p.identity},
    kinds="statement: thing, delta label_bound public_seed: -",
)
_row("losses.Huber")
_row("losses.Softmax", kinds="nodes_per_row: count")

# Regression and estimators.
_row("regression.ColumnFeatures", lambda p: {"columns": p.columns, "is_additive": True})
_row("regression.WithConstant", lambda p: {"constant": 2.0})
_row("regression.features.ComposedFeatures")
_row("regression.Columns", lambda p: {"columns": {"age": (17, 90)}}, kinds="bins: count")
_row(
    "regression.PrivateLinearRegression",
    lambda p: {"label_range": (-1.0, 1.0)},
    kinds="method: thing",
)
_row("regression.PrivateLinearClassifier", kinds="method: thing")
_row("regression.PrivateLinearRegression.fit", owner=lambda p: p.learner)
_row("regression.PrivateLinearClassifier.fit", owner=lambda p: p.classifier)
for _name, _given in {
    "DPLinearRegression": {"label_range": (-1, 1)},
    "DPLogisticRegression": {"classes": (-1, 1)},
    "DPKernelRidge": {"label_bound": 1.0, "num_projections": 2, "num_features": 4},
    "DPKernelClassifier": {"classes": (-1, 1), "num_projections": 2, "num_features": 4},
}.items():
    # An estimator looks at its arguments when it is fitted.
    _row(
        f"estimators.{_name}",
        lambda p, given=_given: {**given, "input_range": (0, 1), "epsilon": 8.0},
        kinds="random_state: natural, features loss kernel: -, method: thing, ridge: positive",
        owner=lambda p, name=_name: SimpleNamespace(**{name: _fitted(name, p)}),
    )
    _row(
        f"estimators.{_name}.fit",
        owner=lambda p, name=_name, given=_given: getattr(jaxdp.estimators, name)(
            **p.budget, input_range=(0, 1), **given
        ),
    )

# Attacks.
_row("attacks.RandomFeaturesTarget")
_row("attacks.RegeneratedWeights")
_row(
    "attacks.NetworkTarget",
    lambda p: {"features": p.tanh, "parameters": np.ones(3), "dim": 3},
    kinds="features: function",
)
_row("attacks.MomentumDescent", lambda p: {"step_size": 2.0, "momentum": 0.5})
_row("attacks.LevenbergMarquardt", lambda p: {"damping": 0.5})
_row(
    "attacks.reconstruct",
    lambda p: {"target": p.target, "num_samples": 3},
    kinds="target optimiser: thing, known_inputs: data",
)
_row(
    "attacks.leak_report",
    lambda p: {"target": p.target, "found": p.found, "true_inputs": p.rows[:3]},
    kinds="target found: thing, tolerance: -",
)
_row("attacks.gradient_descent_parameters", kinds="learning_rate: positive")
_row("attacks.minimum_norm_parameters", lambda p: {"inputs": p.rows[:3], "labels": p.signs[:3]})
_row("attacks.span_target", lambda p: {"inputs": p.rows[:3]})
_row(
    "attacks.without_known_rows",
    lambda p: p.known,
    kinds="known_inputs known_labels iterates: data",
)
_row(
    "attacks.membership_scores",
    lambda p: p.known | {"iterates": p.iterates[None], "inputs": p.rows[:2], "labels": p.signs[:2]},
    kinds="known_inputs known_labels iterates: data",
)
_rows("attacks.row_errors attacks.reconstruction_error", kinds="true_inputs found_inputs: vector")
_row(
    "attacks.span_residual",
    lambda p: {"true_inputs": p.rows[:3], "found_inputs": p.rows[:3], "target": p.target},
    kinds="target: thing",
)
_row(
    "attacks.network_target",
    lambda p: {"trained": p.mlp, "last_start": np.ones((2, 5))},
    kinds="trained: thing, last: function",
)
_row(
    "attacks.two_layer_target",
    lambda p: {"trained": p.mlp, "last_start": np.ones((2, 5))},
    kinds="trained: thing",
)
_row(
    "attacks.attained_tradeoff",
    lambda p: {"false_positive_rates": [0.5]},
    kinds="false_positive_rates: data",
)
_row(
    "attacks.predicted_loss_threshold_auc",
    lambda p: {"problem": p.features, "algorithm": p.descent},
)

# The algorithms as printed.
for _number in (1, 2, 3, 4, 5):
    _own = {"loss": jaxdp.losses.Logistic} if _number in (2, 4, 5) else {}
    _row(
        f"published.Algorithm{_number}",
        lambda p, own=_own: {name: make() for name, make in own.items()},
    )
_row("published.HuberHinge")
_row(
    "published.CanonicalEstimator",
    lambda p: {"eigenfunctions": jnp.cos, "beta": 2.0},
    kinds="eigenfunctions: function, beta: non_negative",
)
_row("published.GaussianUnlessFailure", lambda p: {"failure": 0.5}, kinds="failure: non_negative")


def _fitted(name: str, p: SimpleNamespace) -> Callable[..., Any]:
    """An estimator's constructor that fits it at once."""
    kind = getattr(jaxdp.estimators, name)

    @functools.wraps(kind)
    def fitted(**given: Any):
        return kind(**given).fit(p.rows, p.signs)

    return fitted


# These make a description: a class, or another constructor of one.
DESCRIBING = re.compile(r"([A-Z]\w*)(\.(calibrated|isotropic|power_law))?$")
MAKERS = [row for row in TABLE if row.owner is None and DESCRIBING.search(row.path)]
