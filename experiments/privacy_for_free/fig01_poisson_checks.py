"""What PF Figure 1 says, asked of Poisson batches of the paper's number of records."""

import xarray

from experiments import harness
from experiments.harness import Check

# Test accuracies at which the published figure's curves level off, read off it, and their error.
PLATEAUS = {1.0: 0.888, 2.0: 0.908, 4.0: 0.926}
_READING = 0.003
_SMALL = 0.02


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Width is free, budgets count, and where the curves are against the published ones."""
    mean = dataset.accuracy.mean("seed")
    over = mean.sel(width=dataset.num_parameters > dataset.num_train)
    loss = over.max("width") - over.isel(width=-1)
    growth = mean.isel(width=-1) - mean.isel(width=0)
    gains = over.diff("epsilon")
    share = mean.isel(width=-1).min().item()
    error = (share * (1 - share) / dataset.attrs["num_test"]) ** 0.5
    found = [
        Check(
            "more parameters help: the widest network is above the narrowest under every budget",
            f"by {float(growth.min()):.3f} to {float(growth.max()):.3f}",
            bool((growth > 0).all()),
        ),
        Check(
            "width is free: the widest network is within .02 of the best of those with p > n",
            f"at most {float(loss.max()):.3f} below",
            bool((loss < _SMALL).all()),
        ),
        Check(
            "a larger epsilon gives a higher accuracy where p > n",
            f"by {float(gains.min()):.3f} at least from one epsilon to the next",
            bool((gains > 0).all()),
        ),
    ]
    known = [epsilon for epsilon in dataset.epsilon.values.tolist() if epsilon in PLATEAUS]
    if known and dataset.attrs["num_train"] == 50_000:
        ahead = {
            epsilon: mean.isel(width=-1).sel(epsilon=epsilon).item() - PLATEAUS[epsilon]
            for epsilon in known
        }
        found.append(
            Check(
                "zero-out-one at the widest network is above the published plateaus, which are "
                "replace-one with the noise of Proposition 3.2, at every epsilon",
                ", ".join(f"{value:+.3f} at {epsilon:g}" for epsilon, value in ahead.items()),
                min(ahead.values()) > _READING + 3 * error,
            )
        )
    return found


def summary(dataset: xarray.Dataset) -> str:
    """What is shown, and the accuracies."""
    mean, steps = dataset.accuracy.mean("seed"), dataset.num_steps.mean("seed")
    head = ["width", "p", *(f"ε = {one.item():g}" for one in dataset.epsilon)]
    rows = []
    for width in dataset.width:
        cells = [f"{value:.3f}" for value in mean.sel(width=width).values]
        parameters = int(dataset.num_parameters.sel(width=width).item())
        rows.append([width.item(), f"{parameters:,}", *cells])
    share = dataset.attrs["sampling_rate"]
    text = (
        f"Test accuracy with n = {dataset.attrs['num_train']:,}, Poisson batches of {share:.0%}, "
        f"C = 1, δ = 1/n, means over {dataset.sizes['seed']} seeds of network and noise; T, "
        f"{float(steps.min()):.0f} to {float(steps.max()):.0f} in the mean, by validation "
        "accuracy. The budget is for zero-out-one neighbours, of whom one moves a sum by C; the "
        "paper's is for replace-one neighbours, by 2C, and promises more: the curves are no "
        "comparison at equal privacy. Training took "
        f"{dataset.attrs['training_seconds'] / 60:.0f} minutes, in stretches. Not run: full "
        "batches at this n (seconds a step on two cores), widths of 5000 and 10,000, a third "
        "seed, more numbers of steps."
    )
    return text + "\n\n" + harness.table(head, rows)
