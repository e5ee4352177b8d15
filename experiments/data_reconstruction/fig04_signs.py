r"""DR Figures 4 and 8: is the sign of a row found?

With an odd activation it cannot be: the features of x and -x span the same. DR holds that ReLU has
the same ambiguity, because its odd Hermite coefficients beyond the first vanish, and that ReLU +
tanh does not. But ReLU(z) - ReLU(-z) = z: a negated row costs the loss a linear function of V,
which no other rows make up for unless their inputs are linearly dependent. Negatives of rows under
ReLU are then states in which the attack has not converged.

DR found them with gradient descent, and the default optimiser moves rows to their negatives if
that helps. So both run, from the same starts, on images that are few and small enough for gradient
descent to end on two cores: at the larger size the default optimiser runs alone.

Source: DR Figures 4 and 8.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.data_reconstruction.fig04_claims import STOP, flipped
from experiments.data_reconstruction.fig04_claims import checks as checks
from experiments.data_reconstruction.fig04_claims import negated as few_negated
from experiments.data_reconstruction.fig04_claims import summary as summary
from experiments.data_reconstruction.natural_images import FOLDERS as FOLDERS
from experiments.data_reconstruction.natural_images import (
    Images,
    Pictures,
    attack,
    frogs_and_trucks,
    match,
    stacked,
    train,
)
from experiments.harness.drawing import BLUE, GREY, RED, for_any_page, tidy
from jaxdp.attacks import MomentumDescent, reconstruction_error
from jaxdp.attacks.objective import checked_loss
from jaxdp.plots import plot_images

_COLUMNS = 10


def relu_and_tanh(argument: jax.Array) -> jax.Array:
    """DR Figure 8's activation."""
    return jax.nn.relu(argument) + jnp.tanh(argument)


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "ReLU": jax.nn.relu,
    "ReLU + tanh": relu_and_tanh,
    "tanh": jnp.tanh,
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Images, the width p / (d n), and how often weights and start are drawn.

    Attributes:
        few: images on which DR's optimiser and the default one both run.
        num_few_seeds: seeds of weights and start there.
        published_passes: largest number of passes of DR's optimiser.
    """

    images: Images = dataclasses.field(default_factory=lambda: Images(num_samples=20))
    width: float = 10.0
    num_seeds: int = 10
    max_passes: int = 1500
    block_size: int | None = None
    few: Images = dataclasses.field(default_factory=lambda: Images(num_samples=6, side=4))
    num_few_seeds: int = 10
    published_passes: int = 10_000

    smoke = harness.size(
        images=Images(6, side=4, made_up=True),
        num_seeds=2,
        max_passes=400,
        few=Images(2, side=2, made_up=True),
        num_few_seeds=4,
        published_passes=200,
    )

    paper = harness.size(images=Images(num_samples=100, side=32), block_size=150_000)


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Train and attack with every activation and seed; negate rows of the truth, one at a time."""
    pictures = frogs_and_trucks(config.images, data)
    num_samples, dim = pictures.rows.inputs.shape
    names, trial = list(ACTIVATIONS), ("activation", "seed")
    dataset = harness.empty(
        {"activation": names, "seed": range(config.num_seeds), "image": num_samples},
        {
            trial: ["error", "error_with_flips", "loss", "converged", "passes"],
            (*trial, "image"): ["row_errors", "signs"],
            "activation": ["truth_loss"],
            ("activation", "image"): ["negated_loss"],
        },
        {"num_samples": num_samples, "dim": dim, "ratio": config.width},
    )
    images = []
    cells = list(np.ndindex(dataset.error.shape))
    for cell in harness.track(cells, lambda cell: f"{names[cell[0]]}, seed {cell[1]}"):
        name, seed = names[cell[0]], cell[1]
        target, of_attack = _trained(config, pictures, name, seed)
        found = attack(target, num_samples, key=of_attack, max_passes=config.max_passes)
        matched = match(pictures, found.inputs, allow_sign_flips=True)
        dataset.error[cell] = reconstruction_error(pictures.rows.inputs, found.inputs)
        dataset.error_with_flips[cell] = matched.errors.mean()
        dataset.loss[cell], dataset.converged[cell] = found.loss, found.converged
        dataset.passes[cell] = found.num_passes
        dataset.row_errors[cell], dataset.signs[cell] = matched.errors, matched.signs
        images.append(stacked(pictures, matched.inputs))
        if seed == 0:
            truth, *negated = _losses_of_negated(pictures, target)
            dataset.truth_loss[cell[0]], dataset.negated_loss[cell[0]] = truth, negated
    pixels = (*trial, "stack", "image", "height", "width", "colour")
    shown = np.stack(images).reshape(*dataset.error.shape, *images[0].shape)
    return xarray.merge([dataset.assign(pictures=(pixels, shown)), _few(config, data)])


def _trained(config: Config, pictures: Pictures, name: str, seed: int):
    """The target of one activation and seed, and the attack's key."""
    of_weights, of_attack = jr.split(jr.key(seed))
    size = round(config.width * pictures.rows.inputs.size)
    model = train(pictures, size, ACTIVATIONS[name], key=of_weights, block_size=config.block_size)
    return model.target, of_attack


def _few(config: Config, data: pathlib.Path | None) -> xarray.Dataset:
    """Both optimisers on few images, from the same starts."""
    pictures = frogs_and_trucks(config.few, data)
    num_samples, dim = pictures.rows.inputs.shape
    names, seeds = list(ACTIVATIONS), range(config.num_few_seeds)
    optimisers: dict[str, tuple[MomentumDescent | None, int]] = {
        "default": (None, config.max_passes),
        "published": (MomentumDescent(), config.published_passes),
    }
    trial = ("activation", "few_seed", "optimiser")
    dataset = harness.empty(
        {"activation": names, "few_seed": seeds, "optimiser": optimisers, "few_image": num_samples},
        {
            trial: ["few_error", "few_loss", "few_passes"],
            (*trial, "few_image"): ["few_row_errors", "few_signs"],
        },
    )
    cells = [(name, seed) for name in names for seed in seeds]
    for name, seed in harness.track(cells, "few images, {0[0]}, seed {0[1]}".format):
        target, of_attack = _trained(config, pictures, name, seed)
        for optimiser, (made, most) in optimisers.items():
            at = {"activation": name, "few_seed": seed, "optimiser": optimiser}
            found = attack(target, num_samples, key=of_attack, max_passes=most, optimiser=made)
            matched = match(pictures, found.inputs, allow_sign_flips=True)
            error = reconstruction_error(pictures.rows.inputs, found.inputs)
            ends = {"error": error, "loss": found.loss, "passes": found.num_passes}
            ends |= {"row_errors": matched.errors, "signs": matched.signs}
            for measure, value in ends.items():
                dataset[f"few_{measure}"].loc[at] = value
    return dataset.assign(few_num_samples=num_samples, few_dim=dim)


def _losses_of_negated(pictures: Pictures, target) -> list[float]:
    """The loss of the truth, and of the truth with each of its rows negated."""
    true = np.asarray(pictures.inputs)
    signs = 1 - 2 * np.eye(len(true), dtype=true.dtype)
    return [
        checked_loss(target, jnp.asarray(sign[:, None] * true))
        for sign in (np.ones(len(true), true.dtype), *signs)
    ]


def plot(dataset: xarray.Dataset) -> Figure:
    """Three panels of numbers above, a pair of rows of images for each activation below."""
    count = dataset.sizes["activation"]
    figure = Figure(figsize=(9.6, 2.7 + 1.75 * count), layout="constrained")
    heights = (2.7, *[1.75] * count)
    parts: Any = figure.subfigures(1 + count, 1, height_ratios=heights)
    left, middle, right = parts[0].subplots(1, 3)
    _losses(left, dataset)
    _errors(middle, dataset)
    _draw_few(right, dataset)
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
    return for_any_page(figure)


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


def _draw_few(axes: Axes, dataset: xarray.Dataset) -> None:
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


claims = harness.claims_of(checks)
harness.main(__name__)
