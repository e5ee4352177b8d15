r"""Quantities bounded in the proof of PF Theorem 1, along $n = d^{5/4}$; (4.3) and tuned runs.

At infinite width, on rows of the sphere (Assumption 1), in the middle of the theorem's range: the
shift of the interpolator if a row is left out (Lemma 6.5), the kernel's spectrum (Lemma C.3), the
distance to the interpolator of gradient flow stopped at $\tau$ of (4.3) (6.11), the noise of (4.3)
(6.10), and the test error of DP-GD with those hyper-parameters and with tuned ones. Tuning is by
the mean *test* error, which is not privatised.
"""

import dataclasses
import math

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.harness import Check, standard_error
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, tidy
from experiments.harness.marks import legend, log_ticks, means
from experiments.harness.verdicts import listed, listing, span
from experiments.privacy_for_free.batches import (
    CALIBRATIONS,
    interpolator_risk,
    noise_per_root_time,
    risks_on_grid,
)
from experiments.privacy_for_free.excess_risk_checks import best_risk
from experiments.statements.privacy_for_free.leave_one_out import leave_one_out
from experiments.statements.privacy_for_free.theorem_scaling import theorem_scaling
from jaxdp.problems import ReducedFeatures, sphere_inputs

# The closed forms do not depend on the number of steps.
_STEPS = 100

# Hermite coefficients of tanh: mu_1^2, and the sum of the squares of orders three and more.
_FIRST = 0.605705510**2
_REST = 0.394294490 - _FIRST


@dataclasses.dataclass(frozen=True)
class Config:
    r"""Sizes: n is $d^{5/4}$, delta 1/n.

    Attributes:
        times, clips: the grid of $\tau p/d$ and $C/\sqrt p$ over which each size is tuned.
        num_seeds: data sets of each size, with one run of each setting.
    """

    dims: tuple[int, ...] = (10, 20, 40, 80, 160)
    exponent: float = 1.25
    num_test: int = 500
    epsilon: float = 4.0
    times: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    clips: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    fewest_steps: int = 12
    num_seeds: int = 4
    seed: int = 8

    smoke = harness.size(
        dims=(10, 20, 40), num_test=200, times=(2.0, 8.0), clips=(0.01, 0.1), num_seeds=3
    )

    def num_train(self, dim: int) -> int:
        """n."""
        return round(dim**self.exponent)


def run(config: Config) -> xarray.Dataset:
    """Every size and seed."""
    trial = ("dim", "seed")
    measured = ["row_shift", "above", "below", "least", "distance", "noise", "free_noise"]
    measured += ["exit_probability", "interpolator", "theorem_risk"]
    axes = {
        "dim": config.dims,
        "seed": range(config.num_seeds),
        "time": config.times,
        "clip_scale": config.clips,
        "calibration": CALIBRATIONS,
    }
    dataset = harness.empty(axes, {trial: measured, tuple(axes): ["risk"]})
    cells = [(dim, seed) for dim in config.dims for seed in range(config.num_seeds)]
    for dim, seed in harness.track(cells, "d = {0[0]}, seed {0[1]}".format):
        row_key, key = jr.split(jr.fold_in(jr.fold_in(jr.key(config.seed), dim), seed))
        sizes = config.num_train(dim), config.num_test, dim, None
        problem = jaxdp.RandomFeatures.sample(*sizes, inputs=sphere_inputs, key=row_key).reduced()
        at = {"dim": dim, "seed": seed}
        for name, value in _measured(config, problem, dim).items():
            dataset[name].loc[at] = value
        dataset.risk.loc[at], dataset.theorem_risk.loc[at] = _risks(config, problem, dim, key)
    facts = {"epsilon": config.epsilon, "exponent": config.exponent}
    num_train = [config.num_train(dim) for dim in config.dims]
    return dataset.assign_coords(num_train=("dim", num_train)).assign_attrs(facts)


def _measured(config: Config, problem: ReducedFeatures, dim: int) -> dict[str, float]:
    """Quantities that need no run, in units without p."""
    num_train = problem.num_train
    algorithm = theorem_scaling(
        config.epsilon,
        1 / num_train,
        num_train=num_train,
        dim=dim,
        num_features=None,
        num_steps=_STEPS,
    )
    theory = jaxdp.OrnsteinUhlenbeck()
    last = {
        name: float(values[-1])
        for name, values in jaxdp.predict(
            problem, algorithm, theory=theory, records=1
        ).observables.items()
    }
    gap = problem.spectral_gap(dim)
    test = np.concatenate([np.asarray(problem.test_factor), np.asarray(problem.unseen_factor)], 1)
    free = float(algorithm.diffusion(num_train)) ** 2 * float(algorithm.duration)
    return {
        "row_shift": float(leave_one_out(problem).shift.max()),
        "above": gap.above,
        "below": gap.below,
        "least": float(problem.kernel_eigenvalues()[-1]),
        "distance": last["interpolator_distance"],
        "noise": last["variance"],
        "free_noise": free * float(np.mean(np.sum(test**2, axis=1))),
        "exit_probability": last["exit_probability"],
        "interpolator": interpolator_risk(problem),
    }


def _risks(config: Config, problem: ReducedFeatures, dim: int, key):
    """Test errors over the grid, (times, clips, calibrations), and with (4.3)."""
    square = math.log(problem.num_train) ** 2
    delta = 1 / problem.num_train
    noises = [noise_per_root_time(config.epsilon, delta, name) for name in CALIBRATIONS]
    risks, _ = risks_on_grid(
        problem,
        np.asarray([*config.times, square]) * dim,
        np.asarray([*config.clips, square]),
        np.asarray(noises),
        stability_limit=problem.stability_limit(),
        fewest_steps=config.fewest_steps,
        key=key,
    )
    return risks[:-1, :-1], risks[-1, -1, list(CALIBRATIONS).index("published")]


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Each lemma's order, and (4.3) against tuning."""
    shift, shift_error = _exponent(_shift(dataset))
    distance, distance_error = _exponent(dataset.distance)
    bound, _ = np.polyfit(np.log(dataset.dim), np.log(_stopping_bound(dataset)), 1)
    inside = dataset.noise / dataset.free_noise
    constants = dataset.noise.mean("seed") / _noise_bound(dataset)
    above = dataset.above * dataset.dim / dataset.num_train / _FIRST
    below, least = dataset.below / _REST, dataset.least / _REST
    tuned = best_risk(dataset).sel(calibration="published").mean("seed")
    untuned = dataset.theorem_risk.mean("seed")
    return [
        Check(
            "Lemma 6.5: the largest shift, times sqrt(p)/log n, does not grow with d",
            f"d^({shift:.2f} ± {shift_error:.2f}), from {float(_shift(dataset).max()):.2f}",
            shift < 2 * shift_error,
        ),
        Check(
            "Lemma C.3: eigenvalue d is of order n/d; eigenvalue d + 1 and the least of order 1",
            f"{span(above, '.2f')} times mu_1^2 n/d; {float(below.max()):.2f} and "
            f"{float(least.min()):.2f} times the bulk's",
            bool(above.min() > 0.05 and below.max() < 2 and least.min() > 0.1),
        ),
        Check(
            "Lemma 6.4: at tau of (4.3) the distance to the interpolator falls with d, at least as "
            "fast as d/n + n/d^1.5",
            f"d^({distance:.2f} ± {distance_error:.2f}) against d^{bound:.2f}; "
            f"{listed(dataset.distance.mean('seed'), '.1e')}",
            distance < bound + 2 * distance_error,
        ),
        Check(
            "Lemma 6.3: the noise adds less than free Brownian motion of the same length, and its "
            "ratio to d^2 log^10 n log(1/delta)/(n epsilon)^2 does not grow with d",
            f"{span(inside)} of it; {listed(constants, '.2g')}",
            bool((inside <= 1).all() and constants[-1] <= constants[0]),
        ),
        Check(
            "with the hyper-parameters of (4.3) DP-GD's error is at least 10 times that of "
            "predicting nothing at every size; tuned it is below that of predicting nothing",
            f"{span(untuned, '.3g')}; {span(tuned)}",
            bool((untuned > 10).all() and (tuned < 1).all()),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The findings, and the numbers."""
    shown = dataset.assign(tuned=best_risk(dataset), shift=_shift(dataset)).mean("seed")
    columns = {
        "d": lambda at: at.dim.item(),
        "n": lambda at: at.num_train.item(),
        "shift √p/log n": lambda at: f"{at['shift']:.2f}",
        "distance": lambda at: f"{at.distance:.1e}",
        "noise": lambda at: f"{at.noise:.3g}",
        "error with (4.3)": lambda at: f"{at.theorem_risk:.3g}",
        "tuned, published": lambda at: f"{at.tuned.sel(calibration='published'):.3f}",
        "tuned, exact": lambda at: f"{at.tuned.sel(calibration='exact'):.3f}",
        "θ*": lambda at: f"{at.interpolator:.3f}",
    }
    return (
        f"Infinite width, rows on the sphere, n = d^{dataset.attrs['exponent']:g}, ε = "
        f"{dataset.attrs['epsilon']:g}, δ = 1/n, means over {dataset.sizes['seed']} data sets.\n\n"
        "All bounded quantities are of the order of their bounds or below. Stopping at τ of (4.3) "
        "costs almost nothing: the distance falls much faster than its bound. At these sizes only "
        "the noise matters: log n to the tenth power outweighs d²/n². By the constant of the last "
        f"row the noise is below 0.1 only from d = 10^{_dim_of_small_noise(dataset):.0f} on. "
        "So (4.3) gives the right scaling in d/p and √p (Figure 3), but no hyper-parameters to "
        "use: the tuned τ and C have no logarithms, and clip most gradients.\n\n"
        + listing(shown, ("dim",), columns)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """The bounded quantities with their bounds, and test errors."""
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    tuned, exponent = best_risk(dataset), dataset.attrs["exponent"]
    lines = [
        {"largest shift": (_shift(dataset), "o-", BLUE)},
        {"distance to $\\theta^*$ (6.11)": (dataset.distance, "o-", BLUE)},
        {
            "noise (6.10)": (dataset.noise, "o-", BLUE),
            "of Brownian motion": (dataset.free_noise, "s-", GREEN),
        },
        {
            "DP-GD with (4.3)": (dataset.theorem_risk, "D-", BLACK),
            "tuned, published": (tuned.sel(calibration="published"), "o-", BLUE),
            "tuned, exact": (tuned.sel(calibration="exact"), "o-", GREEN),
            "$\\theta^*$": (dataset.interpolator, "^-", ORANGE),
        },
    ]
    titles = (
        "leaving one row out, times $\\sqrt{p}/\\log n$",
        "stopping at $\\tau$ of (4.3)",
        f"noise of (4.3), $\\epsilon$ = {dataset.attrs['epsilon']:g}",
        "test error",
    )
    for axes, curves, title in zip(panels, lines, titles, strict=True):
        for label, (values, style, color) in curves.items():
            means(axes, dataset.dim, values, "seed", fmt=style, color=color, label=label)
        tidy(axes, title)
        axes.set_xlabel(f"dimension $d$,  $n = d^{{{exponent:g}}}$")
    dashed = {"color": GREY, "linestyle": "--"}
    panels[1].plot(dataset.dim, _stopping_bound(dataset), label="$d/n + n/d^{3/2}$", **dashed)
    panels[2].plot(dataset.dim, _noise_bound(dataset), label="bound, constant one", **dashed)
    panels[3].axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    panels[0].set_ylim(bottom=0)
    for axes in panels[1:]:
        axes.set_yscale("log")
    for axes in panels:
        log_ticks(axes, "x", dataset.dim.data)
        axes.minorticks_off()
        legend(axes)
    return figure


def _shift(dataset: xarray.Dataset) -> xarray.DataArray:
    r"""The largest shift times $\sqrt p/\log n$, bounded by Lemma 6.5."""
    return dataset.row_shift / np.log(dataset.num_train)


def _stopping_bound(dataset: xarray.Dataset) -> xarray.DataArray:
    """d/n + n/d^1.5: (6.11) without its logarithms."""
    return dataset.dim / dataset.num_train + dataset.num_train / dataset.dim**1.5


def _noise_bound(dataset: xarray.Dataset) -> xarray.DataArray:
    """d^2 log^10 n log(1/delta) / (n epsilon)^2 with delta = 1/n: (6.10)."""
    logs = np.log(dataset.num_train)
    return dataset.dim**2 * logs**11 / (dataset.num_train * dataset.attrs["epsilon"]) ** 2


def _dim_of_small_noise(dataset: xarray.Dataset, level: float = 0.1) -> float:
    """log10 of the d from which the noise of (4.3) is below the level, by its last constant."""
    constant = float((dataset.noise.mean("seed") / _noise_bound(dataset))[-1])
    power, digits = dataset.attrs["exponent"], np.arange(2, 400, 0.1)
    logs = digits * math.log(10)
    value = np.log(constant) + 2 * logs * (1 - power) + 11 * np.log(power * logs)
    below = value - 2 * math.log(dataset.attrs["epsilon"]) < math.log(level)
    return float(digits[below.argmax()]) if below.any() else math.inf


def _exponent(values: xarray.DataArray) -> tuple[float, float]:
    """Exponent of a mean over seeds as a power of d, and its standard error."""
    mean = values.mean("seed").transpose("dim")
    (found, _), covariance = np.polyfit(np.log(mean.dim), np.log(mean.data), 1, cov="unscaled")
    # Seeds of different sizes are independent.
    spread = standard_error(values, "seed") / mean
    error = float((spread**2).mean() ** 0.5)
    return float(found), float(error * covariance[0, 0] ** 0.5)


claims = harness.claims_of(checks)
harness.main(__name__)
