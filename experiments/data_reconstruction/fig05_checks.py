"""What DR Figure 5 must show, and where it is not as the paper says."""

import itertools

import numpy as np
import xarray

from experiments.harness import Check, table

_FOUND = 0.05
_STOP = 1e-7


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Labels are fitted throughout; images are found beyond d n, best from the last layer alone."""
    found = [_fitted(dataset)]
    for name in dataset.network.values:
        found += [_below(dataset, name), _found(dataset, name), _floor(dataset, name)]
    return [*found, _all_layers(dataset), _spanned(dataset)]


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
    """The mean over seeds at the largest p(L)."""
    errors = dataset.error.sel(network=name, training="last layer")
    last = errors.isel(width=-1).mean("seed").item()
    means = errors.mean("seed")
    enough = dataset.width.values[(means < _FOUND).values]
    return Check(
        f"{name}, last layer trained alone: the images are found at p(L) = "
        f"{dataset.width.values[-1]:g} d n, with an error below {_FOUND}",
        f"{last:.4f}; below {_FOUND} at {', '.join(f'{one:g}' for one in enough) or 'no'} d n",
        last < _FOUND,
    )


def _floor(dataset: xarray.Dataset, name: str) -> Check:
    loss = dataset.true_loss.sel(network=name)
    full, alone = loss.sel(training="all layers"), loss.sel(training="last layer")
    return Check(
        f"{name}, all layers trained: the loss at the true images is above DR's stop, {_STOP:g}, "
        "in every run; it is rounding where the last layer is trained alone",
        f"{full.min().item():.1e} to {full.max().item():.1e}; at most {alone.max().item():.1e}",
        bool(full.min() > _STOP and alone.max() < 1e-9),
    )


def _all_layers(dataset: xarray.Dataset) -> Check:
    at = dataset.sel(training="all layers").mean("seed").isel(width=[0, -1])
    share = at.error.isel(width=-1) / at.chance
    fall = at.true_loss.isel(width=0) / at.true_loss.isel(width=-1)
    return Check(
        "all layers trained: the error at the largest p(L) is below half of chance, for the "
        "features move less in wider networks and the loss at the true images falls",
        "; ".join(
            f"{name}: error {at.error.sel(network=name).values[-1]:.3f}, loss "
            f"{fall.sel(network=name).item():.0f} times smaller than at the least p(L)"
            for name in dataset.network.values
        ),
        bool((share < 0.5).all() and (fall > 1).all()),
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
        "a floor, and DR's own stop of 1e-7 cannot be met. Medians of losses, means of errors."
    )
    head = ["network", "trained", "p(L) / (d n)", "p(L)", "steps", "error (sd)", "span residual"]
    head += ["loss", "loss at the truth", "passes", "seconds"]
    places = itertools.product(
        dataset.network.values, dataset.training.values, dataset.width.values
    )
    return text + "\n\n" + table(head, (_row(dataset, *place) for place in places))


def _row(dataset: xarray.Dataset, name: str, training: str, width: float) -> list[str]:
    at = dataset.sel(network=name, training=training, width=width)
    mean, spread = at.mean("seed"), at.error.std("seed").item()
    size = int(at.num_parameters.item())
    cells = [name, training, f"{width:g}", f"{size:,}", f"{mean.steps.item():.0f}"]
    cells += [f"{mean.error.item():.4f} ({spread:.4f})", f"{mean.residual.item():.1e}"]
    cells += [f"{np.median(at[one].values):.1e}" for one in ("loss", "true_loss")]
    cells += [f"{mean.passes.item():.0f}", f"{mean.attack_seconds.item():.1f}"]
    return cells
