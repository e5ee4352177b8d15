r"""All rows but one are known: the case n << p << dn that DR's Conclusions leave open.

With n - 1 rows known there are d + n - 1 unknowns, not dn: the last row's direction, and a
coefficient for each. A ReLU asks for a little more, because it is silent on half of the neurons:
the other half alone must fix d numbers, so that p has to pass $\max(d + n - 1, 2d)$; for tanh the
count is right. Beyond that one row is found with certainty, while of n unknown ones nothing is seen
before dn. The unknown row of a tanh is found up to its sign.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.data_reconstruction.sphere_rows import attack_key, chance_error, least_width, train
from experiments.harness import Check, span, table
from experiments.harness.drawing import BLUE, GREY, RED, tidy
from jaxdp.attacks import LevenbergMarquardt, reconstruct, row_errors

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}
KNOWN = ("all but one", "none")
_FOUND = 0.02


@dataclasses.dataclass(frozen=True)
class Config:
    """One size, and the widths of each attacker.

    Attributes:
        dim, num_samples: d and n.
        widths: p over d + n - 1, for the attack on one unknown row.
        all_widths: p over dn, for the attack on all rows.
        starts, matrices: starts of Levenberg-Marquardt on one unknown row, and normal matrices
            for each; one counts as dn / 2 passes.
        max_passes: the default optimiser's limit, on all rows.
    """

    dim: int = 40
    num_samples: int = 20
    widths: tuple[float, ...] = (0.5, 0.7, 0.9, 1.05, 1.2, 1.45, 1.8, 2.5, 5.0)
    all_widths: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 4.0)
    num_seeds: int = 6
    starts: int = 6
    matrices: int = 40
    max_passes: int = 600

    smoke = harness.size(
        dim=8,
        num_samples=4,
        widths=(0.45, 1.0, 4.0),
        all_widths=(0.5, 10.0),
        num_seeds=3,
        max_passes=400,
    )

    def num_features(self, known: str) -> list[int]:
        """The widths p at which one attacker is run."""
        counted, unknowns = self.num_samples + self.dim - 1, self.dim * self.num_samples
        ratios = (
            [ratio * counted for ratio in self.widths]
            if known == KNOWN[0]
            else [ratio * unknowns for ratio in self.all_widths]
        )
        return [max(round(ratio), self.num_samples + 1) for ratio in ratios]


def run(config: Config) -> xarray.Dataset:
    """Attack with and without the other rows, at every width with every seed."""
    widths = sorted({width for known in KNOWN for width in config.num_features(known)})
    names = list(ACTIVATIONS)
    axes = {"activation": names, "known": KNOWN, "num_features": widths, "seed": config.num_seeds}
    facts = {"dim": config.dim, "num_samples": config.num_samples, "starts": config.starts}
    dataset = harness.empty(axes, {tuple(axes): ["error", "converged"]}, facts)
    places = [(name, known) for name in ACTIVATIONS for known in KNOWN]
    cells = [(*place, width) for place in places for width in config.num_features(place[1])]
    for name, known, width in harness.track(cells, "{0[0]}, {0[1]} known, p = {0[2]}".format):
        at = {"activation": name, "known": known, "num_features": width}
        found = [_cell(config, name, known, width, seed) for seed in range(config.num_seeds)]
        dataset.error.loc[at], dataset.converged.loc[at] = np.array(found, float).T
    dim, count, attacker = config.dim, config.num_samples, ("activation", "known")
    thresholds = [
        [least_width(dim, count, m, has_dead_half=name == "relu") for m in (count - 1, 0)]
        for name in ACTIVATIONS
    ]
    chances = [
        [chance_error(unknown, dim, allow_sign_flips=name == "tanh") for unknown in (1, count)]
        for name in ACTIVATIONS
    ]
    return dataset.assign(threshold=(attacker, thresholds), chance=(attacker, chances))


def plot(dataset: xarray.Dataset) -> Figure:
    """A panel for each activation: the error of one unknown row, and of n."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    panels = figure.subplots(1, dataset.sizes["activation"], sharey=True)
    for axes, name in zip(panels, dataset.activation.values, strict=True):
        _draw(axes, dataset.sel(activation=name))
        tidy(axes, f"{name}, $d$ = {dataset.dim}, $n$ = {dataset.num_samples}")
        axes.set_xlabel("number of features $p$")
    panels[0].set_ylabel("error of the unknown rows")
    panels[0].legend(frameon=False, fontsize="small", loc="upper right")
    return figure


def _cell(config: Config, name: str, known: str, width: int, seed: int) -> tuple[float, bool]:
    trained = train(config.num_samples, config.dim, width, seed, ACTIVATIONS[name])
    options: dict[str, Any] = {"max_passes": config.max_passes}
    if known == KNOWN[0]:
        options = {
            "known_inputs": trained.inputs[:-1],
            "optimiser": LevenbergMarquardt(),
            "num_starts": config.starts,
            "max_passes": config.matrices * trained.inputs.size / 2,
        }
    found = reconstruct(trained.target, config.num_samples, key=attack_key(seed), **options)
    first = config.num_samples - 1 if known == KNOWN[0] else 0
    errors = row_errors(
        trained.inputs[first:], found.inputs[first:], allow_sign_flips=name == "tanh"
    )
    return float(errors.mean()), found.converged


def _draw(axes: Axes, part: xarray.Dataset) -> None:
    dim, count = part.attrs["dim"], part.attrs["num_samples"]
    for known, color, marker in zip(KNOWN, (BLUE, RED), "^o", strict=True):
        runs = part.sel(known=known).dropna("num_features")
        label = "one row unknown, $n - 1$ known" if known == KNOWN[0] else "all rows unknown"
        style = {"color": color, "marker": marker, "markersize": 4}
        axes.plot(runs.num_features, runs.error.mean("seed"), label=label, **style)
        dots = {"color": color, "markersize": 2, "linestyle": "", "alpha": 0.5}
        axes.plot(runs.num_features, runs.error.transpose("num_features", "seed"), ".", **dots)
        axes.axvline(runs.threshold.item(), color=color, linewidth=0.9, linestyle="--", zorder=0)
    axes.axvline(dim + count - 1, color=GREY, linewidth=0.9, linestyle=":", zorder=0)
    axes.set_xscale("log")
    names = {dim + count - 1: "$d + n - 1$", dim * count: "$dn$"}
    if round(part.threshold.sel(known=KNOWN[0]).item()) == 2 * dim:
        names[2 * dim] = "$2d$"
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": "small", "color": GREY}
    for place, name in names.items():
        side, shift = ("right", -2) if place == min(names) else ("left", 2)
        at = {"xycoords": ("data", "axes fraction"), "xytext": (shift, 0), "ha": side}
        axes.annotate(name, (place, 0.25), **at, **style)


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Widths at which one row is found, or all, and that a ReLU needs more than the count."""
    found = [*_one(dataset), _others_are_not(dataset)]
    if _between(dataset).any():
        found.append(_silent_half(dataset))
    return found


def _counted(dataset: xarray.Dataset) -> int:
    """d + n - 1."""
    return dataset.attrs["dim"] + dataset.attrs["num_samples"] - 1


def _between(dataset: xarray.Dataset) -> xarray.DataArray:
    """Which widths lie between d + n - 1 and the ReLU's threshold, clear of both."""
    relu = dataset.sel(activation="relu", known="all but one").threshold.item()
    widths = dataset.num_features
    return (widths > 1.1 * _counted(dataset)) & (widths < 0.95 * relu)


def _one(dataset: xarray.Dataset) -> list[Check]:
    one = dataset.sel(known="all but one")
    errors = one.error.where(one.num_features >= 1.5 * one.threshold)
    shown = [
        f"{name}: at most {errors.sel(activation=name).max().item():.1e} from p = "
        f"{1.5 * one.threshold.sel(activation=name).item():.0f} on"
        for name in one.activation.values
    ]
    below = one.where(one.num_features <= 0.75 * _counted(dataset))
    shares = below.error.mean("seed") / one.chance
    return [
        Check(
            "with n - 1 rows known the last is found from 1.5 times its threshold on (error below "
            f"{_FOUND} in every run)",
            "; ".join(shown),
            bool(errors.max() < _FOUND),
        ),
        Check(
            "below 0.75 (d + n - 1) it is not: the mean error is above half of chance",
            f"{span(shares)} of chance, {below.converged.mean().item():.2f} of the runs at a loss "
            "of zero",
            bool(shares.min() > 0.5),
        ),
    ]


def _others_are_not(dataset: xarray.Dataset) -> Check:
    unknowns = dataset.attrs["dim"] * dataset.attrs["num_samples"]
    rows = dataset.sel(known="none")
    shares = (rows.error.mean("seed") / rows.chance).where(rows.num_features <= 0.5 * unknowns)
    least = dataset.threshold.sel(known="all but one").max().item()
    return Check(
        "up to dn / 2 n unknown rows stay unknown: mean error above 0.75 of chance, though one "
        "among known ones is found long before",
        f"at least {shares.min().item():.2f} of chance; thresholds {least:.0f} and {unknowns}",
        bool(shares.min() > 0.75 and 1.5 * least < unknowns),
    )


def _silent_half(dataset: xarray.Dataset) -> Check:
    """Between d + n - 1 and 2d rows other than the true one have a loss of zero."""
    errors = dataset.error.sel(known="all but one").where(_between(dataset))
    relu, tanh = (errors.sel(activation=name).mean().item() for name in ("relu", "tanh"))
    return Check(
        "the count d + n - 1 holds for tanh, and for the ReLU 2d does: in between the mean error "
        f"is below {_FOUND} for tanh and above 0.1 for the ReLU",
        f"{tanh:.1e} and {relu:.2f}",
        tanh < _FOUND and relu > 0.1,
    )


def summary(dataset: xarray.Dataset) -> str:
    """Errors at every width."""
    thresholds = {
        str(name): [round(float(value)) for value in dataset.threshold.sel(activation=name)]
        for name in dataset.activation.values
    }
    text = (
        f"d = {dataset.attrs['dim']}, n = {dataset.attrs['num_samples']}, rows on the sphere, "
        f"theta* in closed form, {dataset.sizes['seed']} seeds; Levenberg-Marquardt from "
        f"{dataset.attrs['starts']} starts for one unknown row, the default optimiser for "
        "all. Dashed lines are the least widths at which the true rows are an isolated zero of the "
        "loss: "
        + "; ".join(f"{name} {one} and {all_}" for name, (one, all_) in thresholds.items())
        + f"; the dotted one is d + n - 1 = {_counted(dataset)}. Errors of tanh are up to sign."
    )
    pairs = [(name, known) for name in dataset.activation.values for known in dataset.known.values]
    means, rows = dataset.error.mean("seed"), []
    for width in dataset.num_features.values:
        at = means.sel(num_features=width)
        cells = (at.sel(activation=name, known=known).item() for name, known in pairs)
        rows.append([width, *(f"{value:.3g}".replace("nan", "") for value in cells)])
    return text + "\n\n" + table(["p", *(f"{n}, {known} known" for n, known in pairs)], rows)


claims = harness.claims_of(checks)
harness.main(__name__)
