"""Figures 1, 2 and 4 at the largest size that about two hours of two cores carry, in stretches.

    python -m experiments.privacy_for_free.long_runs FIGURE --data DATA --store STORE --minutes 9

Each stretch trains networks until its minutes are over and keeps them; the one that finds them all
kept writes the figure. Width 1000 in Figures 2 and 4, up to 10,000 and 5000 records, and 20,000
records in Figure 1: of the paper's size (`--paper`, with a store too) there remain 50,000 records,
more numbers of steps, a third seed, and 100,000 steps of gradient descent.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence

from experiments import harness
from experiments.privacy_for_free import (
    fig01_mnist_width,
    fig02_mnist_samples,
    fig04_mnist_hyperparameters,
)
from experiments.privacy_for_free.kept_runs import KeptRuns, OutOfTime

SIZES = {
    fig01_mnist_width: fig01_mnist_width.Config(
        widths=(10, 100, 1000), num_train=20_000, num_seeds=1, gradient_descent=(0.3, 200)
    ),
    fig02_mnist_samples: fig02_mnist_samples.Config(width=1000, num_seeds=1),
    fig04_mnist_hyperparameters: fig04_mnist_hyperparameters.Config(
        widths=(10, 100, 1000), exact_width=1000, num_seeds=1, heat_width=1000
    ),
}
_MORE = 75


def main(arguments: Sequence[str] | None = None) -> int:
    """One stretch; the exit status is 75 while networks remain, 1 where a claim is false."""
    figures = {figure.__name__.rpartition(".")[2]: figure for figure in SIZES}
    parser = argparse.ArgumentParser(prog="python -m experiments.privacy_for_free.long_runs")
    parser.add_argument("figure", choices=figures)
    parser.add_argument("--data", type=pathlib.Path, help=fig01_mnist_width.FOLDERS["data"])
    parser.add_argument("--store", type=pathlib.Path, required=True, help="where they are kept")
    parser.add_argument("--minutes", type=float, help="of this stretch [until all are trained]")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results", "long"))
    options = parser.parse_args(arguments)
    figure = figures[options.figure]
    config, kept = SIZES[figure], KeptRuns(options.store / options.figure, options.minutes)
    try:
        dataset = figure.run(config, options.data, kept)
    except OutOfTime as stopped:
        print(f"{stopped}; call again to go on")
        return _MORE
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.figure}.nc"
    words = ["python", "-m", "experiments.privacy_for_free.long_runs", options.figure]
    facts = {
        "module": figure.__name__,
        "command": " ".join([*words, "--data DATA --store STORE"]),
        "config": json.dumps(dataclasses.asdict(config)),
        "seconds": kept.seconds,
    }
    saved = harness.save(dataset, path, facts)
    figure.plot(saved).savefig(path.with_suffix(".png"), dpi=150)
    verdicts = figure.claims(saved)
    for claim, holds in verdicts.items():
        print(f"{'true ' if holds else 'FALSE'}  {claim}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
