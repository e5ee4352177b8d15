r"""Photographs read off one private step, at the epsilons whose predicted error is given.

Rows are pooled CIFAR frogs and trucks on the sphere of radius $\sqrt d$ (`jaxdp.data.images`: one
mean is subtracted from all, and contrasts are put back for the picture). Epsilon is chosen by the
law before any image is read; round values would all show noise. The mean is read off the images
and not charged to the budget: one number, the same for every row.
"""

import dataclasses
import math
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.data_reconstruction.natural_images import FOLDERS as FOLDERS
from experiments.data_reconstruction.natural_images import Images, frogs_and_trucks
from experiments.data_reconstruction.private_images_checks import checks as checks
from experiments.data_reconstruction.private_images_checks import summary as summary
from experiments.data_reconstruction.private_training import (
    DELTA,
    RELU,
    Choices,
    private_algorithm,
    trained,
)
from jaxdp.attacks import (
    CurvatureScaledMomentum,
    LevenbergMarquardt,
    RandomFeaturesTarget,
    matching,
    reconstruct,
    row_errors,
    without_known_rows,
)
from jaxdp.plots import plot_images
from jaxdp.privacy import gaussian_epsilon
from jaxdp.theory import (
    last_iterate_reconstruction_errors,
    mu_at_reconstruction_error,
    one_step_reconstruction_error,
)
from jaxdp.theory.reconstruction.saturation import saturated_error


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes; `width` is p over d n, `errors` are those predicted, 0 for no noise."""

    num_samples: int = 6
    side: int = 8
    width: int = 20
    errors: tuple[float, ...] = (0, 0.05, 0.2, 0.5, 1)
    num_starts: int = 4
    max_passes: int = 3000
    made_up: bool = False

    smoke = harness.size(num_samples=2, side=2, errors=(0, 0.05, 1), max_passes=300, made_up=True)


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Train for one step at each epsilon, attack with nothing known and with all but one known."""
    images = Images(config.num_samples, config.side, config.made_up)
    count, dim = config.num_samples, images.dim
    num_features = config.width * dim * count
    mus = [
        float(mu_at_reconstruction_error(error, dim, count, RELU, num_features=num_features))
        if error
        else math.inf
        for error in config.errors
    ]
    pictures = frogs_and_trucks(images, data)
    labels = jnp.asarray(pictures.labels, jnp.float32)
    weights = jr.normal(jr.key(1), (num_features, dim)) / math.sqrt(dim)
    problem = jaxdp.RandomFeatures.from_arrays(
        pictures.inputs, labels, pictures.inputs, labels, weights, RELU
    )
    found, informed, predicted = [], [], []
    for mu in harness.track(mus, lambda mu: f"mu = {mu:.3g}"):
        algorithm = private_algorithm(problem, mu, 1, Choices())
        parameters = trained(problem, algorithm, key=jr.key(2)).parameters
        assert parameters is not None
        found.append(_with_nothing_known(problem, parameters[0], config))
        informed.append(_with_others_known(problem, parameters[0], algorithm, config))
        errors = saturated_error(last_iterate_reconstruction_errors(problem, algorithm), RELU)
        predicted.append(errors)
    true = pictures.rows.inputs
    rows = np.stack([true, *found, *informed])
    shown = np.stack([pictures.rows.images_of(stack) for stack in rows])
    split = len(config.errors)
    pixels = ("image", "height", "wide", "colour")
    law = one_step_reconstruction_error(
        np.array(mus), dim, count, RELU, informed=True, num_features=num_features
    )
    epsilons = [gaussian_epsilon(mu, DELTA) if math.isfinite(mu) else math.inf for mu in mus]
    cosines = true @ true.T / dim
    between = np.abs(cosines[np.triu_indices(count, 1)])
    return harness.dataset(
        {"error": config.errors},
        {
            pixels: {"truth": shown[0]},
            ("error", *pixels): {
                "found": shown[1 : 1 + split],
                "informed": shown[1 + split :],
            },
            ("error", "image"): {
                "row_error": [row_errors(true, stack) for stack in found],
                "informed_row_error": [_gaps(true, stack) for stack in informed],
                "predicted_row_error": np.stack(predicted),
            },
            "error": {"mu": mus, "informed_law": law, "epsilon": epsilons},
        },
        {
            "delta": DELTA,
            "dim": dim,
            "num_samples": count,
            "width": config.width,
            "mean_cosine": float(between.mean()),
            "largest_cosine": float(between.max()),
        },
    )


def _with_nothing_known(problem, parameters: jax.Array, config: Config) -> np.ndarray:
    """What the attack finds, beside the true rows."""
    target = RandomFeaturesTarget(problem.weights, RELU, parameters)
    found = reconstruct(
        target,
        config.num_samples,
        key=jr.key(3),
        optimiser=CurvatureScaledMomentum(),
        num_starts=config.num_starts,
        max_passes=config.max_passes,
    )
    inputs = np.asarray(found.inputs)
    order, _ = matching(problem.train_inputs, inputs)
    return inputs[order]


def _with_others_known(problem, parameters: jax.Array, algorithm, config: Config) -> np.ndarray:
    """Each row as found by one who knows all others and their labels."""
    iterates = jnp.stack([jnp.zeros_like(parameters), parameters])
    found = []
    for row in range(config.num_samples):
        others = np.delete(np.arange(config.num_samples), row)
        target = without_known_rows(
            iterates,
            problem.weights,
            RELU,
            algorithm,
            problem.train_inputs[others],
            problem.train_labels[others],
            num_samples=config.num_samples,
        )
        attacked = reconstruct(
            target,
            1,
            key=jr.fold_in(jr.key(4), row),
            optimiser=LevenbergMarquardt(),
            num_starts=config.num_starts,
            max_passes=config.max_passes,
        )
        found.append(np.asarray(attacked.inputs[0]))
    return np.stack(found)


def _gaps(true: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Errors without an assignment: this attack names its row."""
    return np.linalg.norm(true - found, axis=1) / math.sqrt(true.shape[1])


def plot(dataset: xarray.Dataset) -> Figure:
    """The truth and what is found of it, a row for each epsilon; at the right, all others known."""
    count, levels = dataset.sizes["image"], dataset.sizes["error"]
    size = 2 * (0.66 * count + 1.35) + 0.2, 0.62 * 1.27 * (levels + 1) + 0.7
    figure = Figure(figsize=size, layout="constrained")
    others = "all other images and labels known"
    kinds = [("nothing known", "found", "row_error", dataset.error.values)]
    kinds += [(others, "informed", "informed_row_error", dataset.informed_law.values)]
    parts: Any = figure.subfigures(1, 2)
    for part, (title, images, errors, law) in zip(parts, kinds, strict=True):
        stacks, labels, captions = [dataset.truth.values], ["truth"], [[]]
        for number in range(levels):
            at = dataset.isel(error=number)
            stacks.append(at[images].values)
            mean = float(at[errors].mean())
            labels.append(_label(at, float(law[number]), mean))
            captions.append([f"{value:.2f}" for value in at[errors].values])
        plot_images(
            *stacks, labels=labels, captions=captions, columns=count, title=title, figure=part
        )
    return figure


def _label(at: xarray.Dataset, law: float, mean: float) -> str:
    if not float(at.error):
        return f"no noise\nobtained {mean:.3f}"
    budget = rf"$\varepsilon$ = {_short(float(at.epsilon))}, $\mu$ = {float(at.mu):.0f}"
    return f"{budget}\nlaw {law:.2f}, obtained {mean:.2f}"


def _short(number: float) -> str:
    return f"{number / 1000:.0f}k" if number >= 10_000 else f"{number:.0f}"


claims = harness.claims_of(checks)
harness.main(__name__)
