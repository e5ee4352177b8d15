"""DR Figure 3 and the first panel of Figure 7: the thresholds p = n and p = dn on the sphere.

Besides the default optimiser the published one is run at the smaller sizes, and below dn
Levenberg-Marquardt, which finds other rows of zero loss there. Rows, labels, V and start vary with
the seed; DR's code draws V from a seed of its own. With p <= n any rows span everything: the attack
is not run, and its error is that of chance.

Source: DR Figures 3 and 7.
"""

import dataclasses

import numpy as np
import xarray

from experiments import harness
from experiments.data_reconstruction.fig03_checks import checks as checks
from experiments.data_reconstruction.fig03_checks import summary as summary
from experiments.data_reconstruction.fig03_drawing import plot as plot
from experiments.data_reconstruction.sphere_rows import (
    Trained,
    attack_key,
    chance_error,
    train,
)
from jaxdp.attacks import (
    LevenbergMarquardt,
    MomentumDescent,
    reconstruct,
    reconstruction_error,
    span_residual,
)

METHODS = ("default", "published", "Levenberg-Marquardt")
_MEASURES = ("error", "residual", "loss", "converged", "passes")


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes, widths and effort.

    Attributes:
        sizes: (d, n).
        label_widths: p / n, around the first threshold.
        data_widths: p / (dn), around the second.
        compared_up_to: the largest dn at which the other optimisers are run, the published one
            up to p = 6 dn, Levenberg-Marquardt up to .75 dn.
        max_passes: of the default; `published_passes` of the published one.
        matrices: normal matrices that Levenberg-Marquardt forms for each start; one counts dn / 2
            passes.
        starts_below: starts of Levenberg-Marquardt.
    """

    sizes: tuple[tuple[int, int], ...] = ((20, 5), (30, 10), (50, 5), (100, 20))
    label_widths: tuple[float, ...] = (0.4, 1.0, 2.0)
    data_widths: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 6.0, 10.0, 20.0)
    num_seeds: int = 5
    compared_up_to: int = 300
    max_passes: int = 1500
    published_passes: int = 20_000
    matrices: int = 60
    starts_below: int = 8

    smoke = harness.size(
        sizes=((12, 4),),
        label_widths=(0.4, 3.0),
        data_widths=(0.3, 1.0, 3.0, 10.0),
        num_seeds=2,
        max_passes=600,
        published_passes=600,
    )

    paper = harness.size(num_seeds=10, max_passes=10_000)


def run(config: Config) -> xarray.Dataset:
    """Train and attack at every size and width with every seed."""
    widths = np.array([_widths(config, *size) for size in config.sizes])
    cells, trial = list(np.ndindex(*widths.shape)), ("size", "width", "seed")
    sizes = dict(zip(trial, (*widths.shape, config.num_seeds), strict=True))
    dataset = harness.empty(
        {**sizes, "optimiser": METHODS},
        {(*trial, "optimiser"): _MEASURES, trial: ["train_loss"]},
        {"max_passes": config.max_passes, "published_passes": config.published_passes},
    )
    for size, width in harness.track(cells, lambda cell: f"{config.sizes[cell[0]]}, {cell[1]}"):
        dim, num_samples = config.sizes[size]
        num_features = int(widths[size, width])
        for seed in range(config.num_seeds):
            trained = train(num_samples, dim, num_features, seed)
            dataset.train_loss[size, width, seed] = trained.train_loss
            for number, method in enumerate(METHODS):
                if not _is_run(config, method, dim * num_samples, num_features, num_samples):
                    continue
                for name, value in _attacked(config, method, trained, seed).items():
                    dataset[name][size, width, seed, number] = value
    return dataset.assign(
        num_features=(("size", "width"), widths),
        dim=("size", [dim for dim, _ in config.sizes]),
        num_samples=("size", [count for _, count in config.sizes]),
        chance=("size", [chance_error(count, dim) for dim, count in config.sizes]),
    )


def _widths(config: Config, dim: int, num_samples: int) -> list[int]:
    widths = [max(1, round(ratio * num_samples)) for ratio in config.label_widths]
    return widths + [round(ratio * dim * num_samples) for ratio in config.data_widths]


def _is_run(config: Config, method: str, unknowns: int, width: int, num_samples: int) -> bool:
    if width <= num_samples:
        return False
    if method == METHODS[0]:
        return True
    most = {METHODS[1]: 6 * unknowns, METHODS[2]: 0.75 * unknowns}[method]
    return unknowns <= config.compared_up_to and 2 * num_samples < width <= most


def _attacked(config: Config, method: str, trained: Trained, seed: int) -> dict[str, float]:
    unknowns = trained.inputs.size
    optimiser, passes, starts = {
        "default": (None, config.max_passes, 1),
        "published": (MomentumDescent(), config.published_passes, 1),
        "Levenberg-Marquardt": (
            LevenbergMarquardt(),
            config.matrices * unknowns / 2,
            config.starts_below,
        ),
    }[method]
    found = reconstruct(
        trained.target,
        len(trained.inputs),
        key=attack_key(seed),
        optimiser=optimiser,
        max_passes=passes,
        num_starts=starts,
    )
    return {
        "error": reconstruction_error(trained.inputs, found.inputs),
        "residual": span_residual(trained.inputs, found.inputs, trained.target),
        "loss": found.loss,
        "converged": found.converged,
        "passes": found.num_passes,
    }


claims = harness.claims_of(checks)
harness.main(__name__)
