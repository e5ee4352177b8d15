r"""A constant clip against clips that grow with the logarithm of n, at fixed gamma = d/n.

According to AC, earlier private linear regression [9, 39, 57] clips a poly-logarithmic factor above
the typical gradient, so that with high probability nothing is clipped. Its bounds then diverge with
log n at fixed gamma. The papers' constants are not reproduced: each rule here is the least that
their proofs could use on this problem. Among n Gaussian residuals of standard deviation s the
largest is about $s\sqrt{2\ln n}$ (a union bound), so $c = s\sqrt{2\ln n}$ clips almost nothing. The
product of separate bounds for input and residual gives $c = 2 s\ln n$. If s is the standard
deviation of the first residuals, the clip is fixed. s = zeta is kinder than any adaptive clip,
whose s must fall to zeta. Learning rate and schedule are tuned for each rule by the coupled ODE; so
is the constant clip.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from experiments import harness
from experiments.aggressive_clipping.tuning import Setting, simulated, tune
from experiments.harness import Check, over_runs
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, RED, tidy
from experiments.harness.marks import legend
from experiments.harness.verdicts import listed, listing, span, within

_POWERS = 0.0, 0.5, 1.0
_CONSTANT = "constant"
_LABELS = {
    _CONSTANT: ("constant, tuned", BLUE, "o"),
    "adaptive root": (r"$\zeta\sqrt{2\ln n}$", GREEN, "D"),
    "fixed root": (r"$s_0\sqrt{2\ln n}$", ORANGE, "^"),
    "fixed log": (r"$2 s_0\ln n$", RED, "s"),
}

_SIGMAS, _RELATIVE_BIAS = 5, 2.0


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes: d = gamma n; the n in `simulated_steps` are simulated."""

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
    """Clip, rate, schedule and predicted risk of each rule, (gamma, rule, n)."""
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
    """The finding, with a table of the smallest and the largest n."""
    ends = dataset.num_steps.values[[0, -1]]
    constant = dataset.predicted.sel(rule=_CONSTANT).isel(num_steps=-1)

    def at_end(end):
        def text(at):
            at = at.sel(num_steps=end)
            return f"{at.predicted:.4g} ({at.clip_scale:.2f}, {at.rate:.2f}, {at.power:g})"

        return text

    def last(at):
        return at.dropna("num_steps", subset=["mean"]).isel(num_steps=-1)

    columns = {"γ": lambda at: f"{at.gamma:g}", "clip": lambda at: at.rule.item()}
    columns |= {f"n = {end}": at_end(end) for end in ends}
    columns |= {
        "over constant": lambda at: (
            f"{at.predicted[-1].item() / constant.sel(gamma=at.gamma).item():.2f}"
        ),
        "simulated": lambda at: f"{last(at)['mean']:.4g} ± {last(at).standard_error:.1g}",
        "clipped": lambda at: f"{last(at).clipped_fraction:.1e}",
    }
    return (
        "rho = 1, zeta = 0.3, R(0) = 0.5, d = gamma n. *adaptive root* is c = zeta sqrt(2 ln n), "
        "*fixed root* s₀ sqrt(2 ln n), *fixed log* 2 s₀ ln n, s₀² = 2 R(0) + zeta². Risk by the "
        "ODE, in brackets c, η̃(0) and alpha. With a constant clip the risk depends on gamma "
        "alone. With the others it grows with n, slowly, towards the risk of learning nothing, "
        "because the noise grows with the clip. So the log factor of the earlier bounds is in "
        "the risk itself, not only in its bound.\n\n" + listing(dataset, ("gamma", "rule"), columns)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Risk against n for each gamma."""
    figure = Figure(figsize=(4.0 * dataset.sizes["gamma"] + 0.6, 3.4), layout="constrained")
    row = figure.subplots(1, dataset.sizes["gamma"], squeeze=False)[0]
    start = dataset.attrs["initial_risk"]
    for axes, gamma in zip(row, dataset.gamma.values, strict=True):
        for rule, (label, color, marker) in _LABELS.items():
            at = dataset.sel(gamma=gamma, rule=rule)
            axes.plot(at.num_steps, at.predicted, color=color, linewidth=1.2)
            style: dict[str, Any] = {"fmt": marker, "color": color, "markersize": 4.5}
            axes.errorbar(at.num_steps, at["mean"], at["std"], label=label, capsize=2, **style)
        axes.axhline(start, color=BLACK, linewidth=0.6, linestyle=":")
        axes.set(xscale="log", yscale="log", xlabel=r"samples $n$, $d = \gamma n$")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        tidy(axes, f"$\\gamma$ = {gamma:g}")
    row[0].set_ylabel("released risk $R$")
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    row[0].annotate("nothing learnt", (0.02, start), xytext=(0, 2), fontsize="small", **place)
    handles, labels = row[0].get_legend_handles_labels()
    words = {"title": "clip $c$ (lines: ODE)", "title_fontsize": "small"}
    legend(figure, handles=handles, labels=labels, loc="outside right upper", **words)
    return figure


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Agreement with simulation, and who wins."""
    gap = dataset["mean"] - dataset.predicted
    bias = _RELATIVE_BIAS * dataset.predicted / (dataset.gamma * dataset.num_steps)
    known = dataset.dropna("num_steps", subset=["mean"])
    first, last = known.isel(num_steps=0), known.isel(num_steps=-1)
    # The ODE's risk of a constant clip is constant by construction, so simulation must show it.
    one, other = (end.sel(rule=_CONSTANT) for end in (first, last))
    error = np.hypot(one.standard_error, other.standard_error)
    room = _SIGMAS * error + bias.sel(rule=_CONSTANT, num_steps=first.num_steps)
    others = last.drop_sel(rule=_CONSTANT)
    sigmas = others["mean"] - other["mean"]
    sigmas = sigmas / np.hypot(others.standard_error, other.standard_error)
    ratios = others["mean"] / other["mean"]
    often = known.clipped_fraction.sel(rule=_CONSTANT)
    rarely = known.clipped_fraction.sel(rule=["fixed root", "fixed log"])
    return [
        within(
            "every simulated mean is within 5 standard errors + 2 R/d of the ODE",
            gap,
            _SIGMAS * dataset.standard_error + bias,
            f"{int(gap.count())} of them, at most {float(abs(gap / dataset.predicted).max()):.1%} "
            "apart, ",
        ),
        within(
            "with a constant clip the simulated risk is the same at the least and the largest n, "
            "within 5 standard errors + 2 R/d",
            one["mean"] - other["mean"],
            room,
            f"{listed(one['mean'], '.5f')} and {listed(other['mean'], '.5f')}, ",
        ),
        _grows(dataset),
        Check(
            f"at n = {int(last.num_steps)} every growing clip is worse than the constant one, "
            "simulated, by 5 standard errors",
            "; ".join(
                f"gamma = {gamma:g}: {listed(ratios.sel(gamma=gamma), '.2f')} times"
                for gamma in dataset.gamma.values
            ),
            bool(sigmas.min() > _SIGMAS),
        ),
        Check(
            "fixed growing clips leave all but 1 gradient in 1000 as they are; the constant one "
            "clips more than 1 in 5",
            f"{float(rarely.max()):.1e} and {span(often, '.0%')}",
            float(rarely.max()) < 1e-3 and float(often.min()) > 0.2,
        ),
    ]


def _grows(dataset: xarray.Dataset) -> Check:
    risk = dataset.predicted.drop_sel(rule=_CONSTANT)
    ratio = risk.isel(num_steps=-1) / risk.isel(num_steps=0)
    decades = np.log10(dataset.num_steps.values[-1] / dataset.num_steps.values[0])
    return Check(
        "with every other clip the tuned risk grows with n all the way, by 2% or more a decade",
        "; ".join(f"{rule}: {listed(ratio.sel(rule=rule), '.2f')}" for rule in risk.rule.values)
        + f" times over {decades:.0f} decades",
        bool(risk.diff("num_steps").min() > 0) and bool((ratio ** (1 / decades) > 1.02).all()),
    )


claims = harness.claims_of(checks)
harness.main(__name__)
