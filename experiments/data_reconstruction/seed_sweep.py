r"""DR Figures 1, 4, 6 and 8 seed by seed: a folder of results that a stopped run goes on from.

Each cell is one training and one attack: a case (the activation or network, and its size), an
optimiser (ours or the published one, momentum descent) and a seed, of which weights and start are
made. It is one file, written when the cell is done; a file that exists is not computed again, so
that several processes may share a folder and any of them may be stopped. The table at the end is of
all files there are.

    python -m experiments.data_reconstruction.seed_sweep FOLDER [--cases relu ...] [--seeds 10]
        [--optimisers ours published] [--data DIR] [--made-up]

Sizes are those that two cores carry: d = 192, n = 20, p = 10 dn for the activations (4 dn for the
two-layer network); `fig01` is d = 768, n = 50 and p = 384,000 with V never in memory.
"""

import argparse
import dataclasses
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from experiments import harness
from experiments.data_reconstruction.natural_images import Images, frogs_and_trucks
from experiments.data_reconstruction.natural_images import train as train_features
from experiments.data_reconstruction.trained_networks import NUM_CLASSES, Task, photographs
from experiments.data_reconstruction.trained_networks import train as train_network
from experiments.networks.last_layer import TwoLayerNetwork, two_layer_target
from experiments.statements.data_reconstruction.assumption_2 import mixed_parity
from jaxdp.attacks import AbstractTarget, MomentumDescent, matching, reconstruct, row_errors
from jaxdp.core.files.whole_files import write_whole

OPTIMISERS: dict[str, Callable[[], Any]] = {"ours": lambda: None, "published": MomentumDescent}
_FOUND = 0.1


@dataclasses.dataclass(frozen=True)
class Case:
    """What is trained: features of an activation, or a two-layer network where there is none.

    Attributes:
        activation: of the random features; None for the last layer of a network.
        num_samples: n.
        side: of the images; d is three times its square.
        width: p / (d n).
        num_blocks: in which V is made again; None keeps it in memory.
        max_passes: of an attack.
    """

    activation: Callable | None = jax.nn.relu
    num_samples: int = 20
    side: int = 8
    width: float = 10.0
    num_blocks: int | None = None
    max_passes: int = 2000


CASES = {
    "relu": Case(),
    "relu+tanh": Case(lambda z: jax.nn.relu(z) + jnp.tanh(z)),
    "tanh": Case(jnp.tanh),
    "mixed parity": Case(mixed_parity),
    "two layers": Case(None, width=4.0),
    "fig01": Case(num_samples=50, side=16, num_blocks=20),
}


def target_of(case: Case, seed: int, data: pathlib.Path | None, made_up: bool):
    """What the attacker holds, the true rows, and the key of the attack."""
    of_weights, of_attack = jr.split(jr.key(seed))
    target: AbstractTarget
    if case.activation is None:
        task = Task(case.num_samples // NUM_CLASSES, False, side=case.side, made_up=made_up)
        pictures = photographs(task, data)
        hidden = round(case.width * pictures.inputs.size / NUM_CLASSES)
        dim = pictures.inputs.shape[1]
        start = TwoLayerNetwork(dim, hidden, NUM_CLASSES, key=of_weights)
        trained = train_network(start, pictures, "last layer")
        target = two_layer_target(trained.network, start.last)
        return target, pictures.rows.inputs, of_attack
    images = frogs_and_trucks(Images(case.num_samples, case.side, made_up=made_up), data)
    num_features = round(case.width * images.inputs.size)
    block = None if case.num_blocks is None else -(-num_features // case.num_blocks)
    model = train_features(images, num_features, case.activation, key=of_weights, block_size=block)
    return model.target, images.rows.inputs, of_attack


def cell(
    name: str, optimiser: str, seed: int, data: pathlib.Path | None = None, made_up: bool = False
) -> dict[str, Any]:
    """One training and one attack: its errors with and without signs, and what they cost."""
    case = CASES[name]
    target, rows, key = target_of(case, seed, data, made_up)
    started = time.perf_counter()
    options = {"key": key, "optimiser": OPTIMISERS[optimiser](), "max_passes": case.max_passes}
    found = reconstruct(target, len(rows), **options)
    seconds = time.perf_counter() - started
    errors = row_errors(rows, found.inputs)
    unsigned = row_errors(rows, found.inputs, allow_sign_flips=True)
    _, signs = matching(rows, found.inputs, allow_sign_flips=True)
    return {
        "case": name,
        "optimiser": optimiser,
        "seed": seed,
        "made_up": made_up,
        "num_samples": len(rows),
        "dim": rows.shape[1],
        "num_features": target.num_features,
        "error": float(errors.mean()),
        "error_up_to_signs": float(unsigned.mean()),
        "num_found": int((errors < _FOUND).sum()),
        "num_flipped": int(((unsigned < _FOUND) & (signs < 0)).sum()),
        "loss": found.loss,
        "converged": bool(found.converged),
        "passes": float(found.num_passes),
        "seconds": seconds,
        **harness.provenance(),
    }


def sweep(
    folder: pathlib.Path,
    cases: Sequence[str],
    optimisers: Sequence[str],
    seeds: int,
    data: pathlib.Path | None = None,
    made_up: bool = False,
) -> list[dict[str, Any]]:
    """Compute what the folder lacks, seed by seed, and read all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [(c, o, s) for s in range(seeds) for c in cases for o in optimisers]
    for name, optimiser, seed in harness.track(wanted, lambda at: f"{at[0]}, {at[1]}, {at[2]}"):
        path = folder / f"{name}_{optimiser}_{seed}.json".replace(" ", "_")
        if path.exists():
            continue
        text = json.dumps(cell(name, optimiser, seed, data, made_up), indent=1)
        # Whoever is stopped leaves no half of a file.
        write_whole(path, text.encode())
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def summary(results: list[dict[str, Any]]) -> str:
    """Means over the seeds with their standard errors, a line a case and an optimiser."""
    head = ["case", "optimiser", "seeds", "converged", "error", "up to signs", "rows found"]
    head, rows = [*head, "negated", "passes, median"], []
    for pair in sorted({(one["case"], one["optimiser"]) for one in results}):
        these = [one for one in results if (one["case"], one["optimiser"]) == pair]

        def mean(name, these=these):
            values = np.array([one[name] for one in these], float)
            error = harness.over_runs(values)["standard_error"] if len(values) > 1 else np.nan
            return f"{values.mean():.4f} ± {error:.4f}"

        total = sum(one["num_samples"] for one in these)
        cells = [*pair, len(these), f"{np.mean([one['converged'] for one in these]):.2f}"]
        cells += [mean("error"), mean("error_up_to_signs")]
        cells += [f"{sum(one['num_found'] for one in these)} of {total}"]
        cells += [sum(one["num_flipped"] for one in these)]
        rows.append([*cells, f"{np.median([one['passes'] for one in these]):.0f}"])
    return harness.table(head, rows)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["relu", "relu+tanh"])
    parser.add_argument("--optimisers", nargs="+", choices=OPTIMISERS, default=list(OPTIMISERS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--made-up", action="store_true")
    chosen = parser.parse_args()
    arguments = chosen.cases, chosen.optimisers, chosen.seeds, chosen.data, chosen.made_up
    print(summary(sweep(chosen.folder, *arguments)))


if __name__ == "__main__":
    main()
