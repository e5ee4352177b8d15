r"""DR Figure 5, and the network panels of Figure 7: the threshold of networks, p(L) = d n.

Left, two-layer networks on an image of every class of CIFAR-10, one-hot; right, residual networks
(DR D.1) on frogs against trucks. Error, training loss and span residual against p(L), the number of
parameters in the last layer. Beyond the paper: the last layer trained alone, where the attack's
loss is zero at the true images, and that loss where all layers are trained, which it is not.

The default pools images to 8 x 8, in grey for the residual networks. DR's size needs a GPU and was
never run.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import command
from experiments.data_reconstruction.fig05_checks import checks as checks
from experiments.data_reconstruction.fig05_checks import summary as summary
from experiments.data_reconstruction.fig05_drawing import draw
from experiments.data_reconstruction.natural_images import FOLDER
from experiments.data_reconstruction.trained_networks import (
    TRAININGS,
    Photographs,
    Task,
    attack,
    chance,
    photographs,
    train,
)
from jaxdp.attacks import network_target, two_layer_target
from jaxdp.networks import ResidualNetwork, TwoLayerNetwork

NETWORKS = ["two-layer", "residual"]
_MEASURES = ["train_loss", "steps", "train_seconds", "error", "residual", "loss", "true_loss"]
_MEASURES += ["passes", "attack_seconds"]
_TARGETS = {"two-layer": two_layer_target, "residual": network_target}


@dataclasses.dataclass(frozen=True)
class Config:
    """Images, widths as p(L) / (d n), and seeds of weights and attack.

    Attributes:
        two_layer, residual: the images of either kind of network.
        widths: p(L) / (d n), as near as whole channels come.
        stem_relu: whether the residual network has the ReLU of DR's code after its stem.
    """

    two_layer: Task = dataclasses.field(
        default_factory=lambda: Task(1, is_binary=False, max_passes=600)
    )
    residual: Task = dataclasses.field(
        default_factory=lambda: Task(2, is_binary=True, is_grey=True, max_passes=400)
    )
    widths: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 6.0, 10.0)
    num_seeds: int = 2
    stem_relu: bool = False

    @classmethod
    def smoke(cls) -> "Config":
        return cls(
            two_layer=Task(1, is_binary=False, side=4, max_passes=300, made_up=True),
            residual=Task(1, is_binary=True, side=4, is_grey=True, max_passes=300, made_up=True),
            widths=(0.5, 10.0),
            num_seeds=1,
        )

    @classmethod
    def paper(cls) -> "Config":
        return cls(
            two_layer=Task(1, is_binary=False, side=32),
            residual=Task(5, is_binary=True, side=32),
            widths=(0.01, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0),
            num_seeds=10,
        )


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Train and attack every network in both ways.

    Args:
        config: the setting.
        data: folder with `cifar10/`; None fetches the images.
    """
    tasks = dict(zip(NETWORKS, (config.two_layer, config.residual), strict=True))
    pictures = {name: photographs(task, data) for name, task in tasks.items()}
    widths, seeds = list(config.widths), list(range(config.num_seeds))
    axes = {"network": NETWORKS, "training": TRAININGS, "width": widths, "seed": seeds}
    shape = [len(values) for values in axes.values()]
    values = {name: np.full(shape, np.nan) for name in _MEASURES}
    sizes = np.zeros((len(NETWORKS), len(widths)), int)
    places = [place for place in np.ndindex(*shape) if place[1] == 0]
    label = "{}, p(L) = {:g} dn, seed {}"
    for which, _, width, seed in command.track(
        places, lambda at: label.format(NETWORKS[at[0]], widths[at[2]], seeds[at[3]])
    ):
        name = NETWORKS[which]
        of_weights, of_attack = jr.split(jr.key(seed))
        start = _network(config, name, pictures[name], widths[width])(key=of_weights)
        sizes[which, width] = start.last.size
        for number, training in enumerate(TRAININGS):
            trained = train(start, pictures[name], training)
            found = attack(
                _TARGETS[name],
                start,
                trained,
                pictures[name],
                max_passes=tasks[name].max_passes,
                key=of_attack,
            )
            for measure, value in found.measures.items():
                values[measure][which, number, width, seed] = value
    variables: dict[str, Any] = {name: (tuple(axes), value) for name, value in values.items()}
    variables["num_parameters"] = (("network", "width"), sizes)
    variables["chance"] = ("network", [chance(pictures[name]) for name in NETWORKS])
    for fact in ("num_samples", "dim", "num_classes"):
        variables[fact] = ("network", [getattr(tasks[name], fact) for name in NETWORKS])
    return xarray.Dataset(variables, axes, attrs={"stem_relu": int(config.stem_relu)})


def claims(dataset: xarray.Dataset) -> dict[str, bool]:
    """Each claim and whether the dataset bears it out."""
    return {check.claim: check.holds for check in checks(dataset)}


def plot(dataset: xarray.Dataset) -> Figure:
    """A column for each kind of network."""
    return draw(dataset)


def _network(config: Config, name: str, pictures: Photographs, width: float) -> Callable:
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

    # One channel says how many features each has.
    each = residual(1, key=jr.key(0)).last.size
    return lambda *, key: residual(max(1, round(wanted / each)), key=key)


if __name__ == "__main__":
    sys.exit(command.main(sys.modules[__name__], optional_folders=FOLDER))
