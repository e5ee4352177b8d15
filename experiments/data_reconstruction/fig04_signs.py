r"""DR Figures 4 and 8: is the sign of a row found?

With an odd activation it cannot be: the features of x and -x span the same. DR holds that ReLU has
the same ambiguity, because its odd Hermite coefficients beyond the first vanish, and that ReLU +
tanh does not. But ReLU(z) - ReLU(-z) = z: a negated row costs the loss a linear function of V,
which no other rows make up for unless their inputs are linearly dependent. Negatives of rows under
ReLU are then states in which the attack has not converged.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import command
from experiments.data_reconstruction.fig04_checks import checks as checks
from experiments.data_reconstruction.fig04_checks import summary as summary
from experiments.data_reconstruction.fig04_drawing import draw
from experiments.data_reconstruction.natural_images import (
    FOLDER,
    Images,
    Pictures,
    attack,
    frogs_and_trucks,
    match,
    stacked,
    train,
)
from jaxdp.attacks import reconstruction_error
from jaxdp.attacks.objective import checked_loss


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
    """Images, the width p / (d n), and how often weights and start are drawn."""

    images: Images = dataclasses.field(default_factory=lambda: Images(num_samples=20))
    width: float = 10.0
    num_seeds: int = 4
    max_passes: int = 1500
    block_size: int | None = None

    @classmethod
    def smoke(cls) -> "Config":
        return cls(images=Images(6, side=4, made_up=True), num_seeds=2, max_passes=400)

    @classmethod
    def paper(cls) -> "Config":
        return cls(images=Images(num_samples=100, side=32), block_size=150_000)


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Train and attack with every activation and seed; negate rows of the truth, one at a time.

    Args:
        config: the setting.
        data: folder with `cifar10/`; None fetches the images.
    """
    pictures = frogs_and_trucks(config.images, data)
    num_samples, dim = pictures.rows.inputs.shape
    axes = {"activation": list(ACTIVATIONS), "seed": list(range(config.num_seeds))}
    seeds = [len(values) for values in axes.values()]
    scalars = ("error", "error_with_flips", "loss", "converged", "passes")
    values = {name: np.full(seeds, np.nan) for name in scalars}
    rows = {name: np.full([*seeds, num_samples], np.nan) for name in ("row_errors", "signs")}
    negated = np.full([seeds[0], 1 + num_samples], np.nan)
    images = []
    cells = list(np.ndindex(*seeds))
    for cell in command.track(cells, lambda cell: f"{axes['activation'][cell[0]]}, seed {cell[1]}"):
        name, seed = axes["activation"][cell[0]], cell[1]
        of_weights, of_attack = jr.split(jr.key(seed))
        size = round(config.width * dim * num_samples)
        model = train(
            pictures, size, ACTIVATIONS[name], key=of_weights, block_size=config.block_size
        )
        found = attack(model.target, num_samples, key=of_attack, max_passes=config.max_passes)
        matched = match(pictures, found.inputs, allow_sign_flips=True)
        values["error"][cell] = reconstruction_error(pictures.rows.inputs, found.inputs)
        values["error_with_flips"][cell] = matched.errors.mean()
        values["loss"][cell], values["converged"][cell] = found.loss, found.converged
        values["passes"][cell] = found.num_passes
        rows["row_errors"][cell], rows["signs"][cell] = matched.errors, matched.signs
        images.append(stacked(pictures, matched.inputs))
        if seed == 0:
            negated[cell[0]] = _losses_of_negated(pictures, model.target)
    variables: dict[str, Any] = {
        name: (("activation", "seed"), value) for name, value in values.items()
    }
    variables |= {name: (("activation", "seed", "image"), value) for name, value in rows.items()}
    variables["truth_loss"] = ("activation", negated[:, 0])
    variables["negated_loss"] = (("activation", "image"), negated[:, 1:])
    pixels = ("activation", "seed", "stack", "image", "height", "width", "colour")
    variables["pictures"] = (pixels, np.stack(images).reshape(*seeds, *images[0].shape))
    facts = {"num_samples": num_samples, "dim": dim, "ratio": config.width}
    return xarray.Dataset(variables, axes, attrs=facts)


def claims(dataset: xarray.Dataset) -> dict[str, bool]:
    """Each claim and whether the dataset bears it out."""
    return {check.claim: check.holds for check in checks(dataset)}


def plot(dataset: xarray.Dataset) -> Figure:
    """What a negated row costs, errors with and without signs, and the images."""
    return draw(dataset)


def _losses_of_negated(pictures: Pictures, target) -> list[float]:
    """The loss of the truth, and of the truth with each of its rows negated."""
    true = np.asarray(pictures.inputs)
    signs = 1 - 2 * np.eye(len(true), dtype=true.dtype)
    return [
        checked_loss(target, jnp.asarray(sign[:, None] * true))
        for sign in (np.ones(len(true), true.dtype), *signs)
    ]


if __name__ == "__main__":
    sys.exit(command.main(sys.modules[__name__], optional_folders=FOLDER))
