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
    Photographs,
    Task,
    attack,
    photographs,
    train,
)
from experiments.harness import Check
from jaxdp.attacks import matching, row_errors, two_layer_target
from jaxdp.networks import TwoLayerNetwork
from jaxdp.plots import plot_images

_FOUND = 0.05
_RECOGNISED = 0.3


@dataclasses.dataclass(frozen=True)
class Config:
    """The images, and p(L) / (d n)."""

    images: Task = dataclasses.field(default_factory=lambda: Task(2, is_binary=False))
    width: float = 4.0
    seed: int = 0

    smoke = harness.size(
        images=Task(1, is_binary=False, side=4, max_passes=400, made_up=True), width=10.0
    )
    paper = harness.size(images=Task(10, is_binary=False, side=32))


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Train a network in both ways, attack it, and put what is found beside the truth.

    Args:
        config: the setting.
        data: folder with `cifar10/`; None fetches the images.
    """
    pictures = photographs(config.images, data)
    of_weights, of_attack = jr.split(jr.key(config.seed))
    hidden = round(config.width * pictures.inputs.size / NUM_CLASSES)
    start = TwoLayerNetwork(pictures.inputs.shape[1], hidden, NUM_CLASSES, key=of_weights)
    stacks, errors, measures = [pictures.rows.inputs], [], []
    for training in harness.track(TRAININGS, lambda name: f"{name} trained"):
        trained = train(start, pictures, training)
        passes = config.images.max_passes
        found = attack(two_layer_target, start, trained, pictures, max_passes=passes, key=of_attack)
        order, _ = matching(pictures.rows.inputs, found.inputs)
        stacks.append(found.inputs[order])
        errors.append(row_errors(pictures.rows.inputs, found.inputs))
        measures.append(found.measures)
    dims = ("stack", "image", "height", "width", "colour")
    facts = {"num_samples": len(pictures.labels), "dim": pictures.inputs.shape[1]}
    facts |= {"num_hidden": hidden, "width": config.width}
    return harness.dataset(
        {"stack": ["trained on", *TRAININGS], "training": TRAININGS},
        {
            dims: {"gallery": np.stack([_pixels(pictures, rows) for rows in stacks])},
            ("training", "image"): {"errors": np.stack(errors)},
            "training": {name: [one[name] for one in measures] for name in measures[0]},
        },
        facts,
    )


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Every image is found; exactly where the last layer was trained alone."""
    alone, full = (dataset.errors.sel(training=name) for name in TRAININGS)
    loss = dataset.true_loss.sel(training="all layers").item()
    return [
        Check(
            "both ways of training fit the labels: a loss of at most 1e-7",
            ", ".join(f"{value:.1e}" for value in dataset.train_loss.values),
            bool((dataset.train_loss <= 1e-7).all()),
        ),
        Check(
            f"the last layer trained alone gives every image away, with an error below {_FOUND}",
            f"{int((alone < _FOUND).sum())} of {alone.size}, largest error {alone.max():.4f}",
            bool((alone < _FOUND).all()),
        ),
        Check(
            "with all layers trained the images are found but not exactly: a mean error below "
            f"{_RECOGNISED}, and above that of the last layer alone",
            f"mean {full.mean():.3f}, largest {full.max():.3f}; mean {alone.mean():.4f} from the "
            "last layer alone",
            bool(alone.mean() < full.mean() < _RECOGNISED),
        ),
        Check(
            "with all layers trained the attack's loss is not zero at the true images, and stops "
            "above 1e-7, where DR says that it stops",
            f"{loss:.1e} at the true images, {dataset.loss.values[1]:.1e} found",
            bool(loss > 1e-7 and dataset.loss.values[1] > 1e-7),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """What is shown, and how well it was found."""
    facts = dataset.attrs
    head = ["trained", "steps", "training loss", "mean error", "largest", "attack's loss"]
    head, rows = [*head, "at the truth", "passes", "seconds"], []
    for name in dataset.training.values:
        at = dataset.sel(training=name)
        cells = [name, f"{at.steps.item():.0f}", f"{at.train_loss.item():.1e}"]
        cells += [f"{at.errors.mean().item():.4f}", f"{at.errors.max().item():.4f}"]
        cells += [f"{at.loss.item():.1e}", f"{at.true_loss.item():.1e}"]
        cells += [f"{at.passes.item():.0f}", f"{at.attack_seconds.item():.1f}"]
        rows.append(cells)
    text = (
        f"{facts['num_samples']} images, {facts['num_samples'] // NUM_CLASSES} of each class, d = "
        f"{facts['dim']}, h = {facts['num_hidden']:,}, p(L) = 10 h = {facts['width']:g} d n; one "
        "seed. Found rows stand below the images they are closest to and borrow their contrast, "
        "which is lost on the sphere. In DR both layers are trained."
    )
    return text + "\n\n" + harness.table(head, rows)


def plot(dataset: xarray.Dataset) -> Figure:
    """The images trained on, and those found, with their errors."""
    alone, full = ([f"{value:.2g}" for value in row] for row in dataset.errors.values)
    stacks = dataset.gallery.sel(stack=["trained on", "all layers", "last layer"]).values
    return plot_images(  # pyright: ignore[reportReturnType]
        *stacks,
        labels=["trained on", "all layers", "last layer"],
        captions=[[], full, alone],
        title=rf"Found in two-layer networks, $p^{{(L)}} = {dataset.attrs['width']:g}\,dn$",
    )


def _pixels(pictures: Photographs, rows: np.ndarray) -> np.ndarray:
    """Rows beside the true ones, as images of bytes."""
    return as_bytes(pictures.rows.images_of(rows))


claims = harness.claims_of(checks)
harness.main(__name__)
