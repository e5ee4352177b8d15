r"""The exponents of AC Theorems 6 and 7, as gamma = d/n tends to 0.

With $L = \ln(1/\gamma)$ and the rates of the theorems, c constant and $c\,\tilde\eta(0) = C L$ (for
alpha > 1, C alpha L), they bound the risk by $\gamma L^{1/(1+\alpha)} + (\gamma^2/\rho^2)
L^{2/(1+\alpha)}$, for alpha = 0 and 1/2 with a lower bound of the same order. Both terms are
measured on the coupled ODE, which is exact in the limit d, n -> infinity that the theorems take
first: the first at rho = 1, where the second is negligible, and the second as what privacy adds at
$\rho^2 = \gamma$, where it weighs as much as the first.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.aggressive_clipping.small_gamma_checks import checks as checks
from experiments.aggressive_clipping.small_gamma_checks import (
    fitted,
    local_exponents,
    printed_exponent,
    shifted,
)
from experiments.aggressive_clipping.tuning import Setting, predicted, tune
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, tidy

_COLORS = ORANGE, BLUE, GREEN, RED, PURPLE
_MARKERS = "osD^v"


@dataclasses.dataclass(frozen=True)
class Config:
    """gamma from `largest` to `smallest`; c and C of the theorems, whose C is "large enough"."""

    powers: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
    largest: float = 1e-2
    smallest: float = 1e-10
    num_gammas: int = 17
    clip_scale: float = 0.3
    constants: tuple[float, ...] = (1.0, 2.0)
    tuned: bool = True

    smoke = harness.size(powers=(0.0, 1.0), num_gammas=9, tuned=False)


def run(config: Config) -> xarray.Dataset:
    """Risk and what privacy adds at the theorems' rates, and the least risk over c and the rate."""
    gammas = np.geomspace(config.largest, config.smallest, config.num_gammas)
    power, constant, gamma = np.meshgrid(config.powers, config.constants, gammas, indexing="ij")
    product = constant * np.maximum(power, 1) * np.log(1 / gamma)
    at = Setting(), power, gamma, config.clip_scale, product / config.clip_scale
    private, public = (predicted(*at, rho=rho) for rho in (gamma**0.5, np.inf))
    dataset = harness.dataset(
        {"power": config.powers, "constant": config.constants, "gamma": gammas},
        {
            ("power", "constant", "gamma"): {
                "risk": predicted(*at),
                "privacy_part": private - public,
            }
        },
        {"clip_scale": config.clip_scale},
    )
    if config.tuned:
        power, gamma = np.meshgrid(config.powers, gammas, indexing="ij")
        best = tune(Setting(), power.ravel(), gamma.ravel())
        for name, value in zip(("clip_scale", "rate", "risk"), best, strict=False):
            dataset[f"best_{name}"] = ("power", "gamma"), value.reshape(power.shape)
    return dataset


def summary(dataset: xarray.Dataset) -> str:
    """What the theorems say and what is found."""
    rows = []
    largest = dataset.constant.values[-1]
    for power in dataset.power.values:
        at = dataset.sel(power=power, constant=largest)
        first, second = printed_exponent(power), 2 * printed_exponent(power)
        cells = [f"{power:g}", "both" if power < 1 else "upper"]
        for risk, exponent in ((at.risk, first), (at.privacy_part, second)):
            (gamma_fit, gamma_error), (log_fit, log_error) = fitted(risk)
            name = f"{exponent:.3f}"
            cells += [name, f"{log_fit:.3f} ± {log_error:.3f}"]
            cells += [f"{gamma_fit:.4f} ± {gamma_error:.4f}"] if risk.name == "risk" else []
        if "best_risk" in dataset:
            exponent, error = shifted(at.best_risk)
            cells.append(f"{local_exponents(at.best_risk)[-1]:.2f}")
            cells.append(f"{exponent:.2f} ± {error:.2f}")
        rows.append(cells)
    head = ["alpha", "bounds", "L, printed", "L, found", "gamma, found"]
    head += ["L of privacy, printed", "found"]
    head += ["tuned, local", "tuned, extrapolated"] if "best_risk" in dataset else []
    return (
        f"c = {dataset.attrs['clip_scale']:g}, rates of the theorems with C = {largest:g}; the "
        "first term as a power of gamma times a power of L = ln(1/gamma), both fitted over the "
        "smaller half of gamma in the logarithm; the second term over gamma as a power of L. The "
        "equation is deterministic, so ± is how much the fit moves when its window moves by a "
        "decade. *bounds* says what the theorems prove: for alpha >= 1 an upper bound only, which "
        "the equation shows to be of the right order at these rates. With c and the rate tuned "
        "the exponent is approached slowly, because L is added to a constant: R/gamma = A "
        "(L + b)^p fits over the smallest third, and p is what is called extrapolated. C must be "
        "large enough, as the theorems say: at C = 1/2, alpha = 1 does not even forget its start "
        "as fast as gamma.\n\n" + harness.table(head, rows)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Risk over gamma, and what privacy adds over gamma, against L."""
    figure = Figure(figsize=(8.8, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    at = dataset.isel(constant=-1)
    _draw(left, at.risk, 1)
    _draw(right, at.privacy_part, 2)
    if "best_risk" in dataset:
        for power, color in zip(dataset.power.values, itertools.cycle(_COLORS)):
            best = dataset.best_risk.sel(power=power)
            logs = np.log(1 / best.gamma)
            left.plot(logs, best / best.gamma, color=color, linestyle=":", linewidth=1.1)
        left.plot([], [], color=BLACK, linestyle=":", linewidth=1.1, label="$c$, rate tuned")
    left.set_ylabel(r"$R/\gamma$ at $\rho = 1$")
    right.set_ylabel(r"$(R - R_{\rho=\infty})/\gamma$ at $\rho^2 = \gamma$")
    titles = r"$L^{1/(1+\alpha)}$: the first term", r"$L^{2/(1+\alpha)}$: privacy's term"
    for axes, title in zip((left, right), titles, strict=True):
        axes.set(xscale="log", yscale="log")
        axes.set_xticks([5, 7, 10, 14, 20], ["5", "7", "10", "14", "20"])
        axes.minorticks_off()
        axes.set_xlabel(r"$L = \ln(1/\gamma)$")
        tidy(axes, title)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize="small")
    return figure


def _draw(axes: Axes, risk: xarray.DataArray, factor: int) -> None:
    """Points, and the printed power through the last of them."""
    logs = np.log(1 / risk.gamma.values)
    for power, color, marker in zip(
        risk.power.values, itertools.cycle(_COLORS), itertools.cycle(_MARKERS)
    ):
        scaled = (risk.sel(power=power) / risk.gamma).values
        style: dict[str, Any] = {"color": color, "linestyle": "none", "markersize": 4}
        axes.plot(logs, scaled, marker=marker, label=f"$\\alpha$ = {power:g}", **style)
        exponent = factor * printed_exponent(power)
        axes.plot(logs, scaled[-1] * (logs / logs[-1]) ** exponent, color=color, linewidth=0.9)
    axes.plot([], [], color=BLACK, linewidth=0.9, label="printed power")


claims = harness.claims_of(checks)
harness.main(__name__)
