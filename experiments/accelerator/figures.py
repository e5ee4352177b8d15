"""Figures of the papers on data of the papers' size, with fewer seeds and settings.

A figure's own command (`python -m experiments.<paper>.<figure> --paper`) takes hours even here.
Each row runs the figure as that command does and says which of its claims hold.
"""

import dataclasses
import importlib
import math
import time
from collections.abc import Iterator
from typing import Any

from experiments.accelerator.parts import Measurement, Row, Setting, attempts, bars

# For each figure: its module, and the differences from the size of the repository's saved result,
# or from the paper's size if that is named.
_FIGURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "DR Figure 6, 100 images of ten classes, 32 x 32 pixels": (
        "data_reconstruction.fig06_multiclass_images",
        "paper",
        {},
    ),
    "DR Figure 5, networks on 10 images of 32 x 32 pixels": (
        "data_reconstruction.fig05_networks",
        "paper",
        {"widths": (1.0, 4.0), "num_seeds": 1},
    ),
    "PF Figure 2, up to 50,000 digits": (
        "privacy_for_free.fig02_mnist_samples",
        "",
        {"num_train": (10, 1000, 50_000), "num_seeds": 1, "microbatch_size": 10_000},
    ),
    "PF Figure 4, 50,000 digits": (
        "privacy_for_free.fig04_mnist_hyperparameters",
        "",
        {
            "num_train": 50_000,
            "num_steps": (10, 80, 320),
            "heat_num_steps": (12, 75, 480),
            "num_seeds": 1,
            "microbatch_size": 10_000,
        },
    ),
}


def rows(setting: Setting) -> Iterator[Row]:
    """A row for each figure; only for the first in the small version."""
    # The small version of each is run by the tests of figures.
    figures = list(_FIGURES.items())[: 1 if setting.is_smoke else None]
    yield from attempts(setting, [_figure(setting, what, *given) for what, given in figures])


def _figure(setting: Setting, what: str, module: str, size: str, given: dict[str, Any]):
    def row(_):
        if setting.data is None and not (setting.is_smoke and module.startswith("data_")):
            return Row(what, math.nan, "", note="left out: --data names no folder")
        figure = importlib.import_module(f"experiments.{module}")
        size_of = figure.Config.smoke if setting.is_smoke else getattr(figure.Config, size, None)
        config = size_of() if size_of else figure.Config()
        if not setting.is_smoke:
            config = dataclasses.replace(config, **given)
        start = time.perf_counter()
        claims = figure.claims(figure.run(config, data=setting.data))
        seconds = time.perf_counter() - start
        held = f"{sum(claims.values())} of {len(claims)} claims hold"
        false = "; ".join(claim for claim, holds in claims.items() if not holds)
        return Row(what, seconds, "s", note=f"{held}{': not ' if false else ''}{false}")

    return Measurement(what, row)


def draw(found: list[Row]):
    """Seconds of each figure."""
    return bars(found, "seconds, compilation included")
