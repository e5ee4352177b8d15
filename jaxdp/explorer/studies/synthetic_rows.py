"""Regression on fixed rows with features, learnt by DP-SGD as it is run every day."""

import functools
from typing import Any

import jax

import jaxdp
from jaxdp.explorer.studies.base import SEED, AbstractStudy, Choice, Described, Number, Values
from jaxdp.explorer.studies.python_text import Call, Name, assigned, call, finished, made
from jaxdp.explorer.studies.schedules import GROUP, schedule_call, schedule_fields, settings_of
from jaxdp.privacy import PoissonSampler, ShuffledEpochs, calibrated_noise_multiplier
from jaxdp.theory.features.modes import KernelModes, kernel_modes

_PROBLEM, _PRIVACY, _ALGORITHM = "Problem", "Privacy budget", "Algorithm"
_BUDGETS = {"epsilon": "ε and δ", "noise": "noise multiplier"}
_OPTIMISERS = {
    "sgd": "gradient descent",
    "momentum": "momentum",
    "nesterov": "Nesterov",
    "adam": "Adam",
}
_WITH_MOMENTUM = ("momentum", "nesterov")
_RATE = Number("learning_rate", "η, learning rate at the start", 1e-4, 1e3, 5.0, GROUP, is_log=True)
_NOISE = "noise multiplier, noise on the sum over the clip norm"
TEST_ROWS = 500
# Adam's closure keeps all covariances of the weights.
_MOST_OF_ADAM = 60


class SyntheticRows(AbstractStudy):
    """`FixedFeatures` of normal features under `PrivateOptimiser`, predicted by `GaussianClosure`.

    A sampling rate of 1 is the full batch, DP-GD, accounted for with one record replaced.
    """

    label = "features on fixed rows, everyday DP-SGD and DP-GD"
    time_label = "epochs"
    risk_label = "test error, mean square"
    fields = (
        Number("num_rows", "n, training rows", 20, 1000, 500, _PROBLEM, True, True, compiles=True),
        Number("num_features", "p, features", 2, 500, 50, _PROBLEM, True, True, compiles=True),
        Number("label_noise", "ζ, label noise (standard deviation)", 0.0, 3.0, 0.3, _PROBLEM),
        Choice("budget", "Budget as", _BUDGETS, "epsilon", _PRIVACY),
        Number("epsilon", "ε", 0.1, 50.0, 4.0, _PRIVACY, True, shown=("budget", ("epsilon",))),
        Number(
            *("noise_multiplier", _NOISE, 0.3, 1000.0, 10.0, _PRIVACY, True),
            shown=("budget", ("noise",)),
        ),
        Number("delta", "δ", 1e-10, 1e-2, 1e-5, _PRIVACY, True),
        Choice("optimiser", "Optimiser", _OPTIMISERS, "sgd", _ALGORITHM),
        Number(
            *("momentum", "momentum", 0.0, 0.98, 0.9, _ALGORITHM),
            shown=("optimiser", _WITH_MOMENTUM),
        ),
        Number(
            *("clip_norm", "C, clip norm", 1e-3, 100.0, 1.0, _ALGORITHM, True),
            help="No row's gradient counts for more than this length. Less clips more and adds "
            "less noise.",
        ),
        Number("sampling_rate", "q, sampling rate", 0.01, 1.0, 0.2, _ALGORITHM, True),
        # The program of the band has so many steps.
        Number("num_steps", "T, steps", 1, 100, 50, _ALGORITHM, False, True, compiles=True),
        *schedule_fields(_RATE, start="constant", has_optimal=False),
    )

    def check(self, values):
        if values["optimiser"] == "adam" and values["num_features"] > _MOST_OF_ADAM:
            raise ValueError(
                f"expected p <= {_MOST_OF_ADAM} with Adam, whose prediction keeps all covariances "
                f"of the weights, got {values['num_features']}"
            )
        if values["sampling_rate"] * values["num_rows"] < 1:
            raise ValueError(
                "expected batches of at least one row, q n >= 1, got "
                f"{values['sampling_rate'] * values['num_rows']:.2g}"
            )

    def describe(self, values):
        problem = _problem(values["num_rows"], values["num_features"], values["label_noise"])
        return Described(dict(values), problem, made(_algorithm(values)))

    def curve(self, described):
        return jax.device_get(_predicted(described, spread_rank=None))

    def band(self, described):
        return jax.device_get(_predicted(described, spread_rank=0))

    def check_runs(self, values, num_runs):
        """At these sizes none takes minutes."""

    def plan(self, described):
        values = described.values
        if values["budget"] != "epsilon":
            raise ValueError("expected a budget in ε and δ for a plan, got a noise multiplier")
        chosen = jaxdp.plan(
            described.problem,
            epsilon=values["epsilon"],
            delta=values["delta"],
            num_steps=values["num_steps"],
            sampling_rate=values["sampling_rate"],
            optimiser=made(_factory(values)),
            sampler=ShuffledEpochs if values["sampling_rate"] == 1 else PoissonSampler,
            progress=False,
        ).chosen
        _, schedule = settings_of(jaxdp.Constant(chosen.learning_rate))
        return {"learning_rate": chosen.learning_rate, "clip_norm": chosen.clip_norm, **schedule}

    def code(self, described, num_runs):
        values = described.values
        n, p = values["num_rows"], values["num_features"]
        has_spread = values["optimiser"] != "adam"
        closure = "rank=0, spread_rank=0" if has_spread else ""
        lines = [
            *(["import functools", ""] if values["optimiser"] in _WITH_MOMENTUM else []),
            *("import jax", "import optax", "", "import jaxdp", ""),
            f"n, p = {n}, {p}",
            "keys = jax.random.split(jax.random.key(1), 3)",
            f"features = jax.random.normal(keys[0], (n + {TEST_ROWS}, p)) / p**0.5",
            "target = jax.random.normal(keys[1], (p,))",
            f"noise = {values['label_noise']!r} * jax.random.normal(keys[2], (n + {TEST_ROWS},))",
            "labels = features @ target + noise",
            "problem = jaxdp.FixedFeatures.from_arrays(",
            "    features[:n], labels[:n], features[n:], labels[n:]",
            ")",
            *assigned("algorithm", _algorithm(values)),
            f"theory = jaxdp.GaussianClosure({closure})",
            "predicted = band = jaxdp.predict(problem, algorithm, theory=theory)",
        ]
        labels = "epochs", "test error"
        return finished(lines, values, num_runs, seed=SEED, has_band=True, labels=labels)


def _algorithm(values: Values) -> Call:
    rows, rate, steps = (values[name] for name in ("num_rows", "sampling_rate", "num_steps"))
    multiplier = values["noise_multiplier"]
    if values["budget"] == "epsilon":
        multiplier = _noise_multiplier(values["epsilon"], values["delta"], rows, rate, steps)
    return call(
        "jaxdp.PrivateOptimiser",
        _factory(values),
        learning_rate=schedule_call(values, values["learning_rate"]),
        clip_norm=values["clip_norm"],
        noise_multiplier=multiplier,
        num_steps=steps,
        sampler=_sampler(rows, rate),
    )


def _sampler(rows: int, rate: float) -> Call:
    if rate == 1:
        return call("jaxdp.privacy.ShuffledEpochs", rows, rows)
    return call("jaxdp.privacy.PoissonSampler", rows, rate)


def _factory(values: Values) -> Any:
    name = values["optimiser"]
    if name not in _WITH_MOMENTUM:
        return Name(f"optax.{name}")
    nesterov = {"nesterov": True} if name == "nesterov" else {}
    return call("functools.partial", Name("optax.sgd"), momentum=values["momentum"], **nesterov)


# Asked by every slider, of which few change the budget: a calibration takes a fifth of a second.
@functools.lru_cache(maxsize=1000)
def _noise_multiplier(
    epsilon: float, delta: float, rows: int, rate: float, num_steps: int
) -> float:
    sampler = made(_sampler(rows, rate))
    return calibrated_noise_multiplier(epsilon, delta, sampler=sampler, num_steps=num_steps)


@functools.lru_cache(maxsize=4)
def _problem(num_rows: int, num_features: int, label_noise: float) -> jaxdp.FixedFeatures:
    """Normal features of mean square norm 1, and labels of variance 1 plus that of the noise."""
    n, p = num_rows, num_features
    keys = jax.random.split(jax.random.key(1), 3)
    features = jax.random.normal(keys[0], (n + TEST_ROWS, p)) / p**0.5
    target = jax.random.normal(keys[1], (p,))
    noise = label_noise * jax.random.normal(keys[2], (n + TEST_ROWS,))
    labels = features @ target + noise
    return jaxdp.FixedFeatures.from_arrays(features[:n], labels[:n], features[n:], labels[n:])


@functools.lru_cache(maxsize=4)
def _modes(num_rows: int, num_features: int, label_noise: float) -> KernelModes:
    """The kernel's eigenbasis, which no setting of the algorithm changes."""
    return kernel_modes(_problem(num_rows, num_features, label_noise))


def _predicted(described: Described, *, spread_rank: int | None) -> jaxdp.Trajectory:
    values, problem, algorithm = described
    if values["optimiser"] == "adam":
        return jaxdp.predict(problem, algorithm, progress=False)
    modes = _modes(values["num_rows"], values["num_features"], values["label_noise"])
    theory = jaxdp.GaussianClosure(rank=0, spread_rank=spread_rank)
    return theory.predict_modes(modes, algorithm, records=100)
