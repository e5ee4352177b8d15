r"""DR Figure 5, and the network panels of Figure 7: the threshold of networks, p(L) = d n.

Left, two-layer networks on an image of every class of CIFAR-10, one-hot; right, residual networks
(DR D.1) on frogs against trucks. Error, training loss and span residual against p(L), the number of
parameters in the last layer. Beyond the paper: training of the last layer alone, and the attack's
loss at the true images. It is zero for the last layer alone, not for all layers.

The default pools images to 8 x 8, in grey for the residual networks. DR's size needs a GPU and was
never run.

Source: DR Figures 5 and 7.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.random as jr
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.data_reconstruction.natural_images import FOLDERS as FOLDERS
from experiments.data_reconstruction.natural_images import Pictures
from experiments.data_reconstruction.trained_networks import (
    TRAININGS,
    Task,
    attack,
    chance,
    photographs,
    train,
)
from experiments.harness import Check, listed, span, standard_error, table
from experiments.harness.drawing import BLACK, BLUE, GREY, ORANGE, RED, means, tidy
from experiments.networks.last_layer import TwoLayerNetwork, network_target, two_layer_target
from experiments.networks.residual import ResidualNetwork

NETWORKS = ["two-layer", "residual"]
_MEASURES = ["train_loss", "steps", "train_seconds", "error", "residual", "loss", "true_loss"]
_MEASURES += ["passes", "attack_seconds"]
_TARGETS = {"two-layer": two_layer_target, "residual": network_target}
_TITLES = {"two-layer": "two layers, ten classes", "residual": "residual, two classes"}
_FOUND = 0.05
_STOP = 1e-7
# p(L) / (d n) up to which nothing is found if all layers are trained.
_NARROW = 2.0
# Widths of the smoke version, which has no two beyond that.
_FEWEST = 2


@dataclasses.dataclass(frozen=True)
class Config:
    """Images, widths as p(L) / (d n), and seeds of weights and attack.

    Attributes:
        two_layer, residual: the images of either kind of network.
        widths: p(L) / (d n), as near as whole channels come.
        stem_relu: True for the ReLU of DR's code after the residual network's stem.
    """

    two_layer: Task = dataclasses.field(
        default_factory=lambda: Task(1, is_binary=False, max_passes=600)
    )
    residual: Task = dataclasses.field(
        default_factory=lambda: Task(2, is_binary=True, is_grey=True, max_passes=400)
    )
    widths: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 6.0, 10.0)
    num_seeds: int = 10
    stem_relu: bool = False

    smoke = harness.size(
        two_layer=Task(1, is_binary=False, side=4, max_passes=300, made_up=True),
        residual=Task(1, is_binary=True, side=4, is_grey=True, max_passes=300, made_up=True),
        widths=(0.5, 10.0),
        num_seeds=1,
    )

    paper = harness.size(
        two_layer=Task(1, is_binary=False, side=32),
        residual=Task(5, is_binary=True, side=32),
        widths=(0.01, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0),
        num_seeds=10,
    )


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Train and attack every network in both ways."""
    tasks = dict(zip(NETWORKS, (config.two_layer, config.residual), strict=True))
    pictures = {name: photographs(task, data) for name, task in tasks.items()}
    widths, seeds = config.widths, range(config.num_seeds)
    axes = {"network": NETWORKS, "training": TRAININGS, "width": widths, "seed": seeds}
    facts = {"stem_relu": int(config.stem_relu)}
    dataset = harness.empty(axes, {tuple(axes): _MEASURES}, facts)
    sizes = np.zeros((len(NETWORKS), len(widths)), int)
    places = [place for place in np.ndindex(dataset.error.shape) if place[1] == 0]
    label = "{}, p(L) = {:g} dn, seed {}"
    for which, _, width, seed in harness.track(
        places, lambda at: label.format(NETWORKS[at[0]], widths[at[2]], seeds[at[3]])
    ):
        name = NETWORKS[which]
        of_weights, of_attack = jr.split(jr.key(seed))
        start = _network(config, name, pictures[name], widths[width])(key=of_weights)
        sizes[which, width] = start.last.size
        for number, training in enumerate(TRAININGS):
            trained = train(start, pictures[name], training)
            given = _TARGETS[name], start, trained, pictures[name]
            found = attack(*given, max_passes=tasks[name].max_passes, key=of_attack)
            for measure, value in found.measures.items():
                dataset[measure][which, number, width, seed] = value
    dataset["num_parameters"] = ("network", "width"), sizes
    dataset["chance"] = "network", [chance(pictures[name]) for name in NETWORKS]
    for fact in ("num_samples", "dim", "num_classes"):
        dataset[fact] = "network", [getattr(tasks[name], fact) for name in NETWORKS]
    return harness.in_units(dataset, train_seconds="s", attack_seconds="s")


def _network(config: Config, name: str, pictures: Pictures, width: float) -> Callable:
    """A constructor that waits for its key, of about `width` d n parameters in the last layer."""
    wanted, outputs = width * pictures.inputs.size, pictures.labels.shape[1]
    if name == "two-layer":
        hidden = max(1, round(wanted / outputs))
        return lambda *, key: TwoLayerNetwork(pictures.inputs.shape[1], hidden, outputs, key=key)
    side, _, colours = pictures.rows.shape

    def residual(channels, *, key):
        return ResidualNetwork(
            side,
            channels,
            outputs,
            image_channels=colours,
            stem_relu=config.stem_relu,
            key=key,
        )

    # One channel says how many features each has; its weights are not drawn.
    each = eqx.filter_eval_shape(residual, 1, key=jr.key(0)).last.size
    return lambda *, key: residual(max(1, round(wanted / each)), key=key)


_STYLES: dict[str, dict[str, Any]] = {
    "last layer": {"marker": "o", "linestyle": "-"},
    "all layers": {"marker": "s", "linestyle": "--", "markerfacecolor": "w"},
}


def plot(dataset: xarray.Dataset) -> Figure:
    """Errors above; training loss, span residual and the loss at the true images below."""
    figure = Figure(figsize=(9.4, 5.8), layout="constrained")
    names = dataset.network.values
    panels = figure.subplots(2, len(names), sharex="col", sharey="row", squeeze=False)
    for name, (above, below) in zip(names, panels.T, strict=True):
        at = dataset.sel(network=name)
        _errors(above, at)
        _losses(below, at)
        size = rf"$n$ = {int(at.num_samples)}, $d$ = {int(at.dim)}"
        tidy(above, f"{_TITLES[name]}, {size}")
        tidy(below)
        below.set_xlabel(r"parameters in the last layer, $p^{(L)}/(dn)$")
        for axes in (above, below):
            axes.axvline(1, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
            axes.set_xscale("log")
            axes.set_xticks(at.width.values, [f"{value:g}" for value in at.width.values])
            axes.minorticks_off()
    above, below = panels[:, 0]
    above.set_ylabel(r"reconstruction error $\rho$")
    below.set_ylabel("loss or residual")
    for axes in panels[:, -1]:
        axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _errors(axes: Axes, dataset: xarray.Dataset) -> None:
    for training in dataset.training.values:
        _curve(axes, dataset.error.sel(training=training), RED, f"{training} trained", training)
    chance = dataset.chance.item()
    axes.axhline(chance, color=GREY, linewidth=0.8)
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": "x-small", "color": GREY}
    at: Any = ("axes fraction", "data")
    axes.annotate("chance", (0.99, chance), xycoords=at, xytext=(0, 2), ha="right", **style)
    axes.annotate("$p^{(L)} = dn$", (1, 0.02), xycoords=at[::-1], xytext=(3, 0), **style)
    axes.set_ylim(-0.04, 1.2 * chance)


def _losses(axes: Axes, dataset: xarray.Dataset) -> None:
    for training in dataset.training.values:
        at = dataset.sel(training=training)
        _curve(axes, at.residual, BLUE, f"span residual, {training}", training)
    full = dataset.sel(training="all layers")
    _curve(axes, full.train_loss, BLACK, "training loss, all layers", "all layers")
    _curve(axes, full.loss, ORANGE, "attack's loss, all layers", "all layers")
    style: dict[str, Any] = {"color": ORANGE, "linestyle": ":", "linewidth": 1.3}
    axes.plot(full.width, full.true_loss.mean("seed"), label="the same at the true images", **style)
    axes.set_yscale("log")


def _curve(axes: Axes, runs: xarray.DataArray, color: str, label: str, training: str) -> None:
    means(axes, runs.width, runs, color, label=label, markersize=4, **_STYLES[training])


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Labels are fitted throughout; images are found beyond d n, best from the last layer alone."""
    found = [_fitted(dataset)]
    for name in dataset.network.values:
        found += _alone(dataset, name)
        if dataset.sizes["width"] > _FEWEST:
            found.append(_all_layers(dataset, name))
    return [*found, *_ends(dataset)]


def _fitted(dataset: xarray.Dataset) -> Check:
    worst = dataset.train_loss.max(["width", "seed"])
    steps = dataset.steps.sel(training="all layers")
    return Check(
        f"every network fits its labels: the training loss is at most {_STOP:g}",
        f"{worst.max().item():.1e} at most; {span(steps, '.0f')} steps if all layers are trained",
        bool((worst <= _STOP).all()),
    )


def _alone(dataset: xarray.Dataset, name: str) -> list[Check]:
    """Run by run at the largest p(L): an attack that is stuck would hide in a mean."""
    at = dataset.sel(network=name)
    least, chance = at.error.sel(width=at.width <= 0.5).min().item(), at.chance.item()
    last = at.error.sel(training="last layer").isel(width=-1)
    found = int((last < _FOUND).sum())
    others = listed(last.where(last >= _FOUND).dropna("seed").values) or "none"
    full, alone = (at.true_loss.sel(training=one) for one in ("all layers", "last layer"))
    return [
        Check(
            f"{name}: nothing is found up to p(L) = d n / 2, the error is at least 0.6 of chance",
            f"{least:.2f} at least, chance {chance:.2f}",
            least > 0.6 * chance,
        ),
        Check(
            f"{name}, last layer trained alone: most runs find the images at p(L) = "
            f"{dataset.width.values[-1]:g} d n, with an error below {_FOUND}",
            f"{found} of {last.size} runs, the others' errors {others}; mean {_mean(last)}",
            found > last.size / 2,
        ),
        Check(
            f"{name}, all layers trained: the loss at the true images is above DR's stop, "
            f"{_STOP:g}, in every run; it is rounding if the last layer is trained alone",
            f"{span(full, '.1e')}; at most {alone.max().item():.1e}",
            bool(full.min() > _STOP and alone.max() < 1e-9),
        ),
    ]


def _mean(errors: xarray.DataArray) -> str:
    """The mean over seeds, with its standard error if there are two or more."""
    is_known = errors.sizes["seed"] > 1
    error = standard_error(errors, "seed").item() if is_known else float("inf")
    return f"{errors.mean('seed').item():.3f} ± {error:.3f}"


def _all_layers(dataset: xarray.Dataset, name: str) -> Check:
    """Run by run: an attack that is stuck would hide in a mean."""
    at = dataset.sel(network=name, training="all layers")
    half = at.chance.item() / 2
    wide = at.error.isel(width=slice(-2, None))
    narrow = at.error.sel(width=at.width <= _NARROW)
    sizes = [f"{value:g} d n" for value in wide.width.values]
    last = ", ".join(
        f"{one.max().item():.2f} at most, mean {_mean(one)}, at {size}"
        for one, size in zip((wide.isel(width=0), wide.isel(width=1)), sizes, strict=True)
    )
    return Check(
        f"{name}, all layers trained: every single run is below half of chance at "
        f"{' and '.join(sizes)}, and above it up to {_NARROW:g} d n",
        f"half of chance {half:.2f}; {last}; {narrow.min().item():.2f} at least up to "
        f"{_NARROW:g} d n; {at.sizes['seed']} seeds",
        bool((wide < half).all() and (narrow > half).all()),
    )


def _ends(dataset: xarray.Dataset) -> list[Check]:
    losses = dataset.true_loss.sel(training="all layers")
    falls = losses.isel(width=0).min("seed") / losses.isel(width=-1).max("seed")
    shown = zip(falls.network.values, falls.values, strict=True)
    alone = dataset.sel(training="last layer")
    inside = alone.residual.where(alone.error < _FOUND).max().item()
    outside = alone.residual.where(alone.error > 0.5).min().item()
    return [
        Check(
            "all layers trained: the loss at the true images is three times smaller at the largest "
            "p(L) than at the least, between any two runs",
            ", ".join(f"{name}: {value:.0f} times at least" for name, value in shown),
            bool((falls > 3).all()),
        ),
        Check(
            "the span residual falls with the error: below a tenth of its other values if "
            "the last layer gives the images away",
            f"at most {inside:.1e} there, at least {outside:.1e} where the error is above 0.5",
            inside < 0.1 * outside,
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The setting in words, and a table of the curves."""
    first, second = (dataset.sel(network=name) for name in dataset.network.values)
    text = (
        f"Two layers: n = {int(first.num_samples)} images of ten classes, d = {int(first.dim)}, "
        "one-hot; p(L) = 10 h numbers in the last layer, which are ten directions among h "
        f"features. Residual: n = {int(second.num_samples)} frogs and trucks, d = "
        f"{int(second.dim)}, labels -1 and 1, four blocks, a stem "
        f"{'with' if dataset.attrs['stem_relu'] else 'without'} ReLU. "
        f"{dataset.sizes['seed']} seeds of weights and attack. All layers are trained by "
        "full-batch gradient descent with a step from the curvature, the last layer alone in "
        "closed form (where gradient descent on it ends). With all layers trained the features "
        "have moved under the last layer's change, which is no longer in their span: the loss has "
        "a floor, and DR's own stop of 1e-7 cannot be met. Medians of losses, means of errors "
        "with the least and largest run: residual networks with all layers trained have runs that "
        "find the images and runs that are stuck and miss some, and a mean over both is no curve."
    )
    head = ["network", "trained", "p(L) / (d n)", "p(L)", "steps", "error (of single runs)"]
    head += ["span residual", "loss", "loss at the truth", "passes", "seconds"]
    axes = (dataset[axis].values for axis in ("network", "training", "width"))
    return text + "\n\n" + table(head, (_row(dataset, *at) for at in itertools.product(*axes)))


def _row(dataset: xarray.Dataset, name: str, training: str, width: float) -> list[str]:
    at = dataset.sel(network=name, training=training, width=width)
    mean, runs = at.mean("seed"), at.error
    size = int(at.num_parameters.item())
    cells = [name, training, f"{width:g}", f"{size:,}", f"{mean.steps.item():.0f}"]
    ends = f"{runs.min().item():.4f} to {runs.max().item():.4f}"
    cells += [f"{mean.error.item():.4f} ({ends})", f"{mean.residual.item():.1e}"]
    cells += [f"{np.median(at[one].values):.1e}" for one in ("loss", "true_loss")]
    cells += [f"{mean.passes.item():.0f}", f"{mean.attack_seconds.item():.1f}"]
    return cells


claims = harness.claims_of(checks)
harness.main(__name__)
