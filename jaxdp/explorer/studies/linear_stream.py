"""Linear regression on a stream of samples, learnt by one pass of DP-SGD."""

import itertools
import math

import jax
import numpy as np

import jaxdp
from jaxdp.core.trajectory import Trajectory
from jaxdp.explorer.studies.base import SEED, AbstractStudy, Choice, Described, Number, Values
from jaxdp.explorer.studies.python_text import Call, assigned, call, finished, made
from jaxdp.explorer.studies.schedules import (
    FAMILIES,
    GROUP,
    schedule_call,
    schedule_fields,
    settings_of,
)

_PROBLEM, _PRIVACY, _ALGORITHM = "Problem", "Privacy budget", "Algorithm"
_BUDGETS = {"epsilon": "ε and δ", "rho": "ρ (Gaussian DP)"}
_PEAK = Number("peak", "η(0), learning rate at the start", 0.01, 1e4, 3.0, GROUP, is_log=True)
# The spectrum that the band is computed with has so many distinct eigenvalues at most.
GROUPS = 16
# Batches so small against d have the spread of single samples.
_SMALL_BATCH = 1 / 20
# Samples times runs times distinct eigenvalues, some ten seconds of simulation.
_MOST_WORK = 10**9


class LinearStream(AbstractStudy):
    """`LinearRegression` under `OnePassDPSGD`, predicted by `CoupledODE` and `Fluctuations`.

    Batches of several samples are predicted by `DiscreteRecursion`, and have a band where they are
    small against d.
    """

    label = "linear regression on a stream, one pass of DP-SGD"
    time_label = "time k / K, the share of the pass"
    risk_label = "excess risk R"
    fields = (
        Number("dim", "d, number of inputs", 2, 2000, 200, _PROBLEM, True, True, compiles=True),
        Number("num_samples", "n, samples of the pass", 100, 100_000, 5000, _PROBLEM, True, True),
        Number("label_noise", "ζ, label noise (standard deviation)", 0.0, 3.0, 0.3, _PROBLEM),
        Number("condition_number", "κ, λ_max / λ_min", 1.0, 100.0, 1.0, _PROBLEM, True),
        Number("initial_risk", "R(0), risk before learning", 0.01, 10.0, 0.5, _PROBLEM, True),
        Choice("budget", "Budget as", _BUDGETS, "epsilon", _PRIVACY),
        Number("epsilon", "ε", 0.05, 50.0, 4.0, _PRIVACY, True, shown=("budget", ("epsilon",))),
        Number("rho", "ρ", 0.01, 20.0, 1.0, _PRIVACY, True, shown=("budget", ("rho",))),
        Number("delta", "δ", 1e-12, 1e-2, 1e-5, _PRIVACY, True),
        Number(
            *("clip_scale", "c, clip norm over √d", 1e-3, 100.0, 1.0, _ALGORITHM, True),
            help="No gradient counts for more than a length of c √d. Less clips more and adds less "
            "noise.",
        ),
        Number(
            *("batch_size", "B, samples per step", 1, 64, 1, _ALGORITHM, True, True),
            compiles=True,
            help="A step takes the mean of B new samples; the pass then has n / B steps.",
        ),
        *schedule_fields(_PEAK, start="polynomial", has_optimal=True),
    )

    def check(self, values):
        if values["batch_size"] > values["num_samples"]:
            raise ValueError(
                f"expected B <= n, got {values['batch_size']} > {values['num_samples']}"
            )
        # Refuses a schedule that has to be planned first.
        schedule_call(values, values["peak"])

    def describe(self, values):
        return Described(dict(values), *map(made, _calls(values)))

    def curve(self, described):
        # With a traced length another number of samples compiles nothing.
        algorithm = described.algorithm.with_traced_length()
        theory = getattr(jaxdp, _theory(described.values))()
        return jax.device_get(
            jaxdp.predict(described.problem, algorithm, theory=theory, progress=False)
        )

    def band(self, described):
        if not _has_band(described.values):
            return None
        return jax.device_get(spread(described.problem, described.algorithm))

    def check_runs(self, values, num_runs):
        work = num_runs * values["num_samples"] * _num_modes(values)
        if work > _MOST_WORK:
            raise ValueError(
                f"expected runs x samples x distinct eigenvalues <= {_MOST_WORK:.0e}, got "
                f"{work:.1e}: take fewer runs, or run the copied Python"
            )

    def plan(self, described):
        values = described.values
        found = jaxdp.plan(
            described.problem,
            num_samples=values["num_samples"],
            schedule=FAMILIES[values["schedule"]],
            rho=float(described.algorithm.rho),
            progress=False,
        )
        peak, schedule = settings_of(found.algorithm.learning_rate)
        clip_scale = float(f"{float(found.algorithm.clip_scale):.4g}")
        peak = float(f"{peak:.4g}")
        return {"clip_scale": clip_scale, "peak": peak, "batch_size": 1, **schedule}

    def code(self, described, num_runs):
        values = described.values
        problem, algorithm = _calls(values)
        has_band = _has_band(values)
        lines = [
            "import jax",
            "import jaxdp",
            *(["import jaxdp.explorer"] if has_band else []),
            "",
            *assigned("problem", problem),
            *assigned("algorithm", algorithm),
            f"predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.{_theory(values)}())",
            *(["band = jaxdp.explorer.spread(problem, algorithm)"] if has_band else []),
        ]
        labels = "time $k/K$", "excess risk $R$"
        return finished(lines, values, num_runs, seed=SEED, has_band=has_band, labels=labels)


def _calls(values: Values) -> tuple[Call, Call]:
    """The calls that make the problem and the algorithm."""
    named = {name: values[name] for name in ("condition_number", "label_noise", "initial_risk")}
    budget = ("rho",) if values["budget"] == "rho" else ("epsilon", "delta")
    algorithm = call(
        "jaxdp.OnePassDPSGD" + ("" if values["budget"] == "rho" else ".calibrated"),
        **{name: values[name] for name in budget},
        learning_rate=schedule_call(values, values["peak"]),
        clip_scale=values["clip_scale"],
        num_steps=values["num_samples"] // values["batch_size"],
        batch_size=values["batch_size"],
    )
    return call("jaxdp.LinearRegression.power_law", values["dim"], **named), algorithm


def _theory(values: Values) -> str:
    return "CoupledODE" if values["batch_size"] == 1 else "DiscreteRecursion"


def _num_modes(values: Values) -> int:
    """Distinct eigenvalues; equal ones are one mode."""
    return values["dim"] if values["condition_number"] > 1 else 1


def _has_band(values: Values) -> bool:
    return values["batch_size"] <= max(1, _SMALL_BATCH * values["dim"])


def spread(problem: jaxdp.LinearRegression, algorithm: jaxdp.OnePassDPSGD) -> Trajectory:
    """`Fluctuations` of the grouped problem: with 16 groups a fraction of a second for any d.

    Args:
        problem: whose spectrum is sorted, falling.
        algorithm: of any number of steps, which compiles nothing anew.

    Returns:
        The prediction, with its `std`.

    Example:
        >>> import jaxdp
        >>> from jaxdp.explorer import spread
        >>> problem = jaxdp.LinearRegression.power_law(100, condition_number=10.0, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> spread(problem, algorithm).std.shape
        (101,)
    """
    theory = jaxdp.Fluctuations()
    return jaxdp.predict(
        grouped(problem), algorithm.with_traced_length(), theory=theory, progress=False
    )


def grouped(problem: jaxdp.LinearRegression, num_groups: int = GROUPS) -> jaxdp.LinearRegression:
    """The problem with neighbouring eigenvalues replaced by their mean, in a few groups.

    A step of `Fluctuations` costs the square of the number of distinct eigenvalues. For power laws
    with a condition number up to 100 the predicted standard deviation with 16 groups differs by
    .2 % at most: test_the_band_of_grouped_eigenvalues_is_that_of_all_of_them.

    Args:
        problem: whose spectrum is sorted, falling, as that of `power_law`.
        num_groups: how many distinct eigenvalues are left; as many as there are, where fewer.

    Returns:
        The problem with another spectrum, of mean 1 as before.

    Example:
        >>> import jaxdp
        >>> from jaxdp.explorer import grouped
        >>> problem = jaxdp.LinearRegression.power_law(100, condition_number=10.0, label_noise=0.3)
        >>> len(problem.blocks.sizes), len(grouped(problem, num_groups=8).blocks.sizes)
        (100, 8)
    """
    spectrum = np.asarray(problem.spectrum, np.float64)
    dim = len(spectrum)
    if dim <= num_groups or np.ptp(spectrum) == 0:
        return problem
    # Ranks that grow geometrically, so that groups of a power law are equally wide in ln(lambda).
    ends = [0]
    for place in range(1, num_groups + 1):
        wanted = round(math.exp(math.log(dim) * place / num_groups))
        ends.append(max(wanted, ends[-1] + 1))
    ends[-1] = dim
    means = np.concatenate(
        [
            np.full(last - first, spectrum[first:last].mean())
            for first, last in itertools.pairwise(ends)
        ]
    )
    return problem.replace(spectrum=means / means.mean())
