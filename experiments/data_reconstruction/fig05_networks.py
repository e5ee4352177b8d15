r"""DR Figure 5, and the network panels of Figure 7: the threshold of networks, p(L) = d n.

Left, two-layer networks on an image of every class of CIFAR-10, one-hot; right, residual networks
(DR D.1) on frogs against trucks. Error, training loss and span residual against p(L), the number of
parameters in the last layer. Beyond the paper: the last layer trained alone, where the attack's
loss is zero at the true images, and that loss where all layers are trained, which it is not.

The default pools images to 8 x 8, in grey for the residual networks. DR's size needs a GPU and was
never run.

Source: DR Figures 5 and 7.
"""

import dataclasses
import pathlib
from collections.abc import Callable

import equinox as eqx
import jax.random as jr
import numpy as np
import xarray

from experiments import harness
from experiments.data_reconstruction.fig05_checks import checks as checks
from experiments.data_reconstruction.fig05_checks import summary as summary
from experiments.data_reconstruction.fig05_drawing import plot as plot
from experiments.data_reconstruction.natural_images import FOLDERS as FOLDERS
from experiments.data_reconstruction.trained_networks import (
    TRAININGS,
    Photographs,
    Task,
    attack,
    chance,
    photographs,
    train,
)
from experiments.networks.last_layer import TwoLayerNetwork, network_target, two_layer_target
from experiments.networks.residual import ResidualNetwork

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
    """Train and attack every network in both ways.

    Args:
        config: the setting.
        data: folder with `cifar10/`; None fetches the images.
    """
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
            found = attack(
                _TARGETS[name],
                start,
                trained,
                pictures[name],
                max_passes=tasks[name].max_passes,
                key=of_attack,
            )
            for measure, value in found.measures.items():
                dataset[measure][which, number, width, seed] = value
    dataset["num_parameters"] = ("network", "width"), sizes
    dataset["chance"] = "network", [chance(pictures[name]) for name in NETWORKS]
    for fact in ("num_samples", "dim", "num_classes"):
        dataset[fact] = "network", [getattr(tasks[name], fact) for name in NETWORKS]
    return harness.in_units(dataset, train_seconds="s", attack_seconds="s")


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

    # One channel says how many features each has; its weights are not drawn.
    each = eqx.filter_eval_shape(residual, 1, key=jr.key(0)).last.size
    return lambda *, key: residual(max(1, round(wanted / each)), key=key)


claims = harness.claims_of(checks)
harness.main(__name__)
