"""What DR Figure 5 must show, and where it is not as the paper says."""

import itertools

import numpy as np
import xarray

from experiments.harness import Check, standard_error, table

_FOUND = 0.05
_STOP = 1e-7
# p(L) / (d n) up to which nothing is found where all layers are trained.
_NARROW = 2.0
# Widths of the smoke version, which has no two beyond that.
_FEWEST = 2


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Labels are fitted throughout; images are found beyond d n, best from the last layer alone."""
    found = [_fitted(dataset)]
    for name in dataset.network.values:
        found += [_below(dataset, name), _found(dataset, name), _floor(dataset, name)]
        if dataset.sizes["width"] > _FEWEST:
            found.append(_all_layers(dataset, name))
    return [*found, _floors_fall(dataset), _spanned(dataset)]


def _fitted(dataset: xarray.Dataset) -> Check:
    worst = dataset.train_loss.max(["width", "seed"])
    steps = dataset.steps.sel(training="all layers")
    return Check(
        f"every network fits its labels: the training loss is at most {_STOP:g}",
        f"{worst.max().item():.1e} at most; {int(steps.min())} to {int(steps.max())} steps where "
        "all layers are trained",
        bool((worst <= _STOP).all()),
    )


def _below(dataset: xarray.Dataset, name: str) -> Check:
    at = dataset.sel(network=name)
    least, chance = at.error.sel(width=at.width <= 0.5).min().item(), at.chance.item()
    return Check(
        f"{name}: nothing is found up to p(L) = d n / 2, the error is at least .6 of chance",
        f"{least:.2f} at least, chance {chance:.2f}",
        least > 0.6 * chance,
    )


def _found(dataset: xarray.Dataset, name: str) -> Check:
    """Run by run at the largest p(L): an attack that is stuck would hide in a mean."""
    errors = dataset.error.sel(network=name, training="last layer")
    last = errors.isel(width=-1)
    found = int((last < _FOUND).sum())
    return Check(
        f"{name}, last layer trained alone: most runs find the images at p(L) = "
        f"{dataset.width.values[-1]:g} d n, with an error below {_FOUND}",
        f"{found} of {last.size} runs, the others' errors {_listed(last.where(last >= _FOUND))}; "
        f"mean {_mean(last)}",
        found > last.size / 2,
    )


def _listed(errors: xarray.DataArray) -> str:
    return ", ".join(f"{one:.2f}" for one in errors.dropna("seed").values) or "none"


def _mean(errors: xarray.DataArray) -> str:
    """Over seeds, with its standard error where there are two or more."""
    is_known = errors.sizes["seed"] > 1
    error = standard_error(errors, "seed").item() if is_known else float("inf")
    return f"{errors.mean('seed').item():.3f} ± {error:.3f}"


def _floor(dataset: xarray.Dataset, name: str) -> Check:
    loss = dataset.true_loss.sel(network=name)
    full, alone = loss.sel(training="all layers"), loss.sel(training="last layer")
    return Check(
        f"{name}, all layers trained: the loss at the true images is above DR's stop, {_STOP:g}, "
        "in every run; it is rounding where the last layer is trained alone",
        f"{full.min().item():.1e} to {full.max().item():.1e}; at most {alone.max().item():.1e}",
        bool(full.min() > _STOP and alone.max() < 1e-9),
    )


def _all_layers(dataset: xarray.Dataset, name: str) -> Check:
    """Run by run: an attack that is stuck would hide in a mean."""
    at = dataset.sel(network=name, training="all layers")
    half = at.chance.item() / 2
    wide = at.error.isel(width=slice(-2, None))
    narrow = at.error.sel(width=at.width <= _NARROW)
    last = [
        f"{wide.isel(width=i).max().item():.2f} at most, mean {_mean(wide.isel(width=i))},"
        for i in range(2)
    ]
    sizes = [f"{value:g} d n" for value in wide.width.values]
    return Check(
        f"{name}, all layers trained: every single run is below half of chance at "
        f"{' and '.join(sizes)}, and above it up to {_NARROW:g} d n",
        f"half of chance {half:.2f}; "
        + ", ".join(f"{one} at {size}" for one, size in zip(last, sizes, strict=True))
        + f"; {narrow.min().item():.2f} at least up to {_NARROW:g} d n; {at.sizes['seed']} seeds",
        bool((wide < half).all() and (narrow > half).all()),
    )


def _floors_fall(dataset: xarray.Dataset) -> Check:
    losses = dataset.true_loss.sel(training="all layers")
    falls = losses.isel(width=0).min("seed") / losses.isel(width=-1).max("seed")
    return Check(
        "all layers trained: the loss at the true images is three times smaller at the largest "
        "p(L) than at the least, between any two runs",
        ", ".join(
            f"{name}: {value:.0f} times at least"
            for name, value in zip(falls.network.values, falls.values, strict=True)
        ),
        bool((falls > 3).all()),
    )


def _spanned(dataset: xarray.Dataset) -> Check:
    alone = dataset.sel(training="last layer")
    is_found = alone.error < _FOUND
    inside = alone.residual.where(is_found).max().item()
    outside = alone.residual.where(alone.error > 0.5).min().item()
    return Check(
        "the span residual falls with the error: below a tenth of its other values wherever the "
        "last layer gives the images away",
        f"at most {inside:.1e} there, at least {outside:.1e} where the error is above .5",
        inside < 0.1 * outside,
    )


def summary(dataset: xarray.Dataset) -> str:
    """What is shown, and the curves in numbers."""
    first, second = (dataset.sel(network=name) for name in dataset.network.values)
    text = (
        f"Two layers: n = {int(first.num_samples)} images of ten classes, d = {int(first.dim)}, "
        "one-hot; p(L) = 10 h numbers in the last layer, which are ten directions among h "
        f"features. Residual: n = {int(second.num_samples)} frogs and trucks, d = "
        f"{int(second.dim)}, labels -1 and 1, four blocks, a stem "
        f"{'with' if dataset.attrs['stem_relu'] else 'without'} ReLU. "
        f"{dataset.sizes['seed']} seeds of weights and attack. All layers are trained by "
        "full-batch gradient descent with a step from the curvature, the last layer alone in "
        "closed form (where gradient descent on it ends). With all layers trained the features "
        "have moved under the last layer's change, which is no longer in their span: the loss has "
        "a floor, and DR's own stop of 1e-7 cannot be met. Medians of losses, means of errors "
        "with the least and largest run: residual networks with all layers trained have runs that "
        "find the images and runs that are stuck and miss some, and a mean over both is no curve."
    )
    head = [
        "network",
        "trained",
        "p(L) / (d n)",
        "p(L)",
        "steps",
        "error (of single runs)",
        "span residual",
    ]
    head += ["loss", "loss at the truth", "passes", "seconds"]
    places = itertools.product(
        dataset.network.values, dataset.training.values, dataset.width.values
    )
    return text + "\n\n" + table(head, (_row(dataset, *place) for place in places))


def _row(dataset: xarray.Dataset, name: str, training: str, width: float) -> list[str]:
    at = dataset.sel(network=name, training=training, width=width)
    mean, runs = at.mean("seed"), at.error
    size = int(at.num_parameters.item())
    cells = [name, training, f"{width:g}", f"{size:,}", f"{mean.steps.item():.0f}"]
    ends = f"{runs.min().item():.4f} to {runs.max().item():.4f}"
    cells += [f"{mean.error.item():.4f} ({ends})", f"{mean.residual.item():.1e}"]
    cells += [f"{np.median(at[one].values):.1e}" for one in ("loss", "true_loss")]
    cells += [f"{mean.passes.item():.0f}", f"{mean.attack_seconds.item():.1f}"]
    return cells
