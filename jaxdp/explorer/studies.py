"""Studies of the theory tab: settings, and a function that makes problem and algorithm of them.

"Copy Python" gives the source of that function and a call of it with the settings on the page.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax

import jaxdp
from jaxdp.core.trajectory import Trajectory
from jaxdp.explorer.fields import Choice, Field, Number, Values

SEED = 0
_PROBLEM, _PRIVACY, _RATE, _ALGORITHM = "Problem", "Privacy", "Learning rate", "Algorithm"
_SCHEDULES = {"polynomial": "η(0) (1 − t)^α", "planned": "the best, by a plan"}
# Settings that a plan would choose are on the page only without a plan.
_BY_HAND = "schedule", ("polynomial",)
Progress = Callable[[float], None]


class Described(NamedTuple):
    """Problem, algorithm, theory and, if a plan chose the algorithm, the plan."""

    problem: Any
    algorithm: Any
    theory: Any
    plan: Any


class Study(NamedTuple):
    """A kind of problem with its algorithm."""

    label: str
    time_label: str
    risk_label: str
    is_stream: bool  # True for one pass over a stream of samples
    function: Callable[..., tuple[Any, ...]]  # from the settings to the fields of `Described`
    fields: tuple[Field, ...]

    def describe(self, values: Values, progress: Progress) -> Described:
        """Make the problem, the algorithm and the theory; a plan takes some seconds."""
        return Described(*self.function(**values, progress=progress))

    def predict(self, described: Described) -> Trajectory:
        """Predict the risk."""
        problem, algorithm, theory, _ = described
        if self.is_stream:
            # With a traced length another number of samples compiles nothing.
            algorithm = algorithm.with_traced_length()
        return jax.device_get(jaxdp.predict(problem, algorithm, theory=theory))

    def simulate(self, described: Described, num_runs: int, progress: Progress) -> Trajectory:
        """Simulate independent runs, with the same seed as in the copied Python."""
        problem, algorithm, *_ = described
        key = jax.random.key(SEED)
        return jaxdp.simulate(problem, algorithm, key=key, num_runs=num_runs, progress=progress)

    def code(self, values: Values, num_runs: int) -> str:
        """Return Python that makes the same picture; `num_runs` is 0 for no simulation."""
        settings = "\n".join(f"    {name}={value!r}," for name, value in values.items())
        if num_runs:
            labels = f"time_label={self.time_label!r}, risk_label={self.risk_label!r}"
            drawn = (
                f"key = jax.random.key({SEED})\n"
                f"simulated = jaxdp.simulate(problem, algorithm, num_runs={num_runs}, key=key)\n"
                f"figure = jaxdp.plots.plot_comparison(\n    simulated, predicted, {labels}\n)"
            )
        else:
            drawn = "figure = predicted.plot()"
        return _CODE.format(
            function=inspect.getsource(self.function),
            name=self.function.__name__,
            settings=settings,
            delta=values["delta"],
            drawn=drawn,
        )


_CODE = """\
import jax
import optax

import jaxdp


{function}

problem, algorithm, theory, plan = {name}(
{settings}
)
predicted = jaxdp.predict(problem, algorithm, theory=theory)
print(predicted, jaxdp.account(algorithm, delta={delta!r}), plan or "")
{drawn}
figure.savefig("explore.png", dpi=200)
"""


# The signatures are short because users copy them.
def linear_stream(
    dim, num_samples, label_noise, condition_number, initial_risk, epsilon, delta,
    schedule, peak, power, clip_scale, batch_size, progress=None,
):  # fmt: skip
    """Linear regression on a stream of samples, with one pass of DP-SGD."""
    plan = None
    spectrum = {"condition_number": condition_number, "initial_risk": initial_risk}
    problem = jaxdp.LinearRegression.power_law(dim, label_noise=label_noise, **spectrum)
    budget = {"epsilon": epsilon, "delta": delta}
    if schedule == "planned":
        plan = jaxdp.plan(problem, num_samples=num_samples, progress=progress, **budget)
        algorithm, batch_size = plan.algorithm, 1
    else:
        algorithm = jaxdp.OnePassDPSGD.calibrated(
            **budget,
            learning_rate=jaxdp.Polynomial(peak, power=power),
            clip_scale=clip_scale,
            num_steps=num_samples // batch_size,
            batch_size=batch_size,
        )
    # `Fluctuations` is slow for many distinct eigenvalues, and does not cover batches.
    if batch_size > 1:
        theory = jaxdp.DiscreteRecursion()
    elif condition_number > 1 and dim > 64:
        theory = jaxdp.CoupledODE()
    else:
        theory = jaxdp.Fluctuations()
    return problem, algorithm, theory, plan


def fixed_rows(
    num_rows, num_features, label_noise, epsilon, delta, optimiser, clip_norm,
    sampling_rate, num_steps, schedule, peak, power, progress=None,
):  # fmt: skip
    """Normal features of mean square norm 1 on fixed rows, with everyday DP-SGD."""
    plan = None
    keys = jax.random.split(jax.random.key(1), 3)
    features = jax.random.normal(keys[0], (num_rows + 500, num_features)) / num_features**0.5
    target = jax.random.normal(keys[1], (num_features,))
    labels = features @ target + label_noise * jax.random.normal(keys[2], (num_rows + 500,))
    train, test = slice(num_rows), slice(num_rows, None)
    problem = jaxdp.FixedFeatures.from_arrays(
        features[train], labels[train], features[test], labels[test]
    )
    # A sampling rate of 1 is DP-GD with the full batch, whose adjacency is replace-one.
    if sampling_rate == 1:
        sampler = jaxdp.privacy.ShuffledEpochs(num_rows, num_rows)
    else:
        sampler = jaxdp.privacy.PoissonSampler(num_rows, sampling_rate)
    factory = {"sgd": optax.sgd, "adam": optax.adam}[optimiser]
    settings = {"epsilon": epsilon, "delta": delta, "num_steps": num_steps}
    if schedule == "planned":
        batches = {"sampling_rate": sampling_rate, "sampler": type(sampler)}
        plan = jaxdp.plan(problem, optimiser=factory, progress=progress, **batches, **settings)
        algorithm = plan.algorithm
    else:
        rate = jaxdp.Polynomial(peak, power=power)
        algorithm = jaxdp.PrivateOptimiser.calibrated(
            factory, learning_rate=rate, clip_norm=clip_norm, sampler=sampler, **settings
        )
    # Without these ranks gradient descent has no standard deviation over runs.
    ranks = {} if optimiser == "adam" else {"rank": 0, "spread_rank": 0}
    return problem, algorithm, jaxdp.GaussianClosure(**ranks), plan


def _schedule_fields(start: float, power: float) -> tuple[Field, ...]:
    peak = "η(0), learning rate at the start"
    return (
        Choice("schedule", "Schedule", _SCHEDULES, "polynomial", _RATE),
        Number("peak", peak, 1e-4, 1e4, start, _RATE, True, shown=_BY_HAND),
        Number("power", "power α, 0 for a constant rate", 0, 3, power, _RATE, shown=_BY_HAND),
    )


_NOISE_OF_LABELS = "ζ, label noise (standard deviation)"
_OPTIMISERS = {"sgd": "gradient descent", "adam": "Adam"}
_CLIP: dict[str, Any] = {
    "shown": _BY_HAND,
    "help": "Longer gradients are scaled down to this norm. A smaller one adds less noise.",
}
STUDIES = (
    Study(
        "linear regression on a stream, one pass of DP-SGD",
        "time $k/K$, the share of the pass",
        "excess risk $R$",
        True,
        linear_stream,
        (
            Number("dim", "d, number of inputs", 2, 2000, 200, _PROBLEM, True, True),
            Number("num_samples", "n, samples of the pass", 100, 1e5, 5000, _PROBLEM, True, True),
            Number("label_noise", _NOISE_OF_LABELS, 0.0, 3.0, 0.3, _PROBLEM),
            Number("condition_number", "κ, λ_max / λ_min", 1.0, 100.0, 1.0, _PROBLEM, True),
            Number("initial_risk", "R(0), risk before learning", 0.01, 10.0, 0.5, _PROBLEM, True),
            Number("epsilon", "ε", 0.05, 50.0, 4.0, _PRIVACY, True),
            Number("delta", "δ", 1e-12, 1e-2, 1e-5, _PRIVACY, True),
            *_schedule_fields(3.0, 0.5),
            Number(
                "clip_scale", "c, clip norm over √d", 1e-3, 100.0, 1.0, _ALGORITHM, True, **_CLIP
            ),
            Number(
                *("batch_size", "B, samples per step", 1, 64, 1, _ALGORITHM, True, True),
                shown=_BY_HAND,
                help="A step takes the mean of B new samples; the pass then has n / B steps.",
            ),
        ),
    ),
    Study(
        "features on fixed rows, everyday DP-SGD and DP-GD",
        "epochs",
        "test error, mean square",
        False,
        fixed_rows,
        (
            Number("num_rows", "n, training rows", 20, 1000, 500, _PROBLEM, True, True),
            Number("num_features", "p, features", 2, 200, 50, _PROBLEM, True, True),
            Number("label_noise", _NOISE_OF_LABELS, 0.0, 3.0, 0.3, _PROBLEM),
            Number("epsilon", "ε", 0.1, 50.0, 4.0, _PRIVACY, True),
            Number("delta", "δ", 1e-10, 1e-2, 1e-5, _PRIVACY, True),
            Choice("optimiser", "Optimiser", _OPTIMISERS, "sgd", _ALGORITHM),
            Number("clip_norm", "C, clip norm", 1e-3, 100.0, 1.0, _ALGORITHM, True, **_CLIP),
            Number("sampling_rate", "q, sampling rate", 0.01, 1.0, 0.2, _ALGORITHM, True),
            Number("num_steps", "T, steps", 1, 100, 50, _ALGORITHM, False, True),
            *_schedule_fields(5.0, 0.0),
        ),
    ),
)
