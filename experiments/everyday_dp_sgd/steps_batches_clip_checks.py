"""What the grid of predictions must show, and its best cells."""

import xarray

from experiments import harness
from experiments.harness import Check

_ACCURACY, _SIGMAS = 0.01, 3


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Agreement where it was simulated, and which knob matters by how much."""
    best = dataset.predicted.max(("clip_norm", "learning_rate"))
    mean = dataset.accuracy.mean("run")
    allowed = _ACCURACY + _SIGMAS * harness.standard_error(dataset.accuracy, "run")
    apart = abs(best - mean)
    by_steps = best.max("num_steps") - best.min("num_steps")
    few, many = by_steps.isel(sampling_rate=0).item(), by_steps.isel(sampling_rate=-1).item()
    by_clip = dataset.predicted.max("learning_rate")
    behind = best - by_clip
    large, others = behind.isel(clip_norm=-1), behind.isel(clip_norm=slice(None, -1))
    gain = best.max("num_steps").diff("sampling_rate")
    return [
        Check(
            f"the best predicted accuracy of every batch size and T is within {_ACCURACY} + "
            f"{_SIGMAS} standard errors of the simulated mean",
            f"at most {float(apart.max()):.4f} apart, {float((apart / allowed).max()):.0%} of what "
            "is allowed",
            bool((apart <= allowed).all()),
        ),
        Check(
            "larger batches are better at their best T, C and learning rate",
            f"by {float(gain.min()):.3f} at least from one size to the next",
            bool((gain > 0).all()),
        ),
        Check(
            "with the fewest records a batch the number of steps decides, with the most it hardly "
            "does: accuracy spreads over T more than twice as far",
            f"by {few:.3f} and by {many:.3f}",
            few > 2 * many,
        ),
        Check(
            "the largest clip norm is the worst at every batch size and T, each clip norm with its "
            "best learning rate",
            f"behind the best by {float(large.min()):.3f} to {float(large.max()):.3f}, the others "
            f"by at most {float(others.max()):.3f}",
            bool((large > others.max("clip_norm")).all()),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The best cells, predicted and simulated."""
    rows = []
    for rate in dataset.sampling_rate.values:
        for steps in dataset.num_steps.values:
            at = dataset.sel(sampling_rate=rate, num_steps=steps)
            top = at.predicted.where(at.predicted == at.predicted.max(), drop=True)
            mean = at.accuracy.mean().item()
            error = harness.standard_error(at.accuracy, "run").item()
            records = rate * dataset.attrs["num_train"]
            rows.append(
                [
                    f"{records:g}",
                    steps,
                    f"{at.noise_multiplier.item():.3g}",
                    f"{top.clip_norm[0].item():g}",
                    f"{top.learning_rate[0].item():g}",
                    f"{top.max().item():.4f} / {mean:.4f} ± {error:.4f}",
                ]
            )
    head = ["records a batch", "T", "noise multiplier", "best C", "best rate"]
    head += ["accuracy, predicted / simulated"]
    text = (
        f"A pretrained body, n = {dataset.attrs['num_train']:,}, ε = {dataset.attrs['epsilon']:g}. "
        "The best cells are those of the highest predicted accuracy on the test digits, which are "
        "validation rows here; choosing by them is not accounted for."
    )
    return text + "\n\n" + harness.table(head, rows)
