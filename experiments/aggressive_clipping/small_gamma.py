r"""The exponents of AC Theorems 6 and 7, as gamma = d/n tends to 0.

Let $L = \ln(1/\gamma)$. With the theorems' rates, c constant and $c\,\tilde\eta(0) = C L$ (for
alpha > 1, C alpha L), they bound the risk by $\gamma L^{1/(1+\alpha)} + (\gamma^2/\rho^2)
L^{2/(1+\alpha)}$, for alpha = 0 and 1/2 with a lower bound of the same order. Both terms are
measured on the coupled ODE, which is exact in the limit d, n -> infinity that the theorems take
first. The first term is measured at rho = 1, at which the second is negligible. The second is the
risk that privacy adds at $\rho^2 = \gamma$, at which both terms have the same size.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np
import xarray
from jaxtyping import Float
from matplotlib.figure import Figure
from scipy.optimize import least_squares

from experiments import harness
from experiments.aggressive_clipping.tuning import Setting, predicted, tune
from experiments.harness import Check
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, tidy
from experiments.harness.marks import legend, log_ticks
from experiments.harness.verdicts import listed

_COLORS = ORANGE, BLUE, GREEN, RED, PURPLE
_MARKERS = "osD^v"


@dataclasses.dataclass(frozen=True)
class Config:
    """gamma from `largest` to `smallest`; c, and C of the theorems, which is "large enough"."""

    powers: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
    largest: float = 1e-2
    smallest: float = 1e-10
    num_gammas: int = 17
    clip_scale: float = 0.3
    constants: tuple[float, ...] = (1.0, 2.0)
    tuned: bool = True

    smoke = harness.size(powers=(0.0, 1.0), num_gammas=9, tuned=False)


def run(config: Config) -> xarray.Dataset:
    """Risk and privacy's part at the theorems' rates, and the least risk over c and the rate."""
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
    """The theorems' exponents and those found."""
    largest = dataset.constant.values[-1]
    head = ["alpha", "bounds", "L, printed", "L, found", "gamma, found"]
    head += ["L of privacy, printed", "found"]
    is_tuned, rows = "best_risk" in dataset, []
    head += ["tuned, local", "tuned, extrapolated"] if is_tuned else []
    for power in dataset.power.values:
        at, printed = dataset.sel(power=power, constant=largest), printed_exponent(power)
        gamma, log = fitted(at.risk)
        _, private = fitted(at.privacy_part)
        cells = [f"{power:g}", "both" if power < 1 else "upper", f"{printed:.3f}"]
        cells += ["{:.3f} ± {:.3f}".format(*log), "{:.4f} ± {:.4f}".format(*gamma)]
        cells += [f"{2 * printed:.3f}", "{:.3f} ± {:.3f}".format(*private)]
        if is_tuned:
            cells.append(f"{local_exponents(at.best_risk)[-1]:.2f}")
            cells.append("{:.2f} ± {:.2f}".format(*shifted(at.best_risk)))
        rows.append(cells)
    return (
        f"c = {dataset.attrs['clip_scale']:g}, rates of the theorems with C = {largest:g}. The "
        "first term is fitted by a power of gamma times a power of L = ln(1/gamma) over the "
        "smaller half of ln gamma; the second term over gamma by a power of L. The equation is "
        "deterministic, so ± is the change of the fit if its window moves by a decade. *bounds* "
        "are those that the theorems prove: for alpha >= 1 an upper bound only, which has the "
        "right order at these rates by the equation. With c and the rate tuned, the exponent is "
        "approached slowly, because L is added to a constant: R/gamma = A (L + b)^p fits over the "
        "smallest third, and p is the extrapolated exponent. C must be large enough, as the "
        "theorems say: at C = 1/2 and alpha = 1 the effect of the start decays more slowly than "
        "gamma.\n\n" + harness.table(head, rows)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Risk over gamma, and privacy's part over gamma, against L."""
    figure = Figure(figsize=(8.8, 3.7), layout="constrained")
    panels = figure.subplots(1, 2)
    at, logs = dataset.isel(constant=-1), np.log(1 / dataset.gamma.values)
    titles = r"$L^{1/(1+\alpha)}$: the first term", r"$L^{2/(1+\alpha)}$: privacy's term"
    for factor, axes, risk, title in zip(
        (1, 2), panels, (at.risk, at.privacy_part), titles, strict=True
    ):
        for power, color, marker in zip(dataset.power.values, _COLORS, _MARKERS, strict=False):
            scaled = (risk.sel(power=power) / risk.gamma).values
            style: dict[str, Any] = {"color": color, "linestyle": "none", "markersize": 4}
            axes.plot(logs, scaled, marker=marker, label=f"$\\alpha$ = {power:g}", **style)
            # The printed power through the last point.
            printed = scaled[-1] * (logs / logs[-1]) ** (factor * printed_exponent(power))
            axes.plot(logs, printed, color=color, linewidth=0.9)
            if factor == 1 and "best_risk" in dataset:
                best = dataset.best_risk.sel(power=power) / dataset.gamma
                axes.plot(logs, best, color=color, linestyle=":", linewidth=1.1)
        axes.set(yscale="log", xlabel=r"$L = \ln(1/\gamma)$")
        log_ticks(axes, "x", [5, 7, 10, 14, 20])
        axes.minorticks_off()
        tidy(axes, title)
    left, right = panels
    left.plot([], [], color=BLACK, linewidth=0.9, label="printed power")
    if "best_risk" in dataset:
        left.plot([], [], color=BLACK, linestyle=":", linewidth=1.1, label="$c$, rate tuned")
    left.set_ylabel(r"$R/\gamma$ at $\rho = 1$")
    right.set_ylabel(r"$(R - R_{\rho=\infty})/\gamma$ at $\rho^2 = \gamma$")
    handles, labels = left.get_legend_handles_labels()
    legend(figure, handles=handles, labels=labels, loc="outside right upper")
    return figure


def printed_exponent(power: float) -> float:
    """Exponent of ln(1/gamma) in the first term, half of the second's. Source: AC Theorems 6, 7."""
    return 1 / (1 + power)


def local_exponents(risk: xarray.DataArray) -> Float[np.ndarray, " pairs"]:
    """d ln(R/gamma) / d ln ln(1/gamma) between neighbouring gammas."""
    gamma = risk.gamma.values
    return np.diff(np.log(risk.values / gamma)) / np.diff(np.log(np.log(1 / gamma)))


def fitted(risk: xarray.DataArray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Exponents of gamma and of ln(1/gamma), together, over the smaller half of ln(1/gamma).

    Each comes with its change if the window moves.
    """
    found = []
    for window in _windows(risk):
        logs = np.log(1 / window.gamma.values)
        columns = np.stack([np.ones_like(logs), -logs, np.log(logs)], axis=1)
        found.append(np.linalg.lstsq(columns, np.log(window.values), rcond=None)[0][1:])
    (gamma, log), (other_gamma, other_log) = found
    return (gamma, abs(gamma - other_gamma)), (log, abs(log - other_log))


def shifted(risk: xarray.DataArray) -> tuple[float, float]:
    """p of R/gamma = A (ln(1/gamma) + b)^p over the smallest third, and its change."""
    found = []
    for window in _windows(risk, 3):
        logs = np.log(1 / window.gamma.values)
        scaled = np.log(window.values / window.gamma.values)

        def residuals(unknown, logs=logs, scaled=scaled):
            level, shift, exponent = unknown
            return level + exponent * np.log(logs + shift) - scaled

        start = [scaled[-1] - np.log(logs[-1]), 1.0, 0.7]
        bounds = [-np.inf, 0.5 - logs[0], 0], np.inf
        found.append(least_squares(residuals, start, bounds=bounds, x_scale=[1, 10, 1]).x[2])
    return found[0], abs(found[0] - found[1])


def _windows(risk: xarray.DataArray, parts: int = 2) -> list[xarray.DataArray]:
    """The smallest of `parts` parts of the gammas, and the same window moved up by a decade."""
    logs = np.log10(1 / risk.gamma.values)
    shift = max(1, int(np.searchsorted(logs, logs[0] + 1 - 1e-9)))
    length = (len(logs) + parts - 1) // parts
    return [risk[len(logs) - length :], risk[len(logs) - length - shift : len(logs) - shift]]


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The printed exponents against those found; at the theorems' rates and tuned."""
    powers, constants = dataset.power.values, dataset.constant.values
    cells = list(itertools.product(powers, constants))
    found = []
    for risk, name, times in ((dataset.risk, "gamma", 1), (dataset.privacy_part, "privacy", 2)):
        last = [local_exponents(risk.sel(power=a, constant=c))[-1] for a, c in cells]
        printed = np.repeat([times * printed_exponent(power) for power in powers], len(constants))
        found.append(
            Check(
                f"in the {name} term ln(1/gamma) has the exponent {times}/(1 + alpha) of Theorems "
                "6 and 7 at the least gamma, to 0.01, for every alpha and C",
                f"{listed(last, '.4f')} for alpha = {listed(powers, 'g')}, each at C = "
                f"{listed(constants, 'g')}",
                bool(np.all(abs(last - printed) < 0.01)),
            )
        )
    # The power of the logarithm is fitted together with it, so that neither absorbs the other.
    fits = [fitted(dataset.risk.sel(power=a, constant=c))[0] for a, c in cells]
    worst, moved = max(abs(gamma - 1) for gamma, _ in fits), max(error for _, error in fits)
    last = dataset.best_risk if "best_risk" in dataset else dataset.risk.isel(constant=0)
    scaled = (last.isel(gamma=-1) / last.gamma[-1]).values
    found += [
        Check(
            "fitted together with it, gamma has the exponent 1, to 0.005",
            f"to {worst:.1e}; windows a decade apart differ by up to {moved:.1e}",
            worst < 0.005,
        ),
        # Source: AC after Theorem 7: a larger alpha is better as gamma tends to 0, up to ln ln.
        Check(
            "at the least gamma alpha = 0 has the largest risk",
            f"{listed(scaled)} gamma at alpha = {listed(powers, 'g')}",
            bool(scaled[0] > scaled[1:].max()),
        ),
    ]
    return found + (_tuned_exponents(dataset) if "best_risk" in dataset else [])


def _tuned_exponents(dataset: xarray.Dataset) -> list[Check]:
    rises, fits, ends, found = True, True, [], []
    for power in dataset.power.values:
        printed, risk = printed_exponent(power), dataset.best_risk.sel(power=power)
        local = local_exponents(risk)
        half = local[len(local) // 2 :]
        rises &= bool((np.diff(half) > -0.01).all() and half.max() < printed)
        ends.append(f"{half[0]:.2f} to {half[-1]:.2f} for {printed:.2f}")
        exponent, error = shifted(risk)
        found.append(f"{exponent:.2f} ± {error:.2f} for {printed:.2f}")
        fits &= bool(abs(exponent - printed) < error < 0.1)
    return [
        Check(
            "c and the rate tuned: the local exponent rises toward the printed one as gamma falls",
            "; ".join(ends),
            rises,
        ),
        Check(
            "tuned, R/gamma = A (ln(1/gamma) + b)^p: p is the printed exponent, within its change "
            "if the window moves by a decade (less than 0.1)",
            "; ".join(found),
            fits,
        ),
    ]


claims = harness.claims_of(checks)
harness.main(__name__)
