"""DR Figures 4 and 8 as one picture: what a sign costs, which are found, and the images."""

from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.data_reconstruction.fig04_checks import flipped
from experiments.data_reconstruction.fig04_few import STOP
from experiments.data_reconstruction.fig04_few import negated as few_negated
from experiments.harness.drawing import BLUE, GREY, RED, tidy
from jaxdp.plots import plot_images

_COLUMNS = 10


def plot(dataset: xarray.Dataset) -> Figure:
    """Three panels of numbers above, a pair of rows of images for each activation below."""
    count = dataset.sizes["activation"]
    figure = Figure(figsize=(9.6, 2.7 + 1.75 * count), layout="constrained")
    heights = (2.7, *[1.75] * count)
    parts: Any = figure.subfigures(1 + count, 1, height_ratios=heights)
    left, middle, right = parts[0].subplots(1, 3)
    _losses(left, dataset)
    _errors(middle, dataset)
    _few(right, dataset)
    shown = np.unique(np.linspace(0, dataset.sizes["image"] - 1, _COLUMNS).astype(int))
    negated = flipped(dataset)
    for part, name in zip(parts[1:], dataset.activation.values, strict=True):
        # The first that converged, or the first.
        seed = int(np.argmax(dataset.converged.sel(activation=name).values))
        at = dataset.sel(activation=name).isel(seed=seed, image=shown)
        is_negated = negated.sel(activation=name).isel(seed=seed, image=shown)
        pairs = zip(at.row_errors.values, is_negated.values, strict=True)
        captions = [f"{'−, ' if wrong else ''}{error:.1g}" for error, wrong in pairs]
        plot_images(
            *at.pictures.values,
            labels=["truth", "found"],
            captions=[[], captions],
            columns=len(shown),
            title=f"{name}, loss {at.loss.item():.1g}",
            figure=part,
        )
    return figure


def _losses(axes: Axes, dataset: xarray.Dataset) -> None:
    """A dot for each row that is negated, and the truth itself."""
    spread = np.linspace(-0.25, 0.25, dataset.sizes["image"])
    for place, name in enumerate(dataset.activation.values):
        at = dataset.sel(activation=name)
        label = "truth, one row negated" if place == 0 else None
        axes.plot(place + spread, at.negated_loss, ".", color=RED, markersize=4, label=label)
        label = "truth" if place == 0 else None
        axes.plot([place - 0.3, place + 0.3], [at.truth_loss] * 2, color=BLUE, label=label)
    axes.set_yscale("log")
    axes.set_ylabel("loss")
    _name(axes, dataset, "what a sign costs")
    axes.legend(frameon=False, fontsize="small", loc="center", bbox_to_anchor=(0.5, 0.3))


def _errors(axes: Axes, dataset: xarray.Dataset) -> None:
    """A dot for each seed, before and after the best choice of signs."""
    kinds = [("error", "as found", RED, "o"), ("error_with_flips", "up to signs", BLUE, "s")]
    for shift, (variable, label, color, marker) in zip((-0.12, 0.12), kinds, strict=True):
        for place, name in enumerate(dataset.activation.values):
            values = dataset[variable].sel(activation=name)
            style = {"linestyle": "", "marker": marker, "color": color, "markersize": 4}
            style["label"] = label if place == 0 else None
            axes.plot(np.full(values.size, place + shift), values, **style)
    axes.axhline(0, color=GREY, linewidth=0.7)
    axes.set_ylim(-0.05, None)
    axes.set_ylabel(r"reconstruction error $\rho$")
    _name(axes, dataset, "error, signs as found or free")
    axes.legend(frameon=False, fontsize="small", loc="upper left")


def _few(axes: Axes, dataset: xarray.Dataset) -> None:
    """Where the runs of both optimisers end, and which of them with a negated image."""
    has_negated = few_negated(dataset) > 0
    for shift, optimiser, marker in ((-0.15, "default", "s"), (0.15, "published", "o")):
        for place, name in enumerate(dataset.activation.values):
            at = {"activation": name, "optimiser": optimiser}
            losses, is_negated = dataset.few_loss.sel(at).values, has_negated.sel(at).values
            places = place + shift + np.linspace(-0.1, 0.1, len(losses))
            for chosen, color in ((~is_negated, BLUE), (is_negated, RED)):
                style = {"linestyle": "", "marker": marker, "color": color, "markersize": 4}
                label = optimiser if place == 0 and color == BLUE else None
                if color == RED and (place, optimiser) == (0, "published"):
                    label = "some image negated"
                axes.plot(places[chosen], losses[chosen], mfc="none", label=label, **style)
    axes.axhline(STOP, color=GREY, linewidth=0.8, linestyle="--")
    axes.annotate("DR's stop", (1.6, 1.3 * STOP), fontsize="x-small", color=GREY)
    axes.set_yscale("log")
    axes.set_ylabel("loss at the end")
    _name(axes, dataset, f"{int(dataset.few_num_samples)} images, d = {int(dataset.few_dim)}")
    axes.legend(frameon=False, fontsize="x-small", loc="upper right")


def _name(axes: Axes, dataset: xarray.Dataset, title: str) -> None:
    names = [str(name) for name in dataset.activation.values]
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    tidy(axes, title)
