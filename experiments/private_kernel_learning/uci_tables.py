r"""Beyond PK: every learner of the paper, and the certified ones, on real tables.

All inputs and labels are in public units, so that what each release claims to cost is what it may
be compared by; PK standardises by the training rows, which no proof covers. Published algorithms
stand at a data-free setting and at an oracle's, the least test error over M and $\lambda$; the
certified learners choose nothing by the data but what their budget pays for.
"""

import dataclasses
import pathlib

import jax.random as jr
import numpy as np
import xarray

from experiments import harness
from experiments.private_kernel_learning.public_tables import CLASSIFICATION, PublicTable, load
from experiments.private_kernel_learning.ridge_grid import Budget
from experiments.private_kernel_learning.table_classification import (
    classification_baselines,
    classification_errors,
)
from experiments.private_kernel_learning.table_methods import Draw, Sizes
from experiments.private_kernel_learning.table_regression import (
    regression_baselines,
    regression_errors,
)
from experiments.private_kernel_learning.uci_checks import LEARNERS
from experiments.private_kernel_learning.uci_checks import checks as checks
from experiments.private_kernel_learning.uci_checks import summary as summary
from experiments.private_kernel_learning.uci_drawing import plot as plot
from jaxdp.kernels import Gaussian

FOLDERS = {"data": "folder with the folders uci and yearmsd"}


@dataclasses.dataclass(frozen=True)
class Config:
    """Tables (their first so many rows; None is all), splits of each, budgets and sizes."""

    tables: tuple[tuple[str, int | None, int], ...] = (
        ("concrete", None, 10),
        ("wine-quality-red", None, 10),
        ("year", None, 10),
        ("kin8nm", None, 5),
        ("power-plant", None, 5),
        ("protein-tertiary-structure", None, 3),
        ("adult", 1000, 5),
        ("adult", None, 3),
    )
    epsilons: tuple[float, ...] = (0.1, 1.0, 10.0)
    num_projections: int = 200
    oracle: tuple[int, ...] = (20, 60, 200)
    num_features: int = 512
    test_share: float = 0.2
    seed: int = 11

    smoke = harness.size(
        tables=(("concrete", 600, 4), ("adult", 400, 3)),
        epsilons=(1.0, 10.0),
        num_projections=40,
        oracle=(20, 40),
        num_features=128,
    )


def run(config: Config, data: pathlib.Path) -> xarray.Dataset:
    """Errors of all methods on all splits of all tables.

    Args:
        config: tables, splits, budgets and sizes.
        data: folder with `uci/` and `yearmsd/`.
    """
    parts: list[xarray.Dataset] = []
    for number, (name, most, splits) in enumerate(
        harness.track(config.tables, lambda entry: entry[0])
    ):
        table = load(data, name, most)
        label = name if most is None else f"{name}, {len(table.labels)} rows"
        runs = [_one(config, table, number, which) for which in range(splits)]
        parts.append(_dataset(config, table, runs).expand_dims(table=[label]))
    return xarray.concat(parts, "table", join="outer")


def _one(config: Config, table: PublicTable, number: int, which: int) -> list[dict[str, float]]:
    """All errors on one split, for each budget."""
    data_key, draw_key = jr.split(jr.fold_in(jr.fold_in(jr.key(config.seed), number), which))
    split = table.split(config.test_share, key=data_key)
    sizes = Sizes(config.num_projections, config.oracle, config.num_features)
    drawn = Draw.of(split, Gaussian(table.scale), sizes, key=draw_key)
    baselines, errors = regression_baselines, regression_errors
    if table.kind == CLASSIFICATION:
        baselines, errors = classification_baselines, classification_errors
    seed, known = 100 * number + which, baselines(table, drawn, sizes)
    return [
        known | dict(errors(table, drawn, sizes, Budget(epsilon, split.num_train), seed=seed))
        for epsilon in config.epsilons
    ]


def _dataset(config: Config, table: PublicTable, runs) -> xarray.Dataset:
    """Errors by method, budget and split; NaN where a learner does not apply."""
    values = [
        [[found.get(name, np.nan) for found in errors] for errors in runs] for name in LEARNERS
    ]
    axes = {"learner": LEARNERS, "epsilon": config.epsilons, "split": range(len(runs))}
    sizes = {"rows": len(table.labels), "dim": table.inputs.shape[1]}
    return harness.dataset(
        axes,
        {
            tuple(axes): {"error": np.array(values).transpose(0, 2, 1)},
            (): {"kind": table.kind, **sizes},
        },
    )


claims = harness.claims_of(checks)
harness.main(__name__)
