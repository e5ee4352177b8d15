r"""DR Figures 1 and 2: the two thresholds of random features on CIFAR-10, p = n and p = d n.

Frogs against trucks. Left, training error and reconstruction error against p, and below them
Figure 2's span residual; right, the images read off the parameters at p = 10 d n. Weights and start
of the attack vary with the seed; DR's code shares the weights among its seeds, which would explain
why its error bars cannot be seen.

The default pools images to 8 x 8, d = 192, and 16 x 16 for the picture, for two cores. `--paper` is
d = 3072, n = 100, with V never in memory. It needs a GPU and was never run whole. By arithmetic a
pass at p = 10 d n is 3.8 TFLOP and 9.4e9 normals, a few tenths of a second to a second, and takes
blocks of 1.8 GB; a run of 300 passes then takes minutes. Training, on the host, holds n p numbers
in float64, 4.9 GB at p = 20 d n.

Source: DR Figures 1 and 2.
"""

import dataclasses
import pathlib
from typing import Any

import jax
import jax.random as jr
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from experiments import harness
from experiments.data_reconstruction.natural_images import FOLDERS as FOLDERS
from experiments.data_reconstruction.natural_images import (
    Images,
    Model,
    Pictures,
    attack,
    frogs_and_trucks,
    match,
    original_images,
    stacked,
    train,
)
from experiments.harness import Check, listed, span, table
from experiments.harness.drawing import BLACK, BLUE, GREY, RED, for_any_page, means, threshold, tidy
from experiments.statements.data_reconstruction.published_scaling import (
    distance_from_sphere,
    published_scaling,
)
from jaxdp.attacks import RandomFeaturesTarget, reconstruction_error, span_residual
from jaxdp.plots import plot_images
from jaxdp.problems import sphere_inputs

_NUM_CHANCE = 20
_COLUMNS = 5
# Just beyond the second threshold the truth is a minimum that no method finds.
_HARD = 3.0
_FOUND = 0.01


@dataclasses.dataclass(frozen=True)
class Config:
    """Images of the curves and of the picture, and the widths p.

    Attributes:
        label_widths: p / n, around the first threshold.
        data_widths: p / (d n), around the second; the last but one is also the control's, and
            the picture's.
        floor_samples: number of images for the published scaling's distance from the sphere.
        block_size: number of features made again at once; None keeps V in memory.
        gallery_block_size: the same, for the picture.
    """

    images: Images = dataclasses.field(default_factory=lambda: Images(num_samples=10))
    gallery: Images = dataclasses.field(default_factory=lambda: Images(num_samples=50, side=16))
    label_widths: tuple[float, ...] = (0.3, 0.6, 1.0, 1.5, 3.0, 10.0, 48.0)
    data_widths: tuple[float, ...] = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0)
    num_seeds: int = 10
    max_passes: int = 1000
    floor_samples: int = 100
    block_size: int | None = None
    gallery_block_size: int | None = 38_400

    smoke = harness.size(
        images=Images(4, side=4, made_up=True),
        gallery=Images(4, side=4, made_up=True),
        label_widths=(0.5, 6.0),
        data_widths=(0.5, 10.0, 20.0),
        num_seeds=2,
        max_passes=300,
        floor_samples=20,
    )

    paper = harness.size(
        images=Images(num_samples=100, side=32),
        gallery=Images(num_samples=100, side=32),
        data_widths=(0.01, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0),
        num_seeds=4,
        block_size=150_000,
        gallery_block_size=150_000,
    )

    @property
    def control_width(self) -> float:
        return self.data_widths[-2]


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Train and attack at every width with every seed, then the picture."""
    pictures = frogs_and_trucks(config.images, data)
    num_samples, dim = pictures.rows.inputs.shape
    widths = [max(1, round(ratio * num_samples)) for ratio in config.label_widths]
    widths += [round(ratio * dim * num_samples) for ratio in config.data_widths]
    names = ["train_loss", "error", "residual", "loss", "converged", "passes", "attack_seconds"]
    dataset = harness.empty(
        {"num_features": widths, "seed": config.num_seeds},
        {("num_features", "seed"): names},
        _facts(config, data) | {"num_samples": num_samples, "dim": dim},
    )
    cells = list(np.ndindex(dataset.error.shape))
    for number, seed in harness.track(cells, lambda cell: f"p = {widths[cell[0]]}, seed {cell[1]}"):
        cell = _cell(config, pictures, widths[number], seed)
        for name, value in zip(names, cell, strict=True):
            dataset[name][number, seed] = value
    control = [_control(config, pictures, seed) for seed in range(config.num_seeds)]
    dataset = dataset.assign(control=("seed", control), chance=("guess", _chance(pictures)))
    dataset.attrs["control_num_features"] = round(config.control_width * dim * num_samples)
    harness.in_units(dataset, attack_seconds="s")
    return dataset.merge(_gallery(config, data), combine_attrs="no_conflicts")


def _model(block_size: int | None, pictures: Pictures, num_features: int, key: jax.Array) -> Model:
    block_size = None if block_size is None else min(block_size, num_features)
    return train(pictures, num_features, jax.nn.relu, key=key, block_size=block_size)


def _cell(config: Config, pictures: Pictures, num_features: int, seed: int) -> tuple:
    of_weights, of_attack, _ = jr.split(jr.key(seed), 3)
    model = _model(config.block_size, pictures, num_features, of_weights)
    count = len(pictures.labels)
    found = attack(model.target, count, key=of_attack, max_passes=config.max_passes)
    # With p <= n the features of any n rows in general position span everything.
    is_spanning = num_features <= count
    residual = 0.0 if is_spanning else span_residual(pictures.inputs, found.inputs, model.target)
    error = reconstruction_error(pictures.rows.inputs, found.inputs)
    end = found.loss, found.converged, found.num_passes, found.seconds
    return model.train_loss, error, residual, *end


def _control(config: Config, pictures: Pictures, seed: int) -> float:
    """The error if the attacker is given the same parameters in another order."""
    of_weights, of_attack, of_order = jr.split(jr.key(seed), 3)
    width = round(config.control_width * pictures.inputs.size)
    target = _model(config.block_size, pictures, width, of_weights).target
    shuffled = jr.permutation(of_order, target.parameters)
    target = RandomFeaturesTarget(target.weights, target.activation, shuffled)
    # Nothing can be found: more passes would not help.
    limit = min(config.max_passes, 200)
    found = attack(target, len(pictures.labels), key=of_attack, max_passes=limit)
    return reconstruction_error(pictures.rows.inputs, found.inputs)


def _chance(pictures: Pictures) -> list[float]:
    """The error of independent points on the sphere."""
    count, dim = pictures.rows.inputs.shape
    keys = jr.split(jr.key(1), _NUM_CHANCE)
    guesses = [np.asarray(sphere_inputs(count, dim, key=key)) for key in keys]
    return [reconstruction_error(pictures.rows.inputs, guess) for guess in guesses]


def _gallery(config: Config, data: pathlib.Path | None) -> xarray.Dataset:
    """The images, and the ones found at the control's width."""
    pictures = frogs_and_trucks(config.gallery, data)
    of_weights, of_attack, _ = jr.split(jr.key(0), 3)
    width = round(config.control_width * pictures.inputs.size)
    model = _model(config.gallery_block_size, pictures, width, of_weights)
    found = attack(model.target, len(pictures.labels), key=of_attack, max_passes=config.max_passes)
    matched = match(pictures, found.inputs)
    dims = ("stack", "image", "height", "width", "colour")
    facts = {"gallery_loss": found.loss, "gallery_passes": found.num_passes}
    facts |= {"gallery_seconds": found.seconds, "gallery_num_features": width}
    return harness.dataset(
        {"stack": ["trained on", "found"]},
        {
            dims: {"gallery": stacked(pictures, matched.inputs)},
            "image": {"gallery_errors": matched.errors},
        },
        facts | {"gallery_dim": pictures.inputs.shape[1]},
    )


def _facts(config: Config, data: pathlib.Path | None) -> dict[str, float]:
    """How far from the sphere rows lie that are scaled as DR scales them, at full size."""
    wanted = dataclasses.replace(config.images, num_samples=config.floor_samples, side=32)
    images = original_images(wanted, data).images
    whole, each = (
        distance_from_sphere(published_scaling(images, per_channel=one)) for one in (False, True)
    )
    count = config.floor_samples
    return {
        "published_floor": whole,
        "published_floor_per_channel": each,
        "floor_samples": count,
    }


def plot(dataset: xarray.Dataset) -> Figure:
    """Training and reconstruction error, error and span residual; at the right, the images."""
    figure = Figure(figsize=(10.6, 6.4), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.35, 1))
    left, right = parts
    above, below = left.subplots(2, 1, sharex=True)
    _thresholds(above, dataset)
    _span(below, dataset)
    below.set_xlabel("number of parameters $p$")
    _draw_images(right, dataset)
    return for_any_page(figure)


def _thresholds(axes: Axes, dataset: xarray.Dataset) -> None:
    places = dataset.num_features
    means(axes, places, dataset.train_loss, BLACK, label="training error", marker="s")
    means(axes, places, dataset.error, RED, label=r"reconstruction error $\rho$", marker="o")
    chance = dataset.chance.mean().item()
    axes.axhline(chance, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    place = dataset.attrs["control_num_features"]
    style = {"linestyle": "", "color": RED, "markerfacecolor": "w", "markersize": 6}
    label = "the same, parameters permuted"
    axes.plot([place], [dataset.control.mean().item()], marker="D", label=label, **style)
    _mark(axes, dataset)
    at = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate("chance", (0.005, chance), xytext=(0, 2), fontsize="x-small", color=GREY, **at)
    axes.set_ylim(-0.04, 1.3 * chance)
    axes.set_ylabel("error")
    tidy(axes, f"{dataset.num_samples} images, $d$ = {dataset.dim}")
    axes.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(0.17, 0.45))


def _span(axes: Axes, dataset: xarray.Dataset) -> None:
    error = dataset.error
    means(axes, error.num_features, error, RED, label=r"reconstruction error $\rho$", marker="o")
    # With p <= n it is zero for any rows.
    beyond = dataset.where(dataset.num_features > dataset.num_samples, drop=True).residual
    label = r"span residual $r(\hat\Phi)$"
    means(axes, beyond.num_features, beyond, BLUE, label=label, marker="^")
    _mark(axes, dataset)
    axes.set_yscale("log")
    axes.set_ylabel("error, residual")
    tidy(axes, "are the true features spanned by those found?")
    axes.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(0.17, 0.45))


def _mark(axes: Axes, dataset: xarray.Dataset) -> None:
    """The two thresholds."""
    axes.set_xscale("log")
    threshold(axes, dataset.num_samples, "$p = n$")
    threshold(axes, dataset.dim * dataset.num_samples, "$p = dn$")


def _draw_images(figure: SubFigure, dataset: xarray.Dataset) -> None:
    dim, count = dataset.attrs["gallery_dim"], dataset.sizes["image"]
    # In an order that shows both classes; more would be too small to see.
    shown = np.linspace(0, count - 1, min(count, 4 * _COLUMNS)).astype(int)
    part = dataset.isel(image=shown)
    ratio = dataset.attrs["gallery_num_features"] / (dim * count)
    plot_images(
        *part.gallery.values,
        labels=["truth", "found"],
        captions=[[], [f"{error:.1g}" for error in part.gallery_errors.values]],
        columns=_COLUMNS,
        title=f"{len(shown)} of {count} images, $d$ = {dim}, $p = {ratio:.3g}\\,dn$; their errors",
        figure=figure,
    )


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Two thresholds, the range between them, and that the images come from the parameters."""
    return [*_thresholds_found(dataset), _zeros(dataset), *_spanned(dataset), *_images(dataset)]


def _at(dataset: xarray.Dataset, least: float, most: float = np.inf) -> xarray.Dataset:
    """Widths in [least, most]."""
    widths = dataset.num_features
    return dataset.isel(num_features=np.flatnonzero((widths >= least) & (widths <= most)))


def _thresholds_found(dataset: xarray.Dataset) -> list[Check]:
    count, unknowns = dataset.num_samples, dataset.dim * dataset.num_samples
    before, after = _at(dataset, 0, 0.9 * count).train_loss, _at(dataset, 3 * count).train_loss
    least, chance = _at(dataset, count + 1, 0.5 * unknowns).error.min(), dataset.chance.mean()
    beyond = _at(dataset, _HARD * unknowns).error
    return [
        Check(
            "labels are fitted once p > n: the training error is above 0.05 below p = 0.9 n and "
            "below 1e-6 from 3 n on",
            f"at least {before.min().item():.2f}; at most {after.max().item():.1e}",
            bool(before.min() > 0.05 and after.max() < 1e-6),
        ),
        Check(
            "between n and d n / 2 labels are fitted and nothing is found: the error is at least "
            "0.7 of chance",
            f"{least.item():.2f} at least, chance {chance.item():.2f}",
            bool(least > 0.7 * chance),
        ),
        Check(
            f"from {_HARD:g} d n on the images are found: the error of every run is at most "
            f"{_FOUND}",
            f"{beyond.size} runs, mean errors {listed(beyond.mean('seed'), '{:.1e}')}, worst run "
            f"{beyond.max().item():.1e}",
            bool((beyond <= _FOUND).all()),
        ),
    ]


def _zeros(dataset: xarray.Dataset) -> Check:
    """A loss of zero means reconstruction above d n and nothing below."""
    unknowns = dataset.dim * dataset.num_samples
    below = _at(dataset, dataset.num_samples + 1, 0.75 * unknowns)
    above = _at(dataset, _HARD * unknowns)
    apart = below.error.where(below.converged == 1)
    close = above.error.where(above.converged == 1)
    obtained = (
        f"{int(close.count())} of {above.error.size} runs, errors of at most "
        f"{close.max().item():.1e}; below 0.75 d n {int(apart.count())} of {below.error.size} runs "
        "reach it"
    )
    if apart.count():
        obtained += f", errors of at least {apart.min().item():.2f}"
    return Check(
        f"a loss of zero is the data's from {_HARD:g} d n on (error at most {_FOUND}), and another "
        "one's below 0.75 d n (error at least 0.5)",
        obtained,
        bool(close.count() and close.max() <= _FOUND and not (apart < 0.5).any()),
    )


def _spanned(dataset: xarray.Dataset) -> list[Check]:
    wide = _at(dataset, dataset.num_samples + 1)
    inside = wide.residual.where(wide.error < _FOUND)
    outside = wide.residual.where(wide.error > 0.5)
    control, chance = dataset.control, dataset.chance.mean().item()
    return [
        Check(
            "the span residual falls with the error: below a tenth of its other values if "
            "the images are found",
            f"at most {inside.max().item():.1e} there, at least {outside.min().item():.1e} where "
            "the error is above 0.5",
            bool(inside.max() < 0.1 * outside.min()),
        ),
        Check(
            "the same attack on permuted parameters finds nothing: the error is within 10% of "
            "chance",
            f"{span(control, '.3f')}, chance {chance:.3f}",
            bool((abs(control / chance - 1) < 0.1).all()),
        ),
    ]


def _images(dataset: xarray.Dataset) -> list[Check]:
    errors, floor = dataset.gallery_errors, dataset.attrs["published_floor"]
    return [
        Check(
            f"every image of the picture is found (error below {_FOUND})",
            f"{int((errors < _FOUND).sum())} of {errors.size}, largest error "
            f"{errors.max().item():.1e}",
            bool((errors < _FOUND).all()),
        ),
        Check(
            "scaled as published, rows lie off the sphere: a perfect attack has an error of 0.1 or "
            "more",
            f"{floor:.4f} with one mean and standard deviation, "
            f"{dataset.attrs['published_floor_per_channel']:.4f} with one for each colour, "
            f"{dataset.attrs['floor_samples']} images",
            floor > 0.1,
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The setting in words, and a table of the curves."""
    attrs = dataset.attrs
    head = ["p", "p / (d n)", "training error", "error (sd)", "span residual", "loss", "converged"]
    rows, unknowns = [], dataset.dim * dataset.num_samples
    for width in dataset.num_features.values:
        at = dataset.sel(num_features=width)
        mean, std = at.mean("seed"), at.error.std("seed", ddof=1).item()
        cells = [f"{width}", f"{width / unknowns:.3g}", f"{mean.train_loss.item():.1e}"]
        cells += [f"{mean.error.item():.3g} ({std:.1g})", f"{mean.residual.item():.1e}"]
        cells += [f"{at.loss.median().item():.1e}", f"{mean.converged.item():.2f}"]
        cells += [f"{mean.passes.item():.0f}", f"{mean.attack_seconds.item():.1f}"]
        rows.append(cells)
    text = (
        f"The first {dataset.num_samples // 2} frogs and {dataset.num_samples // 2} trucks, d = "
        f"{dataset.dim}, ReLU, theta* in closed form, {dataset.sizes['seed']} seeds of weights and "
        "start; the loss is the median, converged means at most 1e-8. Shades go from the least to "
        "the largest seed. With p <= n every point has loss 0: the attack is a guess there, and "
        "the residual 0 for any rows "
        "(DR calls this case non-degenerate). One number, the mean of all pixels, is subtracted "
        "from the images, and each is scaled to norm sqrt(d); pictures of found rows borrow the "
        "contrast of the image they belong to, nothing else. DR scales by the subset's mean and "
        "standard deviation: such rows are not on the sphere on which the attack looks, and the "
        f"error of a perfect attack is {attrs['published_floor']:.3f} ({attrs['floor_samples']} "
        f"images at d = 3072; {attrs['published_floor_per_channel']:.3f} by colour). The picture: "
        f"p = {attrs['gallery_num_features']}, loss {attrs['gallery_loss']:.1e} after "
        f"{attrs['gallery_passes']:.0f} passes, {attrs['gallery_seconds']:.0f} s."
    )
    return text + "\n\n" + table([*head, "passes", "seconds"], rows)


claims = harness.claims_of(checks)
harness.main(__name__)
