"""What the predictions for digits must show, and their numbers."""

import xarray

from experiments import harness
from experiments.harness import Check

# The project's promise for the mean test loss, and what it comes to in accuracy; then what was
# seen of independent outputs where noise is of the size of the logits.
_SHARES, _ACCURACIES, _SIGMAS = (0.02, 0.12), (0.01, 0.02), 3
# Budgets at which noise decides.
_SMALL = 0.1


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Agreement with noise, disagreement without it, and what helps."""
    found, least = [], dataset.epsilon.min()
    usual, noisiest = (
        dataset.where(dataset.epsilon > least, drop=True),
        dataset.sel(epsilon=[least]),
    )
    for name, words, more in (("loss", "2 %", "12 %"), ("accuracy", ".01", ".02")):
        apart, noisy = _apart(usual, name, "predicted"), _apart(noisiest, name, "predicted", 1)
        found += [
            Check(
                f"the predicted {name} is within {words} + {_SIGMAS} standard errors of the "
                f"simulated mean in every cell with epsilon above {least.item():g}",
                f"{int(apart.count())} cells, at most {_gap(usual, name, 'predicted')} apart, "
                f"{float(apart.max()):.0%} of what is allowed",
                bool((apart <= 1).sum() == apart.count()),
            ),
            Check(
                f"at epsilon = {least.item():g}, where noise is of the size of the logits, the "
                f"predicted {name} is within {more} + {_SIGMAS} standard errors",
                f"at most {_gap(noisiest, name, 'predicted')} apart, {float(noisy.max()):.0%} of "
                f"what is allowed; {int((_apart(noisiest, name, 'predicted') <= 1).sum())} of "
                f"{int(noisy.count())} cells within {words} + {_SIGMAS}",
                bool((noisy <= 1).sum() == noisy.count()),
            ),
        ]
    found += [_without_noise(dataset, name) for name in ("loss", "accuracy")]
    rise = dataset.predicted_accuracy.diff("epsilon")
    found.append(
        Check(
            "a larger epsilon gives a higher predicted accuracy, for all features and n",
            f"by {float(rise.min()):.4f} at least from one epsilon to the next",
            bool((rise > 0).all()),
        )
    )
    mean = dataset.accuracy.mean("run")
    ahead = mean.sel(kind="pretrained body") - mean.sel(kind="random ReLU")
    found.append(
        Check(
            "a body that was trained on other digits is worth accuracy at every budget and n",
            f"simulated {float(ahead.min()):+.3f} to {float(ahead.max()):+.3f}",
            bool((ahead > 0).sum() == ahead.count()),
        )
    )
    return found


def summary(dataset: xarray.Dataset) -> str:
    """What was run, and predicted beside simulated numbers."""
    rows = []
    for kind in dataset.kind.values:
        for count in dataset.num_train.values:
            at = dataset.sel(kind=kind, num_train=count)
            measured = at.dropna("epsilon")
            for name in ("loss", "accuracy"):
                cells = []
                for epsilon in measured.epsilon.values:
                    cell = measured.sel(epsilon=epsilon)
                    error = harness.standard_error(cell[name], "run").item()
                    mean = cell[name].mean().item()
                    cells.append(
                        f"{cell[f'predicted_{name}'].item():.4f} / {mean:.4f} ± {error:.4f}"
                    )
                flat = f"{at[f'noiseless_{name}'].item():.4f}"
                rows.append([kind, f"{count:,}", name, *cells, flat])
    measured = dataset.loss.dropna("epsilon", how="all").epsilon.values
    head = ["features", "n", "", *(f"ε = {value:g}" for value in measured), "without noise"]
    multipliers = dataset.noise_multiplier.sel(epsilon=measured).isel(num_train=0).values
    seconds = dataset.seconds
    text = (
        f"Predicted / simulated mean ± standard error of {dataset.sizes['run']} runs on "
        f"{dataset.attrs['num_test']:,} test digits, conditional on features and private rows. "
        "Neighbours differ in one record that is left out (zero-out-one); noise multipliers "
        f"{', '.join(f'{value:.3g}' for value in multipliers)}. Features lose the mean of the "
        "public digits and have unit norm. Learning rates and clip norm were chosen among a few by "
        "what is predicted for private rows and test digits, which is not accounted for; the "
        "comparison here is of theory and simulation. The network whose hidden layers are the body "
        f"has accuracy {dataset.attrs['body_accuracy']:.3f}. Without noise "
        f"{float(dataset.clipped.min()):.0%} to {float(dataset.clipped.max()):.0%} of "
        f"the gradients are clipped. A prediction took {float(seconds.min()):.1f} to "
        f"{float(seconds.max()):.0f} s, compilation shared among those of a row, with other "
        "programs beside it. Taking the outputs to be independent is what errs at the smallest "
        "epsilon; `ModewiseClosure` keeps them correlated, at a higher price."
    )
    return text + "\n\n" + harness.table(head, rows)


def _without_noise(dataset: xarray.Dataset, name: str) -> Check:
    """That the noise is what the agreement at small budgets is about."""
    small = dataset.where(dataset.epsilon <= _SMALL, drop=True)
    apart, where = _apart(small, name, "noiseless"), ""
    cost = abs(small[f"noiseless_{name}"] - small[f"predicted_{name}"])
    if name == "accuracy":
        apart, where = (
            apart.where(cost > _ACCURACIES[0]),
            " where noise is predicted to cost .01 of it",
        )
    return Check(
        f"without noise the predicted {name} fails the same check in every cell with epsilon <= "
        f"{_SMALL:g}{where}",
        f"{int(apart.count())} cells, {float(apart.min()):.1f} to {float(apart.max()):.0f} times "
        "what is allowed",
        bool((apart > 1).sum() == apart.count() and apart.count() > 0),
    )


def _gap(dataset: xarray.Dataset, name: str, which: str) -> str:
    """The largest difference, of a loss relative."""
    mean = dataset[name].mean("run")
    apart = abs(dataset[f"{which}_{name}"] - mean)
    return f"{float((apart / mean).max()):.1%}" if name == "loss" else f"{float(apart.max()):.4f}"


def _apart(dataset: xarray.Dataset, name: str, which: str, level: int = 0) -> xarray.DataArray:
    """Prediction and simulated mean, apart, over what is allowed; NaN where nothing was run."""
    mean = dataset[name].mean("run")
    error = harness.standard_error(dataset[name], "run")
    share, room = _SHARES[level], _ACCURACIES[level]
    allowed = (share * mean if name == "loss" else room) + _SIGMAS * error
    return abs(dataset[f"{which}_{name}"] - mean) / allowed
