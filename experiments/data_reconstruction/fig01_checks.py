"""What DR Figures 1 and 2 must show."""

import numpy as np
import xarray

from experiments.harness import Check, table

# Beyond the second threshold lies a stretch where the truth is a minimum that no method finds.
_HARD = 3.0
_FOUND = 0.01


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Two thresholds, what lies between them, and that it is the parameters that tell."""
    return [
        _fitted(dataset),
        _below(dataset),
        _found(dataset),
        _zeros(dataset),
        _spanned(dataset),
        _control(dataset),
        _images(dataset),
        _floor(dataset),
    ]


def _at(dataset: xarray.Dataset, least: float, most: float = np.inf) -> xarray.Dataset:
    """Widths in [least, most]."""
    widths = dataset.num_features
    return dataset.isel(num_features=np.flatnonzero((widths >= least) & (widths <= most)))


def _fitted(dataset: xarray.Dataset) -> Check:
    count = dataset.num_samples
    before, after = _at(dataset, 0, 0.9 * count).train_loss, _at(dataset, 3 * count).train_loss
    return Check(
        "labels are fitted once p > n: the training error is above .05 below p = .9 n and below "
        "1e-6 from 3 n on",
        f"at least {before.min().item():.2f}; at most {after.max().item():.1e}",
        bool(before.min() > 0.05 and after.max() < 1e-6),
    )


def _below(dataset: xarray.Dataset) -> Check:
    between = _at(dataset, dataset.num_samples + 1, 0.5 * dataset.dim * dataset.num_samples)
    least, chance = between.error.min().item(), dataset.chance.mean().item()
    return Check(
        "between n and d n / 2 labels are fitted and nothing is found: the error is at least .7 "
        "of chance",
        f"{least:.2f} at least, chance {chance:.2f}",
        least > 0.7 * chance,
    )


def _found(dataset: xarray.Dataset) -> Check:
    beyond = _at(dataset, _HARD * dataset.dim * dataset.num_samples).error
    return Check(
        f"from {_HARD:g} d n on the images are found: the error of every run is at most {_FOUND}",
        f"{beyond.size} runs, mean errors {_listed(beyond.mean('seed').values)}, worst run "
        f"{beyond.max().item():.1e}",
        bool((beyond <= _FOUND).all()),
    )


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.1e}" for value in values)


def _zeros(dataset: xarray.Dataset) -> Check:
    """A loss of zero means reconstruction above d n and nothing below."""
    unknowns = dataset.dim * dataset.num_samples
    below = _at(dataset, dataset.num_samples + 1, 0.75 * unknowns)
    above = _at(dataset, _HARD * unknowns)
    apart = below.error.where(below.converged == 1)
    close = above.error.where(above.converged == 1)
    obtained = (
        f"{int(close.count())} of {above.error.size} runs, errors of at most "
        f"{close.max().item():.1e}; below .75 d n {int(apart.count())} of {below.error.size} runs "
        "reach it"
    )
    if apart.count():
        obtained += f", errors of at least {apart.min().item():.2f}"
    return Check(
        f"a loss of zero is the data's from {_HARD:g} d n on (error at most {_FOUND}), and another "
        "one's below .75 d n (error at least .5)",
        obtained,
        bool(close.count() and close.max() <= _FOUND and not (apart < 0.5).any()),
    )


def _spanned(dataset: xarray.Dataset) -> Check:
    wide = _at(dataset, dataset.num_samples + 1)
    found = wide.error < _FOUND
    inside, outside = wide.residual.where(found), wide.residual.where(wide.error > 0.5)
    return Check(
        "the span residual falls with the error: below a tenth of its other values wherever the "
        "images are found",
        f"at most {inside.max().item():.1e} there, at least {outside.min().item():.1e} where the "
        "error is above .5",
        bool(inside.max() < 0.1 * outside.min()),
    )


def _control(dataset: xarray.Dataset) -> Check:
    control, chance = dataset.control, dataset.chance.mean().item()
    return Check(
        "the same attack on permuted parameters finds nothing: the error is within 10% of chance",
        f"{control.min().item():.3f} to {control.max().item():.3f}, chance {chance:.3f}",
        bool((abs(control / chance - 1) < 0.1).all()),
    )


def _images(dataset: xarray.Dataset) -> Check:
    errors = dataset.gallery_errors
    return Check(
        f"every image of the picture is found (error below {_FOUND})",
        f"{int((errors < _FOUND).sum())} of {errors.size}, largest error {errors.max().item():.1e}",
        bool((errors < _FOUND).all()),
    )


def _floor(dataset: xarray.Dataset) -> Check:
    floor = dataset.attrs["published_floor"]
    return Check(
        "scaled as published, rows lie off the sphere: a perfect attack has an error of .1 or more",
        f"{floor:.4f} with one mean and standard deviation, "
        f"{dataset.attrs['published_floor_per_channel']:.4f} with one for each colour, "
        f"{dataset.attrs['floor_samples']} images",
        floor > 0.1,
    )


def summary(dataset: xarray.Dataset) -> str:
    """What is shown, and the curves in numbers."""
    attrs = dataset.attrs
    head = ["p", "p / (d n)", "training error", "error (sd)", "span residual", "loss", "converged"]
    head, rows = [*head, "passes", "seconds"], []
    unknowns = dataset.dim * dataset.num_samples
    for width in dataset.num_features.values:
        at = dataset.sel(num_features=width)
        mean = at.mean("seed")
        cells = [f"{width}", f"{width / unknowns:.3g}", f"{mean.train_loss.item():.1e}"]
        cells.append(f"{mean.error.item():.3g} ({at.error.std('seed', ddof=1).item():.1g})")
        cells += [f"{mean.residual.item():.1e}", f"{at.loss.median().item():.1e}"]
        cells += [f"{mean.converged.item():.2f}", f"{mean.passes.item():.0f}"]
        cells.append(f"{mean.attack_seconds.item():.1f}")
        rows.append(cells)
    text = (
        f"The first {dataset.num_samples // 2} frogs and {dataset.num_samples // 2} trucks, d = "
        f"{dataset.dim}, ReLU, theta* in closed form, {dataset.sizes['seed']} seeds of weights and "
        "start; the loss is the median, converged means at most 1e-8. Shades go from the least to "
        "the largest seed. With p <= n every point has loss 0: the attack is a guess there, and "
        "the residual 0 for any rows "
        "(DR calls this case non-degenerate). One number, the mean of all pixels, is subtracted "
        "from the images, and each is scaled to norm sqrt(d); pictures of found rows borrow the "
        "contrast of the image they belong to, nothing else. DR scales by the subset's mean and "
        "standard deviation: such rows are not on the sphere on which the attack looks, and the "
        f"error of a perfect attack is {attrs['published_floor']:.3f} ({attrs['floor_samples']} "
        f"images at d = 3072; {attrs['published_floor_per_channel']:.3f} by colour). The picture: "
        f"p = {attrs['gallery_num_features']}, loss {attrs['gallery_loss']:.1e} after "
        f"{attrs['gallery_passes']:.0f} passes, {attrs['gallery_seconds']:.0f} s."
    )
    return text + "\n\n" + table(head, rows)
