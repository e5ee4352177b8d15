"""Regression on fixed rows with features, learnt by DP-SGD as it is run every day."""

import functools
from typing import Any

import jax
import numpy as np
import optax

import jaxdp
from jaxdp.explorer.studies.base import SEED, AbstractStudy, Band, Curve, Described
from jaxdp.explorer.studies.fields import Choice, Number, Shown, Values
from jaxdp.explorer.studies.noise import NoiseFinder
from jaxdp.explorer.studies.python_text import rows_text
from jaxdp.explorer.studies.schedules import schedule_fields, schedule_of, settings_of
from jaxdp.privacy import PoissonSampler, ShuffledEpochs
from jaxdp.theory.features.modes import KernelModes, kernel_modes

_PROBLEM, _PRIVACY, _ALGORITHM = "Problem", "Privacy budget", "Algorithm"
TEST_ROWS = 500
# Adam's closure keeps all covariances of the weights.
_MOST_OF_ADAM = 60
_WITH_MOMENTUM = ("momentum", "nesterov")
_CLOSURE = jaxdp.GaussianClosure(rank=0, spread_rank=None)
_WITH_SPREAD = jaxdp.GaussianClosure(rank=0, spread_rank=0)


class SyntheticRows(AbstractStudy):
    """`FixedFeatures` of normal features under `PrivateOptimiser`, predicted by `GaussianClosure`.

    A sampling rate of 1 is the full batch, DP-GD, accounted for with one record replaced.
    """

    name = "rows"
    label = "features on fixed rows, everyday DP-SGD and DP-GD"
    time_label = "epochs"
    risk_label = "test error, mean square"
    fields = (
        Number("num_rows", "n, training rows", 20, 1000, 500, _PROBLEM, True, True, compiles=True),
        Number("num_features", "p, features", 2, 500, 50, _PROBLEM, True, True, compiles=True),
        Number("label_noise", "ζ, label noise (standard deviation)", 0.0, 3.0, 0.3, _PROBLEM),
        Choice(
            "budget",
            "Budget as",
            {"epsilon": "ε and δ", "noise": "noise multiplier"},
            "epsilon",
            _PRIVACY,
        ),
        Number(
            "epsilon",
            "ε",
            *(0.1, 50.0, 4.0, _PRIVACY, True),
            shown=Shown("budget", ("epsilon",)),
        ),
        Number(
            "noise_multiplier",
            "noise multiplier, noise on the sum over the clip norm",
            *(0.3, 1000.0, 10.0, _PRIVACY, True),
            shown=Shown("budget", ("noise",)),
        ),
        Number("delta", "δ", 1e-10, 1e-2, 1e-5, _PRIVACY, True),
        Choice(
            "optimiser",
            "Optimiser",
            {
                "sgd": "gradient descent",
                "momentum": "momentum",
                "nesterov": "Nesterov",
                "adam": "Adam",
            },
            "sgd",
            _ALGORITHM,
        ),
        Number(
            "momentum",
            "momentum",
            *(0.0, 0.98, 0.9, _ALGORITHM),
            shown=Shown("optimiser", _WITH_MOMENTUM),
        ),
        Number("clip_norm", "C, clip norm", 1e-3, 100.0, 1.0, _ALGORITHM, True),
        Number("sampling_rate", "q, sampling rate", 0.01, 1.0, 0.2, _ALGORITHM, True),
        # The program of the band has so many steps.
        Number("num_steps", "T, steps", 1, 100, 50, _ALGORITHM, False, True, compiles=True),
        *schedule_fields(
            Number(
                "learning_rate",
                "η, learning rate at the start",
                1e-4,
                1000.0,
                5.0,
                "Learning rate",
                True,
            ),
            start="constant",
            has_optimal=False,
        ),
    )

    def __init__(self):
        self._find_noise = NoiseFinder()

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
        steps = values["num_steps"]
        sampler = _sampler(values)
        multiplier = values["noise_multiplier"]
        if values["budget"] == "epsilon":
            multiplier = self._find_noise(
                values["epsilon"], values["delta"], sampler=sampler, num_steps=steps
            )
        algorithm = jaxdp.PrivateOptimiser(
            _factory(values),
            learning_rate=schedule_of(values, values["learning_rate"]),
            clip_norm=values["clip_norm"],
            noise_multiplier=multiplier,
            num_steps=steps,
            sampler=sampler,
        )
        return Described(dict(values), problem, algorithm)

    def curve(self, described):
        if described.values["optimiser"] == "adam":
            return Curve.of(jaxdp.predict(described.problem, described.algorithm))
        return Curve.of(self._predicted(described, _CLOSURE))

    def curve_program(self, values):
        # Of a rate that changes, each step has a number of its own.
        has_steps = values["optimiser"] == "adam" or values["schedule"] != "constant"
        steps = values["num_steps"] if has_steps else None
        shape = values["num_rows"], values["num_features"]
        is_full = values["sampling_rate"] == 1
        return (self.name, *shape, values["optimiser"], is_full, steps)

    def band(self, described):
        if described.values["optimiser"] == "adam":
            found = jaxdp.predict(described.problem, described.algorithm)
        else:
            found = self._predicted(described, _WITH_SPREAD)
        if found.std is None or found.final_std is None:
            return None
        return Band(np.asarray(found.std, np.float64), float(found.final_std))

    def band_program(self, values):
        return ("spread", *self.curve_program(values), values["num_steps"])

    def _predicted(self, described: Described, theory: jaxdp.GaussianClosure):
        return theory.predict_modes(_modes(described.problem), described.algorithm, records=100)

    def check_runs(self, values, num_runs):
        """At these sizes none takes minutes."""

    def plan(self, described):
        values = described.values
        if values["budget"] != "epsilon":
            raise ValueError("expected a budget in ε and δ for a plan, got a noise multiplier")
        is_full = values["sampling_rate"] == 1
        found = jaxdp.plan(
            described.problem,
            epsilon=values["epsilon"],
            delta=values["delta"],
            num_steps=values["num_steps"],
            sampling_rate=values["sampling_rate"],
            optimiser=_factory(values),
            sampler=ShuffledEpochs if is_full else PoissonSampler,
        )
        chosen = found.chosen
        _, schedule = settings_of(jaxdp.Constant(chosen.learning_rate))
        return {"learning_rate": chosen.learning_rate, "clip_norm": chosen.clip_norm, **schedule}

    def code(self, described, num_runs):
        return rows_text(
            described.values,
            num_runs,
            seed=SEED,
            noise_multiplier=float(described.algorithm.noise_multiplier),
            test_rows=TEST_ROWS,
        )


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


class _Remembered:
    """The kernel's eigenbasis of the last problem, which no setting of the algorithm changes."""

    def __init__(self):
        self._last: tuple[Any, KernelModes] | None = None

    def __call__(self, problem: jaxdp.FixedFeatures) -> KernelModes:
        last = self._last
        if last is None or last[0] is not problem:
            last = problem, kernel_modes(problem)
            self._last = last
        return last[1]


_modes = _Remembered()


def _sampler(values: Values) -> PoissonSampler | ShuffledEpochs:
    rows, rate = values["num_rows"], values["sampling_rate"]
    return ShuffledEpochs(rows, rows) if rate == 1 else PoissonSampler(rows, rate)


def _factory(values: Values) -> Any:
    name = values["optimiser"]
    if name in _WITH_MOMENTUM:
        is_nesterov = name == "nesterov"
        return functools.partial(optax.sgd, momentum=values["momentum"], nesterov=is_nesterov)
    return {"sgd": optax.sgd, "adam": optax.adam}[name]
