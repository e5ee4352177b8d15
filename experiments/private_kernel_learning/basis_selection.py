r"""Which functions a random projection keeps: PK section 4.4, on the torus.

An element $\beta\cdot h_M$ of the projected space has independent coefficients of variance
$\mu_l\lVert\beta\rVert^2/M$ (section 4.4 leaves out the 1/M), while the target's are
$\mu_l^r\alpha_l$. For r = 1/2 the two decay alike. A smoother target is approximated in the
projected space no better than $\mu_M$, where M eigenfunctions would leave $\mu_M^{2r}$.
"""

import dataclasses
import itertools

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness import Check, listed, standard_error
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, errorbars, tidy
from experiments.private_kernel_learning.torus import Torus
from jaxdp.theory import predicted_excess_risk

_COLORS = BLUE, GREEN, ORANGE
_NO_RIDGE = 1e-12


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes; elements have a random beta of norm 1 in `element_projections` dimensions."""

    capacity: float = 0.5
    sources: tuple[float, ...] = (0.5, 0.75, 1.0)
    num_points: int = 1024
    element_projections: int = 100
    num_elements: int = 400
    counts: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    num_runs: int = 16
    seed: int = 0

    smoke = harness.size(num_points=256, num_elements=150, counts=(8, 16, 32, 64), num_runs=12)


def run(config: Config) -> xarray.Dataset:
    """Coefficients of random elements and of targets; errors of the best approximations."""
    rng = np.random.default_rng(config.seed)
    tori = [Torus.power_law(config.capacity, r, config.num_points) for r in config.sources]
    elements = np.array([_element(tori[0], config, rng) for _ in range(config.num_elements)])
    errors = [
        [[_distance(torus, count, rng) for _ in range(config.num_runs)] for count in config.counts]
        for torus in tori
    ]
    spectra = [torus.spectrum() for torus in tori]
    predicted = [
        [
            predicted_excess_risk(one, ridge=_NO_RIDGE, num_projections=count).total
            for count in config.counts
        ]
        for one in spectra
    ]
    leading = [[one.squared_target[count:].sum() for count in config.counts] for one in spectra]
    dims, modes = ("source", "count"), np.arange(1, config.num_points)
    return harness.dataset(
        {"source": config.sources, "count": config.counts, "mode": modes},
        {
            "mode": {
                "element": elements[0],
                "mean_square": np.mean(elements**2, axis=0),
                "eigenvalues": spectra[0].eigenvalues,
            },
            ("source", "mode"): {"targets": np.array([torus.coefficients for torus in tori])},
            (*dims, "run"): {"error": np.array(errors)},
            dims: {"error_predicted": np.array(predicted), "error_leading": np.array(leading)},
        },
        {
            "capacity": config.capacity,
            "element_projections": config.element_projections,
            "num_elements": config.num_elements,
        },
    )


def _element(torus: Torus, config: Config, rng) -> np.ndarray:
    """Coefficients of beta . h_M for one draw of both, beta uniform on the sphere."""
    direction = rng.standard_normal(config.element_projections)
    paths = torus.paths(config.element_projections, rng)
    waves = np.fft.rfft(paths @ (direction / np.linalg.norm(direction))) / torus.num_points
    pairs = np.stack([waves.real, -waves.imag], axis=1)[1:-1] * 2**0.5
    return np.concatenate([[waves[0].real], pairs.ravel()])


def _distance(torus: Torus, count: int, rng) -> float:
    """Mean square of the target less its best approximation by M paths."""
    paths = torus.paths(count, rng)
    found = np.linalg.lstsq(paths, torus.values, rcond=None)[0]
    return float(np.mean((paths @ found - torus.values) ** 2))


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The decay of the coefficients and of the error, and the loss of a smoother target."""
    means = (dataset.mean_square * dataset.element_projections / dataset.eigenvalues).values
    error = (2 / dataset.num_elements) ** 0.5
    whole = abs(means.mean() - 1) / (error / len(means) ** 0.5)
    logs = np.log(dataset.mode.values)
    trend = abs(np.polyfit(logs, means - 1, 1)[0]) / (error / logs.std() / len(logs) ** 0.5)
    ratio = dataset.error / dataset.error_predicted
    gap = np.abs(ratio.mean("run") - 1)
    spread = standard_error(ratio, "run")
    loss = (dataset.error.mean("run") / dataset.error_leading).isel(count=-1).values
    growth = [
        np.polyfit(np.log(at["count"]), np.log(at.error.mean("run") / at.error_leading), 1)[0]
        for _, at in dataset.groupby("source", squeeze=False)
        for at in [at.squeeze("source")]
    ]
    limits = (2 * dataset.source.values - 1) / dataset.capacity
    return [
        Check(
            "coefficients of beta . h_M have variance mu_l |beta|^2 / M at every l, to 4 errors",
            f"{whole:.1f} errors in the mean, {trend:.1f} in the trend with ln l",
            bool(whole < 4 and trend < 4),
        ),
        Check(
            "the target's distance to the projected space is as predicted, to 4 errors and 10%",
            f"largest gap {float(gap.max()):.1%}, errors up to {float(spread.max()):.1%}",
            bool((gap < 4 * spread + 0.1).all()),
        ),
        Check(
            "against as many leading eigenfunctions the projection loses more the larger r is, "
            "and for r > 1/2 the more the larger M is",
            listed(
                zip(dataset.source.values, loss, growth, limits, strict=True),
                "r = {:g}: {:.0f} times at the largest M, growing as M^{:.2f} (limit {:.1f})",
            ),
            bool((np.diff(loss) > 0).all() and all(rate > 0.5 for rate in growth[1:])),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """Squared distances to the target, projected and in eigenfunctions, at each M."""
    head, rows = ["M"], []
    for source in dataset.source.values:
        head += [f"r = {source:g}", "eigenfunctions"]
    for count in dataset["count"].values:
        at = dataset.sel(count=count)
        pairs = zip(at.error.mean("run").values, at.error_leading.values, strict=True)
        rows.append([count, *(f"{value:.2e}" for pair in pairs for value in pair)])
    return (
        "Mean squared distance of the target to M sample paths, and to as many eigenfunctions; "
        f"torus, capacity {dataset.capacity:g}, {dataset.sizes['run']} runs.\n\n"
        + harness.table(head, rows)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Coefficients over l; errors over M."""
    figure = Figure(figsize=(8.8, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    modes = dataset.mode.values
    scale = dataset.element_projections**0.5
    left.plot(modes, scale * np.abs(dataset.element), ".", color=GREY, markersize=2,
              label=r"$\sqrt{M}\,\beta\cdot h_M$, one draw")  # fmt: skip
    left.plot(modes, dataset.eigenvalues**0.5, color=BLACK, linewidth=1, label=r"$\sqrt{\mu_l}$")
    for source, color in zip(dataset.source.values, itertools.cycle(_COLORS)):
        at = dataset.sel(source=source)
        label = f"$r = {source:g}$"
        left.plot(modes, np.abs(at.targets), color=color, linewidth=1, label=f"target, {label}")
        error = 2 * standard_error(at.error, "run")
        errorbars(right, at["count"], at.error.mean("run"), error, color, label=label)
        right.plot(at["count"], at.error_predicted, color=color, linewidth=1)
        right.plot(at["count"], at.error_leading, color=color, linewidth=1, linestyle="--")
    right.plot([], [], color=BLACK, linewidth=1, label="predicted")
    right.plot([], [], color=BLACK, linewidth=1, linestyle="--", label="$M$ eigenfunctions")
    left.set_ylim(bottom=1e-7)
    left.set_xlabel("$l$")
    right.set_xlabel("$M$")
    for axes, title in ((left, "Coefficients"), (right, "Squared distance to the target")):
        axes.set(xscale="log", yscale="log")
        axes.legend(frameon=False, fontsize="x-small")
        tidy(axes, title)
    return figure


claims = harness.claims_of(checks)
harness.main(__name__)
