r"""A constant clip against clips that grow with the logarithm of n, at fixed gamma = d/n.

AC says that earlier private linear regression [9, 39, 57] clips so high that with high probability
nothing is clipped, a poly-logarithmic factor above the typical gradient, and that its bounds then
diverge with log n at fixed gamma. Their constants are not reproduced: each rule here is the least
that their proofs could use on this problem. Among n Gaussian residuals of standard deviation s the
largest is about $s\sqrt{2\ln n}$ (a union bound), so $c = s\sqrt{2\ln n}$ clips almost nothing;
separate bounds for input and residual, multiplied, give $c = 2 s\ln n$. With s that of the first
residuals the clip is fixed; s = zeta is kinder than any adaptive clip, which must come down to it.
Learning rate and schedule are tuned for each rule, by the coupled ODE; so is the constant clip.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import jax.random as jr
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from experiments import harness
from experiments.aggressive_clipping.constant_clip_checks import checks as checks
from experiments.aggressive_clipping.tuning import Setting, simulated, tune
from experiments.harness import over_runs
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, RED, tidy

_POWERS = 0.0, 0.5, 1.0
_CONSTANT = "constant"
_LABELS = {
    _CONSTANT: ("constant, tuned", BLUE, "o"),
    "adaptive root": (r"$\zeta\sqrt{2\ln n}$", GREEN, "D"),
    "fixed root": (r"$s_0\sqrt{2\ln n}$", ORANGE, "^"),
    "fixed log": (r"$2 s_0\ln n$", RED, "s"),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes: d = gamma n; simulated where `simulated_steps` says."""

    gammas: tuple[float, ...] = (0.1, 0.01)
    num_steps: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    simulated_steps: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    num_runs: int = 50
    seed: int = 57

    smoke = harness.size(
        gammas=(0.1,), num_steps=(1_000, 4_000), simulated_steps=(1_000, 4_000), num_runs=200
    )


def clips(setting: Setting, num_steps: int) -> Mapping[str, float]:
    """c of each rule that depends on n."""
    first = (2 * setting.initial_risk + setting.label_noise**2) ** 0.5
    root = (2 * np.log(num_steps)) ** 0.5
    return {
        "adaptive root": setting.label_noise * root,
        "fixed root": first * root,
        "fixed log": first * root**2,
    }


def run(config: Config) -> xarray.Dataset:
    """Tune every rule at every n by the ODE, and simulate some."""
    values = _tuned(config)
    shape = values["predicted"].shape
    names = ("mean", "std", "standard_error", "clipped_fraction")
    values |= {name: np.full(shape, np.nan) for name in names}
    cells = list(itertools.product(config.gammas, config.simulated_steps))
    name_of = "gamma = {0[0]:g}, n = {0[1]}".format
    for number, (gamma, length) in enumerate(harness.track(cells, name_of)):
        at = config.gammas.index(gamma), slice(None), config.num_steps.index(length)
        given = (values[name][at] for name in ("power", "clip_scale", "rate"))
        key = jr.fold_in(jr.key(config.seed), number)
        risks, clipped = simulated(
            Setting(), round(gamma * length), length, *given, key=key, num_runs=config.num_runs
        )
        for name, value in over_runs(risks.T).items():
            values[name][at] = value
        values["clipped_fraction"][at] = clipped
    return harness.dataset(
        {"gamma": config.gammas, "rule": _LABELS, "num_steps": config.num_steps},
        {("gamma", "rule", "num_steps"): values},
        {"num_runs": config.num_runs, "initial_risk": Setting().initial_risk},
    )


def _tuned(config: Config) -> dict[str, np.ndarray]:
    """Clip, rate and schedule of each rule, and the risk that is predicted, (gamma, rule, n)."""
    setting, lengths = Setting(), config.num_steps
    gammas, powers = np.meshgrid(config.gammas, _POWERS, indexing="ij")
    free = tune(setting, powers.ravel(), gammas.ravel())
    grown = np.asarray([list(clips(setting, length).values()) for length in lengths]).T
    cells = np.broadcast_arrays(
        np.asarray(config.gammas)[:, None, None, None],
        grown[:, :, None],
        np.asarray(_POWERS),
    )
    held = tune(setting, cells[2].ravel(), cells[0].ravel(), cells[1].ravel())
    tuned = {}
    for name in ("clip_scale", "rate", "risk"):
        constant = getattr(free, name).reshape(len(config.gammas), 1, 1, len(_POWERS))
        constant = np.repeat(constant, len(lengths), axis=2)
        rest = getattr(held, name).reshape(cells[0].shape)
        tuned[name] = np.concatenate([constant, rest], axis=1)
    best = tuned["risk"].argmin(axis=-1)[..., None]
    chosen = {name: np.take_along_axis(part, best, -1)[..., 0] for name, part in tuned.items()}
    chosen["predicted"] = chosen.pop("risk")
    return chosen | {"power": np.asarray(_POWERS)[best[..., 0]]}


def summary(dataset: xarray.Dataset) -> str:
    """What the experiment shows, with a table of both ends."""
    ends = dataset.num_steps.values[[0, -1]]
    rows = []
    for gamma, rule in itertools.product(dataset.gamma.values, dataset.rule.values):
        at = dataset.sel(gamma=gamma, rule=rule)
        shown = at.dropna("num_steps", subset=["mean"]).isel(num_steps=-1)
        cells = [
            f"{cell.predicted:.4g} ({cell.clip_scale:.2f}, {cell.rate:.2f}, {cell.power:g})"
            for cell in (at.sel(num_steps=length) for length in ends)
        ]
        constant = dataset.predicted.sel(gamma=gamma, rule=_CONSTANT, num_steps=ends[1])
        ratio = float(at.predicted.sel(num_steps=ends[1]) / constant)
        simulated = f"{shown['mean']:.4g} ± {shown.standard_error:.1g}"
        cells += [f"{ratio:.2f}", simulated, f"{shown.clipped_fraction:.1e}"]
        rows.append([f"{gamma:g}", rule, *cells])
    head = ["γ", "clip", *(f"n = {end}" for end in ends), "over constant", "simulated", "clipped"]
    return (
        "rho = 1, zeta = .3, R(0) = .5, d = gamma n. *adaptive root* is c = zeta sqrt(2 ln n), "
        "*fixed root* s₀ sqrt(2 ln n), *fixed log* 2 s₀ ln n, s₀² = 2 R(0) + zeta². Risk by the "
        "ODE, in brackets c, η̃(0) and alpha. With a constant clip the risk depends on gamma "
        "alone; with the others it grows with n, and slowly towards that of learning nothing, "
        "because the noise that must be added grows with the clip. That is the log factor of the "
        "earlier bounds, seen in the risk itself and not only in its bound.\n\n"
        + harness.table(head, rows)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Risk against n for each gamma."""
    figure = Figure(figsize=(4.0 * dataset.sizes["gamma"] + 0.6, 3.4), layout="constrained")
    row = figure.subplots(1, dataset.sizes["gamma"], squeeze=False)[0]
    for axes, gamma in zip(row, dataset.gamma.values, strict=True):
        _draw(axes, dataset.sel(gamma=gamma))
        axes.axhline(dataset.attrs["initial_risk"], color=BLACK, linewidth=0.6, linestyle=":")
        axes.set(xscale="log", yscale="log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(r"samples $n$, $d = \gamma n$")
        tidy(axes, f"$\\gamma$ = {gamma:g}")
    row[0].set_ylabel("released risk $R$")
    row[0].annotate(
        "nothing learnt",
        (0.02, dataset.attrs["initial_risk"]),
        fontsize="small",
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
    )
    handles, labels = row[0].get_legend_handles_labels()
    style: dict[str, Any] = {"frameon": False, "fontsize": "small", "title_fontsize": "small"}
    figure.legend(
        handles, labels, loc="outside right upper", title="clip $c$ (lines: ODE)", **style
    )
    return figure


def _draw(axes: Axes, panel: xarray.Dataset) -> None:
    for rule in panel.rule.values:
        at = panel.sel(rule=rule)
        label, color, marker = _LABELS[str(rule)]
        axes.plot(at.num_steps, at.predicted, color=color, linewidth=1.2)
        style: dict[str, Any] = {"fmt": marker, "color": color, "markersize": 4.5, "capsize": 2}
        axes.errorbar(at.num_steps, at["mean"], at["std"], label=label, **style)


claims = harness.claims_of(checks)
harness.main(__name__)
