r"""DR Figures 4 and 8: is the sign of a row found?

With an odd activation it cannot be: the features of x and -x span the same. DR holds that ReLU has
the same ambiguity, because its odd Hermite coefficients beyond the first vanish, and that ReLU +
tanh does not. But ReLU(z) - ReLU(-z) = z: a negated row costs the loss a linear function of V,
which no other rows make up for unless their inputs are linearly dependent. Negatives of rows under
ReLU are then states in which the attack has not converged.

Source: DR Figures 4 and 8.
"""

import dataclasses
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray

from experiments import harness
from experiments.data_reconstruction.fig04_checks import checks as checks
from experiments.data_reconstruction.fig04_checks import summary as summary
from experiments.data_reconstruction.fig04_drawing import plot as plot
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

    smoke = harness.size(images=Images(6, side=4, made_up=True), num_seeds=2, max_passes=400)

    paper = harness.size(images=Images(num_samples=100, side=32), block_size=150_000)


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Train and attack with every activation and seed; negate rows of the truth, one at a time.

    Args:
        config: the setting.
        data: folder with `cifar10/`; None fetches the images.
    """
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
        of_weights, of_attack = jr.split(jr.key(seed))
        size = round(config.width * dim * num_samples)
        model = train(
            pictures, size, ACTIVATIONS[name], key=of_weights, block_size=config.block_size
        )
        found = attack(model.target, num_samples, key=of_attack, max_passes=config.max_passes)
        matched = match(pictures, found.inputs, allow_sign_flips=True)
        dataset.error[cell] = reconstruction_error(pictures.rows.inputs, found.inputs)
        dataset.error_with_flips[cell] = matched.errors.mean()
        dataset.loss[cell], dataset.converged[cell] = found.loss, found.converged
        dataset.passes[cell] = found.num_passes
        dataset.row_errors[cell], dataset.signs[cell] = matched.errors, matched.signs
        images.append(stacked(pictures, matched.inputs))
        if seed == 0:
            truth, *negated = _losses_of_negated(pictures, model.target)
            dataset.truth_loss[cell[0]], dataset.negated_loss[cell[0]] = truth, negated
    pixels = (*trial, "stack", "image", "height", "width", "colour")
    shown = np.stack(images).reshape(*dataset.error.shape, *images[0].shape)
    return dataset.assign(pictures=(pixels, shown))


def _losses_of_negated(pictures: Pictures, target) -> list[float]:
    """The loss of the truth, and of the truth with each of its rows negated."""
    true = np.asarray(pictures.inputs)
    signs = 1 - 2 * np.eye(len(true), dtype=true.dtype)
    return [
        checked_loss(target, jnp.asarray(sign[:, None] * true))
        for sign in (np.ones(len(true), true.dtype), *signs)
    ]


claims = harness.claims_of(checks)
harness.main(__name__)
