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
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.data_reconstruction.known_rows_checks import checks as checks
from experiments.data_reconstruction.known_rows_checks import summary as summary
from experiments.data_reconstruction.sphere_rows import attack_key, chance_error, least_width, train
from experiments.harness.drawing import BLUE, GREY, RED, tidy
from jaxdp.attacks import LevenbergMarquardt, reconstruct, row_errors

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}
KNOWN = ("all but one", "none")


@dataclasses.dataclass(frozen=True)
class Config:
    """One size; each attacker has widths of his own.

    Attributes:
        dim, num_samples: d and n.
        widths: p over d + n - 1, of the attack on one unknown row.
        all_widths: p over dn, of the attack on all rows.
        starts, matrices: of Levenberg-Marquardt on one unknown row; a normal matrix for each start
            counts dn / 2 passes.
        max_passes: of the default optimiser on all rows.
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
    cells = [
        (a, k, widths.index(width))
        for a in range(len(names))
        for k, known in enumerate(KNOWN)
        for width in config.num_features(known)
    ]
    for place in harness.track(
        cells, lambda cell: f"{names[cell[0]]}, {KNOWN[cell[1]]} known, p = {widths[cell[2]]}"
    ):
        for seed in range(config.num_seeds):
            cell = _cell(config, names[place[0]], KNOWN[place[1]], widths[place[2]], seed)
            dataset.error[*place, seed], dataset.converged[*place, seed] = cell
    thresholds = [
        [
            least_width(config.dim, config.num_samples, known, has_dead_half=name == "relu")
            for known in (config.num_samples - 1, 0)
        ]
        for name in names
    ]
    chances = [
        [
            chance_error(count, config.dim, allow_sign_flips=name == "tanh")
            for count in (1, config.num_samples)
        ]
        for name in names
    ]
    attacker = ("activation", "known")
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
        for seed in range(runs.sizes["seed"]):
            dots = {"color": color, "markersize": 2, "linestyle": "", "alpha": 0.5}
            axes.plot(runs.num_features, runs.error.isel(seed=seed), ".", **dots)
        axes.axvline(runs.threshold.item(), color=color, linewidth=0.9, linestyle="--", zorder=0)
    axes.axvline(dim + count - 1, color=GREY, linewidth=0.9, linestyle=":", zorder=0)
    axes.set_xscale("log")
    names = {dim + count - 1: "$d + n - 1$", dim * count: "$dn$"}
    if round(part.threshold.sel(known=KNOWN[0]).item()) == 2 * dim:
        names[2 * dim] = "$2d$"
    for place, name in names.items():
        is_left = place == min(names)
        axes.annotate(
            name,
            (place, 0.25),
            xycoords=("data", "axes fraction"),
            xytext=(-2 if is_left else 2, 0),
            textcoords="offset points",
            ha="right" if is_left else "left",
            fontsize="small",
            color=GREY,
        )


claims = harness.claims_of(checks)
harness.main(__name__)
