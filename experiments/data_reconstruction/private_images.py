r"""Photographs read off one private step, at the epsilons whose predicted error is given.

Rows are pooled CIFAR frogs and trucks on the sphere of radius $\sqrt d$
(`experiments.harness.images`: one mean is subtracted from all, and contrasts are put back for the
picture). Epsilon is chosen by the law before any image is read; round values would all show noise.
The mean is read off the images and not charged to the budget: one number, the same for every row.
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
from experiments.data_reconstruction.private_training import (
    DELTA,
    RELU,
    Choices,
    private_algorithm,
    trained,
)
from experiments.harness import Check, listed, table
from experiments.harness.drawing import for_any_page
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
from jaxdp.theory.reconstruction.error import saturated_error


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
    law = one_step_reconstruction_error(
        np.array(mus), dim, count, RELU, informed=True, num_features=num_features
    )
    epsilons = [gaussian_epsilon(mu, DELTA) if math.isfinite(mu) else math.inf for mu in mus]
    between = np.abs((true @ true.T / dim)[np.triu_indices(count, 1)])
    # Errors without an assignment: the informed attack names its row.
    gaps = [np.linalg.norm(true - stack, axis=1) / math.sqrt(dim) for stack in informed]
    pixels = ("image", "height", "wide", "colour")
    return harness.dataset(
        {"error": config.errors},
        {
            pixels: {"truth": pictures.rows.images_of(true)},
            ("error", *pixels): {
                name: np.stack([pictures.rows.images_of(stack) for stack in stacks])
                for name, stacks in (("found", found), ("informed", informed))
            },
            ("error", "image"): {
                "row_error": [row_errors(true, stack) for stack in found],
                "informed_row_error": gaps,
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
    """The rows that the attack finds, in the order of the true rows."""
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


def plot(dataset: xarray.Dataset) -> Figure:
    """True and found images, a row for each epsilon; at the right, all others known."""
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
    return for_any_page(figure)


def _label(at: xarray.Dataset, law: float, mean: float) -> str:
    if not float(at.error):
        return f"no noise\nobtained {mean:.3f}"
    epsilon = float(at.epsilon)
    short = f"{epsilon / 1000:.0f}k" if epsilon >= 10_000 else f"{epsilon:.0f}"
    budget = rf"$\varepsilon$ = {short}, $\mu$ = {float(at.mu):.0f}"
    return f"{budget}\nlaw {law:.2f}, obtained {mean:.2f}"


def checks(dataset: xarray.Dataset) -> list[Check]:
    """How far the law holds on rows that are not orthogonal."""
    mean = dataset.row_error.mean("image").values
    informed = dataset.informed_row_error.mean("image").values
    predicted = dataset.predicted_row_error.mean("image").values
    asked, clear = dataset.error.values, float(dataset.row_error.isel(error=0).max())
    smallest = int(np.flatnonzero(asked > 0)[0])
    return [
        Check(
            "without noise one step gives every image away",
            f"largest error {clear:.1e}",
            clear < 0.02,
        ),
        Check(
            "at the smallest error asked for, the attack's error is the linearised problem's on "
            "these images, within a fifth",
            f"{mean[smallest]:.3f}; linearised {predicted[smallest]:.3f}, law {asked[smallest]:g}",
            bool(abs(mean[smallest] / predicted[smallest] - 1) < 0.2),
        ),
        Check(
            "errors grow as the budget shrinks, to those of images that were never seen",
            listed(mean, "{:.3f}"),
            bool(np.all(np.diff(mean) > 0) and mean[-1] > 0.8),
        ),
        Check(
            "to know the others helps at every budget",
            listed(informed, "{:.3f}"),
            bool(np.all(informed[smallest:] < mean[smallest:])),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """Asked for, predicted for these images, obtained."""
    attrs = dataset.attrs
    rows = []
    for number in range(dataset.sizes["error"]):
        at = dataset.isel(error=number)
        cells = [f"{float(at.epsilon):.0f}", f"{float(at.mu):.3g}", f"{float(at.error):g}"]
        values = at.predicted_row_error.mean(), at.row_error.mean(), at.informed_law
        values = *values, at.informed_row_error.mean()
        rows.append([*cells, *(f"{float(value):.3f}" for value in values)])
    head = ["ε", "μ", "law", "linearised, these images", "attack", "law, others known", "attack"]
    return (
        f"One step of DPGD on {attrs['num_samples']} images, d = {attrs['dim']}, p = "
        f"{attrs['width']} d n; ε at δ = {attrs['delta']:g} for replacing one image, "
        "without the mean of all pixels, which is subtracted before. The law is for rows that "
        "are nearly orthogonal; the cosines of these are "
        f"{attrs['mean_cosine']:.2f} in the mean and {attrs['largest_cosine']:.2f} at most, which "
        "makes them harder to distinguish: the linearised problem on the images themselves says by "
        "how much.\n\n" + table(head, rows)
    )


claims = harness.claims_of(checks)
harness.main(__name__)
