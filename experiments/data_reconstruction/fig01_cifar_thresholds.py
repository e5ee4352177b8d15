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

import jax
import jax.random as jr
import numpy as np
import xarray

from experiments import harness
from experiments.data_reconstruction.fig01_checks import checks as checks
from experiments.data_reconstruction.fig01_checks import summary as summary
from experiments.data_reconstruction.fig01_drawing import plot as plot
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
from experiments.statements.data_reconstruction.published_scaling import (
    distance_from_sphere,
    published_scaling,
)
from jaxdp.attacks import RandomFeaturesTarget, reconstruction_error, span_residual
from jaxdp.problems import sphere_inputs

_NUM_CHANCE = 20


@dataclasses.dataclass(frozen=True)
class Config:
    """Images of the curves and of the picture, and the widths p.

    Attributes:
        label_widths: p / n, around the first threshold.
        data_widths: p / (d n), around the second; the last but one is also the control's, and
            the picture's.
        floor_samples: how many images the published scaling's distance from the sphere is of.
        block_size: features that are made again together; None keeps V in memory.
        gallery_block_size: the same, of the picture.
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
    """Train and attack at every width with every seed, then the picture.

    Args:
        config: the setting.
        data: folder with `cifar10/`; None fetches the images.
    """
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
        for name, value in cell.items():
            dataset[name][number, seed] = value
    control = [_control(config, pictures, seed) for seed in range(config.num_seeds)]
    dataset = dataset.assign(control=("seed", control), chance=("guess", _chance(pictures)))
    dataset.attrs["control_num_features"] = round(config.control_width * dim * num_samples)
    harness.in_units(dataset, attack_seconds="s")
    return dataset.merge(_gallery(config, data), combine_attrs="no_conflicts")


def _model(block_size: int | None, pictures: Pictures, num_features: int, key: jax.Array) -> Model:
    block_size = None if block_size is None else min(block_size, num_features)
    return train(pictures, num_features, jax.nn.relu, key=key, block_size=block_size)


def _cell(config: Config, pictures: Pictures, num_features: int, seed: int) -> dict[str, float]:
    of_weights, of_attack, _ = jr.split(jr.key(seed), 3)
    model = _model(config.block_size, pictures, num_features, of_weights)
    count = len(pictures.labels)
    found = attack(model.target, count, key=of_attack, max_passes=config.max_passes)
    # With p <= n the features of any n rows in general position span everything.
    is_spanning = num_features <= count
    residual = 0.0 if is_spanning else span_residual(pictures.inputs, found.inputs, model.target)
    return {
        "train_loss": model.train_loss,
        "error": reconstruction_error(pictures.rows.inputs, found.inputs),
        "residual": residual,
        "loss": found.loss,
        "converged": found.converged,
        "passes": found.num_passes,
        "attack_seconds": found.seconds,
    }


def _control(config: Config, pictures: Pictures, seed: int) -> float:
    """The error where the attacker is given the same parameters in another order."""
    of_weights, of_attack, of_order = jr.split(jr.key(seed), 3)
    width = round(config.control_width * pictures.inputs.size)
    target = _model(config.block_size, pictures, width, of_weights).target
    shuffled = jr.permutation(of_order, target.parameters)
    target = RandomFeaturesTarget(target.weights, target.activation, shuffled)
    # Nothing is to be found: longer would be no different.
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
    """The images and what is found at the control's width."""
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
    return {
        "published_floor": distance_from_sphere(published_scaling(images)),
        "published_floor_per_channel": distance_from_sphere(
            published_scaling(images, per_channel=True)
        ),
        "floor_samples": config.floor_samples,
    }


claims = harness.claims_of(checks)
harness.main(__name__)
