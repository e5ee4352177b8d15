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
    clips, steps = _range_over(dataset, "clip_norm"), _range_over(dataset, "num_steps")
    rates, batches = _range_over(dataset, "learning_rate"), _range_over(dataset, "sampling_rate")
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
            "the learning rate is the knob that matters most, the clip norm the one that matters "
            "least, once the other knobs are at their best",
            f"worst against best: learning rate {rates:.3f}, batch size {batches:.3f}, T "
            f"{steps:.3f}, clip norm {clips:.3f}",
            bool(rates > max(clips, steps, batches) and clips < min(rates, steps, batches)),
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


def _range_over(dataset: xarray.Dataset, knob: str) -> float:
    """How much accuracy the worst value of a knob loses, the others at their best for it."""
    others = [name for name in dataset.predicted.dims if name != knob]
    best = dataset.predicted.max(others)
    return float(best.max() - best.min())
