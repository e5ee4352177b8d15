r"""DR Figure 6: images of ten classes read off a two-layer network, p(L) = 4 d n.

The images that it was trained on and, below them, those found when all layers were trained, as in
DR, and when the last layer was trained alone. The default pools images to 8 x 8 for two cores;
`--paper` is d = 3072, n = 100, a first layer of 1.5 GB, and was never run.

Source: DR Figure 6.
"""

import dataclasses
import pathlib

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.data_reconstruction.natural_images import FOLDERS as FOLDERS
from experiments.data_reconstruction.natural_images import as_bytes
from experiments.data_reconstruction.trained_networks import (
    NUM_CLASSES,
    TRAININGS,
    Task,
    attack,
    photographs,
    train,
)
from experiments.harness import Check
from experiments.harness.drawing import for_any_page
from experiments.networks.last_layer import TwoLayerNetwork, two_layer_target
from jaxdp.attacks import matching, row_errors
from jaxdp.plots import plot_images

_FOUND = 0.05
_RECOGNISED = 0.3


@dataclasses.dataclass(frozen=True)
class Config:
    """The images, p(L) / (d n), and how often weights and start are drawn."""

    images: Task = dataclasses.field(default_factory=lambda: Task(2, is_binary=False))
    width: float = 4.0
    num_seeds: int = 10

    smoke = harness.size(
        images=Task(1, is_binary=False, side=4, max_passes=400, made_up=True),
        width=10.0,
        num_seeds=2,
    )
    paper = harness.size(images=Task(10, is_binary=False, side=32), num_seeds=1)


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Train networks in both ways, attack them, and match the found images with the true ones."""
    pictures = photographs(config.images, data)
    hidden = round(config.width * pictures.inputs.size / NUM_CLASSES)
    stacks, errors, measures = [pictures.rows.inputs], [], []
    cells = [(training, seed) for training in TRAININGS for seed in range(config.num_seeds)]
    for training, seed in harness.track(cells, "{0[0]} trained, seed {0[1]}".format):
        of_weights, of_attack = jr.split(jr.key(seed))
        start = TwoLayerNetwork(pictures.inputs.shape[1], hidden, NUM_CLASSES, key=of_weights)
        trained = train(start, pictures, training)
        passes = config.images.max_passes
        found = attack(two_layer_target, start, trained, pictures, max_passes=passes, key=of_attack)
        if seed == 0:
            order, _ = matching(pictures.rows.inputs, found.inputs)
            stacks.append(found.inputs[order])
        errors.append(row_errors(pictures.rows.inputs, found.inputs))
        measures.append(found.measures)
    trial = {"training": TRAININGS, "seed": range(config.num_seeds)}
    shape = len(TRAININGS), config.num_seeds
    dims = ("stack", "image", "height", "width", "colour")
    facts = {"num_samples": len(pictures.labels), "dim": pictures.inputs.shape[1]}
    facts |= {"num_hidden": hidden, "width": config.width}
    dataset = harness.dataset(
        {"stack": ["trained on", *TRAININGS]} | trial,
        {
            dims: {
                "gallery": np.stack([as_bytes(pictures.rows.images_of(rows)) for rows in stacks])
            },
            (*trial, "image"): {"errors": np.reshape(errors, (*shape, -1))},
            tuple(trial): {
                name: np.reshape([one[name] for one in measures], shape) for name in measures[0]
            },
        },
        facts,
    )
    return harness.in_units(dataset, train_seconds="s", attack_seconds="s")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Every image is found, and exactly if the last layer was trained alone."""
    alone, full = (dataset.errors.sel(training=name) for name in TRAININGS)
    losses = dataset.sel(training="all layers")
    means = full.mean("image")
    return [
        Check(
            "both ways of training fit the labels: a loss of at most 1e-7",
            ", ".join(f"{value:.1e}" for value in dataset.train_loss.max("seed").values)
            + f" at most, {dataset.sizes['seed']} seeds",
            bool((dataset.train_loss <= 1e-7).all()),
        ),
        Check(
            f"the last layer trained alone gives every image away, with an error below {_FOUND}",
            f"{int((alone < _FOUND).sum())} of {alone.size}, largest error {alone.max():.4f}",
            bool((alone < _FOUND).all()),
        ),
        Check(
            "with all layers trained the images are found but not exactly: with every seed a mean "
            f"error below {_RECOGNISED}, and above that of the last layer alone",
            f"means from {means.min():.3f} to {means.max():.3f}, largest of an image "
            f"{full.max():.3f}; means of at most {alone.mean('image').max():.1e} from the last "
            "layer alone",
            bool((alone.mean("image") < means).all() and (means < _RECOGNISED).all()),
        ),
        Check(
            "with all layers trained the attack's loss is not zero at the true images, and stops "
            "above 1e-7, where DR says that it stops, with every seed",
            f"{losses.true_loss.min():.1e} at least at the true images, {losses.loss.min():.1e} at "
            "least where it stopped",
            bool((losses.true_loss > 1e-7).all() and (losses.loss > 1e-7).all()),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The setting in words, and a table of the errors."""
    facts = dataset.attrs
    head = ["trained", "steps", "training loss", "mean error (deviation over seeds)", "largest"]
    head += ["attack's loss (median)", "at the truth (median)", "passes", "seconds"]
    rows = []
    for name in dataset.training.values:
        at = dataset.sel(training=name)
        spread = at.errors.mean("image").std("seed", ddof=1).item()
        cells = [name, f"{at.steps.mean().item():.0f}", f"{at.train_loss.max().item():.1e}"]
        cells += [f"{at.errors.mean().item():.2g} ({spread:.1g})", f"{at.errors.max().item():.2g}"]
        cells += [f"{at.loss.median().item():.1e}", f"{at.true_loss.median().item():.1e}"]
        cells += [f"{at.passes.mean().item():.0f}", f"{at.attack_seconds.mean().item():.1f}"]
        rows.append(cells)
    text = (
        f"{facts['num_samples']} images, {facts['num_samples'] // NUM_CLASSES} of each class, d = "
        f"{facts['dim']}, h = {facts['num_hidden']:,}, p(L) = 10 h = {facts['width']:g} d n; "
        f"{dataset.sizes['seed']} seeds of weights and start, the first of them drawn. Found rows "
        "are drawn below the closest true images and borrow their contrast, which is lost on "
        "the sphere. In DR both layers are trained."
    )
    return text + "\n\n" + harness.table(head, rows)


def plot(dataset: xarray.Dataset) -> Figure:
    """The images trained on, and those found, with their errors."""
    alone, full = ([f"{value:.2g}" for value in row] for row in dataset.errors.sel(seed=0).values)
    stacks = dataset.gallery.sel(stack=["trained on", "all layers", "last layer"]).values
    figure = plot_images(
        *stacks,
        labels=["trained on", "all layers", "last layer"],
        captions=[[], full, alone],
        title=rf"Found in two-layer networks, $p^{{(L)}} = {dataset.attrs['width']:g}\,dn$",
    )
    return for_any_page(figure)


claims = harness.claims_of(checks)
harness.main(__name__)
